"""How good the conduct rules are: each held against the defects planted in the controls.

What belongs here: precision, recall and false alarms per rule. What does not: the rules and which defects
they are to find (`conduct`), how controls are played (`controls`), how a judge does on them (`trust`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from while_pipeline.grade.conduct import PLANTED, RULES, Planted, findings
from while_pipeline.grade.grader import transcript_of
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.prove.intervals import wilson
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.tools import Tool

_NOTHING = Planted(frozenset())


class Share(NamedTuple):
    """A share over tasks, with its Wilson bounds; all None where no task tells."""

    value: float | None
    low: float | None
    high: float | None


class RuleScore(NamedTuple):
    """A rule against the planted defects; counts are of rollouts, shares are means over tasks."""

    rule: str
    severity: str
    defects: tuple[str, ...]
    """What it is to find, sorted."""
    n: int
    n_tasks: int
    n_lost: int
    """Controls that were never played to their end; they are not among `n`."""
    n_planted: int
    n_found: int
    n_both: int
    """Planted and found."""
    n_false: int | None
    """Found where no defect was planted that leads to it; None, like the shares, where none ever is."""
    precision: Share
    """Of a task's rollouts in which it found something, those with a defect that leads to it."""
    recall: Share
    """Of a task's rollouts with the defect, those in which it found something."""
    alarms: Share
    """Of a task's rollouts without a defect that leads to it, those in which it found something."""


class _Seen(NamedTuple):
    """One control under one rule."""

    task_id: str
    planted: bool
    caused: bool
    found: bool


def rule_quality(
    controls: Sequence[Rollout], tools: Sequence[Tool], document: PolicyDocument
) -> list[RuleScore]:
    """Hold every rule against the controls.

    A rule is to find the defects of `PLANTED` in every rollout that drew one, even where nothing came of it
    (a yes skipped before a call that changes nothing): recall is from below. For a rule without planted
    defects nobody knows what is there to find: it has no precision, recall or false alarms, only its count.

    Samples of one task are alike, so a task counts once: a share is the mean over the tasks that tell, and
    its interval is Wilson's for that many labels. With one rollout per task that is the share itself.

    Args:
        controls: Rollouts of the policy with planted defects; lost ones are counted and left out.
        tools: What they were played with.
        document: The policy document they were played under.

    Returns:
        One score per rule, in the order of `RULES`.
    """
    by_name = {tool.name: tool for tool in tools}
    played = [rollout for rollout in controls if rollout.lost is None]
    # Samples that went the same way share their conversation, and what is found in it.
    distinct = {id(one.played): one for one in played}
    found = {key: _rules_in(one, by_name, document) for key, one in distinct.items()}
    drawn = [(one.scenario.task_id, set(one.seeded), found[id(one.played)]) for one in played]
    n_lost, n_tasks = len(controls) - len(played), len({task for task, _, _ in drawn})
    scores = []
    for rule, severity in RULES.items():
        planted = PLANTED.get(rule, _NOTHING)
        known = bool(planted.finds or planted.shows)
        seen = [
            _Seen(
                task,
                planted=not planted.finds.isdisjoint(defects),
                caused=not (planted.finds | planted.shows).isdisjoint(defects),
                found=rule.__name__ in rules,
            )
            for task, defects, rules in drawn
        ]
        scores.append(
            RuleScore(
                rule=rule.__name__,
                severity=severity,
                defects=tuple(sorted(planted.finds)),
                n=len(seen),
                n_tasks=n_tasks,
                n_lost=n_lost,
                n_planted=sum(one.planted for one in seen),
                n_found=sum(one.found for one in seen),
                n_both=sum(one.planted and one.found for one in seen),
                n_false=sum(one.found and not one.caused for one in seen) if known else None,
                precision=_share((one.task_id, one.caused) for one in seen if one.found and known),
                recall=_share((one.task_id, one.found) for one in seen if one.planted),
                alarms=_share((one.task_id, one.found) for one in seen if known and not one.caused),
            )
        )
    return scores


def _rules_in(rollout: Rollout, tools: Mapping[str, Tool], document: PolicyDocument) -> frozenset[str]:
    return frozenset(finding.rule for finding in findings(transcript_of(rollout.played, tools, document)))


def _share(labels: Iterable[tuple[str, bool]]) -> Share:
    """The mean over tasks of the share of true labels among a task's own."""
    tasks: dict[str, list[bool]] = defaultdict(list)
    for task, label in labels:
        tasks[task].append(label)
    if not tasks:
        return Share(None, None, None)
    hits = sum(sum(of_one) / len(of_one) for of_one in tasks.values())
    return Share(hits / len(tasks), *wilson(hits, len(tasks)))


def quality_rows(scores: Iterable[RuleScore]) -> list[dict[str, object]]:
    """Rows of `grade.rule_quality`."""
    return [_row(score) for score in scores]


def _row(score: RuleScore) -> dict[str, object]:
    shares = {"precision": score.precision, "recall": score.recall, "alarms": score.alarms}
    bounds = {
        name + ending: bound
        for name, share in shares.items()
        for ending, bound in zip(("", "_low", "_high"), share, strict=True)
    }
    return {**score._asdict(), "defects": ", ".join(score.defects), **bounds}
