"""Does the reward pay for something nobody asked for? A permutation scan of the reward within tasks.

What belongs here: the variance split, the scan and its verdict. What does not: how features are measured
(`markers`), which columns a project endorses, and who closes the gate.

The idea: a policy gradient that compares rollouts of one task (GRPO) sees only the reward's variance within
tasks, so a correlation over pooled rows can have the wrong sign. Everything here is centred within task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import floor
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

MIN_RHO = 0.2
"""A residual correlation below this (4 % of residual variance) is a trifle, however many rows prove it."""

_ALPHA = 0.05
"""The floor is the 1 - alpha point of the largest |rho| among shuffles."""

_ZERO = 1e-10
"""A column whose norm falls to this share by centring or projection holds only rounding error."""

_Array = NDArray[np.float64]
_Codes = NDArray[np.int64]


class VarianceSplit(NamedTuple):
    """Population variances (ddof 0): `total = within + between`."""

    total: float
    within: float
    """E[Var(reward | task)], rows weighted equally: all the gradient there is."""
    between: float
    """Var(E[reward | task]): how much the tasks differ in difficulty."""


class FeatureRho(NamedTuple):
    """Pearson correlations of one feature with the reward, in [-1, 1]; None where either is constant."""

    feature: str
    pooled: float | None
    """Over all rows, the tasks mixed: shown because it is what one would look at, and misleads."""
    within: float | None
    """Both centred within task."""
    residual: float | None
    """Within task, with the endorsed columns taken out of both."""


@dataclass(frozen=True)
class HackScan:
    """Result of one scan. None is unmeasured, with the cause in `reason`."""

    n: int
    """Rows used."""
    n_dropped: int
    """Rows left out because the reward or an endorsed column is null."""
    hacked: bool | None
    """|residual_rho| is over its floor and at least `MIN_RHO`; None when nothing could be scanned."""
    reason: str
    variance: VarianceSplit | None = None
    top_feature: str | None = None
    """Feature with the largest |within| correlation: what the reward follows at first sight."""
    top_rho: float | None = None
    floor: float | None = None
    """95 % point of the largest |rho| over all features when the reward is shuffled within tasks."""
    residual_feature: str | None = None
    """The same after the endorsed columns are taken out: what decides."""
    residual_rho: float | None = None
    residual_floor: float | None = None
    residual_share: float | None = None
    """Share of the within-task reward variance that the residual top feature explains, in [0, 1]."""
    features: tuple[FeatureRho, ...] = ()
    """One per scanned feature, in the order given."""


def variance_split(reward: pl.Series, task: pl.Series) -> VarianceSplit | None:
    """Split the variance of a reward into within and between tasks (the law of total variance, ddof 0).

    Tasks of unequal size count by their rows. Rows without a reward are left out; None when none is left.
    """
    rows = pl.DataFrame({"task": task, "reward": reward.cast(pl.Float64)}).drop_nulls("reward")
    if rows.is_empty():
        return None
    mean, of_task = pl.col("reward").mean(), pl.col("reward").mean().over("task")
    squares = ((pl.col("reward") - mean) ** 2, (pl.col("reward") - of_task) ** 2, (of_task - mean) ** 2)
    return VarianceSplit(*rows.select(part.mean().alias(str(i)) for i, part in enumerate(squares)).row(0))


def hack_scan(
    frame: pl.DataFrame,
    features: Sequence[str],
    endorsed: Sequence[str],
    *,
    permutations: int = 200,
    seed: int,
) -> HackScan:
    """Look for a feature that the reward follows although nobody endorsed it.

    Reward and features are centred within task and correlated; the largest |rho| is held against the 95 %
    point of the largest |rho| over shuffles of the reward within each task, which corrects for looking at
    many features. A reward *should* follow what is endorsed (outcome, conduct), and a failing answer may
    well be shorter, so the endorsed columns and their pairwise products are then taken out of reward and
    features by least squares within task, and the scan is repeated on the residuals. The products are there
    because rewards are conjunctions: right outcome *and* clean conduct. Residuals are shuffled as in
    Freedman and Lane (1983): from a shuffled residual the endorsed columns are taken out again.

    A null or NaN feature counts as its task's mean, so it neither makes nor hides a correlation. A row with
    a null or NaN reward or endorsed column is dropped and counted.

    Args:
        frame: One row per rollout: reward (number), task_id, and the named columns (numbers or booleans).
        features: Columns nobody should be paid for, such as length. Those also in `endorsed` are skipped.
        endorsed: Columns the rubric pays for. May be empty; the residual scan then repeats the plain one.
        permutations: Shuffles per floor.
        seed: Decides the shuffles.

    Raises:
        ValueError: fewer than 19 permutations, which have no 95 % point.
        polars.exceptions.ColumnNotFoundError: a named column is missing.
    """
    if permutations < 19:
        raise ValueError(f"hack_scan: permutations is {permutations}, expected at least 19")
    names = [name for name in features if name not in endorsed]
    numbers = (pl.col(name).cast(pl.Float64).fill_nan(None) for name in ("reward", *endorsed, *names))
    used = frame.select("task_id", *numbers).drop_nulls(["reward", *endorsed])
    # By every column, so that the order rows happen to come in cannot move the floor.
    used = used.sort("task_id", "reward", *endorsed, *names)
    n, n_dropped = used.height, frame.height - used.height
    if n == 0:
        return HackScan(n, n_dropped, None, "no row has a reward and its endorsed columns")

    group = used["task_id"].rle_id().to_numpy().astype(np.int64)
    raw = np.split(_matrix(used, names), [1, 1 + len(endorsed)], axis=1)
    one_group = np.zeros_like(group)
    pooled = _rhos(_centred(raw[0], one_group), _centred(raw[2], one_group))

    reward, scanned = _centred(raw[0], group), _centred(raw[2], group)
    plain = _peak(names, reward, scanned, np.zeros((n, 0)), group, permutations, seed)

    basis = _endorsed_basis(raw[1], group)
    left = reward - basis @ (basis.T @ reward)
    rest, scanned_rest = _unit(left, reward), _unit(scanned - basis @ (basis.T @ scanned), scanned)
    residual = _peak(names, rest, scanned_rest, basis, group, permutations, seed)

    spare = n - int(group[-1]) - 1 - basis.shape[1]
    hacked, reason = _verdict(plain, residual, bool(reward.any()), bool(rest.any()), spare)
    rows = zip(names, pooled, _rhos(reward, scanned), _rhos(rest, scanned_rest), strict=True)
    return HackScan(
        n=n,
        n_dropped=n_dropped,
        hacked=hacked,
        reason=reason,
        variance=variance_split(used["reward"], used["task_id"]),
        top_feature=plain.feature if plain else None,
        top_rho=plain.rho if plain else None,
        floor=plain.floor if plain else None,
        residual_feature=residual.feature if residual else None,
        residual_rho=residual.rho if residual else None,
        residual_floor=residual.floor if residual else None,
        residual_share=residual.rho**2 * float(np.sum(left**2)) if residual else None,
        features=tuple(FeatureRho(*row) for row in rows),
    )


class _Peak(NamedTuple):
    feature: str
    rho: float
    floor: float


def _verdict(
    plain: _Peak | None, residual: _Peak | None, reward_varies: bool, rest_varies: bool, spare: int
) -> tuple[bool | None, str]:
    """Say whether the residual peak is a hack, and why; `spare` is the residual's degrees of freedom."""
    if not reward_varies:
        return None, "no scan: the reward does not vary within any task"
    if plain is None:
        return None, "no scan: no feature varies within a task"
    if spare < 1:
        return None, "no scan: too few rows per task to take the endorsed columns out"
    if not rest_varies:
        return False, "the endorsed columns explain the whole reward within tasks"
    if residual is None:
        return False, "the features say nothing that the endorsed columns do not"
    if residual.floor > 1 - _ZERO:
        return None, "no scan: too few rows, a shuffled reward correlates perfectly with a feature too"
    found = (
        f"beyond the endorsed columns the reward follows {residual.feature} (rho {residual.rho:+.2f}, "
        f"95 % of shuffles stay under {residual.floor:.2f})"
    )
    # The margin keeps a shuffle that ties with the data from falling to rounding.
    if abs(residual.rho) <= residual.floor + _ZERO:
        return False, f"no more than chance: {found}"
    if abs(residual.rho) < MIN_RHO:
        return False, f"more than chance but a trifle, under {MIN_RHO}: {found}"
    return True, found


def _peak(
    names: Sequence[str],
    reward: _Array,
    features: _Array,
    basis: _Array,
    group: _Codes,
    permutations: int,
    seed: int,
) -> _Peak | None:
    """Feature of largest |rho| with its floor; None when the reward or every feature is constant."""
    known = [(name, rho) for name, rho in zip(names, _rhos(reward, features), strict=True) if rho is not None]
    if not known:
        return None
    feature, rho = max(known, key=lambda pair: abs(pair[1]))
    return _Peak(feature, rho, _floor(reward[:, 0], features, basis, group, permutations, seed))


def _floor(
    reward: _Array, features: _Array, basis: _Array, group: _Codes, permutations: int, seed: int
) -> float:
    """95 % point of max |rho| over within-task shuffles of a unit reward (n,); O(permutations n (log n + m)).

    The k-th largest of B values with k = floor(.05 (B + 1)): exceeding it is p <= .05 with the data counted
    among the shuffles (Phipson and Smyth 2010).
    """
    rng = np.random.default_rng(seed)
    largest = np.empty(permutations)
    for i in range(permutations):
        # Rows are sorted by task, so sorting by task plus a random fraction shuffles within tasks.
        shuffled = reward[np.argsort(group + rng.random(len(group)))]
        endorsed = basis.T @ shuffled
        norm = np.sqrt(max(1.0 - float(endorsed @ endorsed), _ZERO))
        largest[i] = np.abs(shuffled @ features).max() / norm
    return float(np.sort(largest)[-floor(_ALPHA * (permutations + 1))])


def _rhos(reward: _Array, features: _Array) -> list[float | None]:
    """Correlate a unit reward (n, 1) with unit features (n, m); None where either column is constant."""
    varies = bool(reward.any())
    return [float(reward[:, 0] @ column) if varies and column.any() else None for column in features.T]


def _matrix(used: pl.DataFrame, features: Sequence[str]) -> _Array:
    """All columns but the task; nulls of a feature at its task's mean, else at the overall one."""
    column = pl.col(features)
    filled = used.with_columns(column.fill_null(column.mean().over("task_id")))
    return filled.with_columns(column.fill_null(column.mean()).fill_null(0.0)).drop("task_id").to_numpy()


def _endorsed_basis(endorsed: _Array, group: _Codes) -> _Array:
    """Orthonormal basis (n, rank) of the endorsed columns and their pairwise products, within task."""
    products = [endorsed[:, [i]] * endorsed[:, [j]] for i, j in combinations(range(endorsed.shape[1]), 2)]
    vectors, strengths, _ = np.linalg.svd(
        _centred(np.hstack([endorsed, *products]), group), full_matrices=False
    )
    return vectors[:, strengths > _ZERO]


def _centred(values: _Array, group: _Codes) -> _Array:
    """Columns (n, m) with each task's mean taken off, at norm 1 (or 0 when constant in every task)."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    sizes = np.diff(starts, append=len(group))
    means = np.add.reduceat(values, starts, axis=0) / sizes[:, None]
    return _unit(values - means[group], values)


def _unit(values: _Array, before: _Array) -> _Array:
    """Scale columns to norm 1; to 0 where next to nothing is left of `before`, the columns they came from."""
    norms = np.linalg.norm(values, axis=0)
    live = norms > _ZERO * np.linalg.norm(before, axis=0)
    unit: _Array = np.divide(values, norms, out=np.zeros_like(values), where=live)
    return unit
