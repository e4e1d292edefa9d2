"""Grades as table rows, and the frames the measuring functions read."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from while_pipeline.grade.grader import Graded
from while_pipeline.grade.judge import Judge, Verdict
from while_pipeline.ids import canonical_json
from while_pipeline.prove.pass_at import rate_interval
from while_pipeline.records import Finding


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
        "judge_model": graded.verdict.model,
        "judge_settings": judge.settings,
        "rubric": judge.rubric,
        "verdict": graded.verdict.clean,
        "no_verdict": graded.verdict.no_verdict,
        "criteria": _criteria(graded.verdict),
        "verdict_reason": graded.verdict.reason,
        "reward": graded.reward,
        "passed": graded.passed,
        "reason": graded.reason,
    }


def _criteria(verdict: Verdict) -> str | None:
    """The judge's words on each criterion as JSON, by the criterion's name: the rubric's text is no row's."""
    return canonical_json([c.model_dump() for c in verdict.criteria]) if verdict.criteria else None


GRADED = """
    SELECT g.task_id, g.category, g.scenario_id, r.sample, g.verdict, g.no_verdict, g.passed
    FROM grade.grades AS g JOIN simulate.rollouts AS r USING (day, rollout_id)
    WHERE g.day = ?
    ORDER BY g.rowid
"""
"""A day's verdicts with what the rates need of their rollouts: no text, so that a million take 0.2 GB."""


def grade_figures(graded: pl.DataFrame) -> dict[str, float]:
    """What a day's grades come to, by name; what is undefined is left out.

    `passed` is the share that pass of those with a verdict, among the samples that every scenario has;
    `no_verdict` the share without one. Both are taken within each task and averaged over tasks, with `_low`
    and `_high` as in `rate_interval`, the number of tasks, and the rows they rest on. `no_verdict (CAUSE)`
    counts rows.

    Args:
        graded: Rows of `GRADED`.
    """
    causes = graded.drop_nulls("no_verdict").group_by("no_verdict").len().sort("no_verdict")
    return {
        **_rate("passed", evenly_sampled(graded), pl.col("passed")),
        **_rate("no_verdict", graded, pl.col("verdict").is_null()),
        **{f"no_verdict ({cause})": n for cause, n in causes.iter_rows()},
    }


def _rate(name: str, rows: pl.DataFrame, yes: pl.Expr) -> dict[str, float]:
    tasks = rows.group_by("task_id", maintain_order=True).agg(rate=yes.mean(), n=yes.count())
    known = tasks.drop_nulls("rate")
    counted: dict[str, float] = {f"{name}_tasks": known.height, f"{name}_n": int(known["n"].sum())}
    if known.is_empty():
        return counted
    rates = known["rate"].to_numpy()
    low, high = rate_interval(rates)
    return {name: float(rates.mean()), f"{name}_low": low, f"{name}_high": high, **counted}


def evenly_sampled(graded: pl.DataFrame) -> pl.DataFrame:
    """Rows of `GRADED` of the first samples that every scenario has.

    An adaptive night plays more samples where the first ones disagree; counted, they would pull every rate
    towards a half.
    """
    fewest = graded.group_by("scenario_id").len()["len"].min()
    return graded if fewest is None else graded.filter(pl.col("sample") < fewest)
