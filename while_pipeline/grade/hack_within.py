"""Columns within tasks: centred, scaled, and the choice of those that differ most.

What belongs here: linear algebra over rollouts grouped by task. What the columns mean does not
(`hack_features`), nor what follows from them (`hack_scan`).
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

ZERO = 1e-10
"""A column whose norm falls to this share by centring or projection holds only rounding error."""

REPEAT = 0.9
"""A column that correlates so with another one within tasks says the same; twice said, it only raises the
largest correlation that chance reaches."""


def codes(task: pl.Series) -> Codes:
    """Number (0, 1, ...) of each row's task; rows of a task must stand together."""
    return task.rle_id().to_numpy().astype(np.int64)


def task_sums(values: Floats, group: Codes) -> Floats:
    """Sums (tasks, m) of columns (n, m) by task."""
    sums: Floats = np.add.reduceat(values, _starts(group), axis=0)
    return sums


def task_sizes(group: Codes) -> Codes:
    """Rows (tasks,) of each task."""
    return np.bincount(group).astype(np.int64)


def centred(values: Floats, group: Codes) -> Floats:
    """Columns (n, m) with each task's mean taken off, at norm 1 (or 0 when constant in every task)."""
    means = task_sums(values, group) / task_sizes(group)[:, None]
    return unit(values - means[group], values)


def unit(values: Floats, before: Floats) -> Floats:
    """Scale columns to norm 1; to 0 where next to nothing is left of `before`, the columns they came from."""
    norms = np.linalg.norm(values, axis=0)
    live = norms > ZERO * np.linalg.norm(before, axis=0)
    scaled: Floats = np.divide(values, norms, out=np.zeros_like(values), where=live)
    return scaled


def spread(columns: Floats, group: Codes) -> Floats:
    """Sum of squares within tasks (m,) of columns (n, m)."""
    sums = task_sums(columns, group)
    squares: Floats = np.sum(columns**2, axis=0) - np.sum(sums**2 / task_sizes(group)[:, None], axis=0)
    return squares


def most_spread(columns: Floats, group: Codes, taken: Floats, most: int) -> list[int]:
    """Choose yes-or-no columns that differ most within tasks and repeat neither each other nor what is taken.

    Greedy: by falling `spread`, the earlier column where two tie; one that differs in no task is never
    chosen. The reward has no part in it, so the choice cannot make a correlation.

    Args:
        columns: Candidates of 0 and 1, shape (n, m).
        group: Task of each row, as `codes` gives it.
        taken: Columns that may not be repeated, shape (n, t).
        most: Columns chosen at most.

    Returns:
        Indices of the chosen columns, in the order of choice.
    """
    width = spread(columns, group)
    order = [int(i) for i in np.argsort(-width, kind="stable") if width[i] > ZERO]
    candidates = centred(columns[:, order], group)
    repeats: NDArray[np.bool_] = np.any(np.abs(centred(taken, group).T @ candidates) > REPEAT, axis=0)
    alike = np.abs(candidates.T @ candidates) > REPEAT
    chosen: list[int] = []
    for place, index in enumerate(order):
        if len(chosen) < most and not repeats[place]:
            chosen.append(index)
            repeats |= alike[place]
    return chosen


def _starts(group: Codes) -> NDArray[np.intp]:
    return np.flatnonzero(np.diff(group, prepend=-1))
