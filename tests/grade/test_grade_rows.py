import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.example import DAY, DOCUMENT, TOOLS, played
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.grade.endpoint_judge import ModelJudge
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import Criterion, RulesJudge, Verdict
from while_pipeline.grade.rows import (
    conduct_rows,
    evenly_sampled,
    findings_by_rollout,
    grade_figures,
    grade_row,
)
from while_pipeline.grade.rubric import read_rubric
from while_pipeline.prove.pass_at import rate_interval
from while_pipeline.tables import grade as tables
from while_pipeline.tables.base import frame

JUDGE = RulesJudge()
PLAYED = played(30, samples=4)
LOST = replace(PLAYED[0], played=replace(PLAYED[0].played, lost="AgentError: 503", ended="lost"))
GRADED = grade([LOST, *PLAYED[1:]], TOOLS, DOCUMENT, JUDGE)
GRADES = frame(tables.Grades, DAY, [grade_row(one, JUDGE) for one in GRADED])


def test_every_grade_is_a_row_that_its_table_accepts() -> None:
    assert GRADES.height == len(GRADED)
    assert GRADES["reward"].to_list() == [one.reward for one in GRADED]
    assert set(GRADES["judge"]) == {JUDGE.identity}


def test_the_rules_have_no_model_rubric_or_criteria_to_speak_of() -> None:
    row = GRADES.row(1, named=True)
    assert [row[c] for c in ("judge_model", "judge_settings", "rubric", "no_verdict", "criteria")] == [
        None
    ] * 5


def test_a_models_row_says_who_judged_how_by_which_rubric_and_why(tmp_path: Path) -> None:
    rubric = read_rubric("# Hard criteria\n- Nothing is invented.", "r")
    settings = EndpointSettings(base_url="http://127.0.0.1:1/v1", model="asked")
    judge = ModelJudge(settings, rubric, tmp_path / "r.sqlite")
    broken = Criterion(criterion="hard_1", kind="hard", score=0.0, reason='It says "ten".')
    given = Verdict(clean=False, reason="x", criteria=(broken,), model="answered")
    silent = Verdict(clean=None, reason="no verdict: cut off", model="answered", no_verdict="cut off")
    rows = [grade_row(replace(GRADED[1], verdict=one), judge) for one in (given, silent)]
    rows[1]["rollout_id"] = "another"
    with_verdict, without = frame(tables.Grades, DAY, rows).iter_rows(named=True)
    assert json.loads(with_verdict["criteria"]) == [
        {"criterion": "hard_1", "kind": "hard", "score": 0.0, "reason": 'It says "ten".'}
    ]
    assert with_verdict["rubric"] == without["rubric"] == rubric.hash
    assert with_verdict["judge_model"] == without["judge_model"] == "answered"
    assert json.loads(with_verdict["judge_settings"])["model"] == "asked"
    assert (with_verdict["no_verdict"], without["no_verdict"], without["criteria"]) == (None, "cut off", None)


def test_hard_and_style_findings_are_counted_apart() -> None:
    for one, row in zip(GRADED, GRADES.iter_rows(named=True), strict=True):
        assert row["n_hard"] + row["n_style"] == len(one.findings)
        assert (row["n_hard"] > 0) == one.has_hard_finding
    assert GRADES["n_hard"].sum() > 0
    assert GRADES["n_style"].sum() > 0


def test_a_lost_rollout_is_unknown_in_every_column_never_zero() -> None:
    row = GRADES.row(0, named=True)
    assert [row[c] for c in ("outcome_ok", "verdict", "reward", "passed")] == [None] * 4
    assert row["no_verdict"] == "not asked"
    assert row["reason"] == "lost: AgentError: 503"


def test_findings_read_back_as_they_were_by_rollout() -> None:
    found = {one.rollout.rollout_id: list(one.findings) for one in GRADED}
    stored = frame(tables.Conduct, DAY, conduct_rows(found))
    assert findings_by_rollout(stored) == {rollout: some for rollout, some in found.items() if some}


def test_rates_of_an_adaptive_night_come_from_the_samples_that_every_scenario_has() -> None:
    groups = {"settled": [True, True], "unsettled": [True, False, False, False]}
    made = [
        (scenario, sample, passed)
        for scenario, group in groups.items()
        for sample, passed in enumerate(group)
    ]
    graded = pl.DataFrame(made, schema=["scenario_id", "sample", "passed"], orient="row")
    assert evenly_sampled(graded)["passed"].to_list() == [True, True, True, False]
    assert evenly_sampled(graded.head(0)).height == 0


def figures(*tasks: tuple[str, list[bool | None]]) -> dict[str, float]:
    """Figures of one scenario per task; None is a rollout without a verdict, cut off."""
    made = [(task, task, sample, passed) for task, group in tasks for sample, passed in enumerate(group)]
    schema = {
        "scenario_id": pl.String,
        "task_id": pl.String,
        "sample": pl.Int64,
        "passed": pl.Boolean,
    }
    rows = pl.DataFrame(made, schema=schema, orient="row").with_columns(
        verdict="passed", no_verdict=pl.when(pl.col("passed").is_null()).then(pl.lit("cut off"))
    )
    return grade_figures(rows)


def test_shares_are_taken_within_tasks_and_carry_an_interval_over_tasks() -> None:
    found = figures(("a", [True, False, None, True]), ("b", [False, False, False, False]), ("c", [None] * 4))
    passed, silent = rate_interval([2 / 3, 0]), rate_interval([0.25, 0, 1])
    assert found == pytest.approx(
        {
            "passed": 1 / 3,
            "passed_low": passed.low,
            "passed_high": passed.high,
            "passed_tasks": 2,
            "passed_n": 7,
            "no_verdict": 1.25 / 3,
            "no_verdict_low": silent.low,
            "no_verdict_high": silent.high,
            "no_verdict_tasks": 3,
            "no_verdict_n": 12,
            "no_verdict (cut off)": 5,
        }
    )


def test_a_share_of_nothing_is_left_out_not_zero() -> None:
    assert figures() == {"passed_tasks": 0, "passed_n": 0, "no_verdict_tasks": 0, "no_verdict_n": 0}
    silent = figures(("a", [None, None]))
    assert "passed" not in silent
    assert (silent["no_verdict"], silent["passed_tasks"]) == (1.0, 0)
