import math
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from scipy import stats

from benchmarks.calibration.batch import rule
from tests.arms import GAIN, LOSS, MIXED, SAME, forget, from_differences, overall, scope, trials
from while_pipeline.prove.delta import DELTA_SCHEMA, paired_delta
from while_pipeline.prove.intervals import holm, percentile_bootstrap, pseudo_pair_interval, t_interval
from while_pipeline.prove.power import plan
from while_pipeline.prove.variance import PairedComponents
from while_pipeline.prove.verdict import Verdict, promotable

EXAMPLE = [0.25, 0.5, 0, 0.25, -0.25, 0.5, 0.75, 0, 0.25, 0.25]


def test_the_worked_example_is_reported_whole() -> None:
    found = overall(paired_delta(trials({"refund": from_differences(EXAMPLE)})))

    assert (found["n_tasks"], found["k"], found["n_changed"], found["n_unknown"]) == (10, 4, 8, 0)
    assert found["difference"] == pytest.approx(0.25)
    assert found["after"] - found["before"] == pytest.approx(0.25)
    assert (found["low"], found["high"]) == pytest.approx((-0.014595, 0.431262), abs=1e-6)
    assert (found["t_low"], found["t_high"]) == pytest.approx((0.043494, 0.456506), abs=1e-6)
    assert (found["percentile_low"], found["percentile_high"]) == pytest.approx((0.075, 0.425))
    assert found["p_sign_flip"] == pytest.approx(48 / 1024)
    assert found["verdict"] == Verdict.NO_DIFFERENCE
    assert "the interval holds 0" in found["reason"]


def test_rows_are_overall_first_then_categories_in_order_with_the_stated_types() -> None:
    delta = paired_delta(trials({"refund": GAIN, "cancel": SAME}))
    assert delta.schema == DELTA_SCHEMA
    assert delta["scope"].to_list() == ["overall", "cancel", "refund"]


def test_row_order_does_not_matter() -> None:
    data = trials({"refund": MIXED, "cancel": GAIN})
    assert paired_delta(data).equals(paired_delta(data.sample(fraction=1.0, shuffle=True, seed=4)))


@pytest.mark.parametrize(
    ("tasks", "verdict"),
    [
        (GAIN, Verdict.BETTER),
        (LOSS, Verdict.WORSE),
        (SAME, Verdict.NO_DIFFERENCE),
        (MIXED, Verdict.NO_DIFFERENCE),
    ],
)
def test_a_clear_change_is_called_and_none_is_not(tasks: list[tuple[int, int]], verdict: Verdict) -> None:
    delta = paired_delta(trials({"refund": tasks}))
    assert delta["verdict"].to_list() == [verdict, verdict]


def test_swapping_the_arms_mirrors_the_report() -> None:
    there = overall(paired_delta(trials({"refund": [(0, 3), (1, 2), *GAIN]})))
    back = overall(paired_delta(trials({"refund": [(3, 0), (2, 1), *LOSS]})))
    assert (there["verdict"], back["verdict"]) == (Verdict.BETTER, Verdict.WORSE)
    assert (back["low"], back["high"]) == pytest.approx((-there["high"], -there["low"]))
    assert back["p_sign_flip"] == there["p_sign_flip"]


def test_five_tasks_are_too_few_whatever_they_show() -> None:
    found = overall(paired_delta(trials({"refund": [(0, 4)] * 5})))
    assert found["verdict"] == Verdict.TOO_FEW
    assert found["reason"] == "5 tasks; at least 6 are needed"


def test_six_tasks_that_all_jump_are_enough() -> None:
    assert overall(paired_delta(trials({"refund": [(0, 4)] * 6})))["verdict"] == Verdict.BETTER


def test_too_few_changed_tasks_name_the_number_of_tasks_needed() -> None:
    found = overall(paired_delta(trials({"refund": [(4, 0)] * 5 + [(2, 2)] * 15})))
    assert found["verdict"] == Verdict.TOO_FEW
    assert "5 of 20 tasks changed, 6 must: about 31 tasks" in found["reason"]


def test_a_stricter_level_or_more_looks_ask_for_more_changed_tasks() -> None:
    data = trials({"refund": [(0, 4)] * 7})
    assert overall(paired_delta(data))["verdict"] == Verdict.BETTER
    assert "at least 8" in overall(paired_delta(data, level=0.99))["reason"]
    assert "at least 8" in overall(paired_delta(data, looks=2, level=0.98))["reason"]
    assert overall(paired_delta(data, looks=2))["verdict"] == Verdict.BETTER
    assert "at least 8" in overall(paired_delta(data, looks=3))["reason"]
    assert "at least 9" in overall(paired_delta(data, min_changed=9))["reason"]


def test_one_task_has_no_spread_and_no_plan() -> None:
    found = overall(paired_delta(trials({"refund": [(0, 4)]})))
    assert (found["n_tasks"], found["difference"], found["verdict"]) == (1, 1.0, Verdict.TOO_FEW)
    assert [found[c] for c in ("t_low", "t_high", "percentile_low", "percentile_high", "tasks_needed")] == [
        None
    ] * 5
    assert -1 <= found["low"] < 0 < found["high"] <= 1


def test_no_trials_are_missing_rows() -> None:
    delta = paired_delta(trials({}))
    assert delta["scope"].to_list() == ["overall"]
    found = overall(delta)
    assert (found["verdict"], found["reason"]) == (Verdict.NOT_COMPARABLE, "missing rows: none before")
    assert (found["n_tasks"], found["before"], found["difference"]) == (0, None, None)


@pytest.mark.parametrize("column", ["judge", "customer"])
def test_another_judge_or_customer_is_not_comparable(column: str) -> None:
    changed = pl.when((pl.col("arm") == "after") & (pl.col("category") == "refund")).then(pl.lit("new"))
    data = trials({"refund": GAIN, "cancel": GAIN}).with_columns(changed.otherwise(column).alias(column))
    delta = paired_delta(data)

    assert delta["verdict"].to_list() == [Verdict.NOT_COMPARABLE, Verdict.BETTER, Verdict.NOT_COMPARABLE]
    assert scope(delta, "refund")["reason"] == (
        f"other {column}: 20 of 20 tasks have more than one {column} ({column[0]} and new)"
    )
    assert (scope(delta, "refund")["before"], scope(delta, "refund")["after"]) == (0.25, 0.75)
    assert scope(delta, "refund")["difference"] is None


def test_other_tasks_are_not_comparable() -> None:
    data = trials({"refund": GAIN}).filter(~((pl.col("task_id") == "refund-3") & (pl.col("arm") == "after")))
    found = overall(paired_delta(data))
    assert (found["verdict"], found["reason"]) == (
        Verdict.NOT_COMPARABLE,
        "other tasks: 1 only before, 0 only after",
    )


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        (pl.col("arm") == "before", "missing rows: none after"),
        (
            ~pl.col("task_id").is_in([f"refund-{i}" for i in range(5)]) | (pl.col("sample") < 2),
            "missing rows: 10 of 80 before are absent or lack a verdict (tasks have 2 to 4 rows), 10% may",
        ),
    ],
)
def test_missing_rows_are_not_comparable(kept: pl.Expr, reason: str) -> None:
    found = overall(paired_delta(trials({"refund": GAIN}).filter(kept)))
    assert (found["verdict"], found["reason"]) == (Verdict.NOT_COMPARABLE, reason)


def test_a_few_unknown_verdicts_are_left_out_and_counted() -> None:
    lost = (pl.col("task_id") == "refund-0") | ((pl.col("task_id") == "refund-1") & (pl.col("sample") == 3))
    found = overall(paired_delta(forget(trials({"refund": GAIN}), lost)))

    # Task 0 has no verdict left; task 1 has 1 of 3 before and 3 of 3 after.
    d = [2 / 3] + [0.5] * 18
    assert (found["n_unknown"], found["n_tasks"], found["k"]) == (10, 19, 3)
    assert found["difference"] == pytest.approx(np.mean(d))
    assert (found["low"], found["high"]) == pytest.approx(pseudo_pair_interval(d, 19 / (18 / 4 + 1 / 3)))
    assert found["p_sign_flip"] == pytest.approx(2 / 2**19)
    assert found["verdict"] == Verdict.BETTER


def test_many_unknown_verdicts_are_missing_rows() -> None:
    lost = (pl.col("arm") == "after") & (pl.col("sample") == 0)
    found = overall(paired_delta(forget(trials({"refund": GAIN}), lost)))
    assert found["verdict"] == Verdict.NOT_COMPARABLE
    assert found["reason"] == "missing rows: 20 of 80 after are absent or lack a verdict, 10% may"


def test_an_arm_without_verdicts_is_missing_rows_however_small_it_is() -> None:
    data = trials({"refund": [(1, 8)] * 20}, k=1, k_after=16)
    found = overall(paired_delta(forget(data, pl.col("arm") == "before")))
    assert found["reason"] == "missing rows: 20 of 20 before are absent or lack a verdict, 10% may"
    assert (found["before"], found["after"], found["n_tasks"], found["n_unknown"]) == (None, 0.5, 0, 20)


def test_arms_may_differ_in_k_and_the_smaller_decides_the_width() -> None:
    tasks = [(2, 2), (4, 1), (0, 1)] * 7
    found = overall(paired_delta(trials({"refund": tasks}, k=8, k_after=2)))
    d = [after / 2 - before / 8 for before, after in tasks]
    assert found["k"] == 2
    assert found["n_changed"] == 14
    assert (found["low"], found["high"]) == pytest.approx(pseudo_pair_interval(d, 2))
    assert (found["t_low"], found["t_high"]) == pytest.approx(t_interval(d))
    assert (found["percentile_low"], found["percentile_high"]) == pytest.approx(percentile_bootstrap(d))


def test_equal_rates_of_unequal_counts_are_no_change() -> None:
    found = overall(paired_delta(trials({"refund": [(2, 4), (1, 2)] * 5}, k=6, k_after=12)))
    assert (found["n_changed"], found["verdict"]) == (0, Verdict.NO_DIFFERENCE)
    assert found["reason"] == "none of 10 tasks changed"


def test_categories_are_corrected_together_and_small_ones_stay_out_of_the_family() -> None:
    some = [(0, 1)] * 7 + [(1, 0)] + [(2, 2)] * 12
    delta = paired_delta(trials({"a": some, "b": GAIN, "c": LOSS, "tiny": [(0, 4)] * 3}), looks=2)
    raw = [scope(delta, name)["p_sign_flip"] for name in "abc"]
    assert [scope(delta, name)["p_adjusted"] for name in "abc"] == pytest.approx(holm(raw).tolist())
    assert scope(delta, "tiny")["p_adjusted"] is None
    assert scope(delta, "tiny")["p_sign_flip"] == pytest.approx(0.25)


def test_every_look_at_the_same_tasks_raises_the_overall_p() -> None:
    data = trials({"refund": [(1, 3)] * 9 + [(3, 1)] + [(2, 2)] * 10})
    once, twice, often = (overall(paired_delta(data, looks=looks)) for looks in (1, 2, 4))
    assert once["p_adjusted"] == once["p_sign_flip"]
    assert twice["p_adjusted"] == pytest.approx(2 * once["p_sign_flip"])
    assert often["p_adjusted"] == pytest.approx(12 * once["p_sign_flip"])
    assert (once["verdict"], often["verdict"]) == (Verdict.BETTER, Verdict.NO_DIFFERENCE)
    assert "p is not below 0.05" in often["reason"]


def test_a_sure_but_small_difference_is_no_difference_worth_having() -> None:
    data = trials({"refund": [(1, 2)] * 20})
    assert overall(paired_delta(data, min_effect=0.25))["verdict"] == Verdict.BETTER
    found = overall(paired_delta(data, min_effect=0.3))
    assert found["verdict"] == Verdict.NO_DIFFERENCE
    assert "smaller than the least effect 0.3" in found["reason"]


def test_a_difference_that_re_runs_show_too_is_inside_the_noise() -> None:
    data = trials({"refund": [(2, 1)] * 20})
    assert overall(paired_delta(data, noise={"overall": 0.2}))["verdict"] == Verdict.WORSE
    delta = paired_delta(data, noise={"overall": 0.25, "refund": 0.2})
    assert overall(delta)["verdict"] == Verdict.INSIDE_NOISE
    assert "re-runs alone differ by up to 0.250" in overall(delta)["reason"]
    assert (scope(delta, "refund")["verdict"], scope(delta, "refund")["noise"]) == (Verdict.WORSE, 0.2)


def test_samples_measure_the_noise_and_one_sample_a_task_does_not() -> None:
    data = trials({"refund": [(1, 3)] * 20})
    shared = overall(paired_delta(data))["noise"]
    numbered_on = pl.col("sample") + pl.when(pl.col("arm") == "after").then(4).otherwise(0)
    apart = overall(paired_delta(data.with_columns(sample=numbered_on)))["noise"]
    # A task's differences are 0, 1, 1, 0: variance 1/3, of their mean 1/12, of the mean of 20 tasks 1/240.
    assert shared == pytest.approx(stats.t.ppf(0.975, 60) * math.sqrt(1 / 240))
    # Each arm's rate has the variance .25 * .75 / 3 in a task.
    assert apart == pytest.approx(stats.t.ppf(0.975, 120) * math.sqrt(2 * 0.0625 / 20))
    assert overall(paired_delta(trials({"refund": [(0, 1)] * 20}, k=1)))["noise"] is None


def test_the_tasks_needed_follow_from_the_observed_spread() -> None:
    found = overall(paired_delta(trials({"refund": MIXED})))
    parts = PairedComponents(float(np.var([0.25, -0.25] * 10, ddof=1)), 0.0, 0.0)
    assert found["tasks_needed"] == plan(20, k=4, components=parts).tasks_for_target

    coarser = overall(paired_delta(trials({"refund": MIXED}), min_effect=0.1))
    assert coarser["tasks_needed"] == plan(20, k=4, components=parts, target=0.1).tasks_for_target


@pytest.mark.parametrize("counts", [[(1, 3)] * 3 + [(2, 2)] * 9, [(2, 3)] * 6 + [(2, 2)] * 10 + [(3, 2)] * 2])
def test_so_many_tasks_like_these_show_the_difference_four_times_in_five(
    counts: list[tuple[int, int]],
) -> None:
    needed = overall(paired_delta(trials({"refund": counts})))["tasks_needed"]
    d = np.array([after - before for before, after in counts])
    drawn = np.random.default_rng(0).choice(d, size=(3_000, needed)).astype(float)
    better, _ = rule(drawn, 4)
    assert 0.72 <= better.mean() <= 0.93


def test_a_task_in_two_categories_or_a_guard_named_twice_is_an_error() -> None:
    data = trials({"refund": GAIN})
    moved = data.with_columns(
        category=pl.when(pl.col("sample") == 0).then(pl.lit("other")).otherwise("category")
    )
    with pytest.raises(ValueError, match="is in more than one category"):
        paired_delta(moved)
    with pytest.raises(ValueError, match="a guard is named twice"):
        paired_delta(data, guards=["leak", "leak"])
    assert overall(paired_delta(trials({"refund": SAME})))["tasks_needed"] is None


def test_never_are_fewer_tasks_needed_than_must_change() -> None:
    found = overall(paired_delta(trials({"refund": [(0, 4)] * 9 + [(0, 3)]})))
    assert found["tasks_needed"] == 6


def test_a_better_candidate_without_a_worse_category_is_promoted() -> None:
    agreed, reason = promotable(paired_delta(trials({"refund": GAIN, "cancel": SAME, "tiny": [(4, 0)]})))
    assert agreed
    assert reason.startswith("Promoted: overall is better (+0.220 [")
    assert "over 41 tasks" in reason


def test_one_worse_category_stops_a_better_candidate() -> None:
    agreed, reason = promotable(paired_delta(trials({"refund": GAIN * 4, "cancel": LOSS})))
    assert not agreed
    assert "but cancel is worse (-0.500 [" in reason


def test_a_category_that_cannot_be_compared_stops_a_better_candidate() -> None:
    lost = (pl.col("category") == "cancel") & (pl.col("arm") == "after") & (pl.col("sample") == 0)
    agreed, reason = promotable(paired_delta(forget(trials({"refund": GAIN * 5, "cancel": SAME}), lost)))
    assert not agreed
    assert "but cancel is not_comparable (missing rows: 20 of 80 after" in reason


@pytest.mark.parametrize("tasks", [SAME, LOSS, [(0, 4)]])
def test_nothing_is_promoted_that_is_not_better(tasks: list[tuple[int, int]]) -> None:
    delta = paired_delta(trials({"refund": tasks}))
    agreed, reason = promotable(delta)
    assert not agreed
    assert reason.startswith(f"Not promoted: overall is {overall(delta)['verdict']} (")


def simulated(rng: np.random.Generator, n: int, k: int, rates: Sequence[float]) -> pl.DataFrame:
    """Both arms drawn from the same task rates: no difference exists."""
    p = rng.choice(rates, n)
    return trials(
        {"refund": list(zip(rng.binomial(k, p).tolist(), rng.binomial(k, p).tolist(), strict=True))}, k
    )


NULLS = [(12, 4, [0.5]), (30, 1, [0.1, 0.5]), (20, 4, [0.05, 0.95]), (40, 2, [0.3, 0.9])]


def false_calls(n: int, k: int, rates: Sequence[float], repetitions: int) -> dict[Verdict, int]:
    rng = np.random.default_rng(20)
    verdicts = [overall(paired_delta(simulated(rng, n, k, rates)))["verdict"] for _ in range(repetitions)]
    return {verdict: verdicts.count(verdict) for verdict in (Verdict.BETTER, Verdict.WORSE)}


@pytest.mark.parametrize(("n", "k", "rates"), NULLS[:2])
def test_equal_policies_are_rarely_called_better_or_worse(n: int, k: int, rates: list[float]) -> None:
    assert sum(false_calls(n, k, rates, 40).values()) <= stats.binom.ppf(0.999, 40, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "rates"), NULLS)
def test_false_calls_stay_within_half_the_error_rate_on_each_side(n: int, k: int, rates: list[float]) -> None:
    assert max(false_calls(n, k, rates, 200).values()) <= stats.binom.ppf(0.999, 200, 0.025)
