"""The publication gate: what must hold of a cut before anything may train on it.

Each check recomputes from the cut's own rows, so that a row put there by other means is caught too.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from while_pipeline.constants import ANSWER_KEY_QUOTE
from while_pipeline.simulate.axes import is_held_out
from while_pipeline.train.decontaminate import SealedPrompts

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """The result of one check of one cut."""

    cut: str
    check: str
    passed: bool
    n_rows: int
    n_refused: int
    detail: str


@dataclass(frozen=True)
class Gate:
    """What the checks hold a cut against."""

    split_seed: int
    sealed: SealedPrompts
    facts: Mapping[str, tuple[str, ...]]
    """Rollout id -> texts of its answer key."""
    trusted: bool
    trust_reason: str
    hacked: bool
    hack_reason: str


@dataclass(frozen=True)
class _Held:
    """A row with its messages decoded, once for all checks."""

    row: Row
    messages: list[dict[str, Any]]


def check_cut(cut: str, rows: Iterable[Row], gate: Gate) -> list[Check]:
    """Run every check that applies to a cut."""
    held = [_Held(row, list(_messages(row))) for row in rows]
    per_row: dict[str, Callable[[_Held], str | None]] = {
        "no_sealed_task": lambda h: _sealed_task(h.row["task_id"], gate.split_seed),
        "no_sealed_prompt": lambda h: gate.sealed.copied(_prompt(h)),
        "no_answer_key": lambda h: _quoted_key(h, gate.facts),
        "arguments_decode": _broken_arguments,
        "something_to_learn": _no_assistant_turn,
    }
    checks = [_each(cut, name, held, refuse) for name, refuse in per_row.items()]
    checks.append(_whole(cut, "judge_trusted", gate.trusted, len(held), gate.trust_reason))
    if cut == "grpo":
        checks.append(_groups_mixed(held))
        checks.append(_whole(cut, "reward_not_hacked", not gate.hacked, len(held), gate.hack_reason))
    return checks


def _each(cut: str, name: str, rows: list[_Held], refuse: Callable[[_Held], str | None]) -> Check:
    refused = [reason for row in rows if (reason := refuse(row)) is not None]
    detail = f"for example {refused[0][:160]}" if refused else "every row passed"
    return Check(cut, name, not refused, len(rows), len(refused), detail)


def _whole(cut: str, name: str, passed: bool, rows: int, reason: str) -> Check:
    """A check of the cut as a whole: all its rows stand or fall together."""
    return Check(cut, name, passed, rows, 0 if passed else rows, reason)


def _groups_mixed(rows: list[_Held]) -> Check:
    groups: dict[str, set[bool]] = defaultdict(set)
    for held in rows:
        groups[held.row["scenario_id"]].add(held.row["passed"])
    unmixed = [scenario for scenario, passes in groups.items() if len(passes) < 2]
    detail = f"all pass or all fail in {unmixed[0]}" if unmixed else "every group has both"
    return Check("grpo", "groups_mixed", not unmixed, len(rows), len(unmixed), detail)


def _messages(row: Row) -> Iterator[dict[str, Any]]:
    for column in ("messages", "prompt", "chosen", "rejected"):
        if column in row:
            yield from json.loads(row[column])


def _sealed_task(task: str, seed: int) -> str | None:
    return task if is_held_out(task, seed) else None


def _prompt(held: _Held) -> str:
    return next((m["content"] or "" for m in held.messages if m["role"] == "user"), "")


def _quoted_key(held: _Held, facts: Mapping[str, tuple[str, ...]]) -> str | None:
    """A long answer-key text the agent says without having heard it from a tool or the customer."""
    heard = ""
    rollouts = [held.row[name] for name in ("rollout_id", "chosen_rollout_id") if name in held.row]
    secrets = [f for r in rollouts for f in facts.get(r, ()) if len(f) >= ANSWER_KEY_QUOTE]
    for message in held.messages:
        text = message.get("content") or ""
        if message["role"] == "assistant":
            for secret in secrets:
                if secret in text and secret not in heard:
                    return secret
        else:
            heard += text
    return None


def _broken_arguments(held: _Held) -> str | None:
    for message in held.messages:
        for call in message.get("tool_calls") or ():
            if not isinstance(call["function"]["arguments"], dict):
                return str(call["function"]["arguments"])
    return None


def _no_assistant_turn(held: _Held) -> str | None:
    """A row without an assistant turn would train on nothing; a GRPO row's turns are made while training."""
    if "advantage" in held.row or any(m["role"] == "assistant" for m in held.messages):
        return None
    return str(held.row.get("row_id") or held.row.get("rollout_id"))
