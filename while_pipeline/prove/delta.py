"""The delta report: one verdict on before and after for all tasks, each category and each guard.

Which verdict the figures give belongs here. Pairing and comparability live in `pairs`, the spread of re-runs
in `noise`, the statistics themselves in `intervals` and `power`, what a verdict decides in `verdict`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from scipy import stats

from while_pipeline.prove.intervals import (
    Floats,
    Interval,
    benjamini_hochberg,
    holm,
    percentile_bootstrap,
    pseudo_pair_interval,
    sign_flip_p,
    t_interval,
)
from while_pipeline.prove.looks import looks_factor
from while_pipeline.prove.noise import sampling_noise
from while_pipeline.prove.pairs import ARMS, LATTICE, Scope, incomparable, scopes_of
from while_pipeline.prove.power import plan
from while_pipeline.prove.variance import Counts, PairedComponents, paired_components
from while_pipeline.prove.verdict import Verdict

SMALLEST_EFFECT = 0.05
"""Effect that `tasks_needed` plans for when neither the data nor `min_effect` names a larger one."""


DELTA_SCHEMA = pl.Schema(
    {
        "kind": pl.String(),
        "scope": pl.String(),
        "n_tasks": pl.Int64(),
        "k": pl.Int64(),
        "before": pl.Float64(),
        "after": pl.Float64(),
        "difference": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "t_low": pl.Float64(),
        "t_high": pl.Float64(),
        "percentile_low": pl.Float64(),
        "percentile_high": pl.Float64(),
        "p_sign_flip": pl.Float64(),
        "p_adjusted": pl.Float64(),
        "q": pl.Float64(),
        "noise": pl.Float64(),
        "n_changed": pl.Int64(),
        "n_unknown": pl.Int64(),
        "graded_before": pl.Float64(),
        "graded_after": pl.Float64(),
        "answered_before": pl.Float64(),
        "answered_after": pl.Float64(),
        "truncated_before": pl.Float64(),
        "truncated_after": pl.Float64(),
        "tasks_needed": pl.Int64(),
        "plan": pl.String(),
        "caution": pl.String(),
        "verdict": pl.String(),
        "reason": pl.String(),
    }
)
"""Columns of `paired_delta`; never null are `kind`, `scope`, `n_tasks`, `n_unknown`, `verdict`, `reason`."""


_POWER = 0.8
_LARGEST = 0.99
"""Effect to plan for where every task turned: a plan is for less than all there is."""


@dataclass(frozen=True)
class _Rules:
    """What a difference must show; the parameters of `paired_delta`."""

    level: float
    min_changed: int
    min_effect: float
    looks: int
    noise: Mapping[str, float] | None

    @property
    def alpha(self) -> float:
        return 1 - self.level

    def changed_needed(self, scope: Scope) -> int:
        """Fewest changed tasks that can be significant: m of them give a p of 2 / 2^m at best."""
        factor = looks_factor(self.looks) if scope.kind == "overall" else 1
        return max(self.min_changed, math.floor(math.log2(2 * factor / self.alpha)) + 1)

    def noise_of(self, scope: Scope) -> float:
        if self.noise is None:
            return sampling_noise(scope.pairs, self.level)
        return self.noise.get(scope.name, math.nan) if scope.kind != "guard" else math.nan


@dataclass(frozen=True)
class _Statistics:
    """What the pairs of one comparable scope show; NaN or None where undefined at this size."""

    n_tasks: int
    k: int
    before: float
    after: float
    difference: float
    pseudo_pair: Interval
    t: Interval
    percentile: Interval
    p_sign_flip: float
    noise: float
    n_changed: int
    tasks_needed: int | None
    plan: str | None


def paired_delta(
    trials: pl.DataFrame,
    *,
    level: float = 0.95,
    min_changed: int = 6,
    min_effect: float = 0.0,
    looks: int = 1,
    guards: Sequence[str] = (),
    noise: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """Compare two policies on the same tasks, over all tasks, per category and per guard.

    A task's value is its pass rate over known verdicts, for a guard the share of its rollouts that are free
    of what the rule finds; the difference is after minus before; every interval is over tasks. A task without
    a known value in one arm leaves the pairs.

    Verdicts, first match wins:
        not_comparable: another judge, another customer, other worlds, other tasks, or missing rows (an empty
            arm, over `MAX_UNKNOWN` of an arm's rows absent or without a verdict, or graded shares more than
            `MAX_GRADED_GAP` apart). Arms may differ in k; a task with fewer rows than the fullest of its arm
            lacks the rest.
        too_few: some tasks changed, or fewer tasks are there at all, but not as many as `min_changed` and
            significance need.
        better: the interval lies above 0, `p_adjusted` is below 1 - level, and the difference is at least
            `min_effect` and outside the noise. `worse` is its mirror image.
        inside_noise: as better or worse, but the difference is within `noise`.
        no_difference: anything else.

    `p_adjusted` of the overall row is the sign-flip p times `looks_factor(looks)`. Categories and guards
    must not regress, so looks do not soften them; they are corrected together by Holm. Those with too few
    changed tasks stay out of that family and have none: the test is conditional on the sizes of the
    differences, so leaving out by their number costs no error rate and spares the others' power. `q` is
    Benjamini and Hochberg's over the same family, for exploring; it decides nothing.

    Args:
        trials: One row per rollout: `task_id` str, `category` str or null, `arm` str (`before` or `after`),
            `sample` (any type, unique within task and arm), `passed` bool or null (no verdict). May be absent
            or null, which is unknown: `judge`, `customer` and `scenario_id` str (identities that both arms
            must share), `answered` and `truncated` bool, `findings` str (a JSON list of conduct rule ids).
        level: Confidence level of the intervals, and 1 - the significance level.
        min_changed: Fewest tasks with a non-zero difference for better or worse.
        min_effect: Smallest difference of pass rates for better or worse.
        looks: How often these tasks have been looked at, this time included.
        guards: Conduct rules that must not be broken more often than before.
        noise: Half-width of the noise band from whole re-runs, by scope (`noise.rerun_noise`); by default it
            is computed from the samples.

    Returns:
        `DELTA_SCHEMA`: `overall` first, then the categories sorted, then the guards as given. Intervals lie
        within [-1, 1]: `low` and `high` with pseudo-pairs, which decide, beside plain t and the percentile
        bootstrap, which do not and are null below 2 tasks. `k` is the fewest known values of a task in either
        arm. `noise` is null at k = 1. `n_unknown` counts rows that are absent or have no value. The shares
        `graded`, `answered` (ends with words of the agent) and `truncated` are over rows; `caution`, overall
        only, says where arms differ in the last two beyond chance. `tasks_needed` gives 80 %
        power under this rule, at the observed spread and number of changes, for the largest of `min_effect`,
        the observed difference and `SMALLEST_EFFECT`; null when nothing varies. `plan`, overall only, says
        what such tasks can show.

    Raises:
        ValueError: a category is named like the overall scope, a task is in two, or an attempt or a guard is
            there twice.
    """
    rules = _Rules(level, min_changed, min_effect, looks, noise)
    scopes = scopes_of(trials, guards)
    causes = [incomparable(scope) for scope in scopes]
    measured = [
        _measure(scope, rules) if cause is None else None for scope, cause in zip(scopes, causes, strict=True)
    ]
    adjusted = _adjust(scopes, measured, rules)
    rows = []
    for scope, cause, found, (p, q) in zip(scopes, causes, measured, adjusted, strict=True):
        said = _decide(scope, found, p, rules) if found else (Verdict.NOT_COMPARABLE, cause or "")
        shown = _figures(found, p, q) if found else _rates(scope)
        rows.append({**_counted(scope, rules), **shown, "verdict": said[0].value, "reason": said[1]})
    return pl.DataFrame(rows, schema=DELTA_SCHEMA).with_columns(cs.float().fill_nan(None))


def _measure(scope: Scope, rules: _Rules) -> _Statistics:
    pairs = scope.pairs
    n_before, n_after = pairs["n_before"].to_numpy(), pairs["n_after"].to_numpy()
    before, after = pairs["c_before"].to_numpy() / n_before, pairs["c_after"].to_numpy() / n_after
    # Equal fractions divide to equal floats, so "unchanged" is exact even where denominators differ.
    d = after - before
    # A task's noise goes with 1/k, so the mean that stands for all tasks is the harmonic one.
    k = min(n.size / float((1 / n).sum()) for n in (n_before, n_after))
    denominator = math.lcm(*np.unique(np.concatenate((n_before, n_after))).tolist())
    difference = float(d.mean())
    return _Statistics(
        n_tasks=d.size,
        k=int(min(n_before.min(), n_after.min())),
        before=float(before.mean()),
        after=float(after.mean()),
        difference=difference,
        pseudo_pair=_as_difference(pseudo_pair_interval(d, k, rules.level)),
        t=_as_difference(t_interval(d, rules.level)),
        percentile=percentile_bootstrap(d, level=rules.level),
        p_sign_flip=sign_flip_p(d, min(denominator, LATTICE)),
        noise=rules.noise_of(scope),
        n_changed=int(np.count_nonzero(d)),
        tasks_needed=_tasks_needed(scope, d, round(k), rules),
        plan=_plan(pairs, round(k), rules) if scope.kind == "overall" else None,
    )


def _tasks_needed(scope: Scope, d: Floats, k: int, rules: _Rules) -> int | None:
    """Tasks that would show a difference like this by the rule that decides; None when nothing varies."""
    variance = float(d.var(ddof=1)) if d.size > 1 else 0.0
    effect = max(rules.min_effect, abs(float(d.mean())), SMALLEST_EFFECT)
    # The variance of the differences already holds both arms' sampling noise: it stands for all three terms.
    parts = PairedComponents(variance, 0.0, 0.0)
    planned = plan(d.size, k=k, components=parts, target=min(effect, _LARGEST), alpha=rules.alpha)
    if planned.tasks_for_target is None:
        return None
    return max(
        planned.tasks_for_target, _until_changed(np.count_nonzero(d) / d.size, rules.changed_needed(scope))
    )


def _until_changed(rate: float, needed: int) -> int:
    """Tasks of which, four times in five, at least so many change at this rate."""
    return needed + int(stats.nbinom.ppf(_POWER, needed, rate))


def _plan(pairs: pl.DataFrame, k: int, rules: _Rules) -> str:
    """What tasks like these can show, from how they varied; at k = 1 nothing but the pass rate is known."""
    counts = (Counts(pairs[f"n_{arm}"].to_numpy(), pairs[f"c_{arm}"].to_numpy()) for arm in ARMS)
    parts = paired_components(*counts)
    base = float((pairs["c_before"] / pairs["n_before"]).to_numpy().mean()) if parts is None else None
    target = max(rules.min_effect, SMALLEST_EFFECT)
    made = plan(pairs.height, k=k, base=base, components=parts, target=target, alpha=rules.alpha)
    return made.sentence


def _as_difference(interval: Interval) -> Interval:
    """Cut to what a difference of two rates can be; NaN stays NaN."""
    low, high = np.clip(interval, -1.0, 1.0).tolist()
    return Interval(low, high)


def _adjust(
    scopes: Sequence[Scope], measured: Sequence[_Statistics | None], rules: _Rules
) -> list[tuple[float | None, float | None]]:
    """Adjusted p and q per scope; None where nothing was measured or too few tasks changed to be tested."""
    adjusted: list[tuple[float | None, float | None]] = [(None, None)] * len(scopes)
    family: dict[int, float] = {}
    for i, (scope, found) in enumerate(zip(scopes, measured, strict=True)):
        if found is None:
            continue
        if scope.kind == "overall":
            adjusted[i] = min(1.0, found.p_sign_flip * looks_factor(rules.looks)), None
        elif found.n_changed >= rules.changed_needed(scope):
            family[i] = found.p_sign_flip
    p = list(family.values())
    for i, *both in zip(family, holm(p).tolist(), benjamini_hochberg(p).tolist(), strict=True):
        adjusted[i] = both[0], both[1]
    return adjusted


def _decide(scope: Scope, found: _Statistics, p: float | None, rules: _Rules) -> tuple[Verdict, str]:
    """Give the verdict of a comparable scope, with its figures."""
    needed = rules.changed_needed(scope)
    if found.n_tasks < needed:
        return Verdict.TOO_FEW, f"{found.n_tasks} tasks; at least {needed} are needed"
    if 0 < found.n_changed < needed:
        return Verdict.TOO_FEW, (
            f"{found.n_changed} of {found.n_tasks} tasks changed, {needed} must: "
            f"about {found.tasks_needed} tasks are needed at this rate"
        )
    if p is None or found.n_changed == 0:
        return Verdict.NO_DIFFERENCE, f"none of {found.n_tasks} tasks changed"
    low, high = found.pseudo_pair
    figures = (
        f"{found.difference:+.3f} [{low:+.3f}, {high:+.3f}] over {found.n_tasks} tasks, "
        f"{found.n_changed} changed, adjusted sign-flip p {p:.3g}"
    )
    if low <= 0 <= high:
        return Verdict.NO_DIFFERENCE, f"{figures}; the interval holds 0"
    if p >= rules.alpha:
        return Verdict.NO_DIFFERENCE, f"{figures}; p is not below {rules.alpha:.3g}"
    if abs(found.difference) < rules.min_effect:
        return Verdict.NO_DIFFERENCE, f"{figures}; smaller than the least effect {rules.min_effect:g}"
    if abs(found.difference) <= found.noise:
        return Verdict.INSIDE_NOISE, f"{figures}; re-runs alone differ by up to {found.noise:.3f}"
    return (Verdict.BETTER if low > 0 else Verdict.WORSE), figures


def _rates(scope: Scope) -> dict[str, Any]:
    """Each arm's own rate and no difference: a number would be read as one."""
    return {arm: scope.rate(arm) for arm in ARMS}


def _counted(scope: Scope, rules: _Rules) -> dict[str, Any]:
    """What can be said of a scope whether or not its arms can be compared."""
    row: dict[str, Any] = {
        "kind": scope.kind,
        "scope": scope.name,
        "n_tasks": scope.pairs.height,
        "n_unknown": sum(map(scope.unknown, ARMS)),
        **{f"graded_{arm}": scope.graded(arm) for arm in ARMS},
    }
    if scope.kind == "guard":
        return row
    shares = {f"{marker}_{arm}": scope.share(marker, arm) for marker in _MARKERS for arm in ARMS}
    return row | shares | {"caution": _caution(scope, rules) if scope.kind == "overall" else None}


_MARKERS = {
    "answered": "the agent had the last word",
    "truncated": "the conversation was cut off",
}


def _caution(scope: Scope, rules: _Rules) -> str | None:
    """Where the arms differ beyond chance in something that can make a difference by itself.

    By the exact sign-flip test of the tasks' shares, at the level of the report and without correction: a
    caution stops nothing, so it should rather come too often than too late.
    """
    found = []
    for marker, what in _MARKERS.items():
        before, after = (scope.share(marker, arm) for arm in ARMS)
        p = scope.share_p(marker)
        if p is not None and p < rules.alpha and before is not None and after is not None:
            found.append(
                f"{what} in {before:.1%} of the rollouts before and {after:.1%} after (sign-flip p {p:.2g})"
            )
    return "; ".join(found) or None


def _figures(found: _Statistics, p: float | None, q: float | None) -> dict[str, Any]:
    return {
        "n_tasks": found.n_tasks,
        "k": found.k,
        "before": found.before,
        "after": found.after,
        "difference": found.difference,
        "low": found.pseudo_pair.low,
        "high": found.pseudo_pair.high,
        "t_low": found.t.low,
        "t_high": found.t.high,
        "percentile_low": found.percentile.low,
        "percentile_high": found.percentile.high,
        "p_sign_flip": found.p_sign_flip,
        "p_adjusted": p,
        "q": q,
        "noise": found.noise,
        "n_changed": found.n_changed,
        "tasks_needed": found.tasks_needed,
        "plan": found.plan,
    }
