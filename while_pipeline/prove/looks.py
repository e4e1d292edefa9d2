"""Looks at the sealed tasks: every look that decided something is written down and corrected for."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from while_pipeline.ids import canonical_json


def times_looked_at(looks: pl.DataFrame) -> Counter[str]:
    """How many earlier looks each task has had, from `prove.looks` of the days before."""
    return Counter(task for tasks in looks["tasks"] for task in json.loads(tasks))


def looks_factor(number: int) -> int:
    """What the p-value of look `number` at the same tasks is multiplied by: 1, then number · (number - 1).

    The chance of a false "better" over all looks stays within the error rate, however many looks follow and
    whatever decides to take them. The first look spends its own half of the two-sided rate; all later ones
    together spend no more than as much again, for the sum over t >= 2 of 1 / (t (t - 1)) is 1. A first look
    at fresh tasks thus costs nothing, and is corrected for nothing that may come after it.

    Args:
        number: 1 for the first look, 2 for the second.

    Raises:
        ValueError: `number` is below 1.
    """
    if number < 1:
        raise ValueError(f"looks_factor: number is {number}, expected 1 for the first look, 2 for the second")
    return max(1, number * (number - 1))


def looks_of(trials: pl.DataFrame, earlier: Counter[str], level: float) -> list[dict[str, Any]]:
    """Rows of `prove.looks` for a day's `prove.trials`: one, or none where nothing was played."""
    if trials.is_empty():
        return []
    versions = dict(trials.select("arm", "policy_version").unique().iter_rows())
    tasks = trials["task_id"].unique().sort().to_list()
    return [look_row(versions["after"], versions["before"], tasks, earlier, level)]


def look_row(
    candidate: str, serving: str, tasks: Sequence[str], earlier: Counter[str], level: float
) -> dict[str, Any]:
    """Row of `prove.looks`.

    The look's number is one more than the most often seen task's: fresh tasks need no correction. The level
    is 1 - (1 - level) / `looks_factor`.
    """
    number = 1 + max((earlier[task] for task in tasks), default=0)
    return {
        "candidate": candidate,
        "serving": serving,
        "look": number,
        "n_tasks": len(tasks),
        "n_fresh": sum(earlier[task] == 0 for task in tasks),
        "level": 1 - (1 - level) / looks_factor(number),
        "tasks": canonical_json(sorted(tasks)),
    }
