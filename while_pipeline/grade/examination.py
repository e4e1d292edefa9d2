"""The examination of a judge: everything that is measured of it in a night, and the gate's decision.

What belongs here: the order of it, and the rows. What is measured belongs to `trust`, `probes`, `swaps`,
`people` and `defects`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.grade.controls import LABELS, Controls, control_labels
from while_pipeline.grade.defects import DefectRecall, defect_recall
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import Judge
from while_pipeline.grade.people import HumanGold
from while_pipeline.grade.probes import Probed, flags, probe_judge
from while_pipeline.grade.swaps import swap_judge
from while_pipeline.grade.trust import Gate, TrustRow, judge_gate, judge_trust
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.tools import Tool

NOBODY = HumanGold(
    pl.DataFrame(schema=LABELS), n_annotators=0, alpha=None, n_unmatched=0, n_other_judge=0, n_tied=0
)
"""What people say where there is no file of labels."""


class Examination(NamedTuple):
    """What was found of a judge."""

    trust: list[dict[str, Any]]
    """Rows of `grade.judge_trust`."""
    probes: list[Probed]
    recalls: list[DefectRecall]
    gate: Gate


def examine(
    judge: Judge,
    controls: Controls,
    tools: Sequence[Tool],
    document: PolicyDocument,
    *,
    human: HumanGold | None,
    require_human: bool,
) -> Examination:
    """Measure a judge on planted defects, by probes, and on the labels of people.

    Args:
        judge: Who is examined.
        controls: Rollouts of the planted-defect policy.
        tools: The agent's tools.
        document: The policy document.
        human: Labels of people; None where there is no file of them.
        require_human: Whether the gate stays shut until people's labels make trust.
    """
    graded = grade(controls.labelled, tools, document, judge)
    labels = control_labels(graded)
    probes = probe_judge(judge, graded, tools, document)
    trust = [_row(judge, row, None) for row in judge_trust(labels, source="seeded", flags=flags(probes))]
    if human is not None or require_human:
        told = human or NOBODY
        rows = judge_trust(told.labels, source="human", required=require_human)
        trust += [_row(judge, row, told if row.half == "all" else None) for row in rows]
    return Examination(
        trust=trust,
        # The rewards are made of single verdicts, so that a swapped preference is shown and decides nothing.
        probes=[*probes, swap_judge(judge, controls, tools, document)],
        recalls=defect_recall(labels),
        gate=judge_gate(trust, [judge.identity]),
    )


def _row(judge: Judge, row: TrustRow, human: HumanGold | None) -> dict[str, Any]:
    counts = ("n_annotators", "alpha", "n_unmatched", "n_other_judge", "n_tied")
    told = {name: getattr(human, name) if human else None for name in counts}
    reason = row.reason + (_left_out(human) if human else "")
    return {"judge": judge.identity, **row._asdict(), **told, "reason": reason}


def _left_out(human: HumanGold) -> str:
    counts = {
        "name no stored rollout": human.n_unmatched,
        "graded by another judge": human.n_other_judge,
        "annotators at evens": human.n_tied,
    }
    said = ", ".join(f"{n} {why}" for why, n in counts.items() if n)
    return f" (labelled rollouts left out: {said})" if said else ""
