"""The judge's recall per planted defect: which faults it does not see."""

from typing import NamedTuple

import polars as pl

from while_pipeline.grade.agreement import proportion


class DefectRecall(NamedTuple):
    """How often the judge refused rollouts with one planted defect."""

    defect: str
    n: int
    """Rollouts with this defect that got a verdict."""
    n_skipped: int
    caught: int
    """Of those, called not clean, for whatever reason."""
    recall: float | None
    """None when no such rollout got a verdict."""
    low: float | None
    high: float | None


def defect_recall(labels: pl.DataFrame, *, level: float = 0.95) -> list[DefectRecall]:
    """Recall per planted defect, sorted by defect.

    A rollout with several defects counts for each of them, so one defect's recall can be lent by another.

    Args:
        labels: Columns seeded (planted defects, comma-joined) and verdict (bool, null = no verdict).
        level: Confidence of the Wilson interval, over rollouts.
    """
    counts = (
        labels.select(pl.col("seeded").str.split(",").alias("defect"), "verdict")
        .explode("defect")
        .filter(pl.col("defect") != "")
        .group_by("defect")
        .agg(
            n=pl.col("verdict").count(),
            n_skipped=pl.col("verdict").null_count(),
            caught=(~pl.col("verdict")).sum(),
        )
        .sort("defect")
    )
    rows = []
    for defect, n, n_skipped, caught in counts.iter_rows():
        share = proportion(caught, n, level)
        bounds = (share.value, share.low, share.high) if share else (None, None, None)
        rows.append(DefectRecall(defect, n, n_skipped, caught, *bounds))
    return rows
