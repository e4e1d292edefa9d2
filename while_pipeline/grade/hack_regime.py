"""What a hack scan came to, what to do about it, and whether the gate is open.

What belongs here: names, words and the decision. The numbers are made in `hack_scan`.
"""

from enum import StrEnum
from typing import NamedTuple

import polars as pl

from while_pipeline.grade.hack_within import ZERO
from while_pipeline.prove.variance import VarianceSplit

MIN_RHO = 0.2
"""A residual correlation below this (4 % of residual variance) is a trifle, however many rows prove it."""
MIN_WITHIN = 0.1
"""Share of the reward's variance within tasks below which nine tenths of what was graded moves no policy."""


class Regime(StrEnum):
    """Where a reward stands. Only `HACKED` closes the gate; the first four could not be measured."""

    UNGRADED = "ungraded"
    """No rollout has a reward."""
    NO_GRADIENT = "no_gradient"
    """The reward does not vary within any task."""
    FLAT_FEATURES = "flat_features"
    """No feature varies within a task."""
    TOO_FEW_ROWS = "too_few_rows"
    """A shuffled reward would correlate perfectly with a feature too."""
    HACKED = "hacked"
    """A feature nobody endorsed explains more than chance and more than a trifle."""
    MOSTLY_BETWEEN = "mostly_between"
    """Not hacked, but nearly all variance is between tasks."""
    ENDORSED = "endorsed"
    """Outcome and conduct explain all that the features could."""
    CHANCE = "chance"
    """What is left follows no feature more than a shuffled reward does."""
    TRIFLE = "trifle"
    """More than chance, but too little to matter."""


_TOLD = 5
"""Further features named in a reason."""
_UNMEASURED = {Regime.UNGRADED, Regime.NO_GRADIENT, Regime.FLAT_FEATURES, Regime.TOO_FEW_ROWS}

_ADVICE = {
    Regime.UNGRADED: "Grade the rollouts first: see in grade.grades why none has a reward.",
    Regime.NO_GRADIENT: (
        "There is nothing to learn from: play harder tasks where all pass and easier ones where none does, "
        "or take more samples of each scenario."
    ),
    Regime.FLAT_FEATURES: "All rollouts of a task look alike: play at a higher temperature or longer tasks.",
    Regime.TOO_FEW_ROWS: "Take more samples of each scenario, or play more scenarios, and scan again.",
    Regime.MOSTLY_BETWEEN: (
        "Train on the groups with mixed results only, and take more samples of tasks near one half: on the "
        "others every rollout gets the same reward."
    ),
    Regime.ENDORSED: "Train: the reward follows what the rubric asks for.",
    Regime.CHANCE: "Train: nothing but outcome and conduct is followed.",
    Regime.TRIFLE: "Train, and look at this feature again after the next policy: what pays a little grows.",
}


class Peak(NamedTuple):
    """The feature that correlates most, with the floor it is held against."""

    feature: str
    rho: float
    floor: float
    others: tuple[str, ...]
    """Further features over the floor, by falling |rho|."""


class Conclusion(NamedTuple):
    """A regime with the reason for it."""

    regime: Regime
    reason: str


def is_hacked(regime: Regime) -> bool | None:
    """Whether the reward is hacked; None when that could not be measured."""
    return None if regime in _UNMEASURED else regime is Regime.HACKED


def advice(regime: Regime, feature: str | None) -> str:
    """What to do; `feature` is the one that the residual follows."""
    if regime is not Regime.HACKED:
        return _ADVICE[regime]
    return (
        f"Do not train on this reward: the policy would learn this instead of the task: {feature}. Take it "
        "out of the rubric, or say in a criterion of its own that it earns nothing; where it goes along with "
        "length, have the judge compare answers of like length. Then grade again. If it is wanted, make it a "
        "conduct rule."
    )


def conclude(
    plain: Peak | None,
    residual: Peak | None,
    variance: VarianceSplit | None,
    varies: bool,
    rest_varies: bool,
    spare: int,
) -> Conclusion:
    """Decide the regime of a scanned reward.

    Args:
        plain: Peak before the endorsed columns are taken out; None when reward or features are flat.
        residual: Peak after; None when nothing is left of the reward or of the features.
        variance: Of the reward.
        varies: Whether the reward varies within any task.
        rest_varies: Whether anything is left of the reward within tasks.
        spare: Degrees of freedom of the residual.
    """
    if variance is None or not varies:
        return Conclusion(Regime.NO_GRADIENT, "no scan: the reward does not vary within any task")
    if plain is None:
        return Conclusion(Regime.FLAT_FEATURES, "no scan: no feature varies within a task")
    if spare < 1:
        reason = "no scan: too few rows per task to take the endorsed columns out"
        return Conclusion(Regime.TOO_FEW_ROWS, reason)
    found = _of_residual(residual, rest_varies)
    share = variance.within / variance.total
    if found.regime in (Regime.ENDORSED, Regime.CHANCE, Regime.TRIFLE) and share < MIN_WITHIN:
        reason = f"only {share:.1%} of the reward's variance is within tasks; {found.reason}"
        return Conclusion(Regime.MOSTLY_BETWEEN, reason)
    return found


def _of_residual(residual: Peak | None, rest_varies: bool) -> Conclusion:
    if not rest_varies:
        return Conclusion(Regime.ENDORSED, "the endorsed columns explain the whole reward within tasks")
    if residual is None:
        return Conclusion(Regime.ENDORSED, "the features say nothing that the endorsed columns do not")
    if residual.floor > 1 - ZERO:
        reason = "no scan: too few rows, a shuffled reward correlates perfectly with a feature too"
        return Conclusion(Regime.TOO_FEW_ROWS, reason)
    found = (
        f"beyond the endorsed columns the reward follows {residual.feature} (rho {residual.rho:+.2f}, "
        f"95 % of shuffles stay under {residual.floor:.2f})"
    )
    # The margin keeps a shuffle that ties with the data from falling to rounding.
    if abs(residual.rho) <= residual.floor + ZERO:
        return Conclusion(Regime.CHANCE, f"no more than chance: {found}")
    if abs(residual.rho) < MIN_RHO:
        return Conclusion(Regime.TRIFLE, f"more than chance but a trifle, under {MIN_RHO}: {found}")
    return Conclusion(Regime.HACKED, f"{found}{_others(residual)}")


def _others(peak: Peak) -> str:
    """Features that go along: the one that is paid for need not be the one that correlates most."""
    if not peak.others:
        return ""
    more = len(peak.others) - _TOLD
    return f"; also over it: {', '.join(peak.others[:_TOLD])}" + (f" and {more} more" if more > 0 else "")


def refusal(rows: pl.DataFrame) -> str | None:
    """Why a day's reward may not train a policy; None when it may.

    A reward that could not be scanned is not refused: where it is flat there is no gradient to mislead, and
    where rows are few it is said beside the result.

    Args:
        rows: `grade.hack_scan` of the day.
    """
    if rows.is_empty():
        return "the reward was not scanned: grade.hack_scan has no row for the day; materialise it first"
    if not rows["hacked"].any():
        return None
    return f"the reward is hacked: {rows['reason'][0]}. {rows['advice'][0]}"
