"""Thirty nights of promotions: what a way of deciding makes of the serving policy's true pass rate.

Every night brings a candidate whose true effect is drawn around a mean, and fresh tasks; the way of deciding
sees only the passes. A promoted candidate serves from then on, and the next one starts from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

from benchmarks.calibration.batch import Flags, rule
from benchmarks.calibration.bootstrap import bootstrap
from benchmarks.calibration.nights import NIGHTS
from while_pipeline.ids import seed_of
from while_pipeline.prove.intervals import Floats
from while_pipeline.settings import ProveSettings

TASKS, K = ProveSettings().tasks, ProveSettings().k
"""Fresh tasks a night and samples of each: what the pipeline does unless told otherwise."""
BASE = 0.6
"""Pass rate of the first serving policy."""
SPREAD = 1.5
"""Standard deviation of a task's logit."""
RESAMPLES = 1_000
LIMIT = 12.0
"""Shifts of the logit, either way, that the table of pass rates spans."""

STREAMS = {
    "no effect at all": (0.0, 0.0),
    "N(0, .02)": (0.0, 0.02),
    "N(-.02, .02), mostly harmful": (-0.02, 0.02),
}
"""Mean and standard deviation of the candidates' true effects on the pass rate."""


def _rule(scores: Floats, rng: np.random.Generator) -> Flags:
    return rule(scores, K)[0]


def _percentile(scores: Floats, rng: np.random.Generator) -> Flags:
    return bootstrap(rng, scores / K, RESAMPLES)[0].above_0()


def _mean(scores: Floats, rng: np.random.Generator) -> Flags:
    return np.asarray(scores.sum(axis=1) > 0)


DECIDERS: dict[str, Callable[[Floats, np.random.Generator], Flags]] = {
    "our rule": _rule,
    "percentile bootstrap above 0": _percentile,
    "any higher mean": _mean,
}
"""Ways of deciding."""


@dataclass(frozen=True)
class Drift:
    """What thirty nights did, over the replicates."""

    stream: str
    decider: str
    replicates: int
    promotions: float
    """Mean number of promotions in thirty nights."""
    any_promotion: float
    """Share of the replicates with at least one."""
    harmful: float | None
    """Share of the promotions whose true effect was below 0; None where nothing has an effect."""
    change: float
    """Mean change of the true pass rate over the nights."""
    low: float
    """Its 5 % point over the replicates."""
    high: float
    """Its 95 % point."""
    error: float
    """Standard error of `change`."""


def simulate(replicates: int) -> list[Drift]:
    """Every stream under every way of deciding; all see the same candidates."""
    return [thirty(stream, decider, replicates) for stream in STREAMS for decider in DECIDERS]


def thirty(stream: str, decider: str, replicates: int) -> Drift:
    """Simulate thirty nights of one way of deciding. The stream alone decides candidates and luck."""
    candidates = np.random.default_rng(seed_of("candidates", stream))
    luck = np.random.default_rng(seed_of("luck", stream))
    resampling = np.random.default_rng(seed_of("resampling", stream))
    serving = np.full(replicates, BASE)
    promoted = np.zeros((NIGHTS, replicates), dtype=np.bool_)
    effects = np.zeros((NIGHTS, replicates))
    for night in range(NIGHTS):
        candidate = np.clip(serving + candidates.normal(*STREAMS[stream], replicates), 0.01, 0.99)
        logits = SPREAD * luck.standard_normal((replicates, TASKS))
        before, after = (
            luck.binomial(K, special.expit(logits + _shift(rate)[:, None])) for rate in (serving, candidate)
        )
        promoted[night] = DECIDERS[decider]((after - before).astype(np.float64), resampling)
        effects[night] = candidate - serving
        serving = np.where(promoted[night], candidate, serving)
    change = serving - BASE
    return Drift(
        stream=stream,
        decider=decider,
        replicates=replicates,
        promotions=float(promoted.sum(axis=0).mean()),
        any_promotion=float(promoted.any(axis=0).mean()),
        harmful=float((effects[promoted] < 0).mean()) if effects[promoted].any() else None,
        change=float(change.mean()),
        low=float(np.quantile(change, 0.05)),
        high=float(np.quantile(change, 0.95)),
        error=float(change.std(ddof=1) / np.sqrt(replicates)),
    )


@cache
def _table() -> tuple[Floats, Floats]:
    """Shifts of the logit and the mean pass rates they give."""
    shifts = np.linspace(-LIMIT, LIMIT, 2401)
    logits = SPREAD * special.ndtri((np.arange(2000) + 0.5) / 2000)
    return shifts, special.expit(logits + shifts[:, None]).mean(axis=1)


def _shift(rates: Floats) -> Floats:
    """The shift of the logit that gives each mean pass rate."""
    shifts, means = _table()
    return np.interp(rates, means, shifts)
