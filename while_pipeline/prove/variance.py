"""Where the variance of a result comes from: the tasks, or the luck within a task.

Decompositions of rollouts by task belong here, and the standard error that follows from them. Intervals and
tests do not (`intervals`), nor how many tasks the parts call for (`power`).
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from while_pipeline.prove.checked import finite, whole
from while_pipeline.prove.intervals import Floats


class VarianceSplit(NamedTuple):
    """Population variances (ddof 0): `total = within + between`."""

    total: float
    within: float
    """E[Var(reward | task)], rows weighted equally: all the gradient there is."""
    between: float
    """Var(E[reward | task]): how much the tasks differ in difficulty."""


class VarianceComponents(NamedTuple):
    """Unbiased estimates, tasks weighted equally; NaN where the rows cannot tell."""

    within: float
    """σ²: variance of one rollout of a task, the mean over tasks."""
    between: float
    """Variance of the tasks' true means. The luck of the k rollouts is taken out of the spread of the
    measured means, so it may come out below 0 where tasks hardly differ."""
    error: float
    """Standard error of the mean over tasks. Rollouts of one task are no independent evidence: the error over
    pooled rollouts is too small wherever tasks differ."""
    n_tasks: int

    @property
    def sentence(self) -> str:
        """Say it for people."""
        if self.n_tasks == 1:
            return "A single task cannot show what lies between tasks."
        if math.isnan(self.within):
            return "No task has 2 rollouts, so nothing tells luck from the task."
        luck, tasks = self.within, max(self.between, 0.0)
        if luck + tasks == 0:
            return f"Nothing varied, neither between the {self.n_tasks} tasks nor within one."
        return (
            f"Of the variance of a single rollout {luck / (luck + tasks):.0%} is luck within a task and "
            f"{tasks / (luck + tasks):.0%} lies between tasks; the mean over {self.n_tasks} tasks has a "
            f"standard error of {self.error:.3f}."
        )


class Counts(NamedTuple):
    """Verdicts of one arm, task by task."""

    n: npt.ArrayLike
    """Verdicts per task, shape (tasks,), each at least 1; tasks may differ."""
    c: npt.ArrayLike
    """Passes among them, shape (tasks,)."""


class PairedComponents(NamedTuple):
    """What makes paired differences of pass rates vary; the terms of Miller's formula (`power`)."""

    omega2: float
    """ω²: variance over tasks of the true difference."""
    sigma2_a: float
    """σ²_A: mean variance of one sample within a task, before."""
    sigma2_b: float
    """σ²_B: the same after."""


def variance_split(reward: pl.Series, task: pl.Series) -> VarianceSplit | None:
    """Split the variance of a reward into within and between tasks (the law of total variance, ddof 0).

    Tasks of unequal size count by their rows. One task has nothing between; equal rewards split to zeros.

    Args:
        reward: One number or null per rollout. A null is no reward: the row is left out.
        task: The rollout's task.

    Returns:
        The split; None when no row is left.

    Raises:
        ValueError: a reward is NaN or infinite.
    """
    rows = _rows("variance_split", reward, task)
    if rows.is_empty():
        return None
    mean, of_task = pl.col("reward").mean(), pl.col("reward").mean().over("task")
    squares = ((pl.col("reward") - mean) ** 2, (pl.col("reward") - of_task) ** 2, (of_task - mean) ** 2)
    return VarianceSplit(*rows.select(part.mean().alias(str(i)) for i, part in enumerate(squares)).row(0))


def variance_components(reward: pl.Series, task: pl.Series) -> VarianceComponents | None:
    """Estimate the variance of rollouts within a task and of true means between tasks, without bias.

    With s² the variance of a task's rollouts (n - 1) and k their number: within is the mean of s², between
    the variance of the task means (n - 1) less the mean of s²/k. Source: one-way analysis of variance; the
    standard error is the one clustered by task of Miller, "Adding Error Bars to Evals", arXiv 2411.00640.

    Args:
        reward: One number or null per rollout. A null is no reward: the row is left out.
        task: The rollout's task. Tasks may differ in size; one of a single rollout has no s² of its own and
            gets the others' mean.

    Returns:
        The components; `within` and `between` are NaN when no task has 2 rollouts, `between` and `error` when
        there is one task only. None when no row is left.

    Raises:
        ValueError: a reward is NaN or infinite.
    """
    rows = _rows("variance_components", reward, task)
    if rows.is_empty():
        return None
    column = pl.col("reward")
    tasks = rows.group_by("task").agg(mean=column.mean(), s2=column.var(), k=pl.len()).sort("task")
    luck, noise = _luck(tasks["s2"].to_numpy(), tasks["k"].cast(pl.Float64).to_numpy())
    spread = float(tasks["mean"].to_numpy().var(ddof=1)) if tasks.height > 1 else math.nan
    return VarianceComponents(luck, spread - noise, math.sqrt(spread / tasks.height), tasks.height)


def paired_components(before: Counts, after: Counts) -> PairedComponents | None:
    """Take the spread of paired differences apart into tasks and luck, from measured trials.

    ω² is the variance of the differences (n - 1) less both arms' luck, s²/k; 0 when luck explains more than
    all. Where the arms share their luck (common random numbers) the differences vary less than the sum of
    the two says, and a plan made from these parts asks for too many tasks rather than too few.

    Args:
        before: Verdicts and passes of the first arm.
        after: The same tasks in the same order, second arm; numbers of samples may differ.

    Returns:
        The components; None with fewer than 2 tasks, or where no task of an arm has 2 samples, since one
        sample a task cannot tell luck from the task.

    Raises:
        ValueError: the arms have other numbers of tasks, or a count is NaN, no whole number or impossible.
    """
    (rate_a, k_a), (rate_b, k_b) = _rates(before), _rates(after)
    if rate_a.size != rate_b.size:
        raise ValueError(f"paired_components: {rate_a.size} tasks before, {rate_b.size} after")
    if rate_a.size < 2 or k_a.max() < 2 or k_b.max() < 2:
        return None
    sigma2_a, noise_a = _luck(_sample_variance(rate_a, k_a), k_a)
    sigma2_b, noise_b = _luck(_sample_variance(rate_b, k_b), k_b)
    spread = float(np.var(rate_b - rate_a, ddof=1))
    return PairedComponents(max(0.0, spread - noise_a - noise_b), sigma2_a, sigma2_b)


def _sample_variance(rate: Floats, k: Floats) -> Floats:
    """s² of k yes-or-no samples (k - 1); what stands where k = 1 means nothing, and `_luck` does not look."""
    return rate * (1 - rate) * k / np.maximum(k - 1, 1)


def _luck(s2: Floats, k: Floats) -> tuple[float, float]:
    """Mean of s² over tasks, and of s²/k; both NaN when no task has 2 rollouts."""
    known = k >= 2
    if not known.any():
        return math.nan, math.nan
    within = float(s2[known].mean())
    return within, float((np.where(known, s2, within) / k).mean())


def _rates(arm: Counts) -> tuple[Floats, Floats]:
    n = whole("paired_components", "n", arm.n, low=1)
    c = whole("paired_components", "c", arm.c)
    return finite("paired_components", "pass rate", c / n, low=0, high=1), n


def _rows(function: str, reward: pl.Series, task: pl.Series) -> pl.DataFrame:
    rows = pl.DataFrame({"task": task, "reward": reward.cast(pl.Float64)}).drop_nulls("reward")
    finite(function, "reward", rows["reward"].to_numpy())
    return rows
