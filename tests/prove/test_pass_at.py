from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from while_pipeline.prove.intervals import Interval, t_interval, wilson
from while_pipeline.prove.pass_at import (
    PASS_SCHEMA,
    headroom,
    pass_at_k,
    pass_hat_k,
    pass_table,
    rate_interval,
)

counts = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


def graded(
    verdicts: Mapping[str, Sequence[bool | None]], categories: Mapping[str, str] | None = None
) -> pl.DataFrame:
    rows = [
        {"task_id": task, "category": (categories or {}).get(task, "refund"), "passed": passed}
        for task, outcomes in verdicts.items()
        for passed in outcomes
    ]
    return pl.DataFrame(rows, schema={"task_id": pl.String, "category": pl.String, "passed": pl.Boolean})


def row(table: pl.DataFrame, scope: str, metric: str, k: int) -> dict[str, object]:
    found = table.filter(scope=scope, metric=metric, k=k)
    assert found.height == 1
    return found.row(0, named=True)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (8, 3, 4, 0.928571),
        (200, 7, 100, 0.992991),
        (10, 3, 1, 0.3),
        (10, 3, 2, 0.533333),
        (10, 3, 4, 0.833333),
        (10, 3, 5, 0.916667),
        (10, 3, 8, 1.0),
        (10, 0, 10, 0.0),
    ],
)
def test_pass_at_k_gives_the_published_values(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(8, 6, 1, 0.75), (8, 6, 2, 0.535714), (8, 6, 4, 0.214286), (8, 6, 8, 0.0), (4, 4, 4, 1.0)],
)
def test_pass_hat_k_gives_the_published_values(n: int, c: int, k: int, expected: float) -> None:
    assert pass_hat_k(n, c, k) == pytest.approx(expected, abs=1e-6)


def test_both_are_undefined_where_a_task_has_fewer_rollouts_than_k() -> None:
    assert np.isnan(pass_at_k([3, 4, 0], [3, 2, 0], 4)).tolist() == [True, False, True]
    assert np.isnan(pass_hat_k([3, 4, 0], [3, 2, 0], 4)).tolist() == [True, False, True]
    assert np.isnan(headroom([3, 4, 0], [3, 2, 0], 4)).tolist() == [True, False, True]


def test_no_tasks_give_no_values() -> None:
    for estimator in (pass_at_k, pass_hat_k, headroom):
        assert estimator([], [], 4).size == 0


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"), [(10, 3, 4, 0.533333), (10, 3, 8, 0.7), (4, 2, 2, 1 / 3)]
)
def test_headroom_is_what_the_best_of_k_adds_to_one(n: int, c: int, k: int, expected: float) -> None:
    assert headroom(n, c, k) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(counts)
def test_pass_at_k_rises_and_pass_hat_k_falls_with_k_from_the_pass_rate(case: tuple[int, int]) -> None:
    n, c = case
    any_of, all_of = ([float(e(n, c, k)) for k in range(1, n + 1)] for e in (pass_at_k, pass_hat_k))
    assert any_of[0] == pytest.approx(c / n)
    assert all_of[0] == pytest.approx(c / n)
    assert np.all(np.diff(any_of) >= -1e-12)
    assert np.all(np.diff(all_of) <= 1e-12)
    assert any_of[-1] == float(c > 0)
    assert all_of[-1] == float(c == n)


@settings(max_examples=60, deadline=None)
@given(counts, st.integers(1, 40))
def test_headroom_is_the_difference_and_none_where_a_task_always_or_never_passes(
    case: tuple[int, int], k: int
) -> None:
    n, c = case
    found = float(headroom(n, c, k))
    if k > n:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(float(pass_at_k(n, c, k) - pass_at_k(n, c, 1)), abs=1e-12)
        assert 0 <= found < 1
        assert (found == 0) == (c in (0, n) or k == 1)


def test_the_naive_powers_are_biased_and_these_are_not() -> None:
    rng = np.random.default_rng(1)
    rate, n, k = 0.3, 10, 4
    c = rng.binomial(n, rate, 200_000)
    assert pass_at_k(n, c, k).mean() == pytest.approx(1 - (1 - rate) ** k, abs=3e-3)
    assert pass_hat_k(n, c, k).mean() == pytest.approx(rate**k, abs=1e-3)
    assert np.mean(1 - (1 - c / n) ** k) < 1 - (1 - rate) ** k - 0.03
    assert np.mean((c / n) ** k) > rate**k + 0.008


@pytest.mark.parametrize("estimator", [pass_at_k, pass_hat_k, headroom])
@pytest.mark.parametrize(
    ("n", "c", "k", "message"),
    [
        ([4, np.nan], [1, 1], 2, "n 1 is nan, expected a number of at least 0"),
        ([4, np.inf], [1, 1], 2, "n 1 is inf"),
        ([4, 4], [1, np.nan], 2, "c 1 is nan"),
        ([4, 4], [1, -1], 2, "c 1 is -1"),
        ([4, 4], [1, 2.5], 2, "c 1 is 2.5, expected a whole number"),
        ([4, 4], [1, 5], 2, "c 1 is 5, expected at most its n of 4"),
        ([4], [1], 0, "k is 0, expected a number of at least 1"),
    ],
)
def test_what_is_no_count_is_refused_with_its_place(
    estimator: Callable[[list[float], list[float], int], object],
    n: list[float],
    c: list[float],
    k: int,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=f"{estimator.__name__}: {message}"):
        estimator(n, c, k)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_both_count_the_draws_of_k_out_of_n(case: tuple[int, int, int]) -> None:
    n, c, k = case
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_both_stay_exact_where_binomials_overflow_a_float(case: tuple[int, int, int]) -> None:
    n, c, k = case
    assert pass_at_k(n, c, k) == pytest.approx(float(1 - Fraction(comb(n - c, k), comb(n, k))), abs=1e-11)
    assert pass_hat_k(n, c, k) == pytest.approx(float(Fraction(comb(c, k), comb(n, k))), abs=1e-11)


def test_the_table_averages_tasks_and_never_pools_rollouts() -> None:
    table = pass_table(
        graded({"a": [True] * 4, "b": [True] * 2 + [False] * 2, "c": [True] * 2 + [False] * 6}), ks=[2]
    )
    assert row(table, "overall", "pass@", 2)["value"] == pytest.approx(0.765873, abs=1e-6)
    assert row(table, "overall", "pass^", 2)["value"] == pytest.approx(0.400794, abs=1e-6)
    # pass@1 is 1, 1/2 and 1/4 of these tasks.
    assert row(table, "overall", "headroom", 2)["value"] == pytest.approx(0.765873 - 1.75 / 3, abs=1e-6)


def test_the_table_counts_unknown_verdicts_and_short_tasks_apart() -> None:
    table = pass_table(graded({"a": [True, False, None], "b": [True, None, None], "c": [None]}), ks=[1, 2, 3])

    one, two, three = (row(table, "overall", "pass@", k) for k in (1, 2, 3))
    assert (one["value"], one["n_tasks"], one["n_rollouts"], one["n_short"]) == (0.75, 2, 3, 1)
    assert (two["value"], two["n_tasks"], two["n_rollouts"], two["n_short"]) == (1.0, 1, 2, 2)
    assert (three["value"], three["low"], three["high"], three["n_short"]) == (None, None, None, 3)
    assert {r["n_unknown"] for r in (one, two, three)} == {4}


def test_the_table_lists_overall_first_then_categories_in_order() -> None:
    table = pass_table(
        graded({"a": [True], "b": [False], "c": [True]}, {"a": "refund", "b": "cancel", "c": "refund"}),
        ks=[1],
    )
    assert table.schema == PASS_SCHEMA
    assert table["scope"].to_list() == ["overall"] * 2 + ["cancel"] * 2 + ["refund"] * 2
    assert table["metric"].to_list() == ["pass@", "pass^"] * 3
    assert row(table, "cancel", "pass@", 1)["value"] == 0.0
    assert row(table, "refund", "pass@", 1)["n_tasks"] == 2


def test_headroom_has_an_interval_over_tasks_and_no_row_where_there_is_no_choice() -> None:
    table = pass_table(graded({"a": [True, False], "b": [True, True], "c": [False, False]}), ks=[1, 2])
    assert table.filter(metric="headroom", k=1).is_empty()
    found = row(table, "overall", "headroom", 2)
    assert (found["value"], found["n_tasks"]) == (pytest.approx(1 / 6), 3)
    assert (found["low"], found["high"]) == pytest.approx(rate_interval([0.5, 0.0, 0.0]))


def test_headroom_is_unknown_where_no_task_has_k_verdicts() -> None:
    found = row(pass_table(graded({"a": [True, None]}), ks=[2]), "overall", "headroom", 2)
    assert (found["value"], found["low"], found["n_short"]) == (None, None, 1)


def test_the_table_does_not_depend_on_the_order_of_the_rows() -> None:
    rows = graded({f"t{i}": [i % 3 == 0, i % 2 == 0, None] for i in range(20)}, {"t3": "cancel"})
    assert pass_table(rows.sample(fraction=1, shuffle=True, seed=1), [1, 2]).equals(pass_table(rows, [1, 2]))


def test_the_table_refuses_rows_that_are_no_rollouts_of_one_task() -> None:
    good = graded({"a": [True]})
    for wrong, message in (
        (good.with_columns(passed=pl.lit(0.5)), "passed is Float64, expected booleans or null"),
        (good.with_columns(passed=pl.lit("yes")), "passed is String"),
        (good.with_columns(task_id=pl.lit(None, pl.String)), "task_id is null"),
        (good.with_columns(category=pl.lit(None, pl.String)), "category is null"),
        (
            pl.concat([good, good.with_columns(category=pl.lit("b"))]),
            "task 'a' is in the categories b, refund",
        ),
    ):
        with pytest.raises(ValueError, match=f"pass_table: {message}"):
            pass_table(wrong, [1])
    with pytest.raises(ValueError, match="k is 0"):
        pass_table(good, [0])


def test_the_table_of_no_rollouts_says_that_nothing_is_known() -> None:
    only = row(pass_table(graded({}), ks=[1]), "overall", "pass@", 1)
    assert (only["value"], only["low"], only["n_tasks"], only["n_rollouts"]) == (None, None, 0, 0)


def test_a_category_named_like_the_overall_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="'overall' is the name of the scope"):
        pass_table(graded({"a": [True]}, {"a": "overall"}), ks=[1])


def test_the_interval_is_the_score_interval_of_as_many_trials_as_the_tasks_are_worth() -> None:
    rates = np.array([0.5, 1.0, 0.5, 1.0, 0.75])
    mean = rates.mean()
    trials = mean * (1 - mean) / (rates.var(ddof=1) / rates.size)

    def beyond(rate: float) -> float:
        return float(abs(mean - rate) - stats.t.ppf(0.975, 4) * np.sqrt(rate * (1 - rate) / trials))

    bounds = optimize.brentq(beyond, 0.01, mean), optimize.brentq(beyond, mean, 0.9999)
    assert rate_interval(rates) == pytest.approx(bounds)
    found = row(pass_table(graded({"a": [True, False], "b": [True, True]}), ks=[1]), "overall", "pass@", 1)
    assert (found["low"], found["high"]) == pytest.approx(rate_interval([0.5, 1.0]))


def test_the_interval_holds_a_rate_near_one_where_t_around_the_mean_does_not() -> None:
    rng = np.random.default_rng(0)
    nights = rng.binomial(1, 0.96, size=(2_000, 120)).astype(float)

    def coverage(interval: Callable[[npt.ArrayLike], Interval]) -> float:
        bounds = np.array([interval(night) for night in nights])
        return float(np.mean((bounds[:, 0] <= 0.96) & (bounds[:, 1] >= 0.96)))

    assert coverage(rate_interval) > 0.94
    assert coverage(t_interval) < 0.90


@pytest.mark.parametrize(("rate", "n"), [(1.0, 10), (0.0, 10), (0.5, 10), (1.0, 1), (0.25, 1)])
def test_one_task_or_tasks_that_all_agree_get_wilson_over_tasks(rate: float, n: int) -> None:
    assert rate_interval([rate] * n) == pytest.approx(wilson(rate * n, n))


def test_estimates_that_agree_but_for_rounding_agree() -> None:
    rates = [*pass_at_k([6] * 10, [1] * 10, 4), *pass_at_k([10] * 10, [2] * 10, 4)]
    assert rate_interval(rates) == pytest.approx(wilson(20 * 2 / 3, 20))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=20))
def test_the_interval_holds_the_mean_and_stays_within_rates(values: list[float]) -> None:
    low, high = rate_interval(values)
    assert 0 <= low <= np.mean(values) + 1e-12
    assert np.mean(values) - 1e-12 <= high <= 1
    assert high > low


def test_the_interval_of_nothing_is_undefined_and_of_no_rate_refused() -> None:
    assert np.isnan(rate_interval([])).all()
    with pytest.raises(ValueError, match="rate_interval: value 1 is nan"):
        rate_interval([0.5, float("nan")])
    with pytest.raises(ValueError, match=r"rate_interval: value 0 is 1\.5"):
        rate_interval([1.5])
