"""Bootstrap intervals over tasks for many samples at once: percentile and BCa. What others decide by."""

import numpy as np
from scipy import special

from benchmarks.calibration.batch import LEVEL, Bounds
from while_pipeline.prove.intervals import Floats

SHARED = 100
"""Samples that share a set of resamples; more would tie the error of the quantiles together."""


def bootstrap(rng: np.random.Generator, d: Floats, resamples: int) -> tuple[Bounds, Bounds]:
    """Percentile and BCa intervals of each row, from the same resamples.

    Args:
        rng: Draws the resamples: how often each of the n tasks is taken, fresh for every `SHARED` rows.
        d: Differences, shape (replicates, n).
        resamples: Number of resamples.
    """
    n = d.shape[1]
    parts = []
    for start in range(0, d.shape[0], SHARED):
        rows = d[start : start + SHARED]
        taken = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
        means = np.sort(rows @ taken.T / n, axis=1)
        parts.append((*percentile(means), *bca(means, rows)))
    low, high, bca_low, bca_high = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Bounds(low, high), Bounds(bca_low, bca_high)


def percentile(means: Floats) -> Bounds:
    """The 2.5 % and 97.5 % points of each row of sorted resampled means."""
    rows = means.shape[0]
    return Bounds(*(_quantile(means, np.full(rows, share)) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)))


def bca(means: Floats, d: Floats) -> Bounds:
    """Bias-corrected and accelerated intervals. Source: Efron (1987); `scipy.stats.bootstrap` agrees.

    Args:
        means: Sorted resampled means, shape (replicates, resamples).
        d: Differences, shape (replicates, n). A row whose values are all equal has no acceleration, and an
            interval of no width, like its percentile interval.
    """
    mean = d.mean(axis=1)
    near = 1e-12
    below = (means < mean[:, None] - near).mean(axis=1)
    upto = (means <= mean[:, None] + near).mean(axis=1)
    edge = 0.5 / means.shape[1]
    bias = special.ndtri(np.clip((below + upto) / 2, edge, 1 - edge))
    centred = d - mean[:, None]
    squares = (centred**2).sum(axis=1)
    varies = squares > near
    acceleration = np.where(
        varies, (centred**3).sum(axis=1) / (6 * np.where(varies, squares, 1.0) ** 1.5), 0.0
    )
    bounds = []
    for z in special.ndtri(((1 - LEVEL) / 2, (1 + LEVEL) / 2)):
        share = special.ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))
        bounds.append(_quantile(means, share))
    return Bounds(*bounds)


def _quantile(ordered: Floats, share: Floats) -> Floats:
    """The quantile of each row at its own share, linear between two values as in `numpy.quantile`."""
    place = share * (ordered.shape[1] - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    rows = np.arange(ordered.shape[0])
    low = ordered[rows, below]
    return np.asarray(low + (place - below) * (ordered[rows, above] - low), dtype=np.float64)
