"""Does the reward pay for something nobody asked for? A permutation scan of the reward within tasks.

What belongs here: the scan. What does not: how features are measured (`hack_features`), what a scan's numbers
come to and who closes the gate (`hack_regime`).

The idea: a policy gradient that compares rollouts of one task (GRPO) sees only the reward's variance within
tasks, so a correlation over pooled rows can have the wrong sign. Everything here is centred within task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import floor
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.optimize import nnls

from while_pipeline.grade.hack_regime import Peak, Regime, conclude, is_hacked
from while_pipeline.grade.hack_shares import RowShare, explained, joint_prediction, row_share
from while_pipeline.grade.hack_within import ZERO, Codes, Floats, centred, codes, task_sizes, unit
from while_pipeline.prove.variance import VarianceSplit, variance_split

_ALPHA = 0.05
"""The floor is the 1 - alpha point of the largest |rho| among shuffles."""
_BLOCK = 32
"""Shuffles correlated at once: one product of matrices for many, and memory that does not grow with them."""


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
class Explained:
    """How much of the reward's variance within tasks is explained by what."""

    endorsed: float
    """Share that the endorsed columns explain, in [0, 1]."""
    top: float | None
    """Share that the residual top feature explains beyond them; None when nothing is left of either."""
    joint: float | None
    """Share that all features together explain beyond them, each half of the tasks predicted from the other
    half; 0 or less is nothing. None when nothing is left, or with one task."""
    joint_rows: RowShare | None
    """Share of the rows that they bring nearer to their reward, predicted as for `joint`; one half is chance.
    For one feature there is no such share: picked as the best of many, it beats chance on noise as well."""


@dataclass(frozen=True)
class HackScan:
    """Result of one scan. None is unmeasured, with the cause in `reason`."""

    n: int
    """Rows used."""
    n_dropped: int
    """Rows left out because the reward or an endorsed column is null."""
    n_tasks: int
    """Tasks of the rows used."""
    regime: Regime
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
    explained: Explained | None = None
    """None when the reward does not vary within any task."""
    features: tuple[FeatureRho, ...] = ()
    """One per scanned feature, in the order given."""

    @property
    def hacked(self) -> bool | None:
        """Whether the gate closes; None when nothing could be scanned."""
        return is_hacked(self.regime)


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
    well be shorter, so the endorsed columns are then taken out of reward and features by least squares
    within task, and the scan is repeated on the residuals. Their conjunctions and disjunctions are taken out
    too, because a reward asks for a right outcome *and* clean conduct. Residuals are shuffled as in Freedman
    and Lane (1983): from a shuffled residual the endorsed columns are taken out again.

    Only what the reward pays *for* is endorsed. Stock phrases make an answer longer, so a judge that pays
    for length pays against clean conduct; taken out with either sign, `clean` would hide that judge.

    A null or NaN feature counts as its task's mean, so it neither makes nor hides a correlation. A row with
    a null or NaN reward or endorsed column is dropped and counted.

    Args:
        frame: One row per rollout: reward (number), task_id, and the named columns (numbers or booleans).
        features: Columns nobody should be paid for, such as length. Those also in `endorsed` are skipped.
        endorsed: Columns the rubric pays for, from 0 to 1, more is better. May be empty; the residual scan
            then repeats the plain one.
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
        nothing = tuple(FeatureRho(name, None, None, None) for name in names)
        reason = "no row has a reward and its endorsed columns"
        return HackScan(n, n_dropped, 0, Regime.UNGRADED, reason, features=nothing)

    group = codes(used["task_id"])
    raw = np.split(_matrix(used, names), [1, 1 + len(endorsed)], axis=1)
    mixed = _columns(names, raw[0], raw[2], np.zeros_like(group))
    plain = _columns(names, raw[0], raw[2], group)
    rest = _without(plain, _endorsed_basis(plain.reward, raw[1], group))
    top, residual = (_peak(columns, permutations, seed) for columns in (plain, rest))

    variance = variance_split(used["reward"], used["task_id"])
    found = conclude(top, residual, variance, plain.varies, rest.varies, rest.spare)
    rhos = zip(names, mixed.rhos(), plain.rhos(), rest.rhos(), strict=True)
    return HackScan(
        n=n,
        n_dropped=n_dropped,
        n_tasks=len(task_sizes(group)),
        regime=found.regime,
        reason=found.reason,
        variance=variance,
        top_feature=top.feature if top else None,
        top_rho=top.rho if top else None,
        floor=top.floor if top else None,
        residual_feature=residual.feature if residual else None,
        residual_rho=residual.rho if residual else None,
        residual_floor=residual.floor if residual else None,
        explained=_explained(plain, rest, residual) if plain.varies else None,
        features=tuple(FeatureRho(*row) for row in rhos),
    )


@dataclass(frozen=True)
class _Columns:
    """Reward (n,) and features (n, m), each at norm 1 (or 0), with group means and `basis` taken out."""

    names: Sequence[str]
    reward: Floats
    features: Floats
    group: Codes
    basis: Floats
    """Orthonormal, shape (n, rank)."""

    @property
    def varies(self) -> bool:
        return bool(self.reward.any())

    @property
    def spare(self) -> int:
        """Degrees of freedom."""
        return len(self.group) - len(task_sizes(self.group)) - int(self.basis.shape[1])

    def rhos(self) -> list[float | None]:
        """Correlation of the reward with each feature; None where either is constant."""
        return [float(self.reward @ f) if self.varies and f.any() else None for f in self.features.T]


def _columns(names: Sequence[str], reward: Floats, features: Floats, group: Codes) -> _Columns:
    nothing = np.zeros((len(group), 0))
    return _Columns(names, centred(reward, group)[:, 0], centred(features, group), group, nothing)


def _without(plain: _Columns, basis: Floats) -> _Columns:
    """Take the columns of a basis out of reward and features."""
    reward = plain.reward - basis @ (basis.T @ plain.reward)
    features = plain.features - basis @ (basis.T @ plain.features)
    return replace(
        plain,
        reward=unit(reward[:, None], plain.reward[:, None])[:, 0],
        features=unit(features, plain.features),
        basis=basis,
    )


def _explained(plain: _Columns, rest: _Columns, residual: Peak | None) -> Explained:
    """Sizes of what the endorsed columns and the features explain; see `Explained`."""
    if not rest.varies:
        return Explained(1.0, None, None, None)
    left = float(1 - np.sum((rest.basis.T @ plain.reward) ** 2))
    if residual is None or rest.spare < 1:
        return Explained(1 - left, None, None, None)
    joint = joint_prediction(rest.reward, rest.features, rest.group, rest.spare)
    return Explained(
        endorsed=1 - left,
        top=residual.rho**2 * left,
        joint=None if joint is None else explained(rest.reward, joint) * left,
        joint_rows=None if joint is None else row_share(rest.reward, joint, rest.group),
    )


def _peak(columns: _Columns, permutations: int, seed: int) -> Peak | None:
    """Feature of largest |rho| with its floor; None when the reward or every feature is constant."""
    rhos = zip(columns.names, columns.rhos(), strict=True)
    known = [(name, rho) for name, rho in rhos if rho is not None]
    if not known:
        return None
    known.sort(key=lambda pair: -abs(pair[1]))
    (feature, rho), *others = known
    at_most = _floor(columns, permutations, seed)
    return Peak(feature, rho, at_most, tuple(name for name, r in others if abs(r) > at_most + ZERO))


def _floor(columns: _Columns, permutations: int, seed: int) -> float:
    """95 % point of max |rho| over within-task shuffles of the reward; O(permutations n (log n + m)).

    The k-th largest of B values with k = floor(.05 (B + 1)): exceeding it is p <= .05 with the data counted
    among the shuffles (Phipson and Smyth 2010).
    """
    rng = np.random.default_rng(seed)
    largest = np.empty(permutations)
    for start in range(0, permutations, _BLOCK):
        block = largest[start : start + _BLOCK]
        # Rows are sorted by task, so sorting by task plus a random fraction shuffles within tasks.
        orders = [np.argsort(columns.group + rng.random(len(columns.group))) for _ in block]
        shuffled = columns.reward[np.array(orders)]
        left = 1.0 - np.sum((shuffled @ columns.basis) ** 2, axis=1)
        block[:] = np.abs(shuffled @ columns.features).max(axis=1) / np.sqrt(np.maximum(left, ZERO))
    return float(np.sort(largest)[-floor(_ALPHA * (permutations + 1))])


def _matrix(used: pl.DataFrame, features: Sequence[str]) -> Floats:
    """All columns but the task; nulls of a feature at its task's mean, else at the overall one."""
    column = pl.col(features)
    filled = used.with_columns(column.fill_null(column.mean().over("task_id")))
    return filled.with_columns(column.fill_null(column.mean()).fill_null(0.0)).drop("task_id").to_numpy()


def _endorsed_basis(reward: Floats, endorsed: Floats, group: Codes) -> Floats:
    """Orthonormal basis (n, rank) of what the reward pays for among the endorsed columns, within task.

    The columns with positive weights in a non-negative least-squares fit (Lawson and Hanson 1974) of the
    reward (n,) by the endorsed columns, their conjunctions ab and their disjunctions a + b - ab.
    """
    if not endorsed.shape[1]:
        return np.zeros((len(group), 0))
    a, b = np.array(list(combinations(range(endorsed.shape[1]), 2)), dtype=np.int64).reshape(-1, 2).T
    both = endorsed[:, a] * endorsed[:, b]
    columns = centred(np.hstack([endorsed, both, endorsed[:, a] + endorsed[:, b] - both]), group)
    paid = columns[:, nnls(columns, reward)[0] > ZERO]
    vectors, strengths, _ = np.linalg.svd(paid, full_matrices=False)
    return vectors[:, strengths > ZERO]
