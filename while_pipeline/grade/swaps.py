"""Swaps: does a judge that is shown two conversations prefer the same one in either order?

What belongs here: pairs of controls, the share of preferences that turn with the order, and what pairs of
known merit say of a judge as labels. How a judge is asked belongs to `judge`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from while_pipeline.grade.controls import LABELS, Controls, gold_of
from while_pipeline.grade.grader import case_of
from while_pipeline.grade.judge import Case, Choice, Judge
from while_pipeline.grade.probes import Probed, rated, spread
from while_pipeline.ids import seed_of
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.tools import Tool

SWAP = "swap"
"""Name of its row among the probes."""


class Compared(NamedTuple):
    """Two answers to one task of which one is known to be better, and what a judge said in both orders."""

    task_id: str
    first_is_better: bool
    forward: Choice | None
    """What was said when the first was shown first; None is no verdict."""
    backward: Choice | None
    """What was said when the second was shown first; it speaks of the same first and second."""
    longer: int
    """Words of the first answer minus those of the second."""


def swap_judge(judge: Judge, controls: Controls, tools: Sequence[Tool], document: PolicyDocument) -> Probed:
    """Ask for preferences between a clean and a defective control of one scenario, in both orders.

    Which of the two is given first is drawn by the pair. A judge costs two calls a pair, some 50 in all.

    Returns:
        The row `swap`: the share of pairs whose preference turned with the order, one pair a task.
    """
    pairs = _pairs(controls, tools, document)
    said = judge.preferences(pairs) if pairs else []
    return swapped((one.forward, one.backward) for one in said)


def swapped(orders: Iterable[tuple[Choice | None, Choice | None]]) -> Probed:
    """Rate what was said forward and backward: a preference turned when the two are not the same.

    A pair without a verdict in one of its orders is skipped. One minus the rate is the swap consistency.
    """
    return rated(SWAP, (None if None in order else order[0] != order[1] for order in orders))


def order_labels(pairs: Iterable[Compared]) -> pl.DataFrame:
    """Labels of a judge that compares, as `trust.judge_trust` reads them: each order of a pair is a label.

    Gold is whether the first answer is the better one, the verdict whether the judge said so; a tie is no
    verdict. A pair is a task, so that its two labels do not count as independent. Length is that of the first
    answer over the second, so that the length gap shows a taste for the longer one.
    """
    rows = [
        {
            "rollout_id": f"{pair.task_id} {order}",
            "task_id": pair.task_id,
            "gold": pair.first_is_better,
            "verdict": None if said in (None, "tie") else said == "first",
            "length": pair.longer,
            "seeded": "",
        }
        for pair in pairs
        for order, said in (("forward", pair.forward), ("backward", pair.backward))
    ]
    return pl.DataFrame(rows, schema=LABELS, orient="row")


def _pairs(controls: Controls, tools: Sequence[Tool], document: PolicyDocument) -> list[tuple[Case, Case]]:
    by_name = {tool.name: tool for tool in tools}
    # Scenario -> clean or not -> the first such control.
    found: dict[str, dict[bool, Case]] = defaultdict(dict)
    task_of: dict[str, str] = {}
    for rollout in (*controls.labelled, *controls.spare):
        case = case_of(rollout.played, by_name, document)
        gold = gold_of(rollout, case.outcome)
        if gold is not None:
            found[case.group].setdefault(gold, case)
            task_of[case.group] = rollout.scenario.task_id
    # One scenario a task: its last mixed one.
    mixed = {task_of[group]: kinds for group, kinds in found.items() if len(kinds) == 2}
    return [
        (kinds[True], kinds[False]) if seed_of("swap", task) % 2 else (kinds[False], kinds[True])
        for task, kinds in spread(list(mixed.items()))
    ]
