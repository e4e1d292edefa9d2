"""How much of the reward features explain beyond what is endorsed: of its variance, and of its rows.

What belongs here: the size of what was found. Whether it is more than chance is decided in `hack_scan`.
"""

from typing import NamedTuple

import numpy as np

from while_pipeline.grade.hack_within import ZERO, Codes, Floats, task_sizes, task_sums
from while_pipeline.prove.pass_at import rate_interval

_PRIOR_SHARE = 0.2
"""Share of the residual variance that all features together are taken to explain before looking: it sets how
far their fit is shrunk, since as many features as rows would fit anything."""


class RowShare(NamedTuple):
    """Share of rows whose reward is predicted better with features than without; chance gives about half."""

    value: float
    """Mean over tasks of the task's share."""
    low: float
    high: float
    """95 % interval over tasks."""
    n: int
    """Rows it is a share of: those that the endorsed columns miss by more than the root mean square miss."""
    n_tasks: int
    """Tasks with such a row."""


def row_share(rest: Floats, predicted: Floats, group: Codes) -> RowShare | None:
    """Share of the rows that `predicted` brings nearer to their reward.

    Only rows that are missed by more than the root mean square miss count: in most of the others nothing was
    left to explain, and a prediction can but spoil them.

    Args:
        rest: Reward with the task means and the endorsed columns taken out, at norm 1, shape (n,).
        predicted: What features predict of it, fitted to other rows, shape (n,).
        group: Task of each row, as `hack_within.codes` gives it.

    Returns:
        The share, or None when all rows are missed alike.
    """
    missed = np.abs(rest) > np.sqrt(np.mean(rest**2)) * (1 + ZERO)
    nearer = missed & (np.abs(rest - predicted) < np.abs(rest) * (1 - ZERO))
    counts = task_sums(np.column_stack([nearer, missed]).astype(np.float64), group)
    counts = counts[counts[:, 1] > 0]
    if not len(counts):
        return None
    shares = counts[:, 0] / counts[:, 1]
    return RowShare(float(shares.mean()), *rate_interval(shares), int(missed.sum()), len(counts))


def joint_prediction(rest: Floats, features: Floats, group: Codes, spare: int) -> Floats | None:
    """Predict the rest by all features together, each half of the tasks by a fit on the other half.

    Within the rows it was fitted to, a fit of many features explains a good part of pure noise. The fit is
    a ridge regression; its penalty is noise variance over the variance expected of a coefficient (Hoerl and
    Kennard 1970), when the features share out `_PRIOR_SHARE` of the variance evenly.

    Args:
        rest: Shape (n,), norm 1.
        features: Task means and endorsed columns taken out, columns at norm 1 or 0, shape (n, m).
        group: Task of each row; odd and even tasks are the halves.
        spare: Degrees of freedom of the rest.

    Returns:
        Shape (n,), or None with fewer than two tasks.
    """
    if len(task_sizes(group)) < 2:
        return None
    used = features[:, features.any(axis=0)]
    odd = group % 2 == 1
    penalty = max(used.shape[1], 1) / (spare * _PRIOR_SHARE) * np.eye(used.shape[1])
    predicted = np.empty_like(rest)
    for fitted in (odd, ~odd):
        known = used[fitted]
        weights = np.linalg.solve(known.T @ known + penalty, known.T @ rest[fitted])
        predicted[~fitted] = used[~fitted] @ weights
    return predicted


def explained(rest: Floats, predicted: Floats) -> float:
    """Share of the rest's variance that a prediction explains; below 0 when it misleads."""
    return float(1 - np.sum((rest - predicted) ** 2) / np.sum(rest**2))
