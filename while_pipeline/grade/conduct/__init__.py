"""The conduct rules: deterministic checks of how the agent behaved, whatever came of it.

One small function per rule, by theme in the modules of this package; each yields what it saw, with the
message and the place in it. Whether the outcome was right belongs to `outcome`, how good a rule is to
`rule_quality`.
"""

from typing import NamedTuple

from while_pipeline.grade.conduct.arguments import (
    broken_arguments,
    placeholder_argument,
    undeclared_tool,
    ungrounded_argument,
)
from while_pipeline.grade.conduct.permission import (
    broken_rule,
    missed_handoff,
    skipped_verification,
    unconfirmed_write,
)
from while_pipeline.grade.conduct.results import (
    action_without_call,
    false_success,
    gives_up,
    hidden_fault,
    loops,
    proceeds_after_done,
    repeats_error,
    used_stale_answer,
)
from while_pipeline.grade.conduct.seen import Rule
from while_pipeline.grade.conduct.wording import (
    apology,
    boilerplate,
    empty_reply,
    harness_leak,
    hedging,
    invented_identifier,
    junk_reply,
    leak,
    repeats_itself,
    sycophancy,
    truncated,
)
from while_pipeline.records import Finding, Severity
from while_pipeline.transcript import Transcript

RULES: dict[Rule, Severity] = {
    empty_reply: "hard",
    junk_reply: "hard",
    undeclared_tool: "hard",
    broken_arguments: "hard",
    placeholder_argument: "hard",
    ungrounded_argument: "hard",
    skipped_verification: "hard",
    unconfirmed_write: "hard",
    gives_up: "hard",
    false_success: "hard",
    hidden_fault: "hard",
    proceeds_after_done: "hard",
    repeats_error: "hard",
    used_stale_answer: "hard",
    action_without_call: "hard",
    broken_rule: "hard",
    missed_handoff: "hard",
    invented_identifier: "hard",
    leak: "hard",
    harness_leak: "hard",
    loops: "hard",
    truncated: "hard",
    repeats_itself: "style",
    hedging: "style",
    sycophancy: "style",
    apology: "style",
    boilerplate: "style",
}
"""Every conduct rule with its severity; a rule's id is its function's name."""


class Planted(NamedTuple):
    """Defects of the embedded agent that a rule is held against."""

    finds: frozenset[str]
    """Those it is to find: its recall is the share of them it finds."""
    shows: frozenset[str] = frozenset()
    """Those that may lead to what it finds: neither missed by it nor a false alarm."""


PLANTED: dict[Rule, Planted] = {
    **{
        rule: Planted(frozenset({rule.__name__}))
        for rule in (
            unconfirmed_write, gives_up, false_success, hidden_fault, proceeds_after_done, repeats_error,
            used_stale_answer, broken_rule, missed_handoff, leak, hedging, sycophancy, apology, boilerplate,
        )
    },
    # The wrong tool is called with values it was never given, and before anybody asked who is there.
    ungrounded_argument: Planted(frozenset({"ungrounded_argument"}), frozenset({"wrong_tool"})),
    skipped_verification: Planted(frozenset({"skipped_verification"}), frozenset({"wrong_tool"})),
    # An id that was made up for a call is told to the customer when the call is confirmed.
    invented_identifier: Planted(frozenset(), frozenset({"ungrounded_argument", "wrong_tool"})),
    # What a rule forbids is promised as done, and a fault is claimed away over a call that only looks.
    action_without_call: Planted(frozenset(), frozenset({"broken_rule", "false_success"})),
}  # fmt: skip
"""What rules are measured by; a rule that is not here has no planted defect, and any finding is an alarm."""


def findings(transcript: Transcript) -> list[Finding]:
    """Run every rule over a conversation."""
    return [
        Finding(
            rule=rule.__name__,
            severity=severity,
            message_index=seen.message_index,
            evidence=seen.evidence,
            step=seen.step,
            start=seen.start,
            end=seen.end,
        )
        for rule, severity in RULES.items()
        for seen in rule(transcript)
    ]
