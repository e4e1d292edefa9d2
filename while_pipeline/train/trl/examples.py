"""Rows as the trainers take them, with everything refused that a trainer would silently train on.

What belongs here: which columns a method needs, and what is wrong with rows before any tokenising. What is
seen only after it belongs to `check`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json
from while_pipeline.train.trl.settings import CUTS, Method

Row = dict[str, Any]


def examples(method: Method, rows: Sequence[Row], source: str) -> list[Row]:
    """Rows with the columns that the method's trainer reads, and no others.

    Args:
        method: How they are trained on.
        rows: Of the method's cut: messages and tools decoded, arguments as objects.
        source: Where they come from, for errors.

    Raises:
        ProjectError: the rows are empty or broken, naming the first row that is.
    """
    if not rows:
        raise ProjectError(source, CUTS[method], 0, "there are no rows to train on")
    made = _MAKERS[method](rows, source)
    _one_set_of_tools(made, source)
    return made


def _sft(rows: Sequence[Row], source: str) -> list[Row]:
    made = []
    for at, row in enumerate(rows):
        messages, tools = _needed(row, at, source, "messages", "tools")
        _objects(messages, at, source)
        if not any(message["role"] == "assistant" for message in messages):
            raise _wrong(source, at, "messages", messages[-1:], "no agent turn to learn from")
        made.append({"messages": messages, "tools": tools})
    return made


def _dpo(rows: Sequence[Row], source: str) -> list[Row]:
    made = []
    for at, row in enumerate(rows):
        prompt, chosen, rejected, tools = _needed(row, at, source, "prompt", "chosen", "rejected", "tools")
        for name, answer in (("chosen", chosen), ("rejected", rejected)):
            _objects([*prompt, *answer], at, source)
            # A longer answer would train on the tools' output: everything after the prompt is in the loss.
            if [message["role"] for message in answer] != ["assistant"]:
                raise _wrong(source, at, name, answer, "it must be one message of the agent")
        if _words(chosen) == _words(rejected):
            raise _wrong(
                source, at, "rejected", rejected, "it says the same as `chosen`: nothing is preferred"
            )
        made.append({"prompt": prompt, "chosen": chosen, "rejected": rejected, "tools": tools})
    return made


def _reward(rows: Sequence[Row], source: str) -> list[Row]:
    pairs = list(rows) if "chosen" in rows[0] else _contrasted(rows, source)
    made = []
    for at, row in enumerate(pairs):
        chosen, rejected, tools = _needed(row, at, source, "chosen", "rejected", "tools")
        before = row.get("prompt") or []
        _objects([*before, *chosen, *rejected], at, source)
        if _words(chosen) == _words(rejected):
            raise _wrong(
                source, at, "rejected", rejected, "it says the same as `chosen`: nothing is preferred"
            )
        whole = {"chosen": [*before, *chosen], "rejected": [*before, *rejected], "tools": tools}
        made.append(whole | ({"margin": row["margin"]} if "margin" in pairs[0] else {}))
    return made


def _contrasted(rows: Sequence[Row], source: str) -> list[Row]:
    for at, row in enumerate(rows):
        _needed(row, at, source, "messages", "tools", "reward", "task_id")
    pairs = [contrast(better, worse) for better, worse in contrasts(rows)]
    if not pairs:
        raise ProjectError(
            source, "reward", rows[0]["reward"], "one-sided labels: no task has rollouts of different rewards"
        )
    return pairs


def contrasts(rows: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Pairs of graded rollouts of one task, the better first: each that is worse than its task's best.

    The best take turns. A rollout that says the same as every best is in no pair: what told them apart is not
    in the words.

    Args:
        rows: With `task_id`, `reward` and `messages`.
    """
    by_task: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_task[row["task_id"]].append(row)
    pairs: list[tuple[Row, Row]] = []
    for task in sorted(by_task):
        best = max(row["reward"] for row in by_task[task])
        high = [row for row in by_task[task] if row["reward"] == best]
        low = [row for row in by_task[task] if row["reward"] < best]
        for i, worse in enumerate(low):
            said = _words(worse["messages"])
            in_turn = [*high[i % len(high) :], *high[: i % len(high)]]
            pairs += [(row, worse) for row in in_turn if _words(row["messages"]) != said][:1]
    return pairs


def contrast(better: Row, worse: Row) -> Row:
    """A pair as a row of preferences."""
    return {
        "chosen": better["messages"],
        "rejected": worse["messages"],
        "tools": worse["tools"],
        "margin": better["reward"] - worse["reward"],
    }


def _grpo(rows: Sequence[Row], source: str) -> list[Row]:
    made: dict[str, Row] = {}
    passes: dict[str, list[bool]] = defaultdict(list)
    for at, row in enumerate(rows):
        prompt, tools, scenario = _needed(row, at, source, "prompt", "tools", "scenario_id")
        if isinstance(row.get("passed"), bool):
            passes[scenario].append(row["passed"])
        made.setdefault(scenario, {"scenario_id": scenario, "prompt": prompt, "tools": tools})
    for scenario, seen in passes.items():
        if len(set(seen)) == 1:
            what = "passed" if seen[0] else "failed"
            raise ProjectError(
                source, f"group {scenario}", seen[0], f"all {len(seen)} samples {what}: it has no gradient"
            )
    return list(made.values())


_MAKERS: Mapping[Method, Callable[[Sequence[Row], str], list[Row]]] = {
    "sft": _sft,
    "dpo": _dpo,
    "reward": _reward,
    "grpo": _grpo,
}


def _needed(row: Row, at: int, source: str, *columns: str) -> list[Any]:
    for column in columns:
        if row.get(column) is None:
            raise _wrong(source, at, column, None, f"the column is missing; columns are {', '.join(row)}")
    return [row[column] for column in columns]


def _objects(messages: Iterable[Row], at: int, source: str) -> None:
    """Arguments must be objects: a template writes a string as a string, quotes and all, and says nothing."""
    for message in messages:
        for call in _calls(message):
            arguments = call["function"]["arguments"]
            if not isinstance(arguments, dict):
                raise _wrong(
                    source, at, "arguments", arguments, "not a JSON object; export with `--format trl`"
                )


def _one_set_of_tools(rows: Sequence[Row], source: str) -> None:
    first = canonical_json(rows[0]["tools"])
    for at, row in enumerate(rows):
        if canonical_json(row["tools"]) != first:
            names = [tool["function"]["name"] for tool in row["tools"]]
            raise _wrong(source, at, "tools", names, "other tools than in the first row")


def _words(messages: Sequence[Row]) -> str:
    """Messages without their call ids, which models draw anew for every answer."""
    return canonical_json(
        [(m["role"], m.get("content") or "", [call["function"] for call in _calls(m)]) for m in messages]
    )


def _calls(message: Row) -> list[Row]:
    return message.get("tool_calls") or []


def _wrong(source: str, at: int, key: str, value: Any, mend: str) -> ProjectError:
    return ProjectError(source, f"row {at + 1}: {key}", value, mend)
