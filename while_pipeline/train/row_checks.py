"""What the publication gate holds each row of a cut against, one row at a time."""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from while_pipeline.simulate.axes import is_held_out
from while_pipeline.train.curriculum import split_of
from while_pipeline.train.privileged import Hidden, disguised, personal_data_in, told
from while_pipeline.train.publication import Check, Gate, Held, Refused, result

RowCheck = Callable[[Held, Gate], str | None]
"""Why a row is refused; None when it is not."""


def row_checks(cut: str, rows: Sequence[Held], gate: Gate) -> Iterator[Check]:
    """Every check of single rows, of a cut."""
    for name, refuse in ROW_CHECKS.items():
        refused = (Refused(held.id, why) for held in rows if (why := refuse(held, gate)) is not None)
        yield result(cut, name, len(rows), refused, "every row passed")


def _sealed_task(held: Held, gate: Gate) -> str | None:
    task = str(held.row["task_id"])
    sealed = task in gate.sealed.tasks or is_held_out(task, gate.split_seed)
    return f"task {task}" if sealed else None


def _sealed_prompt(held: Held, gate: Gate) -> str | None:
    prompt = next((m["content"] or "" for m in held.messages if m["role"] == "user"), "")
    copied = gate.sealed.copied(prompt)
    return None if copied is None else f"copies the prompt of task {copied}"


def _answer_key(held: Held, gate: Gate) -> str | None:
    return _told(held, [Hidden(key=one.key) for one in _hidden(held, gate)])


def _privileged(held: Held, gate: Gate) -> str | None:
    return _told(held, [one._replace(key=()) for one in _hidden(held, gate)])


def _told(held: Held, hidden: Iterable[Hidden]) -> str | None:
    return next((text for one in hidden if (text := told(held.messages, one)) is not None), None)


def _hidden(held: Held, gate: Gate) -> list[Hidden]:
    """Of a rollout nobody played nothing is known; that it has no grade is another check's matter."""
    return [gate.hidden.get(rollout, Hidden()) for rollout in held.rollouts]


def _personal_data(held: Held, gate: Gate) -> str | None:
    found = personal_data_in(held.messages, gate.own)
    return disguised(found) if found else None


def _broken_arguments(held: Held, _: Gate) -> str | None:
    for message in held.messages:
        for call in message.get("tool_calls") or ():
            if not isinstance(call["function"]["arguments"], dict):
                return str(call["function"]["arguments"])
    return None


def _unanswered(held: Held, _: Gate) -> str | None:
    """Hosts refuse such a conversation, and templates render it as one that nobody had.

    The calls of the last turn have no results yet: so it is with the answers of a pair.
    """
    waiting: list[str] = []
    for message in held.messages[:-1] if "chosen" in held.row else held.messages:
        if message["role"] != "tool":
            if waiting:
                return f"call {waiting[0]} has no result"
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
        elif (answered := message.get("tool_call_id")) in waiting:
            waiting.remove(answered)
        else:
            return f"a result for {answered}, which no call asked for"
    return None


def _undeclared(held: Held, _: Gate) -> str | None:
    offered = _names(held.row["tools"])
    called = (call["function"]["name"] for m in held.messages for call in m.get("tool_calls") or ())
    return next((f"{name} is not among the tools" for name in called if name not in offered), None)


@lru_cache(maxsize=8)
def _names(tools: str) -> frozenset[str]:
    return frozenset(tool["function"]["name"] for tool in json.loads(tools))


def _goes_on(held: Held, _: Gate) -> str | None:
    """What follows the agent's last turn is not to be learnt, and hosts want that turn last.

    The answers of a pair are one turn each; of a GRPO row there is the prompt alone.
    """
    if "chosen" in held.row or "advantage" in held.row:
        return None
    turns = [at for at, m in enumerate(held.messages) if m["role"] == "assistant" and _says_something(m)]
    after = held.messages[turns[-1] + 1 :] if turns else []
    return f"a message of {after[0]['role']} after the agent's last turn" if after else None


def _nothing_to_learn(held: Held, _: Gate) -> str | None:
    """The loss is on the agent's own turns; a GRPO row's are made while training."""
    if "advantage" in held.row:
        return None
    turns = [m for m in held.messages if m["role"] == "assistant"]
    if "chosen" in held.row:
        # Both answers of a pair stand last, and each is all that its side learns from.
        empty = [m for m in held.messages[-2:] if m["role"] != "assistant" or not _says_something(m)]
        return "an answer of the pair is empty" if empty else None
    return None if any(map(_says_something, turns)) else "no turn of the agent says anything"


def _says_something(message: Mapping[str, object]) -> bool:
    return bool(str(message.get("content") or "").strip() or message.get("tool_calls"))


def _split(held: Held, _: Gate) -> str | None:
    task, side = held.row["task_id"], held.row["split"]
    return None if side == split_of(task) else f"task {task} is {split_of(task)}, the row is {side}"


def _pass_rate(held: Held, gate: Gate) -> str | None:
    passes = [bool(passed) for passed in gate.groups.get(held.row["scenario_id"], ()) if passed is not None]
    said = held.row["pass_rate"]
    if passes and math.isclose(said, statistics.fmean(passes)):
        return None
    return f"says pass rate {said:.3f}, {sum(passes)} of {len(passes)} passed"


def _labels(held: Held, gate: Gate) -> str | None:
    """What the row says of its rollouts was graded so; of a pair, the chosen passed, the rejected did not."""
    graded = [gate.graded.get(rollout) for rollout in held.rollouts]
    if "chosen" in held.row:
        passed = [None if one is None else one.passed for one in graded]
        return None if passed == [True, False] else f"chosen passed: {passed[0]}, rejected: {passed[1]}"
    (one,) = graded
    if one is None or one.reward is None:
        return "the rollout has no grade"
    if one.reward != held.row["reward"]:
        return f"reward {held.row['reward']}, graded {one.reward}"
    said = held.row.get("passed", one.passed)
    return None if said == one.passed else f"passed {said}, graded {one.passed}"


ROW_CHECKS: Mapping[str, RowCheck] = {
    "no_sealed_task": _sealed_task,
    "no_sealed_prompt": _sealed_prompt,
    "no_answer_key": _answer_key,
    "nothing_privileged": _privileged,
    "no_personal_data": _personal_data,
    "arguments_decode": _broken_arguments,
    "calls_answered": _unanswered,
    "calls_declared": _undeclared,
    "ends_on_agent": _goes_on,
    "something_to_learn": _nothing_to_learn,
    "split_by_task": _split,
    "pass_rate_as_measured": _pass_rate,
    "labels_as_graded": _labels,
}
