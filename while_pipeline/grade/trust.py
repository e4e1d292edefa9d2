"""May this judge's verdicts decide what is trained on? Its verdicts against labels whose answer is known.

What belongs here: the thresholds, the rows of the trust table, recall per planted defect. What does not:
the coefficients (`agreement`), where labels come from, and who closes the gate.
"""

from dataclasses import dataclass
from math import ceil
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import fisher_exact

from while_pipeline.grade.agreement import Agreement, agreement, confusion, proportion
from while_pipeline.ids import seed_of

Half = Literal["all", "a", "b"]


@dataclass(frozen=True)
class TrustThresholds:
    """What a judge must reach before its verdicts decide anything."""

    level: float = 0.95
    """Confidence of every interval."""
    min_agreement: float = 0.80
    """For the Wilson *lower* bound, so that few labels cannot pass by luck: a perfect judge needs 16."""
    min_kappa: float = 0.60
    """Landis and Koch's "substantial": a judge that always says the common class agrees, but has kappa 0."""
    max_skipped: float = 0.10
    """A judge that is silent on the hard tenth would look better than it is."""
    length_gap: float = 0.15
    """Change of the verdict rate between short and long answers of equal merit that is worth a flag."""
    length_p: float = 0.025
    """Half of .05, since the gap is looked at under both gold labels."""


class TrustRow(NamedTuple):
    """What is known of one judge on one source of labels and one half of the tasks."""

    source: str
    half: Half
    n: int
    """Labels with a verdict: what every figure here is computed on."""
    n_skipped: int
    """Labels the judge gave no verdict on."""
    agreement: float | None
    low: float | None
    high: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    ac1: float | None
    sensitivity: float | None
    """Of the clean rollouts, the share called clean."""
    specificity: float | None
    """Of the rollouts with a defect, the share called not clean."""
    length_gap: float | None
    """Share called clean among long answers minus that among short ones, see `judge_trust`."""
    length_p: float | None
    """Fisher's exact two-sided p of that gap."""
    trusted: bool
    reason: str
    """Everything that is missing, in labels where more labels can mend it."""


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


def judge_trust(
    labels: pl.DataFrame, *, source: str = "seeded", thresholds: TrustThresholds | None = None
) -> list[TrustRow]:
    """Judge the judge, on all labels and on each half of the tasks.

    The row with half `all` is the verdict. Halves `a` and `b` split the tasks by hash, so that a judge that
    was tuned on some tasks shows; each is held against the same thresholds, alone.

    The length gap compares rollouts of equal merit: under one gold label, an answer is long when it is
    longer than the median of the rollouts with the same planted defects. (A defect may itself lengthen or
    shorten the answer, and a judge blind to that defect is not therefore a judge of length.) The row shows
    the label with the flagged gap, else the one with the smaller p; null when no lengths differ.

    Args:
        labels: One row per labelled rollout: task_id (str), gold (bool, true = no planted defect), verdict
            (bool, true = the judge calls it clean, null = no verdict), length (words of the agent's text),
            seeded (planted defects, comma-joined, empty for none).
        source: Where gold comes from, copied to the rows.
        thresholds: Defaults to `TrustThresholds()`.

    Returns:
        Three rows, in the order `all`, `a`, `b`. An empty half has n 0, nulls, and is not trusted.
    """
    bar = thresholds or TrustThresholds()
    in_a = pl.Series([seed_of("trust half", task) % 2 == 0 for task in labels["task_id"]], dtype=pl.Boolean)
    return [
        _row(source, "all", labels, bar),
        _row(source, "a", labels.filter(in_a), bar),
        _row(source, "b", labels.filter(~in_a), bar),
    ]


def defect_recall(labels: pl.DataFrame, *, level: float = 0.95) -> list[DefectRecall]:
    """Recall per planted defect, sorted by defect.

    A rollout with several defects counts for each of them, so one defect's recall can be lent by another.

    Args:
        labels: Columns seeded and verdict, as in `judge_trust`.
        level: Confidence of the Wilson interval.
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


class _LengthGap(NamedTuple):
    gap: float
    p: float
    flagged: bool


def _row(source: str, half: Half, labels: pl.DataFrame, bar: TrustThresholds) -> TrustRow:
    judged = labels.drop_nulls("verdict")
    n_skipped = labels.height - judged.height
    found = agreement(confusion(judged["gold"], judged["verdict"]), bar.level)
    length = _length_gap(judged, bar)
    missing = _missing(found, n_skipped, length, bar)
    return TrustRow(
        source=source,
        half=half,
        n=judged.height,
        n_skipped=n_skipped,
        agreement=found.agreement if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        kappa=found.kappa if found else None,
        kappa_low=found.kappa_low if found else None,
        kappa_high=found.kappa_high if found else None,
        ac1=found.ac1 if found else None,
        sensitivity=found.sensitivity.value if found and found.sensitivity else None,
        specificity=found.specificity.value if found and found.specificity else None,
        length_gap=length.gap if length else None,
        length_p=length.p if length else None,
        trusted=not missing,
        reason="; ".join(missing) or f"every threshold is met over {judged.height} labels",
    )


def _length_gap(judged: pl.DataFrame, bar: TrustThresholds) -> _LengthGap | None:
    """Worst gap of the two gold labels; the design and its edge conventions are in `judge_trust`."""
    merit = ["gold", "seeded"]
    # Fisher's test takes its labels for independent, and samples of one task are not: one label a task.
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
        p = float(fisher_exact(np.array(table)).pvalue)
        gaps.append(_LengthGap(gap, p, abs(gap) >= bar.length_gap and p < bar.length_p))
    return max(gaps, key=lambda found: (found.flagged, -found.p), default=None)


def _missing(
    found: Agreement | None, n_skipped: int, length: _LengthGap | None, bar: TrustThresholds
) -> list[str]:
    """Every reason not to trust, most basic first; empty when the judge is trusted."""
    if found is None:
        return [f"no label has a verdict ({n_skipped} skipped)"]
    reasons = []
    if found.low < bar.min_agreement:
        reasons.append(_agreement_shortfall(found, bar))
    if found.kappa is None:
        known = "clean" if found.sensitivity else "defective"
        reasons.append(f"kappa is undefined: all {found.n} labels and all verdicts are {known}, label others")
    elif found.kappa < bar.min_kappa:
        reasons.append(f"kappa is {found.kappa:.2f}, below {bar.min_kappa:.2f}")
    skipped = n_skipped / (found.n + n_skipped)
    if skipped > bar.max_skipped:
        reasons.append(f"no verdict on {skipped:.0%} of the labels, more than {bar.max_skipped:.0%}")
    if length and length.flagged:
        longer = "more" if length.gap > 0 else "less"
        reasons.append(
            f"long answers are called clean {longer} often than short ones of equal merit "
            f"({length.gap:+.2f}, p {length.p:.2g})"
        )
    return reasons


def _agreement_shortfall(found: Agreement, bar: TrustThresholds) -> str:
    """Say how many labels would lift the lower bound, or that none would.

    The Wilson bound inverts the score test, so it reaches p0 at share a from n = z² p0 (1 - p0) / (a - p0)².
    """
    seen = f"agreement is {found.agreement:.2f} over {found.n} labels, with lower bound {found.low:.2f}"
    margin = found.agreement - bar.min_agreement
    if margin <= 0:
        return f"{seen}: more labels will not lift that to {bar.min_agreement:.2f}, mend the judge"
    z = NormalDist().inv_cdf((1 + bar.level) / 2)
    needed = ceil(z**2 * bar.min_agreement * (1 - bar.min_agreement) / margin**2)
    return f"{seen}: {needed - found.n} more labels at this agreement would reach {bar.min_agreement:.2f}"
