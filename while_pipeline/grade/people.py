"""People's labels beside the verdicts of one judge: the majority is gold, and what is left out is counted.

How their file is read belongs to `gold`; whether the judge agrees enough is for `trust` to say.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from while_pipeline.errors import ProjectError
from while_pipeline.grade.agreement import nominal_alpha
from while_pipeline.grade.controls import LABELS
from while_pipeline.grade.gold import Gold, HumanLabel, Key


class HumanGold(NamedTuple):
    """What people say of the rollouts that one judge graded. Everything is counted in labelled rollouts."""

    labels: pl.DataFrame
    """One row per rollout with a majority, columns as in `controls.LABELS`."""
    n_annotators: int
    alpha: float | None
    """Krippendorff's alpha over the whole file; None where nobody labelled what another did, or all say the
    same."""
    n_unmatched: int
    """Name no stored rollout."""
    n_other_judge: int
    """Graded by another judge, so that they say nothing of this one."""
    n_tied: int
    """As many called it clean as not: no label."""


def human_gold(gold: Gold, graded: pl.DataFrame, judge: str) -> HumanGold:
    """Hold the labels of people beside a judge's verdicts. Of several annotators the majority is gold.

    Args:
        gold: The labels.
        graded: The rollouts they may name: rollout_id, scenario_id, sample, task_id, judge (identity of the
            judge that graded it), verdict, length (words the agent wrote).
        judge: Identity of the judge in question.

    Raises:
        ProjectError: a key names several rollouts.
    """
    by_key: dict[Key, list[dict[str, object]]] = defaultdict(list)
    for row in graded.iter_rows(named=True):
        by_key[tuple(str(row[column]) for column in gold.columns)].append(row)
    given: dict[Key, list[HumanLabel]] = defaultdict(list)
    for label in gold.labels:
        given[label.key].append(label)
    left_out = Counter[str]()
    rows = []
    for key, labels in given.items():
        found = by_key.get(key, [])
        majority = _majority(labels)
        if len(found) > 1:
            raise _ambiguous(gold, labels[0], found)
        if not found:
            left_out["unmatched"] += 1
        elif found[0]["judge"] != judge:
            left_out["other judge"] += 1
        elif majority is None:
            left_out["tied"] += 1
        else:
            rows.append({name: found[0].get(name) for name in LABELS} | {"gold": majority, "seeded": ""})
    return HumanGold(
        labels=pl.DataFrame(rows, schema=LABELS, orient="row"),
        n_annotators=len({label.annotator for label in gold.labels}),
        alpha=nominal_alpha([(" ".join(label.key), label.clean) for label in gold.labels]),
        n_unmatched=left_out["unmatched"],
        n_other_judge=left_out["other judge"],
        n_tied=left_out["tied"],
    )


def _majority(labels: Sequence[HumanLabel]) -> bool | None:
    """What most annotators say; None when they are at evens."""
    clean = sum(label.clean for label in labels)
    return None if 2 * clean == len(labels) else 2 * clean > len(labels)


def _ambiguous(gold: Gold, label: HumanLabel, found: Sequence[dict[str, object]]) -> ProjectError:
    ids = ", ".join(str(row["rollout_id"]) for row in found[:3])
    return ProjectError(
        gold.source,
        f"line {label.line}, {', '.join(gold.columns)}",
        " ".join(label.key),
        f"it names {len(found)} rollouts ({ids}); name the one that was read by its `rollout_id`",
    )
