"""pass@k and pass^k: what a task's graded rollouts say about k attempts at it.

Estimators and the table of their means over tasks belong here. Comparing two policies does not (`delta`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from while_pipeline.prove.intervals import Interval, t_interval, wilson

OVERALL = "overall"
"""Scope of a row over all tasks. Reserved: no task category may have this name."""

Metric = Literal["pass@", "pass^"]

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


def pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> npt.NDArray[np.float64]:
    """Chance that at least one of k attempts passes: 1 - C(n-c, k) / C(n, k).

    Unbiased, unlike 1 - (1 - c/n)^k. Source: Chen et al., "Evaluating Large Language Models Trained on
    Code", arXiv 2107.03374, equation 1.

    Args:
        n: Graded rollouts per task, any shape.
        c: Passes among them, broadcast against `n`.
        k: Attempts, at least 1.

    Returns:
        An array of the broadcast shape; 1 where n - c < k <= n, NaN where n < k.
    """
    return 1.0 - pass_hat_k(n, np.subtract(n, c), k)


def pass_hat_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> npt.NDArray[np.float64]:
    """Chance that all of k attempts pass (pass^k): C(c, k) / C(n, k).

    Unbiased, unlike (c/n)^k. Source: Yao et al., "tau-bench", arXiv 2406.12045.

    Args:
        n: Graded rollouts per task, any shape.
        c: Passes among them, broadcast against `n`.
        k: Attempts, at least 1.

    Returns:
        An array of the broadcast shape; 0 where c < k <= n, NaN where n < k.
    """
    total, passes = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(c, dtype=np.float64))
    # A running product of k factors in [0, 1]: no binomial overflows, and the error stays near k ulp.
    chance = np.where(total >= k, 1.0, np.nan)
    for drawn in range(k):
        chance = chance * np.clip(passes - drawn, 0.0, None) / np.maximum(total - drawn, 1.0)
    return chance


def with_overall(tasks: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Pair each scope with its tasks: `overall` first, then the categories in order.

    Raises:
        ValueError: a category is named like the overall scope.
    """
    categories = tasks.get_column("category").unique().sort().to_list()
    if OVERALL in categories:
        raise ValueError(f"with_overall: category {OVERALL!r} is the name of the scope over all tasks")
    groups = {str(key[0]): group for key, group in tasks.partition_by("category", as_dict=True).items()}
    return [(OVERALL, tasks), *((category, groups[category]) for category in categories)]


def rate_interval(values: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Interval for the mean of per-task values in [0, 1].

    Student t over tasks, cut to [0, 1]. One task, or tasks that all agree, show no spread, and t would
    claim certainty or nothing at all; then it is Wilson with every task counted as one yes-or-no trial.
    That errs on the wide side: a variable in [0, 1] with mean v has a variance of at most v(1 - v).

    Args:
        values: Shape (tasks,).
        level: Confidence level.

    Returns:
        The interval; NaN bounds without tasks.
    """
    rates = np.asarray(values, dtype=np.float64)
    if rates.size == 0 or np.ptp(rates) == 0:
        return wilson(float(rates.sum()), rates.size, level)
    low, high = t_interval(rates, level)
    return Interval(max(low, 0.0), min(high, 1.0))


def pass_table(graded: pl.DataFrame, ks: Sequence[int]) -> pl.DataFrame:
    """Mean pass@k and pass^k over tasks, for all tasks and per category.

    Tasks weigh the same however many rollouts each has; rollouts are never pooled.

    Args:
        graded: One row per rollout: `task_id` str, `category` str, `passed` bool or null. A null is a
            rollout without a verdict: left out and counted.
        ks: Numbers of attempts.

    Returns:
        `PASS_SCHEMA`, one row per scope (`overall`, then the categories sorted), metric (`pass@`, `pass^`)
        and k. `value` is the mean over the `n_tasks` tasks with at least k verdicts, null without one;
        `low` and `high` are `rate_interval` at 95 %; `n_rollouts` are the verdicts of those tasks,
        `n_short` the tasks with fewer than k verdicts, `n_unknown` the scope's rows without a verdict.

    Raises:
        ValueError: a category is named like the overall scope.
    """
    passed = pl.col("passed")
    tasks = (
        graded.group_by("category", "task_id")
        .agg(n=passed.count(), c=passed.sum(), unknown=passed.null_count())
        .sort("category", "task_id")
    )
    metrics: tuple[Metric, ...] = ("pass@", "pass^")
    rows = [
        _row(scope, metric, k, members)
        for scope, members in with_overall(tasks)
        for metric in metrics
        for k in ks
    ]
    return pl.DataFrame(rows, schema=PASS_SCHEMA)


def _row(scope: str, metric: Metric, k: int, tasks: pl.DataFrame) -> _Row:
    enough = tasks.filter(pl.col("n") >= k)
    estimator = pass_at_k if metric == "pass@" else pass_hat_k
    values = estimator(enough["n"].to_numpy(), enough["c"].to_numpy(), k)
    known = values.size > 0
    interval = rate_interval(values)
    return _Row(
        scope=scope,
        metric=metric,
        k=k,
        value=float(values.mean()) if known else None,
        low=interval.low if known else None,
        high=interval.high if known else None,
        n_tasks=enough.height,
        n_rollouts=int(enough["n"].sum()),
        n_unknown=int(tasks["unknown"].sum()),
        n_short=tasks.height - enough.height,
    )
