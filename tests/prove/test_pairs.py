import polars as pl
import pytest

from tests.arms import FIRST_TWO, GAIN, IN_AFTER, MIXED, SAME, forget, overall, scope, trials
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.verdict import Verdict


def test_arms_that_were_played_as_other_scenarios_are_not_comparable() -> None:
    one_each = pl.format("s{}", pl.col("sample"))
    data = trials({"refund": GAIN}).with_columns(scenario_id=one_each)
    assert overall(paired_delta(data))["verdict"] == Verdict.BETTER
    moved = pl.when(IN_AFTER & (pl.col("task_id") == "refund-3")).then(pl.lit("new")).otherwise("scenario_id")
    found = overall(paired_delta(data.with_columns(scenario_id=moved)))
    assert found["reason"] == "other worlds: 1 of 20 tasks were played as another scenario"


def test_an_identity_that_a_side_does_not_name_is_not_held_against_it() -> None:
    data = trials({"refund": GAIN}).with_columns(judge=pl.when(IN_AFTER).then("judge"))
    assert overall(paired_delta(data.drop("customer")))["verdict"] == Verdict.BETTER


def test_a_few_absent_rows_count_as_unknown() -> None:
    data = trials({"refund": GAIN}).filter((pl.col("task_id") != "refund-3") | FIRST_TWO)
    found = overall(paired_delta(data))
    assert (found["verdict"], found["n_unknown"], found["k"]) == (Verdict.BETTER, 4, 2)
    assert (found["graded_before"], found["graded_after"]) == pytest.approx((78 / 80, 78 / 80))


def test_arms_graded_unlike_each_other_are_not_comparable_even_within_the_limit() -> None:
    data = trials({"refund": GAIN})
    for lost, verdict in ((4, Verdict.BETTER), (5, Verdict.NOT_COMPARABLE)):
        unknown = (
            IN_AFTER & (pl.col("sample") == 0) & pl.col("task_id").is_in([f"refund-{i}" for i in range(lost)])
        )
        found = overall(paired_delta(forget(data, unknown)))
        assert (found["verdict"], found["graded_before"]) == (verdict, 1.0)
        assert found["graded_after"] == pytest.approx(1 - lost / 80)
    assert found["reason"] == "missing rows: 100.0% graded before and 93.8% after, more than 5 points apart"


def test_a_side_that_is_cut_off_more_often_makes_a_caution_and_the_shares_are_stored() -> None:
    cut = IN_AFTER & FIRST_TWO
    data = trials({"refund": GAIN}).with_columns(truncated=cut, answered=~cut)
    found = overall(paired_delta(data))
    assert (found["truncated_before"], found["truncated_after"]) == (0.0, 0.5)
    assert (found["answered_before"], found["answered_after"]) == (1.0, 0.5)
    assert "cut off in 0.0% of the rollouts before and 50.0% after (sign-flip p 1.9e-06)" in found["caution"]
    assert "the agent had the last word in 100.0%" in found["caution"]
    rare = data.with_columns(
        truncated=cut & (pl.col("task_id") < "refund-13"), answered=pl.lit(None, pl.Boolean)
    )
    assert overall(paired_delta(rare))["caution"] is None
    assert overall(paired_delta(rare))["answered_after"] is None


def test_an_attempt_that_is_there_twice_is_an_error() -> None:
    data = trials({"refund": SAME})
    with pytest.raises(ValueError, match="sample 0 of task 'refund-0' is there twice before"):
        paired_delta(pl.concat([data, data.head(1)]))


def test_the_report_says_what_such_tasks_can_show() -> None:
    found = paired_delta(trials({"refund": MIXED}))
    assert overall(found)["plan"].startswith("20 held-out tasks with 4 samples each show a difference of ")
    assert scope(found, "refund")["plan"] is None
    one = overall(paired_delta(trials({"refund": [(0, 1), (1, 0)] * 20}, k=1)))
    assert "(base 0.50)" in one["plan"]
