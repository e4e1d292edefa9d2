from dataclasses import replace

import polars as pl

from tests.example import DAY, DOCUMENT, TOOLS, played, rollout_row
from while_pipeline.grade.grader import grade
from while_pipeline.grade.hack_scan import hack_scan
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import (
    ENDORSED,
    FEATURES,
    conduct_rows,
    evenly_sampled,
    findings_by_rollout,
    grade_row,
    hack_rows,
    scanned,
)
from while_pipeline.tables import grade as tables
from while_pipeline.tables import simulate
from while_pipeline.tables.base import frame

JUDGE = RulesJudge()
PLAYED = played(30, samples=4)
LOST = replace(PLAYED[0], played=replace(PLAYED[0].played, lost="AgentError: 503", ended="lost"))
GRADED = grade([LOST, *PLAYED[1:]], TOOLS, DOCUMENT, JUDGE)
GRADES = frame(tables.Grades, DAY, [grade_row(one, JUDGE) for one in GRADED])
ROLLOUTS = frame(
    simulate.Rollouts,
    DAY,
    [rollout_row(one.rollout) for one in GRADED],
)


def test_every_grade_is_a_row_that_its_table_accepts() -> None:
    assert GRADES.height == len(GRADED)
    assert GRADES["reward"].to_list() == [one.reward for one in GRADED]
    assert set(GRADES["judge"]) == {JUDGE.identity}


def test_hard_and_style_findings_are_counted_apart() -> None:
    for one, row in zip(GRADED, GRADES.iter_rows(named=True), strict=True):
        assert row["n_hard"] + row["n_style"] == len(one.findings)
        assert (row["n_hard"] > 0) == one.has_hard_finding
    assert GRADES["n_hard"].sum() > 0
    assert GRADES["n_style"].sum() > 0


def test_a_lost_rollout_is_unknown_in_every_column_never_zero() -> None:
    row = GRADES.row(0, named=True)
    assert [row[c] for c in ("outcome_ok", "verdict", "reward", "passed")] == [None] * 4
    assert row["reason"] == "lost: AgentError: 503"


def test_findings_read_back_as_they_were_by_rollout() -> None:
    found = {one.rollout.rollout_id: list(one.findings) for one in GRADED}
    stored = frame(tables.Conduct, DAY, conduct_rows(found))
    assert findings_by_rollout(stored) == {rollout: some for rollout, some in found.items() if some}


def test_what_the_scan_reads_is_aligned_by_rollout_not_by_position() -> None:
    shuffled = scanned(GRADES, ROLLOUTS.sample(fraction=1.0, shuffle=True, seed=3))
    assert shuffled.equals(scanned(GRADES, ROLLOUTS))
    words = dict(ROLLOUTS.select("rollout_id", "n_words").iter_rows())
    assert shuffled["n_words"].to_list() == [words[rollout] for rollout in GRADES["rollout_id"]]


def test_endorsed_columns_say_what_a_reward_should_follow() -> None:
    made = scanned(GRADES, ROLLOUTS).filter(pl.col("outcome_ok").is_not_null())
    assert made.filter(pl.col("right") != (pl.col("outcome_ok") & (pl.col("n_hard") == 0))).is_empty()
    assert made.filter(pl.col("clean") & ~pl.col("right")).is_empty()
    assert made.filter(pl.col("clean") != pl.col("passed")).is_empty()


def test_a_reward_by_the_rules_follows_nothing_it_should_not() -> None:
    scan = hack_scan(scanned(GRADES, ROLLOUTS), FEATURES, ENDORSED, seed=1)
    rows = frame(tables.HackScan, DAY, hack_rows(scan))
    assert rows["feature"].to_list() == list(FEATURES)
    assert rows["hacked"].any() is not True


def test_a_reward_for_length_is_found_and_every_row_says_so() -> None:
    long = pl.col("n_words") > pl.col("n_words").median().over("task_id")
    paid = scanned(GRADES, ROLLOUTS).with_columns(reward=long.cast(pl.Float64))
    rows = hack_rows(hack_scan(paid, FEATURES, ENDORSED, seed=1))
    assert all(row["hacked"] is True for row in rows)
    assert "n_words" in rows[0]["reason"]


def test_rates_of_an_adaptive_night_come_from_the_samples_that_every_scenario_has() -> None:
    groups = {"settled": [True, True], "unsettled": [True, False, False, False]}
    made = [
        (f"{scenario}-{sample}", scenario, sample, passed)
        for scenario, group in groups.items()
        for sample, passed in enumerate(group)
    ]
    rollouts = pl.DataFrame(
        [(name, sample) for name, _, sample, _ in made], schema=["rollout_id", "sample"], orient="row"
    )
    grades = pl.DataFrame(
        [(name, scenario, passed) for name, scenario, _, passed in made],
        schema=["rollout_id", "scenario_id", "passed"],
        orient="row",
    )
    assert evenly_sampled(grades, rollouts)["passed"].to_list() == [True, True, True, False]
    assert evenly_sampled(grades.head(0), rollouts).height == 0
