"""What a trace shows: the axis values that can be read back from it, and its behaviour signature.

Coverage counts these, not labels: a value that left no mark in the conversation was not realised.
"""

import re
from functools import lru_cache

from while_pipeline.ids import content_id
from while_pipeline.patterns import REMEMBERED, lowered
from while_pipeline.policy_document import RuleKind
from while_pipeline.records import Situation, Step
from while_pipeline.simulate import wording
from while_pipeline.simulate.axes import AXES, NONE, SEVERAL, TOOL_CONDITIONS
from while_pipeline.slots import spoken
from while_pipeline.tools import ToolKind
from while_pipeline.transcript import IDENTIFIES, REFUSES, Transcript

BUCKET_WORDS = 12
"""Words per length bucket of a signature; twelve buckets at most, the last one open."""

_STATE_MARKS = {
    "missing": re.compile(r'"error":\s*"not_found"|"count":\s*0\b|not found', re.IGNORECASE),
    "already_acted_on": re.compile(
        r'already|"status":\s*"(?:closed|cancelled)"|"payment":\s*"(?:paid|refunded|requested)"',
        re.IGNORECASE,
    ),
    "duplicate": re.compile(r'"duplicate_of"', re.IGNORECASE),
    "partially_completed": re.compile(r'"pending_action"|"resumed"|"status":\s*"processing"', re.IGNORECASE),
    "unknown": re.compile(r'status":\s*"unknown"', re.IGNORECASE),
}

Observed = dict[str, frozenset[str]]
"""Axis -> values seen."""


def observe(t: Transcript) -> Observed:
    """Read every axis value that the conversation shows."""
    called = {step.call.name for step in t.steps if _kind(t, step) is not ToolKind.TRANSFER}
    several = {SEVERAL} if len(called) > 1 else set()
    said = "\n".join([text for _, text in t.customer_texts])
    statuses = {"success" if step.status == "ok" else step.status for step in t.steps}
    return {
        "tool": frozenset(called or {NONE}) | several,
        "policy_rule": frozenset(_rules(t) or {NONE}),
        "stance": frozenset(wording.heard(wording.STANCE_LINES, said)),
        "world_state": _states(t),
        "tool_condition": frozenset((statuses & set(TOOL_CONDITIONS)) or {"success"}),
        "history": frozenset(wording.heard(wording.HISTORY_LINES, said)),
    }


def realised(cell: Situation, seen: Observed) -> list[str]:
    """The axes whose planned value the conversation shows, in axis order."""
    return [axis for axis in AXES if getattr(cell, axis) in seen[axis]]


def place(t: Transcript) -> Situation:
    """Put a conversation nobody planned on the six axes: the most telling value seen on each.

    A fault tells more than a success and a special state more than an ordinary one.
    """
    seen = observe(t)
    return Situation(
        tool=SEVERAL if SEVERAL in seen["tool"] else sorted(seen["tool"])[0],
        policy_rule=_rules(t)[0] if _rules(t) else NONE,
        stance=_telling(seen["stance"], tuple(wording.STANCE_LINES)),
        world_state=_telling(seen["world_state"], ("exists", *_STATE_MARKS)),
        tool_condition=_telling(seen["tool_condition"], TOOL_CONDITIONS),
        history=_telling(seen["history"], tuple(wording.HISTORY_LINES)),
    )


def signature(t: Transcript) -> str:
    """Hash of how the agent behaved.

    Its calls in order, each with the provenance of its values and its status; whether it declined; and how
    long it spoke.
    """
    calls = [(step.call.name, _provenance(t, step), step.status) for step in t.steps]
    refused = any(REFUSES.search(text) for _, text in t.agent_texts)
    return content_id(calls, refused, min(t.agent_words // BUCKET_WORDS, BUCKET_WORDS))[:12]


def _states(t: Transcript) -> frozenset[str]:
    """World states the tools' answers show; how the agent's own write left a record is none of them."""
    found: set[str] = set()
    written = False
    for step in t.steps:
        tool, done = t.tools.get(step.call.name), step.status in ("ok", "stale")
        written = written or (tool is not None and tool.writes and done)
        shown = _shown(step.result or "")
        if written:
            shown -= {"already_acted_on"}
        found |= shown or ({"exists"} if done else set())
    return frozenset(found or {"exists"})


@lru_cache(maxsize=REMEMBERED)
def _shown(result: str) -> frozenset[str]:
    return frozenset(state for state, mark in _STATE_MARKS.items() if mark.search(result))


def _kind(t: Transcript, step: Step) -> ToolKind | None:
    tool = t.tools.get(step.call.name)
    return tool.kind if tool else None


def _rules(t: Transcript) -> list[str]:
    """Rules in play: by the customer's words, in document order, then by what a call touches."""
    touched = [t.tools[step.call.name] for step in t.steps if step.call.name in t.tools]
    writes = any(tool.writes for tool in touched)
    account = (
        writes
        or any(tool.identifiers for tool in touched)
        or any(IDENTIFIES.search(text) for _, text in t.customer_texts)
    )
    words = {rule.rule_id for _, rule in t.rules_asked}
    spoken_of = [rule.rule_id for rule in t.document.rules if rule.rule_id in words] if words else []
    confirm = [rule.rule_id for rule in t.document.of_kind(RuleKind.CONFIRM)] if writes else []
    verify = [rule.rule_id for rule in t.document.of_kind(RuleKind.VERIFY)] if account else []
    return [*spoken_of, *verify, *confirm]


def _telling(values: frozenset[str], order: tuple[str, ...]) -> str:
    """The value that comes last in an order from ordinary to special."""
    return max(values, key=lambda value: order.index(value) if value in order else -1)


def _provenance(t: Transcript, step: Step) -> str:
    """Where a call's values came from: the worst of user, derived (a tool result), invented; or absent."""
    tool = t.tools.get(step.call.name)
    given = (step.call.arguments or {}).items()
    values = [spoken(v, p).lower() for p, v in given if tool is None or not tool.free_text(p)]
    if not values:
        return "absent"
    heard = [lowered(m.content) for m in t.messages[: step.turn] if m.content and m.role == "user"]
    worst = "user"
    for said in [spoken(value).lower() for value in values]:
        if any(said in text for text in heard):
            continue
        if not any(said in lowered(text) for text in t.heard_before(step.turn)):
            return "invented"
        worst = "derived"
    return worst
