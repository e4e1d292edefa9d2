import math
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS

from while_pipeline.prove.intervals import t_interval
from while_pipeline.prove.variance import (
    Counts,
    VarianceComponents,
    paired_components,
    variance_components,
    variance_split,
)

EXAMPLE = [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]


def rows(rewards: Sequence[Sequence[float | None]]) -> tuple[pl.Series, pl.Series]:
    """Rewards and tasks, one row per rollout."""
    return (
        pl.Series([reward for task in rewards for reward in task], dtype=pl.Float64),
        pl.Series([f"t{i:02}" for i, task in enumerate(rewards) for _ in task]),
    )


def components(rewards: Sequence[Sequence[float | None]]) -> VarianceComponents:
    found = variance_components(*rows(rewards))
    assert found is not None
    return found


unequal = st.lists(st.lists(st.integers(0, 8).map(lambda i: i / 8), min_size=1, max_size=6), min_size=1)


def test_the_worked_example_splits_into_within_and_between() -> None:
    assert variance_split(*rows(EXAMPLE)) == pytest.approx((0.243056, 0.145833, 0.097222), abs=1e-6)


def test_the_worked_example_has_its_unbiased_components_and_error() -> None:
    found = components(EXAMPLE)
    assert (found.within, found.between) == pytest.approx((0.194444, 0.097222), abs=1e-6)
    assert found.error == pytest.approx(0.220479, abs=1e-6)
    assert found.n_tasks == 3


def test_the_error_is_by_task_and_not_the_smaller_one_over_pooled_rollouts() -> None:
    pooled = np.ravel(EXAMPLE)
    assert pooled.std(ddof=1) / math.sqrt(pooled.size) == pytest.approx(0.148647, abs=1e-6)
    assert components(EXAMPLE).error > 0.148647


def test_the_error_is_the_cluster_robust_one_of_statsmodels() -> None:
    reward = np.ravel(EXAMPLE).astype(float)
    task = np.repeat(np.arange(3), 4)
    fit = OLS(reward, np.ones(reward.size))
    corrected = fit.fit(cov_type="cluster", cov_kwds={"groups": task, "df_correction": False})
    plain = fit.fit(cov_type="cluster", cov_kwds={"groups": task, "use_correction": False})
    assert plain.bse[0] == pytest.approx(0.180021, abs=1e-6)
    assert components(EXAMPLE).error == pytest.approx(corrected.bse[0])


def test_the_error_is_the_one_of_the_interval_over_task_means() -> None:
    means = np.mean(EXAMPLE, axis=1)
    low, high = t_interval(means, 0.95)
    assert components(EXAMPLE).error * 4.302653 == pytest.approx((high - low) / 2, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(unequal)
def test_the_parts_add_up_to_the_variance_whatever_the_group_sizes(rewards: list[list[float]]) -> None:
    reward, task = rows(rewards)
    found = variance_split(reward, task)
    assert found is not None
    assert found.total == pytest.approx(np.var(reward.to_numpy()), abs=1e-12)
    assert found.within + found.between == pytest.approx(found.total, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(unequal, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rewards: list[list[float]], random) -> None:  # type: ignore[no-untyped-def]
    reward, task = rows(rewards)
    order = random.sample(range(reward.len()), reward.len())
    found = variance_components(reward.gather(order), task.gather(order))
    assert found == pytest.approx(variance_components(reward, task), nan_ok=True)


def test_the_components_are_unbiased_for_tasks_of_unequal_size() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(600):
        rates = rng.choice([0.2, 0.5, 0.9], 12)
        found.append(
            components(
                [list((rng.random(k) < rate) * 1.0) for k, rate in zip([1, 2, 3, 8] * 3, rates, strict=True)]
            )
        )
    truth = np.array([0.2, 0.5, 0.9])
    within, between = np.mean([f[:2] for f in found], axis=0)
    assert within == pytest.approx((truth * (1 - truth)).mean(), abs=0.01)
    assert between == pytest.approx(truth.var(), abs=0.01)


def test_rows_without_a_reward_are_left_out() -> None:
    assert components([*EXAMPLE, [None, None]]) == pytest.approx(components(EXAMPLE))
    assert variance_split(*rows([[0.0, 1.0], [None]])) == (0.25, 0.25, 0.0)


def test_nothing_is_known_of_no_rows() -> None:
    assert variance_split(*rows([])) is None
    assert variance_split(*rows([[None]])) is None
    assert variance_components(*rows([[None]])) is None


def test_one_task_shows_its_luck_and_nothing_between() -> None:
    found = components([[1, 0]])
    assert found.within == 0.5
    assert math.isnan(found.between)
    assert math.isnan(found.error)
    assert found.sentence.startswith("A single task cannot show")


def test_one_rollout_a_task_has_an_error_but_cannot_tell_luck_from_the_task() -> None:
    found = components([[1], [0], [1]])
    assert math.isnan(found.within)
    assert math.isnan(found.between)
    assert found.error == pytest.approx(1 / 3)
    assert found.sentence.startswith("No task has 2 rollouts")


def test_equal_rewards_do_not_vary() -> None:
    assert variance_split(*rows([[1, 1], [1]])) == (0.0, 0.0, 0.0)
    found = components([[1, 1], [1]])
    assert found == (0.0, 0.0, 0.0, 2)
    assert found.sentence.startswith("Nothing varied")


def test_the_sentence_says_how_much_is_luck() -> None:
    assert components(EXAMPLE).sentence == (
        "Of the variance of a single rollout 67% is luck within a task and 33% lies between tasks; the mean "
        "over 3 tasks has a standard error of 0.220."
    )


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_refused_with_its_place(wrong: float) -> None:
    for function in (variance_split, variance_components):
        with pytest.raises(ValueError, match=rf"{function.__name__}: reward 2 is {wrong:g}"):
            function(*rows([[0.0, 1.0], [wrong]]))


def test_paired_components_take_the_spread_of_differences_apart() -> None:
    before, after = [1, 2, 3, 4], [3, 2, 4, 4]
    found = paired_components(Counts([4] * 4, before), Counts([4] * 4, after))
    assert found is not None
    # s² of c passes in 4 is c(4 - c)/12.
    assert found.sigma2_a == pytest.approx((3 + 4 + 3 + 0) / 12 / 4)
    assert found.sigma2_b == pytest.approx((3 + 4 + 0 + 0) / 12 / 4)
    spread = np.var([0.5, 0.0, 0.25, 0.0], ddof=1)
    luck = found.sigma2_a / 4 + found.sigma2_b / 4
    assert spread < luck
    assert found.omega2 == 0.0


def test_paired_components_find_the_truth_of_simulated_arms() -> None:
    rng = np.random.default_rng(8)
    n, k_a, k_b = 40_000, rng.integers(1, 9, 40_000), 4
    rate = rng.uniform(0.2, 0.6, n)
    gain = rng.choice([0.0, 0.3], n)
    found = paired_components(
        Counts(k_a, rng.binomial(k_a, rate)), Counts(np.full(n, k_b), rng.binomial(k_b, rate + gain))
    )
    assert found is not None
    assert found.omega2 == pytest.approx(gain.var(), abs=0.004)
    assert found.sigma2_a == pytest.approx((rate * (1 - rate)).mean(), abs=0.004)
    assert found.sigma2_b == pytest.approx(((rate + gain) * (1 - rate - gain)).mean(), abs=0.004)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_paired_components_are_variances_and_mirror_with_the_arms(pairs: list[tuple[int, int]]) -> None:
    before, after = (Counts([4] * len(pairs), list(c)) for c in zip(*pairs, strict=True))
    found, mirrored = paired_components(before, after), paired_components(after, before)
    assert found is not None
    assert mirrored is not None
    assert min(found) >= 0
    assert mirrored == pytest.approx((found.omega2, found.sigma2_b, found.sigma2_a))


def test_paired_components_need_two_tasks_and_two_samples_in_either_arm() -> None:
    assert paired_components(Counts([], []), Counts([], [])) is None
    assert paired_components(Counts([4], [2]), Counts([4], [3])) is None
    assert paired_components(Counts([1, 1], [0, 1]), Counts([4, 4], [3, 2])) is None


def test_paired_components_refuse_what_is_no_count() -> None:
    good = Counts([4, 4], [1, 2])
    for wrong, message in (
        (Counts([4], [1]), "2 tasks before, 1 after"),
        (Counts([4, 0], [1, 0]), "n 1 is 0, expected a number of at least 1"),
        (Counts([4, 4], [1, 5]), "pass rate 1 is 1.25"),
        (Counts([4, 4], [1, math.nan]), "c 1 is nan"),
        (Counts([4, 4.5], [1, 1]), "n 1 is 4.5, expected a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            paired_components(good, wrong)
