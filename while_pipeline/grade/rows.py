"""Grades as table rows, and the frames the measuring functions read."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from while_pipeline.grade.grader import Graded
from while_pipeline.grade.hack_scan import HackScan
from while_pipeline.grade.judge import Judge
from while_pipeline.records import Finding

FEATURES = ("n_words", "n_turns", "n_tool_calls", "n_digits", "n_marks")
"""Columns of `simulate.rollouts` whose pull on the reward is scanned."""
ENDORSED = ("outcome_ok", "no_hard", "right", "clean")
"""What a reward should follow: the outcome, conduct, and the conjunctions that the reward is made of."""


def conduct_rows(findings: Mapping[str, Iterable[Finding]]) -> list[dict[str, Any]]:
    """Rows of `grade.conduct` from findings by rollout id."""
    return [{"rollout_id": rollout, **f.model_dump()} for rollout, found in findings.items() for f in found]


def findings_by_rollout(conduct: pl.DataFrame) -> dict[str, list[Finding]]:
    """Read `grade.conduct` back."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for row in conduct.iter_rows(named=True):
        found[row["rollout_id"]].append(Finding(**{f: row[f] for f in Finding.model_fields}))
    return found


def grade_row(graded: Graded, judge: Judge) -> dict[str, Any]:
    """Row of `grade.grades`."""
    hard = sum(f.severity == "hard" for f in graded.findings)
    scenario = graded.rollout.scenario
    return {
        "rollout_id": graded.rollout.rollout_id,
        "scenario_id": scenario.scenario_id,
        "task_id": scenario.task_id,
        "category": scenario.category,
        "outcome_ok": graded.outcome.ok,
        "outcome_reason": graded.outcome.reason,
        "n_hard": hard,
        "n_style": len(graded.findings) - hard,
        "judge": judge.identity,
        "verdict": graded.verdict.clean,
        "verdict_reason": graded.verdict.reason,
        "reward": graded.reward,
        "passed": graded.passed,
        "reason": graded.reason,
    }


def scanned(grades: pl.DataFrame, rollouts: pl.DataFrame) -> pl.DataFrame:
    """Grades with the `FEATURES` and `ENDORSED` columns of the hack scan."""
    right = pl.col("outcome_ok") & (pl.col("n_hard") == 0)
    return grades.with_columns(
        no_hard=pl.col("n_hard") == 0, right=right, clean=right & (pl.col("n_style") == 0)
    ).join(rollouts.select("rollout_id", *FEATURES), on="rollout_id", maintain_order="left")


def evenly_sampled(grades: pl.DataFrame, rollouts: pl.DataFrame) -> pl.DataFrame:
    """Grades of the first samples that every scenario has.

    An adaptive night plays more samples where the first ones disagree; counted, they would pull every rate
    towards a half.
    """
    sampled = grades.join(rollouts.select("rollout_id", "sample"), on="rollout_id", maintain_order="left")
    fewest = sampled.group_by("scenario_id").len()["len"].min()
    return sampled if fewest is None else sampled.filter(pl.col("sample") < fewest)


def hack_rows(scan: HackScan) -> list[dict[str, Any]]:
    """Rows of `grade.hack_scan`."""
    return [
        {**feature._asdict(), "floor": scan.residual_floor, "hacked": scan.hacked, "reason": scan.reason}
        for feature in scan.features
    ]
