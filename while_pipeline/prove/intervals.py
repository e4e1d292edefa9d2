"""Intervals, exact p-values and corrections: small pure functions over numbers.

Nothing here knows what a task or a policy is; verdicts belong to `delta`, planning to `power`.

An undefined answer is NaN throughout, never 0 or 1. NaN or infinity among the values is an error that names
the function, the place and the value: a statistic of what nobody measured is none.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from while_pipeline.prove.checked import at_least, finite, inside

Floats = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A closed interval; both bounds NaN where it is undefined."""

    low: float
    high: float


UNDEFINED = Interval(math.nan, math.nan)

_CELLS = 1 << 22
"""Counts that the bootstrap holds at once: 32 MiB, however many values differ."""

_NEXT_TO_IMPOSSIBLE = 1e-30
"""Cut from a law: a million such values, 240 times over, stay far below the last digit of its middle."""


class RunSpread(NamedTuple):
    """Standard deviation between re-runs of one policy, and its degrees of freedom."""

    std: float
    df: float


def wilson(c: float, n: int, level: float = 0.95) -> Interval:
    """Wilson score interval for a rate. Source: Wilson (1927); `scipy.stats.binomtest` agrees.

    Args:
        c: Successes, 0 to n; a fraction is allowed (a mean of n values in [0, 1], times n).
        n: Trials.
        level: Confidence level.

    Returns:
        The interval within [0, 1], exactly 0 below when c = 0 and exactly 1 above when c = n; NaN when n = 0.

    Raises:
        ValueError: c is NaN or outside 0 to n, or the level is none.
    """
    finite("wilson", "count", c, low=0, high=n)
    inside("wilson", "level", level)
    if n == 0:
        return UNDEFINED
    low, high = score_interval(c / n, n, float(special.ndtri((1 + level) / 2)))
    return Interval(0.0 if c == 0 else low, 1.0 if c == n else high)


def score_interval(rate: float, trials: float, quantile: float) -> Interval:
    """Rates p with |rate - p| within `quantile` standard errors √(p(1 - p)/trials): Wilson's inversion.

    Args:
        rate: Observed, in [0, 1].
        trials: Yes-or-no trials, or what many the data are worth; above 0.
        quantile: Of the standard normal, or of Student t where the standard error is itself estimated.
    """
    square = quantile**2
    centre = (rate * trials + square / 2) / (trials + square)
    half = quantile * math.sqrt(trials * rate * (1 - rate) + square / 4) / (trials + square)
    return Interval(centre - half, centre + half)


def t_interval(d: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Student t interval for the mean of independent values.

    Args:
        d: Shape (n,).
        level: Confidence level.

    Returns:
        The interval; zero width when all values are equal, NaN when n < 2.

    Raises:
        ValueError: a value is NaN or infinite, or the level is none.
    """
    values = finite("t_interval", "value", d)
    inside("t_interval", "level", level)
    if values.size < 2:
        return UNDEFINED
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    half = t_quantile(values.size - 1, level) * error
    mean = float(values.mean())
    return Interval(mean - half, mean + half)


def t_quantile(df: int, level: float) -> float:
    """How many estimated standard errors an interval at `level` reaches to either side (Student t)."""
    return float(special.stdtrit(df, (1 + level) / 2))


def pseudo_pair_interval(d: npt.ArrayLike, k: float, level: float = 0.95) -> Interval:
    """Student t interval over the task differences and two pseudo-tasks at +1/√k and -1/√k.

    The pseudo-tasks keep the interval honest where few tasks changed and the sample variance is far too
    small. At k = 1 it is Bonett and Price (2012) with a t quantile. The centre is the mean shrunk by
    n / (n + 2), and there are n + 1 degrees of freedom. What it covers in simulation, and its soft spot (rare
    large jumps at k >= 4), is in docs/calibration.md.

    Args:
        d: Differences of pass rates, shape (n,).
        k: Samples per task, their harmonic mean where tasks differ; the smaller arm's when arms do.
        level: Confidence level.

    Returns:
        The interval, which may pass ±1 for tiny n; NaN when n = 0.

    Raises:
        ValueError: a difference is NaN or outside -1 to 1, k is below 1, or the level is none.
    """
    values = finite("pseudo_pair_interval", "difference", d, low=-1, high=1)
    at_least("pseudo_pair_interval", "k", k, 1)
    if values.size == 0:
        return UNDEFINED
    pseudo = 1 / math.sqrt(k)
    return t_interval(np.append(values, (pseudo, -pseudo)), level)


def percentile_bootstrap(
    d: npt.ArrayLike, *, seed: int = 0, resamples: int = 10_000, level: float = 0.95
) -> Interval:
    """Percentile bootstrap interval for the mean, for comparison only: too narrow below 30 values.

    A resample is a multinomial draw over the distinct values, which has the same law as drawing n values
    one by one and costs as many numbers as there are distinct values.

    Args:
        d: Shape (n,).
        seed: Decides every draw.
        resamples: Number of resamples.
        level: Confidence level.

    Returns:
        The interval; zero width when all values are equal, NaN when n < 2.

    Raises:
        ValueError: a value is NaN or infinite, there is no resample, or the level is none.
    """
    values, counts = np.unique(finite("percentile_bootstrap", "value", d), return_counts=True)
    at_least("percentile_bootstrap", "resamples", resamples, 1)
    inside("percentile_bootstrap", "level", level)
    n = int(counts.sum())
    if n < 2:
        return UNDEFINED
    rng, at_once = np.random.default_rng(seed), max(1, _CELLS // values.size)
    means = [
        rng.multinomial(n, counts / n, size=min(at_once, resamples - done)) @ values / n
        for done in range(0, resamples, at_once)
    ]
    low, high = np.quantile(np.concatenate(means), ((1 - level) / 2, (1 + level) / 2))
    return Interval(float(low), float(high))


def sign_flip_p(d: npt.ArrayLike, k: int) -> float:
    """Exact two-sided sign-flip p-value of the mean: the share of the 2^n sign patterns at least as extreme.

    Under the null each difference is as likely as its mirror image. The law of the sum is built by
    convolution over the integers d·k, equal sizes together as one binomial, so nothing is sampled. Zero
    differences double both counts and are dropped. With m non-zero values the smallest p is 2 / 2^m. At
    k = 1 it is the exact McNemar test.

    The coins are loaded until the observed sum is the expected one (exponential tilting) and the tail is
    weighed back, so that a tiny p is as exact as a large one: to about 1e-12 of itself.

    Args:
        d: Differences, shape (n,).
        k: Lattice of the differences: d·k is rounded to integers. Samples per task, or a common multiple
            where they differ. A coarser lattice still gives an exact test, of rounded differences: d and
            -d round to mirror images.

    Returns:
        p, at most 1; exactly 1 when no difference is left. Below about 1e-308 it underflows to 0.

    Raises:
        ValueError: a difference is NaN or outside -1 to 1, or k is below 1.
    """
    values = finite("sign_flip_p", "difference", d, low=-1, high=1)
    at_least("sign_flip_p", "k", k, 1)
    scores = np.rint(values * k).astype(np.int64)
    sizes, counts = np.unique(np.abs(scores[scores != 0]), return_counts=True)
    if not scores.sum():
        return 1.0
    divisor = int(np.gcd.reduce(sizes))
    sizes //= divisor
    # The sum of the flipped values is 2·S - total, where S adds up the sizes whose sign came up positive.
    total = int(sizes @ counts)
    observed = abs(int(scores.sum())) // divisor
    if observed == total:
        return 2.0 * 0.5 ** int(counts.sum())
    return _coin_tail(sizes, counts, (total + observed) // 2)


def holm(p: npt.ArrayLike) -> Floats:
    """Holm's step-down adjustment, for claims that must all hold. Source: Holm (1979).

    Args:
        p: Shape (m,).

    Returns:
        Adjusted p-values in the order given, at most 1; empty for an empty input.

    Raises:
        ValueError: a p is NaN or outside 0 to 1. An untested claim has no p and is left out beforehand.
    """
    values = finite("holm", "p", p, low=0, high=1)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(values.size, 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return adjusted


def benjamini_hochberg(p: npt.ArrayLike) -> Floats:
    """Benjamini and Hochberg's false-discovery adjustment (1995), for exploration only.

    Args:
        p: Shape (m,).

    Returns:
        Adjusted p-values in the order given, at most 1; empty for an empty input.

    Raises:
        ValueError: a p is NaN or outside 0 to 1.
    """
    values = finite("benjamini_hochberg", "p", p, low=0, high=1)
    return np.asarray(stats.false_discovery_control(values), dtype=np.float64) if values.size else values


def run_spread(*runs: npt.ArrayLike) -> RunSpread:
    """Pool the spread between re-runs over policies.

    Args:
        runs: Per policy, the scores of its re-runs, shape (runs,). A policy with one run or none adds
            nothing.

    Returns:
        The pooled standard deviation (n - 1 in each policy) and its degrees of freedom; NaN and 0 when no
        policy was run twice.

    Raises:
        ValueError: a score is NaN or infinite.
    """
    groups = [group for scores in runs if (group := finite("run_spread", "score", scores)).size > 1]
    df = sum(group.size - 1 for group in groups)
    if df == 0:
        return RunSpread(math.nan, 0)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return RunSpread(math.sqrt(squares / df), df)


def noise_band(
    run_std: float, *, df: float = math.inf, runs_before: int = 1, runs_after: int = 1, level: float = 0.95
) -> float:
    """Half-width of the band in which two runs of the *same* policy differ.

    t(df) · run_std · √(1/runs_before + 1/runs_after). The t quantile and not 1.96, since the spread is
    itself estimated from few re-runs.

    Args:
        run_std: Standard deviation of a score between re-runs.
        df: Its degrees of freedom; infinite when it is known.
        runs_before: Runs averaged in the score before.
        runs_after: Runs averaged in the score after.
        level: Share of differences between equal policies that fall inside.

    Returns:
        The half-width, in the score's unit; NaN without degrees of freedom, or when `run_std` is NaN because
        nothing was run twice.

    Raises:
        ValueError: `run_std` is negative or infinite, a number of runs is below 1, or the level is none.
    """
    if not math.isnan(run_std):
        at_least("noise_band", "run_std", run_std, 0)
    at_least("noise_band", "runs_before", runs_before, 1)
    at_least("noise_band", "runs_after", runs_after, 1)
    inside("noise_band", "level", level)
    quantile = float(stats.t.ppf((1 + level) / 2, df))
    return quantile * run_std * math.sqrt(1 / runs_before + 1 / runs_after)


def _coin_tail(sizes: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], least: int) -> float:
    """Twice the chance that fair coins worth `sizes`, `counts` of each, sum to `least` or more; at most 1.

    `least` is above half of all the coins' worth and below all of it.
    """
    total = int(sizes @ counts)
    tilt = optimize.brentq(
        lambda load: float((sizes * counts) @ special.expit(load * sizes)) - least, 0.0, math.log(total) + 1
    )
    start, law = 0, np.ones(1)
    for size, count, chance in zip(sizes, counts, special.expit(tilt * sizes), strict=True):
        start, law = _add_coins(start, law, int(size), int(count), float(chance))
    tail = law[least - start :]
    weighed = float(tail @ np.exp(-tilt * np.arange(tail.size)))
    log_load = float(counts @ (np.logaddexp(0.0, tilt * sizes) - math.log(2)))
    return min(1.0, 2 * math.exp(log_load - tilt * least + math.log(weighed)))


def _add_coins(start: int, law: Floats, size: int, count: int, chance: float) -> tuple[int, Floats]:
    """Convolve the law of a sum, from `start` on, with `count` coins worth `size` each.

    The coins land on multiples of `size`, so each residue class is convolved by itself. What is next to
    impossible is cut off on both sides.
    """
    first, coins = _trimmed(stats.binom.pmf(np.arange(count + 1), count, chance))
    rows = -(-law.size // size)
    classes = np.zeros(rows * size)
    classes[: law.size] = law
    columns = [np.convolve(column, coins) for column in classes.reshape(rows, size).T]
    cut, law = _trimmed(np.stack(columns, axis=1).ravel())
    return start + first * size + cut, law


def _trimmed(law: Floats) -> tuple[int, Floats]:
    """Cut the ends of a law that together matter to no digit; how many were cut in front, and the rest."""
    inside = np.flatnonzero(law > _NEXT_TO_IMPOSSIBLE)
    return int(inside[0]), law[inside[0] : inside[-1] + 1]
