"""Whether the interval of one policy's pass rate, `pass_at.rate_interval`, holds the true rate.

The difference of two policies belongs to `cells`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import special

from benchmarks.calibration.batch import LEVEL, Bounds, t
from while_pipeline.ids import seed_of
from while_pipeline.prove.intervals import Floats

TASKS = (8, 12, 20, 40, 120)
SAMPLES = (1, 4, 8, 16)

OURS, PLAIN = "ours", "t"

Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


@dataclass(frozen=True)
class Population:
    """Tasks whose true pass rates are known."""

    name: str
    rate: float
    """Mean over tasks."""
    draw: Draw
    """True rates of tasks, of a shape."""


def _alike(rate: float) -> Draw:
    return lambda _, shape: np.full(shape, rate)


def _beta(a: float, b: float) -> Draw:
    return lambda rng, shape: rng.beta(a, b, shape)


POPULATIONS = (
    Population("all tasks .5", 0.5, _alike(0.5)),
    Population("all tasks .9", 0.9, _alike(0.9)),
    Population("all tasks .96", 0.96, _alike(0.96)),
    Population("all tasks .98", 0.98, _alike(0.98)),
    Population("Beta(9, 1)", 0.9, _beta(9, 1)),
    Population("Beta(19, 1)", 0.95, _beta(19, 1)),
    Population("Beta(.3, .3)", 0.5, _beta(0.3, 0.3)),
    Population("Beta(2.7, .3)", 0.9, _beta(2.7, 0.3)),
    Population(
        "a twentieth never, the rest .98", 0.931, lambda rng, shape: (rng.random(shape) >= 0.05) * 0.98
    ),
    Population("a tenth never, the rest always", 0.9, lambda rng, shape: (rng.random(shape) >= 0.1) * 1.0),
)
"""Rates above a half; those below are their mirror images, and so are the intervals."""


@dataclass(frozen=True)
class Rate:
    """One population at one size: how often each interval holds the true rate."""

    population: str
    n: int
    k: int
    replicates: int
    method: str
    coverage: float
    width: float
    """Mean of the interval's part within 0 .. 1."""


def simulate(replicates: int) -> list[Rate]:
    """Every population at every size. The argument alone decides the draws."""
    return [
        found
        for population, n, k in product(POPULATIONS, TASKS, SAMPLES)
        for found in _cell(population, n, k, replicates)
    ]


def _cell(population: Population, n: int, k: int, replicates: int) -> list[Rate]:
    rng = np.random.default_rng(seed_of("rates", population.name, n, k))
    rates = rng.binomial(k, population.draw(rng, (replicates, n))) / k
    return [
        Rate(
            population=population.name,
            n=n,
            k=k,
            replicates=replicates,
            method=method,
            coverage=float(bounds.covers(population.rate).mean()),
            width=float((np.minimum(bounds.high, 1) - np.maximum(bounds.low, 0)).mean()),
        )
        for method, bounds in ((OURS, rate_intervals(rates)), (PLAIN, _t_or_wilson(rates)))
    ]


def rate_intervals(rates: Floats) -> Bounds:
    """`pass_at.rate_interval` of each row; tests hold the two equal."""
    n, mean, agree = rates.shape[1], rates.mean(axis=1), np.ptp(rates, axis=1) == 0
    variance = np.where(agree, 1, rates.var(axis=1, ddof=1))
    trials = np.where(agree, n, mean * (1 - mean) * n / variance)
    quantile = np.where(agree, special.ndtri((1 + LEVEL) / 2), special.stdtrit(n - 1, (1 + LEVEL) / 2))
    return _score(mean, trials, quantile)


def _t_or_wilson(rates: Floats) -> Bounds:
    """Student t around the mean, cut to 0 .. 1; Wilson by the number of tasks where all of them agree."""
    n, mean, agree = rates.shape[1], rates.mean(axis=1), np.ptp(rates, axis=1) == 0
    plain = t(rates)
    wilson = _score(mean, np.full_like(mean, n), np.full_like(mean, special.ndtri((1 + LEVEL) / 2)))
    return Bounds(np.where(agree, wilson.low, plain.low), np.where(agree, wilson.high, plain.high))


def _score(rate: Floats, trials: Floats, quantile: Floats) -> Bounds:
    square = quantile**2
    centre = (rate * trials + square / 2) / (trials + square)
    half = quantile * np.sqrt(trials * rate * (1 - rate) + square / 4) / (trials + square)
    return Bounds(centre - half, centre + half)
