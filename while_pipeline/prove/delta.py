"""The delta report: one verdict on before and after for all tasks and for each category.

Pairing, comparability and verdicts belong here; the statistics themselves live in `intervals` and `power`.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from while_pipeline.prove.intervals import (
    Floats,
    Interval,
    holm,
    percentile_bootstrap,
    pseudo_pair_interval,
    sign_flip_p,
    t_interval,
)
from while_pipeline.prove.pass_at import OVERALL, with_overall
from while_pipeline.prove.power import tasks_needed

MAX_UNKNOWN = 0.10
"""Largest share of an arm's rows without a verdict: the limit for labels that a trusted judge skips.
Verdicts go missing most where rollouts go wrong, so what is left of a larger gap speaks for nobody."""

SMALLEST_EFFECT = 0.05
"""Effect that `tasks_needed` plans for when neither the data nor `min_effect` names a larger one."""

_LATTICE = 240
"""Common denominator for the sign-flip test when unknowns make the tasks' own common multiple larger: a
multiple of 2 to 6, 8, 10, 12, 15 and 16. Finer ones cost seconds at 10,000 tasks and decide nothing."""


class Verdict(StrEnum):
    """What a row of the delta report says."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no_difference"
    INSIDE_NOISE = "inside_noise"
    NOT_COMPARABLE = "not_comparable"
    TOO_FEW = "too_few"


DELTA_SCHEMA = pl.Schema(
    {
        "scope": pl.String(),
        "n_tasks": pl.Int64(),
        "k": pl.Int64(),
        "before": pl.Float64(),
        "after": pl.Float64(),
        "difference": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "t_low": pl.Float64(),
        "t_high": pl.Float64(),
        "percentile_low": pl.Float64(),
        "percentile_high": pl.Float64(),
        "p_sign_flip": pl.Float64(),
        "p_adjusted": pl.Float64(),
        "n_changed": pl.Int64(),
        "n_unknown": pl.Int64(),
        "tasks_needed": pl.Int64(),
        "verdict": pl.String(),
        "reason": pl.String(),
    }
)
"""Columns of `paired_delta`; all but `scope`, `n_tasks`, `n_unknown`, `verdict` and `reason` may be null."""


@dataclass(frozen=True)
class _Rules:
    """What a difference must show; the parameters of `paired_delta`."""

    level: float
    min_changed: int
    min_effect: float
    looks: int
    noise: float | None

    @property
    def alpha(self) -> float:
        return 1 - self.level

    def changed_needed(self, scope: str) -> int:
        """Fewest changed tasks that can be significant: m of them give a p of 2 / 2^m at best."""
        tests = self.looks if scope == OVERALL else 1
        return max(self.min_changed, math.floor(math.log2(2 * tests / self.alpha)) + 1)


@dataclass(frozen=True)
class _Statistics:
    """What the pairs of one comparable scope show; NaN or None where undefined at this size."""

    n_tasks: int
    k: int
    before: float
    after: float
    difference: float
    pseudo_pair: Interval
    t: Interval
    percentile: Interval
    p_sign_flip: float
    n_changed: int
    tasks_needed: int | None


def paired_delta(
    trials: pl.DataFrame,
    *,
    level: float = 0.95,
    min_changed: int = 6,
    min_effect: float = 0.0,
    looks: int = 1,
    noise: float | None = None,
) -> pl.DataFrame:
    """Compare two policies on the same tasks, over all tasks and per category.

    A task's value is its pass rate over known verdicts; the difference is after minus before; every
    interval is over tasks. A task without a known verdict in one arm leaves the pairs.

    Verdicts, first match wins:
        not_comparable: another judge, other tasks, another customer, or missing rows (an empty arm, uneven
            rows per task within an arm, or over `MAX_UNKNOWN` of an arm's rows without a verdict). Arms may
            differ in k.
        too_few: some tasks changed, or fewer tasks are there at all, but not as many as `min_changed` and
            significance need.
        better: the interval lies above 0, `p_adjusted` is below 1 - level, and the difference is at least
            `min_effect` and outside the noise. `worse` is its mirror image.
        inside_noise: as better or worse, but the difference is within `noise`.
        no_difference: anything else.

    `p_adjusted` of the overall row is the sign-flip p times `looks` (Bonferroni). The categories guard
    against regressions, so looks do not soften them; they are corrected together by Holm. Categories with
    too few changed tasks stay out of that family and have none: the test is conditional on the sizes of the
    differences, so leaving out by their number costs no error rate and spares the guards' power.

    Args:
        trials: One row per rollout: `task_id` str, `category` str, `arm` str (`before` or `after`),
            `sample` int, `passed` bool or null (no verdict), `judge` str and `customer` str (hashes of
            their settings).
        level: Confidence level of the intervals, and 1 - the significance level.
        min_changed: Fewest tasks with a non-zero difference for better or worse.
        min_effect: Smallest difference of pass rates for better or worse.
        looks: How often these tasks have been looked at, this time included.
        noise: Half-width of the noise band from re-runs (`intervals.noise_band`); None when never measured.

    Returns:
        `DELTA_SCHEMA`: `overall` first, then the categories sorted. Intervals lie within [-1, 1]: `low` and
        `high` with pseudo-pairs, which decide, beside plain t and the percentile bootstrap, which do not
        and are null below 2 tasks. `k` is the fewest known verdicts of a task in either arm. `n_unknown`
        counts rows. `tasks_needed` gives 80 % power at the observed spread of the differences for the
        largest of `min_effect`, the observed difference and `SMALLEST_EFFECT`; null when nothing varies.

    Raises:
        ValueError: a category is named like the overall scope.
    """
    rules = _Rules(level, min_changed, min_effect, looks, noise)
    scopes = with_overall(_by_task(trials))
    causes = {scope: _incomparable(tasks) for scope, tasks in scopes}
    measured = {scope: _measure(scope, tasks, rules) for scope, tasks in scopes if causes[scope] is None}
    adjusted = _adjust(measured, rules)
    rows = [
        _row(scope, tasks, measured[scope], adjusted[scope], rules)
        if cause is None
        else _row_not_comparable(scope, tasks, cause)
        for (scope, tasks), cause in zip(scopes, causes.values(), strict=True)
    ]
    return pl.DataFrame(rows, schema=DELTA_SCHEMA).with_columns(cs.float().fill_nan(None))


def promotable(delta: pl.DataFrame) -> tuple[bool, str]:
    """Whether a delta report lets the candidate serve, and why in one sentence.

    The overall verdict must be better, and no category worse. A category that is not comparable blocks as
    well: it was measured, and cannot be said to hold. One with too few tasks does not block.

    Args:
        delta: What `paired_delta` returned.
    """
    overall = delta.row(by_predicate=pl.col("scope") == OVERALL, named=True)
    if overall["verdict"] != Verdict.BETTER:
        return False, f"Not promoted: overall is {overall['verdict']} ({overall['reason']})."
    blocking = delta.filter(pl.col("verdict").is_in([Verdict.WORSE, Verdict.NOT_COMPARABLE]))
    if blocking.height:
        named = "; ".join(
            f"{scope} is {verdict} ({reason})"
            for scope, verdict, reason in blocking.select("scope", "verdict", "reason").iter_rows()
        )
        return False, f"Not promoted: overall is better ({overall['reason']}), but {named}."
    return True, f"Promoted: overall is better ({overall['reason']}) and no category is worse."


def _by_task(trials: pl.DataFrame) -> pl.DataFrame:
    """Fold rollouts to one row per task: rows, known verdicts and passes of each arm."""
    counts = [
        expression.alias(f"{name}_{arm}")
        for arm in ("before", "after")
        for name, expression in (
            ("rows", (pl.col("arm") == arm).sum()),
            ("n", (pl.col("passed").is_not_null() & (pl.col("arm") == arm)).sum()),
            ("c", (pl.col("passed") & (pl.col("arm") == arm)).sum()),
        )
    ]
    return (
        trials.group_by("category", "task_id")
        .agg(
            *(count.cast(pl.Int64) for count in counts),
            judges=pl.col("judge").n_unique(),
            customers=pl.col("customer").n_unique(),
        )
        .sort("category", "task_id")
    )


def _pairs(tasks: pl.DataFrame) -> pl.DataFrame:
    return tasks.filter(pl.min_horizontal("n_before", "n_after") > 0)


def _unknown(tasks: pl.DataFrame) -> int:
    return sum(int((tasks[f"rows_{arm}"] - tasks[f"n_{arm}"]).sum()) for arm in ("before", "after"))


def _incomparable(tasks: pl.DataFrame) -> str | None:
    """Say why the arms cannot be compared, or None when they can."""
    for column, name in (("judges", "judge"), ("customers", "customer")):
        mixed = tasks.filter(pl.col(column) > 1).height
        if mixed:
            return f"other {name}: {mixed} of {tasks.height} tasks have more than one {name}"
    rows = {arm: tasks.get_column(f"rows_{arm}") for arm in ("before", "after")}
    for arm, counts in rows.items():
        if counts.sum() == 0:
            return f"missing rows: none {arm}"
    absent = {arm: int((counts == 0).sum()) for arm, counts in rows.items()}
    if any(absent.values()):
        return f"other tasks: {absent['after']} only before, {absent['before']} only after"
    for arm, counts in rows.items():
        sizes = counts.unique().sort().to_list()
        if len(sizes) > 1:
            return f"missing rows: {sizes[0]} to {sizes[-1]} rows per task {arm}"
        total = int(counts.sum())
        unknown = total - int(tasks[f"n_{arm}"].sum())
        if unknown > MAX_UNKNOWN * total:
            return f"missing rows: {unknown} of {total} {arm} have no verdict, {MAX_UNKNOWN:.0%} may"
    return None


def _measure(scope: str, tasks: pl.DataFrame, rules: _Rules) -> _Statistics:
    pairs = _pairs(tasks)
    n_before, n_after = pairs["n_before"].to_numpy(), pairs["n_after"].to_numpy()
    before, after = pairs["c_before"].to_numpy() / n_before, pairs["c_after"].to_numpy() / n_after
    # Equal fractions divide to equal floats, so "unchanged" is exact even where denominators differ.
    d = after - before
    k = int(min(n_before.min(), n_after.min()))
    denominator = math.lcm(*np.unique(np.concatenate((n_before, n_after))).tolist())
    difference = float(d.mean())
    return _Statistics(
        n_tasks=d.size,
        k=k,
        before=float(before.mean()),
        after=float(after.mean()),
        difference=difference,
        pseudo_pair=_as_difference(pseudo_pair_interval(d, k, rules.level)),
        t=_as_difference(t_interval(d, rules.level)),
        percentile=percentile_bootstrap(d, level=rules.level),
        p_sign_flip=sign_flip_p(d, min(denominator, _LATTICE)),
        n_changed=int(np.count_nonzero(d)),
        tasks_needed=_plan(scope, d, difference, rules),
    )


def _plan(scope: str, d: Floats, difference: float, rules: _Rules) -> int | None:
    variance = float(d.var(ddof=1)) if d.size > 1 else 0.0
    if variance == 0:
        return None
    effect = max(rules.min_effect, abs(difference), SMALLEST_EFFECT)
    # The variance of the differences already holds both arms' sampling noise: it stands for all three terms.
    planned = tasks_needed(
        effect, omega2=variance, sigma2_a=0.0, sigma2_b=0.0, k_a=1, k_b=1, alpha=rules.alpha
    )
    return max(planned, rules.changed_needed(scope))


def _as_difference(interval: Interval) -> Interval:
    """Cut to what a difference of two rates can be; NaN stays NaN."""
    low, high = np.clip(interval, -1.0, 1.0).tolist()
    return Interval(low, high)


def _adjust(measured: dict[str, _Statistics], rules: _Rules) -> dict[str, float | None]:
    """Adjusted p per scope; None for a category with too few changed tasks to be tested."""
    tested = [
        scope
        for scope, found in measured.items()
        if scope != OVERALL and found.n_changed >= rules.changed_needed(scope)
    ]
    adjusted: dict[str, float | None] = dict.fromkeys(measured)
    adjusted.update(
        zip(tested, holm([measured[scope].p_sign_flip for scope in tested]).tolist(), strict=True)
    )
    if OVERALL in measured:
        adjusted[OVERALL] = min(1.0, measured[OVERALL].p_sign_flip * rules.looks)
    return adjusted


def _decide(scope: str, found: _Statistics, p: float | None, rules: _Rules) -> tuple[Verdict, str]:
    """Give the verdict of a comparable scope, with its figures."""
    needed = rules.changed_needed(scope)
    if found.n_tasks < needed:
        return Verdict.TOO_FEW, f"{found.n_tasks} tasks; at least {needed} are needed"
    if 0 < found.n_changed < needed:
        enough = math.ceil(needed * found.n_tasks / found.n_changed)
        return Verdict.TOO_FEW, (
            f"{found.n_changed} of {found.n_tasks} tasks changed, {needed} must: "
            f"about {enough} tasks are needed at this rate"
        )
    if p is None or found.n_changed == 0:
        return Verdict.NO_DIFFERENCE, f"none of {found.n_tasks} tasks changed"
    low, high = found.pseudo_pair
    figures = (
        f"{found.difference:+.3f} [{low:+.3f}, {high:+.3f}] over {found.n_tasks} tasks, "
        f"{found.n_changed} changed, adjusted sign-flip p {p:.3g}"
    )
    if low <= 0 <= high:
        return Verdict.NO_DIFFERENCE, f"{figures}; the interval holds 0"
    if p >= rules.alpha:
        return Verdict.NO_DIFFERENCE, f"{figures}; p is not below {rules.alpha:.3g}"
    if abs(found.difference) < rules.min_effect:
        return Verdict.NO_DIFFERENCE, f"{figures}; smaller than the least effect {rules.min_effect:g}"
    if rules.noise is not None and abs(found.difference) <= rules.noise:
        return Verdict.INSIDE_NOISE, f"{figures}; re-runs alone differ by up to {rules.noise:.3f}"
    return (Verdict.BETTER if low > 0 else Verdict.WORSE), figures


def _row(
    scope: str, tasks: pl.DataFrame, found: _Statistics, p: float | None, rules: _Rules
) -> dict[str, Any]:
    verdict, reason = _decide(scope, found, p, rules)
    return {
        "scope": scope,
        "n_tasks": found.n_tasks,
        "k": found.k,
        "before": found.before,
        "after": found.after,
        "difference": found.difference,
        "low": found.pseudo_pair.low,
        "high": found.pseudo_pair.high,
        "t_low": found.t.low,
        "t_high": found.t.high,
        "percentile_low": found.percentile.low,
        "percentile_high": found.percentile.high,
        "p_sign_flip": found.p_sign_flip,
        "p_adjusted": p,
        "n_changed": found.n_changed,
        "n_unknown": _unknown(tasks),
        "tasks_needed": found.tasks_needed,
        "verdict": verdict.value,
        "reason": reason,
    }


def _row_not_comparable(scope: str, tasks: pl.DataFrame, cause: str) -> dict[str, Any]:
    """Show each arm's own rate and no difference: a number would be read as one."""
    rates = {
        arm: (tasks[f"c_{arm}"] / tasks[f"n_{arm}"]).fill_nan(None).mean() for arm in ("before", "after")
    }
    return {
        "scope": scope,
        "n_tasks": _pairs(tasks).height,
        **rates,
        "n_unknown": _unknown(tasks),
        "verdict": Verdict.NOT_COMPARABLE.value,
        "reason": cause,
    }
