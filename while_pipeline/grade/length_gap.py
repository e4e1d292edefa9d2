"""Does a judge pay for length? Its verdicts on short and on long answers of equal merit.

What the gap must not be is a threshold of `trust`; the same question by experiment is a probe (`probes`).
"""

from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.stats import fisher_exact


class LengthGap(NamedTuple):
    """Share called clean among long answers minus that among short ones, under one gold label."""

    gap: float
    p: float
    """Fisher's exact two-sided p of the gap."""


def length_gaps(judged: pl.DataFrame) -> list[LengthGap]:
    """Compare rollouts of equal merit, under each gold label.

    Under one gold label, an answer is long when it is longer than the median of the rollouts with the same
    planted defects. (A defect may itself lengthen or shorten the answer, and a judge blind to that defect is
    not therefore a judge of length.) One rollout a task counts, its first: Fisher's test takes rollouts for
    independent.

    Args:
        judged: One row per rollout: task_id, gold (bool), verdict (bool, no nulls), length (words), seeded.

    Returns:
        At most one gap a gold label; none where lengths do not differ.
    """
    merit = ["gold", "seeded"]
    apart = judged.unique("task_id", keep="first", maintain_order=True)
    split = apart.with_columns(long=pl.col("length") > pl.col("length").median().over(merit))
    # Without a long answer there is nothing to compare the short ones of that merit with.
    split = split.filter(pl.col("long").any().over(merit))
    gaps = []
    for label in (True, False):
        rows = split.filter(pl.col("gold") == label)
        if rows.is_empty():
            continue
        long, short = rows.filter("long")["verdict"], rows.filter(~pl.col("long"))["verdict"]
        table = [[int(part.sum()), int((~part).sum())] for part in (long, short)]
        gap = table[0][0] / len(long) - table[1][0] / len(short)
        gaps.append(LengthGap(gap, float(fisher_exact(np.array(table)).pvalue)))
    return gaps
