"""Pairs: rollouts of two arms folded to one row per task, and whether the arms may be compared at all.

Counting and comparability belong here. What the counts show belongs to `delta`, how much of it re-runs would
move to `noise`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from while_pipeline.prove.intervals import sign_flip_p
from while_pipeline.prove.pass_at import OVERALL

Arm = Literal["before", "after"]
ARMS: tuple[Arm, Arm] = ("before", "after")

Kind = Literal["overall", "category", "guard"]

MAX_UNKNOWN = 0.10
"""Largest share of an arm's rows without a verdict: the limit for labels that a trusted judge skips.
Verdicts go missing most where rollouts go wrong, so what is left of a larger gap speaks for nobody."""

MAX_GRADED_GAP = 0.05
"""Largest difference between the arms' graded shares: from there on the rows that are missing on one side
alone could make the smallest effect that is planned for."""

LATTICE = 240
"""Common denominator for the sign-flip test when unknowns make the tasks' own common multiple larger: a
multiple of 2 to 6, 8, 10, 12, 15 and 16. Finer ones cost more and decide nothing."""

_ROUNDING = 1e-9
"""What the difference of two shares may miss by."""

_NOT_NAMED: dict[str, pl.DataType] = {
    "judge": pl.String(),
    "customer": pl.String(),
    "scenario_id": pl.String(),
    "answered": pl.Boolean(),
    "truncated": pl.Boolean(),
    "findings": pl.String(),
}
"""Columns of trials that may be absent: then they are null, which is unknown."""


@dataclass(frozen=True)
class Scope:
    """Tasks that get one row of the delta report."""

    kind: Kind
    name: str
    """`overall`, a category, or the rule of a guard."""
    tasks: pl.DataFrame
    """One row per task, see `_by_task`."""

    @property
    def pairs(self) -> pl.DataFrame:
        """The tasks with a known value in both arms."""
        return self.tasks.filter(pl.min_horizontal("n_before", "n_after") > 0)

    def rows(self, arm: Arm) -> int:
        """Rows the arm should have: as many per task as its fullest task has."""
        counts = self.tasks[f"rows_{arm}"].to_numpy()
        return int(counts.max(initial=0)) * counts.size

    def unknown(self, arm: Arm) -> int:
        """Rows of the arm that are absent or have no known value."""
        return self.rows(arm) - int(self.tasks[f"n_{arm}"].sum())

    def rate(self, arm: Arm) -> float | None:
        """Mean over tasks of the arm's own rate; None without a known value."""
        mean = (self.tasks[f"c_{arm}"] / self.tasks[f"n_{arm}"]).fill_nan(None).mean()
        return float(mean) if isinstance(mean, float) else None

    def graded(self, arm: Arm) -> float | None:
        """Share of the arm's rows with a known value; None without rows."""
        rows = self.rows(arm)
        return 1 - self.unknown(arm) / rows if rows else None

    def share(self, marker: str, arm: Arm) -> float | None:
        """Share of the arm's rows that are `answered` or `truncated`; None where no row tells."""
        told = int(self.tasks[f"{marker}_told_{arm}"].sum())
        return int(self.tasks[f"{marker}_{arm}"].sum()) / told if told else None

    def share_p(self, marker: str) -> float | None:
        """Exact sign-flip p of the difference between the arms in a share; None where no task tells."""
        told = self.tasks.filter(pl.min_horizontal(*(f"{marker}_told_{arm}" for arm in ARMS)) > 0)
        if told.is_empty():
            return None
        before, after = ((told[f"{marker}_{arm}"] / told[f"{marker}_told_{arm}"]).to_numpy() for arm in ARMS)
        return sign_flip_p(np.subtract(after, before), LATTICE)


def scopes_of(trials: pl.DataFrame, guards: Sequence[str]) -> list[Scope]:
    """Fold rollouts to the scopes of a report: overall, the categories in order, the guards as given.

    Without rows there is only the overall scope. Tasks without a category are in no category's.

    Raises:
        ValueError: a category is named like the overall scope, a task is in two, or an attempt or a guard is
            there twice.
    """
    if len(set(guards)) < len(guards):
        raise ValueError(f"paired_delta: a guard is named twice in {', '.join(guards)}")
    attempts = _attempts(trials, guards)
    whole = _by_task(attempts, "passed")
    moved = whole.filter(whole["task_id"].is_duplicated())
    if moved.height:
        raise ValueError(f"paired_delta: task {moved['task_id'][0]!r} is in more than one category")
    names = whole["category"].drop_nulls().unique().sort().to_list()
    if OVERALL in names:
        raise ValueError(f"paired_delta: category {OVERALL!r} is the name of the scope over all tasks")
    found = [Scope("overall", OVERALL, whole)]
    found += [Scope("category", name, whole.filter(pl.col("category") == name)) for name in names]
    if trials.height:
        found += [Scope("guard", rule, _by_task(attempts, _free(rule))) for rule in guards]
    return found


def incomparable(scope: Scope) -> str | None:
    """Say why the arms cannot be compared, or None when they can.

    A guard is measured by the conduct rules alone, so another judge does not touch it.
    """
    for column, name in (("judge", "judge"), ("customer", "customer")):
        mixed = scope.tasks.filter(pl.col(f"{column}s") > 1).height
        if mixed and not (name == "judge" and scope.kind == "guard"):
            names = (
                scope.tasks.filter(pl.col(f"{column}s") > 1).select(f"{column}_one", f"{column}_other").row(0)
            )
            return (
                f"other {name}: {mixed} of {scope.tasks.height} tasks have more than one {name} "
                f"({' and '.join(names)})"
            )
    other = scope.tasks.filter("other_worlds").height
    if other:
        return f"other worlds: {other} of {scope.tasks.height} tasks were played as another scenario"
    for arm in ARMS:
        if scope.rows(arm) == 0:
            return f"missing rows: none {arm}"
    absent = {arm: int((scope.tasks[f"rows_{arm}"] == 0).sum()) for arm in ARMS}
    if any(absent.values()):
        return f"other tasks: {absent['after']} only before, {absent['before']} only after"
    return next(filter(None, (_missing(scope, arm) for arm in ARMS)), None) or _graded_gap(scope)


def _missing(scope: Scope, arm: Arm) -> str | None:
    total, unknown = scope.rows(arm), scope.unknown(arm)
    if unknown <= MAX_UNKNOWN * total:
        return None
    counts = scope.tasks[f"rows_{arm}"].to_numpy()
    uneven = "" if np.ptp(counts) == 0 else f" (tasks have {counts.min()} to {counts.max()} rows)"
    what = "findings" if scope.kind == "guard" else "a verdict"
    return (
        f"missing rows: {unknown} of {total} {arm} are absent or lack {what}{uneven}, {MAX_UNKNOWN:.0%} may"
    )


def _graded_gap(scope: Scope) -> str | None:
    before, after = (1 - scope.unknown(arm) / scope.rows(arm) for arm in ARMS)
    if abs(after - before) <= MAX_GRADED_GAP + _ROUNDING:
        return None
    return (
        f"missing rows: {before:.1%} graded before and {after:.1%} after, "
        f"more than {100 * MAX_GRADED_GAP:.0f} points apart"
    )


def _free(rule: str) -> str:
    """Column that says whether a rollout is free of what a rule finds."""
    return f"free of {rule}"


def _attempts(trials: pl.DataFrame, guards: Sequence[str]) -> pl.DataFrame:
    """One row per (category, task, sample), with the columns of both arms side by side; null where one lacks.

    Samples of the same number share their luck where the arms were played with common random numbers.
    """
    absent = [
        pl.lit(None, kind).alias(name) for name, kind in _NOT_NAMED.items() if name not in trials.columns
    ]
    known = trials.with_columns(absent)
    if guards:
        rules = pl.col("findings").str.json_decode(pl.List(pl.String))
        known = known.with_columns(rules.list.contains(rule).not_().alias(_free(rule)) for rule in guards)
    keys = ["category", "task_id", "sample"]
    kept = [*keys, "passed", *(name for name in _NOT_NAMED if name != "findings"), *map(_free, guards)]
    sides = {}
    for arm in ARMS:
        side = known.filter(pl.col("arm") == arm).select(kept)
        twice = side.filter(side.select("task_id", "sample").is_duplicated())
        if twice.height:
            task, sample = twice.select("task_id", "sample").row(0)
            raise ValueError(f"paired_delta: sample {sample!r} of task {task!r} is there twice {arm}")
        own = [pl.col(name).alias(f"{name}_{arm}") for name in kept if name not in keys]
        sides[arm] = side.select(*keys, *own, pl.lit(value=True).alias(f"there_{arm}"))
    return sides["before"].join(sides["after"], on=keys, how="full", coalesce=True, nulls_equal=True)


def _by_task(attempts: pl.DataFrame, value: str) -> pl.DataFrame:
    """One row per task: `rows`, known values `n` and those that are true `c` of each arm.

    Beside them `pairs` (samples known in both arms) and `discordant` (those that differ), how many rows tell
    whether they were answered or truncated and how many were, and the identities the arms should share.
    """
    return (
        attempts.group_by("category", "task_id")
        .agg(*_counts(value), *_identities())
        .sort("category", "task_id")
    )


def _counts(value: str) -> Iterator[pl.Expr]:
    before, after = (pl.col(f"{value}_{arm}") for arm in ARMS)
    yield (before.is_not_null() & after.is_not_null()).sum().cast(pl.Int64).alias("pairs")
    yield (before != after).sum().cast(pl.Int64).alias("discordant")
    for arm in ARMS:
        yield pl.col(f"there_{arm}").count().cast(pl.Int64).alias(f"rows_{arm}")
        yield pl.col(f"{value}_{arm}").count().cast(pl.Int64).alias(f"n_{arm}")
        yield pl.col(f"{value}_{arm}").sum().cast(pl.Int64).alias(f"c_{arm}")
        for marker in ("answered", "truncated"):
            yield pl.col(f"{marker}_{arm}").count().cast(pl.Int64).alias(f"{marker}_told_{arm}")
            yield pl.col(f"{marker}_{arm}").sum().cast(pl.Int64).alias(f"{marker}_{arm}")


def _identities() -> Iterator[pl.Expr]:
    for name in ("judge", "customer"):
        yield _both(name).n_unique().alias(f"{name}s")
        yield _both(name).min().alias(f"{name}_one")
        yield _both(name).max().alias(f"{name}_other")
    # A task may be played as several scenarios, one a sample: what counts is that both arms met the same.
    known = _both("scenario_id").n_unique()
    each = [pl.col(f"scenario_id_{arm}").drop_nulls().n_unique() for arm in ARMS]
    yield ((each[0] > 0) & (each[1] > 0) & (known > pl.min_horizontal(*each))).alias("other_worlds")


def _both(name: str) -> pl.Expr:
    return pl.col(f"{name}_before").append(pl.col(f"{name}_after")).drop_nulls()
