"""The t intervals, the sign-flip test and the rule of `while_pipeline.prove`, for many samples at once.

A batch is an array of shape (replicates, n): differences of passes, whole numbers in -k .. k. Intervals are
in pass rates. What each function computes for one row is what the library's function computes for it; tests
hold the two equal.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from while_pipeline.constants import MIN_CHANGED_TASKS
from while_pipeline.prove.intervals import Floats

Flags = NDArray[np.bool_]

LEVEL = 0.95
ALPHA = 0.05
TOUCHES = 1e-12
"""Bounds nearer than this to a value hold it: an interval of no width is a rounded mean."""
CHUNK = 2_000_000
"""Floats of one intermediate array of `sign_flip_p`."""


class Bounds(NamedTuple):
    """Intervals of a batch, shape (replicates,) each."""

    low: Floats
    high: Floats

    def covers(self, value: float) -> Flags:
        """Which intervals hold a value."""
        return (self.low - TOUCHES <= value) & (value <= self.high + TOUCHES)

    def above_0(self) -> Flags:
        """Which lie above 0: what alone would say better."""
        return self.low > TOUCHES

    def below_0(self) -> Flags:
        """Which lie below 0."""
        return self.high < -TOUCHES


def t(d: Floats) -> Bounds:
    """Plain Student t of each row, in pass rates; see `intervals.t_interval`."""
    size, mean = d.shape[1], d.mean(axis=1)
    variance = ((d - mean[:, None]) ** 2).sum(axis=1) / (size - 1)
    half = float(special.stdtrit(size - 1, (1 + LEVEL) / 2)) * np.sqrt(variance / size)
    return Bounds(mean - half, mean + half)


def pseudo_pair(d: Floats, weight: float) -> Bounds:
    """Student t with two pseudo-tasks at ±weight; see `intervals.pseudo_pair_interval` (weight 1/√k)."""
    pair = np.broadcast_to((weight, -weight), (d.shape[0], 2))
    return t(np.concatenate((d, pair), axis=1))


def hull(one: Bounds, other: Bounds) -> Bounds:
    """From the lower of two low bounds to the higher of two high ones."""
    return Bounds(np.minimum(one.low, other.low), np.maximum(one.high, other.high))


def sign_flip_p(scores: Floats, k: int) -> Floats:
    """Exact two-sided sign-flip p of each row; see `intervals.sign_flip_p`.

    The characteristic function of a sum of fair ± signs on sizes s is the product of cos(s θ). On L points
    with L above twice the largest sum, its discrete transform is the law itself, and P(|S| < a) is the mean
    of that product with Dirichlet's kernel. Rows with the same sizes differ only in the kernel, but a matrix
    product over the k sizes is cheaper than finding them.

    Args:
        scores: Differences of passes, shape (replicates, n).
        k: Largest difference possible.
    """
    sizes = np.abs(scores)
    counts = np.stack([(sizes == size).sum(axis=1) for size in range(1, k + 1)], axis=1)
    return sign_flip_p_of_counts(counts.astype(np.float64), np.abs(scores.sum(axis=1)))


def sign_flip_p_of_counts(counts: Floats, observed: Floats) -> Floats:
    """The same from how often each size 1 .. k occurs, shape (replicates, k), and the sum's size."""
    if not counts.size:
        return np.ones(counts.shape[0])
    sizes = np.arange(1, counts.shape[1] + 1)
    half = int((counts @ sizes).max())
    # L = 2·half + 1 is odd, so no cosine is 0; the product is even in θ, so half of the points do.
    theta = 2 * np.pi * np.arange(1, half + 1) / (2 * half + 1)
    cosines = np.cos(np.outer(sizes, theta))
    logs, negative = np.log(np.abs(cosines)), (cosines < 0).astype(np.float64)
    p = np.empty(counts.shape[0])
    step = max(1, CHUNK // max(half, 1))
    for start in range(0, p.size, step):
        rows = slice(start, start + step)
        product = np.exp(counts[rows] @ logs)
        product[(counts[rows] @ negative) % 2 == 1] *= -1
        kernel = np.sin((observed[rows, None] - 0.5) * theta) / np.sin(theta / 2)
        inside = (2 * observed[rows] - 1 + 2 * (product * kernel).sum(axis=1)) / (2 * half + 1)
        p[rows] = 1 - inside
    p[observed == 0] = 1.0
    return np.clip(p, 2.0 * 0.5 ** counts.sum(axis=1), 1.0)


def verdict_p(scores: Floats, k: int) -> tuple[Floats, Floats]:
    """The sign-flip p of each row as evidence for better, and for worse.

    It is 1 where the rule of `prove.delta` says neither whatever p is: where the interval with pseudo-tasks
    holds 0 or lies on the other side, or fewer tasks changed than must. Only the others cost anything.
    """
    bounds = pseudo_pair(scores / k, 1 / math.sqrt(k))
    enough = (scores != 0).sum(axis=1) >= MIN_CHANGED_TASKS
    p = []
    for side in (bounds.above_0(), bounds.below_0()):
        asked = np.flatnonzero(side & enough)
        found = np.ones(scores.shape[0])
        found[asked] = sign_flip_p(scores[asked], k)
        p.append(found)
    return p[0], p[1]


def rule(scores: Floats, k: int) -> tuple[Flags, Flags]:
    """Which rows are better and which worse by the rule of `prove.delta`."""
    better, worse = verdict_p(scores, k)
    return better < ALPHA, worse < ALPHA
