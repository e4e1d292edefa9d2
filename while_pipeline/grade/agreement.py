"""How well raters agree: two by their 2 x 2 table, any number of them by Krippendorff's alpha.

What belongs here: the table, the coefficients and their intervals. What does not: what agreement is enough
(`trust`) and intervals that any proportion can use (`prove.intervals`).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import krippendorff
import numpy as np
import polars as pl
from scipy import special

from while_pipeline.prove.intervals import score_interval, t_quantile, wilson


class Confusion(NamedTuple):
    """Counts of a reference rater (`gold`) against a second one (`verdict`), row by row.

    The table `[[a, b], [c, d]]` of the textbooks is `Confusion(a, b, c, d)`, with gold in the rows.
    """

    both_true: int
    gold_only: int
    verdict_only: int
    both_false: int


class Proportion(NamedTuple):
    """`hits` of `n`, with its Wilson interval."""

    hits: int
    n: int
    value: float
    low: float
    high: float


class Agreement(NamedTuple):
    """Agreement of two binary raters over `n` items; `None` is undefined, never zero."""

    n: int
    agreement: float
    """Share of items on which the two say the same, in [0, 1]."""
    low: float
    """Wilson bounds of the agreement."""
    high: float
    kappa: float | None
    """Cohen's kappa; 0 when one rater is constant, None when both are constant on the same class."""
    kappa_low: float | None
    """Bounds of kappa, None when either rater is constant: its standard error has no meaning there."""
    kappa_high: float | None
    ac1: float
    """Gwet's AC1: like kappa, but steady when one class is rare."""
    sensitivity: Proportion | None
    """Of the items whose gold is true, those called true; None when gold is never true."""
    specificity: Proportion | None
    """Of the items whose gold is false, those called false; None when gold is never false."""


def confusion(gold: pl.Series, verdict: pl.Series) -> Confusion:
    """Count two boolean series of equal length, row by row; a null on either side leaves the row out."""
    return Confusion(
        both_true=int((gold & verdict).sum()),
        gold_only=int((gold & ~verdict).sum()),
        verdict_only=int((~gold & verdict).sum()),
        both_false=int((~gold & ~verdict).sum()),
    )


def proportion(hits: int, n: int, level: float = 0.95) -> Proportion | None:
    """Share of `hits` in `n` with its Wilson interval; None when `n` is 0."""
    return Proportion(hits, n, hits / n, *wilson(hits, n, level)) if n else None


class Worth(NamedTuple):
    """What labels that stand together by task are worth."""

    labels: float
    """Labels of as many different tasks would tell as much."""
    quantile: float
    """Standard errors that an interval reaches to either side."""


def worth(hits: pl.Series, task: pl.Series, level: float = 0.95) -> Worth:
    """Say what a share over labels is worth when labels of one task err together.

    With one label a task, their number and the normal quantile, which gives Wilson's interval. Else their
    number over the design effect, the linearised variance of a ratio over the binomial one (Kish 1965), with
    the t quantile, as in `pass_at.rate_interval`. Where nothing differs, and with one task, there is no
    spread to see how far they err together: then every task counts as one label.

    Args:
        hits: Boolean, shape (n,), without nulls.
        task: Task of each label, shape (n,).
        level: Confidence level.
    """
    n, total, tasks = len(hits), int(hits.sum()), task.n_unique()
    alone = float(special.ndtri((1 + level) / 2))
    if tasks == n or tasks == 1 or total in (0, n):
        return Worth(float(tasks), alone)
    residuals = pl.DataFrame({"task": task, "residual": hits.cast(pl.Int64) * n - total})
    per_task = residuals.group_by("task").agg(pl.col("residual").sum())["residual"]
    # Whole numbers, so that the order of the tasks cannot show.
    together, apart = int((per_task**2).sum()), int((residuals["residual"] ** 2).sum())
    effect = max(1.0, together / apart * tasks / (tasks - 1))
    return Worth(n / effect, t_quantile(tasks - 1, level))


def agreement(table: Confusion, level: float = 0.95, of: Worth | None = None) -> Agreement | None:
    """Describe a 2 x 2 table: agreement, kappa, AC1 and the recall of each class, with intervals at `level`.

    Kappa is Cohen (1960); AC1 is Gwet (2008). Kappa depends on how rare a class is (at 45, 3, 2, 0 the
    agreement is .90 and kappa -.05), which is why AC1 and the two recalls stand beside it.

    Args:
        table: Counts of gold against verdict.
        level: Confidence of every interval.
        of: What the items are worth, by default as many independent ones. It decides the interval of the
            agreement, and the standard error of kappa grows by the root of what it takes off; the intervals
            of the recalls take their items for independent.

    Returns:
        None when the table is empty.
    """
    a, b, c, d = table
    n = sum(table)
    if n == 0:
        return None
    observed = (a + d) / n
    z = float(special.ndtri((1 + level) / 2))
    labels, quantile = of or (float(n), z)
    low, high = score_interval(observed, labels, quantile)
    gold_true, verdict_true = (a + b) / n, (a + c) / n
    kappa = _kappa(observed, gold_true, verdict_true)
    error = _kappa_error(table, kappa) if kappa is not None else None
    spread = None if error is None else error * sqrt(n / labels)
    prevalence = (gold_true + verdict_true) / 2
    by_chance = 2 * prevalence * (1 - prevalence)
    return Agreement(
        n=n,
        agreement=observed,
        low=0.0 if observed == 0 else low,
        high=1.0 if observed == 1 else high,
        kappa=kappa,
        kappa_low=None if kappa is None or spread is None else max(-1.0, kappa - z * spread),
        kappa_high=None if kappa is None or spread is None else min(1.0, kappa + z * spread),
        ac1=(observed - by_chance) / (1 - by_chance),
        sensitivity=proportion(a, a + b, level),
        specificity=proportion(d, c + d, level),
    )


def _kappa(observed: float, gold_true: float, verdict_true: float) -> float | None:
    """Cohen's kappa, with 0 exactly when one rater is constant and None when both are, on the same class."""
    constants = {0.0, 1.0}
    if gold_true in constants and gold_true == verdict_true:
        return None
    if gold_true in constants or verdict_true in constants:
        return 0.0
    by_chance = gold_true * verdict_true + (1 - gold_true) * (1 - verdict_true)
    return (observed - by_chance) / (1 - by_chance)


def _kappa_error(table: Confusion, kappa: float) -> float | None:
    """Asymptotic standard error of kappa, Fleiss, Cohen and Everitt (1969); None when a rater is constant.

    It is 0 at perfect agreement, so the interval has no width there: read the Wilson bound instead.
    """
    a, b, c, d = (count / sum(table) for count in table)
    gold, verdict = (a + b, c + d), (a + c, b + d)
    if 0.0 in gold or 0.0 in verdict:
        return None
    by_chance = gold[0] * verdict[0] + gold[1] * verdict[1]
    on_diagonal = sum(
        cell * (1 - (g + v) * (1 - kappa)) ** 2 for cell, g, v in zip((a, d), gold, verdict, strict=True)
    )
    off_diagonal = (1 - kappa) ** 2 * (b * (verdict[0] + gold[1]) ** 2 + c * (verdict[1] + gold[0]) ** 2)
    variance = on_diagonal + off_diagonal - (kappa - by_chance * (1 - kappa)) ** 2
    # Rounding can take the difference of equal sums a hair below zero.
    return sqrt(max(variance, 0.0) / sum(table)) / (1 - by_chance)


def nominal_alpha(ratings: Sequence[tuple[str, object]]) -> float | None:
    """Krippendorff's alpha of nominal labels, any number of raters, labels missing as they may.

    Krippendorff (2004): 1 is perfect agreement, 0 what chance gives, below 0 systematic disagreement.

    Args:
        ratings: (unit, label) of every label that was given, each rater at most once a unit.

    Returns:
        None when no unit has two labels, or when all such labels are the same: then chance alone would agree.
    """
    units: dict[str, Counter[object]] = defaultdict(Counter)
    for unit, label in ratings:
        units[unit][label] += 1
    paired = [counts for counts in units.values() if counts.total() >= 2]
    labels = dict.fromkeys(label for counts in paired for label in counts)
    if len(labels) < 2:
        return None
    counts = np.array([[unit[label] for label in labels] for unit in paired])
    return float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))
