"""pass@k, pass^k and headroom of attempts that somebody else played and graded.

What belongs here: from traffic files with outcomes to the table of pass rates, and its text. Reading files
belongs to `watch.read`, the estimators to `prove.pass_at`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from while_pipeline.prove.pass_at import OVERALL, pass_table
from while_pipeline.records import Reject
from while_pipeline.watch.read import read_traffic

WHOLE_REWARD = 1 - 1e-6
"""A reward from here on is a pass: rewards summed from parts miss 1 by rounding. tau-bench does the same."""

_ANY_DAY = "1970-01-01"
"""Trajectories without a clock need a day to be read at all; no figure depends on it."""


@dataclass(frozen=True)
class Measurement:
    """What files of graded attempts show."""

    rates: pl.DataFrame
    """`pass_at.PASS_SCHEMA`, scope `overall` only: pass@1 .. k, pass^1 .. k, headroom 2 .. k. Empty when no
    conversation has both a task and a reward."""
    n_conversations: int
    n_no_task: int
    """Conversations without a task id: left out, for nothing says which of them are attempts at the same."""
    n_no_reward: int
    """Conversations with a task but no reward in [0, 1]: no verdict, left out of the rates."""
    rejects: tuple[Reject, ...]


def measure(files: Sequence[Path]) -> Measurement:
    """Measure the pass rates of the conversations in `files`, whatever traffic the readers know.

    Attempts belong together by their task id, across files. k goes up to what at least half of the tasks
    reach, so that the last rows do not speak for a few tasks only.
    """
    paths = sorted({path.resolve() for path in files})
    root = Path(os.path.commonpath([path.parent for path in paths]))
    traffic = read_traffic(paths, root, _ANY_DAY)
    attempts = [(c.task, c.reward) for c in traffic.conversations if c.task is not None]
    graded = pl.DataFrame(attempts, schema={"task_id": pl.String, "reward": pl.Float64}, orient="row").select(
        "task_id", category=pl.lit("attempts"), passed=pl.col("reward") >= WHOLE_REWARD
    )
    known = graded.drop_nulls("passed")
    rates = pass_table(graded, range(1, _largest_k(known) + 1))
    return Measurement(
        rates=rates.filter(pl.col("scope") == OVERALL),
        n_conversations=len(traffic.conversations),
        n_no_task=len(traffic.conversations) - graded.height,
        n_no_reward=graded.height - known.height,
        rejects=traffic.rejects,
    )


def to_text(found: Measurement) -> str:
    """Say a measurement in fixed-width lines: one per metric and k, then what was left out."""
    lines = [f"{found.n_conversations} conversations"]
    if found.rates.height:
        lines.append("metric       value  95 % interval   tasks  attempts")
        lines += [
            f"{_metric(row['metric'], row['k']):<11}  {row['value']:.3f}"
            f"  [{row['low']:.3f}, {row['high']:.3f}]  {row['n_tasks']:>5}  {row['n_rollouts']:>8}"
            for row in found.rates.iter_rows(named=True)
        ]
    if found.n_no_reward:
        lines.append(f"{found.n_no_reward} without a reward: no verdict, left out")
    if found.n_no_task:
        lines.append(f"{found.n_no_task} without a task id (`task` or `task_id`): left out")
    if found.rejects:
        lines.append(f"{len(found.rejects)} could not be read:")
        lines += [f"  {_place(reject)}: {reject.reason}" for reject in found.rejects]
    return "\n".join(lines)


def _largest_k(known: pl.DataFrame) -> int:
    """The largest k that at least half of the tasks with a verdict reach; 0 without one."""
    counts = known.group_by("task_id").len()["len"].sort(descending=True)
    return int(counts[(counts.len() + 1) // 2 - 1]) if counts.len() else 0


def _place(reject: Reject) -> str:
    return reject.source if reject.line is None else f"{reject.source}:{reject.line}"


def _metric(name: str, k: int) -> str:
    return f"{name} {k}" if name.isalpha() else f"{name}{k}"
