"""pass@k, pass^k and headroom: what a task's graded rollouts say about k attempts at it.

Estimators and the table of their means over tasks belong here. Comparing two policies does not (`delta`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from while_pipeline.prove.checked import at_least, finite, whole
from while_pipeline.prove.intervals import Floats, Interval, score_interval, t_quantile, wilson

OVERALL = "overall"
"""Scope of a row over all tasks. Reserved: no task category may have this name."""

Metric = Literal["pass@", "pass^", "headroom"]

PASS_SCHEMA = pl.Schema(
    {
        "scope": pl.String(),
        "metric": pl.String(),
        "k": pl.Int64(),
        "value": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "n_tasks": pl.Int64(),
        "n_rollouts": pl.Int64(),
        "n_unknown": pl.Int64(),
        "n_short": pl.Int64(),
    }
)
"""Columns of `pass_table`."""


_ROUNDING = 1e-12


@dataclass(frozen=True)
class _Row:
    """One row of `pass_table`."""

    scope: str
    metric: Metric
    k: int
    value: float | None
    low: float | None
    high: float | None
    n_tasks: int
    n_rollouts: int
    n_unknown: int
    n_short: int


def pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> Floats:
    """Chance that at least one of k attempts passes: 1 - C(n-c, k) / C(n, k).

    Unbiased, unlike 1 - (1 - c/n)^k. Source: Chen et al., "Evaluating Large Language Models Trained on
    Code", arXiv 2107.03374, equation 1.

    Args:
        n: Graded rollouts per task, any shape; tasks may differ.
        c: Passes among them, broadcast against `n`.
        k: Attempts, at least 1.

    Returns:
        An array of the broadcast shape, empty for no task; 1 where n - c < k <= n, NaN where n < k.

    Raises:
        ValueError: a count is NaN, infinite or no whole number, c is not from 0 to n, or k is below 1.
    """
    total, passes = _checked("pass_at_k", n, c, k)
    return 1.0 - _all_drawn(total, total - passes, k)


def pass_hat_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> Floats:
    """Chance that all of k attempts pass (pass^k): C(c, k) / C(n, k).

    Unbiased, unlike (c/n)^k. Source: Yao et al., "tau-bench", arXiv 2406.12045.

    Args:
        n: Graded rollouts per task, any shape; tasks may differ.
        c: Passes among them, broadcast against `n`.
        k: Attempts, at least 1.

    Returns:
        An array of the broadcast shape, empty for no task; 0 where c < k <= n, NaN where n < k.

    Raises:
        ValueError: a count is NaN, infinite or no whole number, c is not from 0 to n, or k is below 1.
    """
    return _all_drawn(*_checked("pass_hat_k", n, c, k), k)


def headroom(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> Floats:
    """Gain of the best of k attempts over one: pass@k - pass@1.

    What choosing among k answers would add at once, and what training on the chosen ones can hope for. A
    task that always or never passes has none.

    Args:
        n: Graded rollouts per task, any shape; tasks may differ.
        c: Passes among them, broadcast against `n`.
        k: Attempts, at least 1; 1 leaves no choice, and 0 is the answer.

    Returns:
        An array of the broadcast shape, values in [0, 1), empty for no task; NaN where n < k.

    Raises:
        ValueError: a count is NaN, infinite or no whole number, c is not from 0 to n, or k is below 1.
    """
    total, passes = _checked("headroom", n, c, k)
    missed = total - passes
    return _all_drawn(total, missed, 1) - _all_drawn(total, missed, k)


def _with_overall(tasks: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Pair each scope with its tasks: `overall` first, then the categories in order.

    Raises:
        ValueError: a category is named like the overall scope.
    """
    categories = tasks.get_column("category").unique().sort().to_list()
    if OVERALL in categories:
        raise ValueError(f"pass_table: category {OVERALL!r} is the name of the scope over all tasks")
    groups = {str(key[0]): group for key, group in tasks.partition_by("category", as_dict=True).items()}
    return [(OVERALL, tasks), *((category, groups[category]) for category in categories)]


def rate_interval(values: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Interval for the mean of per-task values in [0, 1].

    Wilson's with the number of yes-or-no trials that would have the variance seen between tasks, v(1 - v)/SE²
    at mean v, and the t quantile since that variance is itself estimated: Dean and Pagano, "Evaluating
    Confidence Interval Methods for Binomial Proportions in Clustered Surveys" (2015). It lies within [0, 1]
    by itself, and holds near the ends, where t around the mean does not: see docs/calibration.md.

    One task, or tasks that all agree, show no variance; then every task counts as one trial. That errs on
    the wide side: a variable in [0, 1] with mean v has a variance of at most v(1 - v).

    Args:
        values: Shape (tasks,).
        level: Confidence level.

    Returns:
        The interval; NaN bounds without tasks.

    Raises:
        ValueError: a value is NaN or outside [0, 1], or the level is none.
    """
    rates = finite("rate_interval", "value", values, low=0, high=1)
    n = rates.size
    # Equal estimates from unequal n (1 of 6 and 2 of 10 at k = 4) can differ by rounding.
    if n == 0 or np.ptp(rates) < _ROUNDING:
        return wilson(float(rates.sum()), n, level)
    mean = float(rates.mean())
    trials = mean * (1 - mean) * n / float(rates.var(ddof=1))
    return score_interval(mean, trials, t_quantile(n - 1, level))


def pass_table(graded: pl.DataFrame, ks: Sequence[int]) -> pl.DataFrame:
    """Mean pass@k, pass^k and headroom over tasks, for all tasks and per category.

    Tasks weigh the same however many rollouts each has; rollouts are never pooled.

    Args:
        graded: One row per rollout: `task_id` str, `category` str, `passed` bool or null. A null is a
            rollout without a verdict: left out and counted.
        ks: Numbers of attempts.

    Returns:
        `PASS_SCHEMA`, one row per scope (`overall`, then the categories sorted), metric (`pass@`, `pass^`,
        `headroom`) and k, but no headroom at k = 1, where it is nothing. `value` is the mean over the
        `n_tasks` tasks with at least k verdicts, null without one; `low` and `high` are `rate_interval` at
        95 %; `n_rollouts` are the verdicts of those tasks, `n_short` the tasks with fewer than k verdicts,
        `n_unknown` the scope's rows without a verdict.

    Raises:
        ValueError: a category is named like the overall scope; a task has no id or no category, or several
            categories; `passed` is no boolean; a k is below 1.
    """
    if graded.schema["passed"] not in (pl.Boolean, pl.Null):
        raise ValueError(f"pass_table: passed is {graded.schema['passed']}, expected booleans or null")
    passed = pl.col("passed").cast(pl.Boolean)
    tasks = (
        graded.group_by("category", "task_id")
        .agg(n=passed.count(), c=passed.sum(), unknown=passed.null_count())
        .sort("category", "task_id")
    )
    _refuse_unnamed(tasks)
    rows = [
        _row(counts, metric, k)
        for counts in (_Counts.of(scope, members) for scope, members in _with_overall(tasks))
        for metric in _ESTIMATORS
        for k in ks
        if metric != "headroom" or k > 1
    ]
    return pl.DataFrame(rows, schema=PASS_SCHEMA)


_ESTIMATORS: dict[Metric, Callable[[npt.ArrayLike, npt.ArrayLike, int], Floats]] = {
    "pass@": pass_at_k,
    "pass^": pass_hat_k,
    "headroom": headroom,
}


def _checked(function: str, n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> tuple[Floats, Floats]:
    at_least(function, "k", k, 1)
    total, passes = np.broadcast_arrays(whole(function, "n", n), whole(function, "c", c))
    over = np.flatnonzero(passes > total)
    if over.size:
        place = over[0]
        most = f"expected at most its n of {total.flat[place]:g}"
        raise ValueError(f"{function}: c {place} is {passes.flat[place]:g}, {most}")
    return total, passes


def _all_drawn(total: Floats, marked: Floats, k: int) -> Floats:
    """Chance that k draws without replacement from `total` are all `marked`; NaN where total < k."""
    # A running product of k factors in [0, 1]: no binomial overflows, and the error stays near k ulp.
    chance = np.where(total >= k, 1.0, np.nan)
    for drawn in range(k):
        chance = chance * np.clip(marked - drawn, 0.0, None) / np.maximum(total - drawn, 1.0)
    return chance


def _refuse_unnamed(tasks: pl.DataFrame) -> None:
    """Every interval is over tasks, so each must be one task, once."""
    for column in ("task_id", "category"):
        if tasks[column].null_count():
            raise ValueError(f"pass_table: {column} is null, expected a name in every row")
    twice = tasks.filter(pl.col("task_id").is_duplicated())
    if twice.height:
        raise ValueError(
            f"pass_table: task {twice['task_id'][0]!r} is in the categories "
            f"{', '.join(twice.filter(task_id=twice['task_id'][0])['category'])}, expected one"
        )


@dataclass(frozen=True)
class _Counts:
    """The tasks of a scope, those with the same counts together: few are different, however many tasks."""

    scope: str
    n: Floats
    """Verdicts per task, one per group of like tasks."""
    c: Floats
    """Passes among them."""
    tasks: npt.NDArray[np.int64]
    """How many tasks are alike."""
    n_unknown: int

    @classmethod
    def of(cls, scope: str, tasks: pl.DataFrame) -> "_Counts":
        alike = tasks.group_by("n", "c").len("tasks").sort("n", "c").cast({"tasks": pl.Int64})
        n, c = (alike[name].cast(pl.Float64).to_numpy() for name in ("n", "c"))
        return cls(scope, n, c, alike["tasks"].to_numpy(), int(tasks["unknown"].sum()))


def _row(counts: _Counts, metric: Metric, k: int) -> _Row:
    enough = counts.n >= k
    n, tasks = counts.n[enough], counts.tasks[enough]
    values = np.repeat(_ESTIMATORS[metric](n, counts.c[enough], k), tasks)
    known = values.size > 0
    interval = rate_interval(values)
    return _Row(
        scope=counts.scope,
        metric=metric,
        k=k,
        value=float(values.mean()) if known else None,
        low=interval.low if known else None,
        high=interval.high if known else None,
        n_tasks=values.size,
        n_rollouts=int(n @ tasks),
        n_unknown=counts.n_unknown,
        n_short=int(counts.tasks.sum()) - values.size,
    )
