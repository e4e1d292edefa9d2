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


def look_row(
    candidate: str, serving: str, tasks: Sequence[str], earlier: Counter[str], level: float
) -> dict[str, Any]:
    """Row of `prove.looks`.

    The look's number is one more than the most often seen task's: fresh tasks need no correction. The level
    is Bonferroni's, 1 - (1 - level) / number.
    """
    number = 1 + max((earlier[task] for task in tasks), default=0)
    return {
        "candidate": candidate,
        "serving": serving,
        "look": number,
        "n_tasks": len(tasks),
        "n_fresh": sum(earlier[task] == 0 for task in tasks),
        "level": 1 - (1 - level) / number,
        "tasks": canonical_json(sorted(tasks)),
    }
