"""How far a difference moves when the same policies play the same tasks again.

The samples of a task are re-runs of a policy on it, so stored samples already hold the run-to-run spread;
runs repeated as a whole hold more of it (another day, another server). What it decides belongs to `delta`.
"""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from while_pipeline.prove.intervals import Floats, noise_band, run_spread
from while_pipeline.prove.pass_at import OVERALL


def sampling_noise(tasks: pl.DataFrame, level: float = 0.95) -> float:
    """Half-width of the band in which the mean difference over tasks stays about its expectation.

    That is what playing the same policies on the same tasks can make of it: for two equal policies, how far
    apart they come out.

    The variance of the mean over n tasks is the mean of the tasks' variances over n, as the tasks stay the
    same. Where the samples of both arms go by the same numbers, a task's variance is that of the differences
    sample by sample: with common random numbers they move together, and re-runs move less than two separate
    draws would. Elsewhere the arms' variances add up. Degrees of freedom are Welch and Satterthwaite's, and
    the quantile is t's.

    Args:
        tasks: One row per task, with `n_before`, `n_after` (known samples), `c_before`, `c_after` (those that
            passed), `pairs` (samples known in both arms) and `discordant` (pairs that differ).
        level: Share of differences that fall inside.

    Returns:
        The half-width; 0 where samples of a task never differ, NaN where no task has two samples in each arm.
        A task with fewer is taken to vary like the others.
    """
    counts = ("n_before", "n_after", "c_before", "c_after", "pairs", "discordant")
    n_before, n_after, c_before, c_after, pairs, discordant = (
        tasks[name].to_numpy().astype(np.float64) for name in counts
    )
    several = (n_before > 1) & (n_after > 1)
    matched = several & (pairs == n_before) & (pairs == n_after)
    apart = several & ~matched
    shift, of = (c_after - c_before)[matched], pairs[matched]
    components = [
        ((discordant[matched] - shift**2 / of) / (of * (of - 1)), of - 1),
        _of_one_arm(c_before[apart], n_before[apart]),
        _of_one_arm(c_after[apart], n_after[apart]),
    ]
    variances, df = (np.concatenate(column) for column in zip(*components, strict=True))
    known = int(several.sum())
    if known == 0:
        return math.nan
    total = float(variances.sum())
    if total == 0:
        return 0.0
    pooled = total**2 / float((variances**2 / df).sum())
    variance_of_mean = total / known / tasks.height
    # The band is for two runs of one policy, whose variances add up; here their sum is at hand.
    return noise_band(math.sqrt(variance_of_mean / 2), df=pooled, level=level)


def _of_one_arm(passes: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Variance of a task's pass rate between re-runs, and its degrees of freedom."""
    rate = passes / n
    return rate * (1 - rate) / (n - 1), n - 1


def rerun_noise(runs: Sequence[pl.DataFrame], level: float = 0.95) -> dict[str, float]:
    """Half-width of the band in which whole runs of one policy differ, for all tasks and per category.

    Args:
        runs: Per run, one row per rollout: `task_id`, `category` and `passed`, a null being no verdict.
        level: Share of differences between runs that fall inside.

    Returns:
        The half-width by scope, at most 1: rates are no further apart. NaN with fewer than two runs.
    """
    rates: dict[str, list[float]] = {}
    for run in runs:
        tasks = run.group_by("category", "task_id").agg(rate=pl.col("passed").mean()).drop_nulls("rate")
        tasks = tasks.sort("category", "task_id")
        of_scope = {OVERALL: tasks} | {
            str(name): members for (name,), members in tasks.drop_nulls("category").group_by("category")
        }
        for scope, members in of_scope.items():
            rates.setdefault(scope, []).append(float(members["rate"].to_numpy().mean()))
    spreads = {scope: run_spread(found) for scope, found in rates.items()}
    bands = {scope: noise_band(spread.std, df=spread.df, level=level) for scope, spread in spreads.items()}
    return {scope: band if math.isnan(band) else min(1.0, band) for scope, band in bands.items()}
