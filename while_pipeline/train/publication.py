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
    hacked: bool | None
    hack_reason: str


def check_cut(cut: str, rows: Iterable[Row], gate: Gate) -> list[Check]:
    """Run every check that applies to a cut."""
    held = list(rows)
    per_row: dict[str, Callable[[Row], str | None]] = {
        "no_sealed_task": lambda r: r["task_id"] if is_held_out(r["task_id"], gate.split_seed) else None,
        "no_sealed_prompt": lambda r: gate.sealed.copied(_prompt(r)),
        "no_answer_key": lambda r: _quoted_key(r, gate.facts),
        "arguments_decode": _broken_arguments,
        "something_to_learn": _no_assistant_turn,
    }
    checks = [_each(cut, name, held, refuse) for name, refuse in per_row.items()]
    checks.append(
        Check(
            cut, "judge_trusted", gate.trusted, len(held), 0 if gate.trusted else len(held), gate.trust_reason
        )
    )
    if cut == "grpo":
        checks.append(_groups_mixed(held))
        clean = gate.hacked is not True
        checks.append(
            Check(cut, "reward_not_hacked", clean, len(held), 0 if clean else len(held), gate.hack_reason)
        )
    return checks


def _each(cut: str, name: str, rows: list[Row], refuse: Callable[[Row], str | None]) -> Check:
    refused = [reason for row in rows if (reason := refuse(row)) is not None]
    detail = f"for example {refused[0][:160]}" if refused else "every row passed"
    return Check(cut, name, not refused, len(rows), len(refused), detail)


def _groups_mixed(rows: list[Row]) -> Check:
    groups: dict[str, set[bool]] = defaultdict(set)
    for row in rows:
        groups[row["scenario_id"]].add(row["passed"])
    unmixed = [scenario for scenario, passes in groups.items() if len(passes) < 2]
    detail = f"all pass or all fail in {unmixed[0]}" if unmixed else "every group has both"
    return Check("grpo", "groups_mixed", not unmixed, len(rows), len(unmixed), detail)


def _messages(row: Row) -> Iterator[dict[str, Any]]:
    for column in ("messages", "prompt", "chosen", "rejected"):
        if column in row:
            yield from json.loads(row[column])


def _prompt(row: Row) -> str:
    return next((m["content"] or "" for m in _messages(row) if m["role"] == "user"), "")


def _quoted_key(row: Row, facts: Mapping[str, tuple[str, ...]]) -> str | None:
    """A long answer-key text the agent says without having heard it from a tool or the customer."""
    heard = ""
    rollouts = [row[name] for name in ("rollout_id", "chosen_rollout_id") if name in row]
    secrets = [f for r in rollouts for f in facts.get(r, ()) if len(f) >= ANSWER_KEY_QUOTE]
    for message in _messages(row):
        text = message.get("content") or ""
        if message["role"] == "assistant":
            for secret in secrets:
                if secret in text and secret not in heard:
                    return secret
        else:
            heard += text
    return None


def _broken_arguments(row: Row) -> str | None:
    for message in _messages(row):
        for call in message.get("tool_calls") or ():
            if not isinstance(call["function"]["arguments"], dict):
                return str(call["function"]["arguments"])
    return None


def _no_assistant_turn(row: Row) -> str | None:
    """A row without an assistant turn would train on nothing; a GRPO row's turns are made while training."""
    if "advantage" in row or any(m["role"] == "assistant" for m in _messages(row)):
        return None
    return str(row.get("row_id") or row.get("rollout_id"))
