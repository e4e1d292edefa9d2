import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from while_pipeline.prove.intervals import pseudo_pair_interval, sign_flip_p
from while_pipeline.prove.power import (
    Plan,
    detectable_effect,
    detectable_effect_from_rate,
    plan,
    tasks_needed,
    tasks_needed_from_rate,
)
from while_pipeline.prove.variance import PairedComponents


@pytest.mark.parametrize(
    ("effect", "k", "expected"), [(0.03, 1, 3876), (0.03, 4, 1696), (0.03, 10, 1260), (0.1, 4, 153)]
)
def test_tasks_needed_gives_the_published_values(effect: float, k: int, expected: int) -> None:
    assert tasks_needed(effect, omega2=1 / 9, sigma2_a=1 / 6, sigma2_b=1 / 6, k_a=k, k_b=k) == expected


@pytest.mark.parametrize(
    ("n", "expected"), [(10, 0.313), (20, 0.221), (50, 0.140), (100, 0.099), (200, 0.070)]
)
def test_detectable_effect_gives_the_published_values(n: int, expected: float) -> None:
    found = detectable_effect(n, omega2=0.05, sigma2_a=0.15, sigma2_b=0.15, k_a=4, k_b=4)
    assert found == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("effect", "expected"), [(0.03, 1032), (0.05, 367), (0.10, 89), (0.16, 33)])
def test_tasks_needed_from_todays_rate_gives_the_design_values(effect: float, expected: int) -> None:
    assert tasks_needed_from_rate(effect, base=0.6, k=4) == expected


@pytest.mark.parametrize(("base", "expected"), [(0.6, 0.1452), (0.65, 0.1390), (0.7, 0.1311)])
def test_forty_tasks_show_about_fourteen_points_by_the_published_formula(
    base: float, expected: float
) -> None:
    assert detectable_effect_from_rate(40, base=base, k=4) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("delta", "omega2", "k", "expected"), [(0.03, 1 / 9, 1, 3875.99), (0.03, 1 / 9, 4, 1695.75)]
)
def test_the_formula_agrees_with_the_power_of_the_normal_law(
    delta: float, omega2: float, k: int, expected: float
) -> None:
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert z**2 * (omega2 + 2 * (1 / 6) / k) / delta**2 == pytest.approx(expected, abs=0.01)
    n = tasks_needed(delta, omega2=omega2, sigma2_a=1 / 6, sigma2_b=1 / 6, k_a=k, k_b=k)
    error = math.sqrt((omega2 + 2 * (1 / 6) / k) / n)
    assert stats.norm.sf(stats.norm.ppf(0.975) - delta / error) == pytest.approx(0.8, abs=1e-3)


def test_a_regression_is_planned_like_a_gain() -> None:
    assert tasks_needed_from_rate(-0.1, base=0.7, k=4) == tasks_needed_from_rate(0.1, base=0.6, k=4)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5000), st.floats(0.001, 0.3), st.floats(0.01, 0.25), st.integers(1, 16))
def test_the_two_planners_are_inverse(n: int, omega2: float, sigma2: float, k: int) -> None:
    effect = detectable_effect(n, omega2=omega2, sigma2_a=sigma2, sigma2_b=sigma2, k_a=k, k_b=k)
    assert abs(tasks_needed(effect, omega2=omega2, sigma2_a=sigma2, sigma2_b=sigma2, k_a=k, k_b=k) - n) <= 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5000), st.floats(0.01, 0.99), st.integers(1, 16))
def test_the_two_planners_from_a_rate_are_inverse_while_the_gain_fits(n: int, base: float, k: int) -> None:
    effect = detectable_effect_from_rate(n, base=base, k=k)
    if math.isnan(effect):
        assert tasks_needed_from_rate(1 - base, base=base, k=k) >= n
    else:
        assert abs(tasks_needed_from_rate(effect, base=base, k=k) - n) <= 1


def test_a_perfect_base_has_no_detectable_gain() -> None:
    assert math.isnan(detectable_effect_from_rate(100, base=1.0, k=4))


def test_no_effect_and_no_rate_are_refused() -> None:
    with pytest.raises(ValueError, match="effect is 0"):
        tasks_needed(0.0, omega2=0.1, sigma2_a=0.1, sigma2_b=0.1, k_a=1, k_b=1)
    with pytest.raises(ValueError, match=r"base \+ effect is 1.1"):
        tasks_needed_from_rate(0.2, base=0.9, k=4)


def test_the_planned_number_of_tasks_has_the_planned_power() -> None:
    n, k, reps = tasks_needed_from_rate(0.1, base=0.6, k=4), 4, 4000
    rng = np.random.default_rng(2)
    d = (rng.binomial(k, 0.7, (reps, n)) - rng.binomial(k, 0.6, (reps, n))) / k
    z = d.mean(axis=1) / (d.std(axis=1, ddof=1) / math.sqrt(n))
    assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.1])
def test_a_variance_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=rf"tasks_needed: variance 1 is {wrong:g}"):
        tasks_needed(0.1, omega2=0.1, sigma2_a=wrong, sigma2_b=0.1, k_a=1, k_b=1)
    with pytest.raises(ValueError, match=rf"detectable_effect: variance 0 is {wrong:g}"):
        detectable_effect(10, omega2=wrong, sigma2_a=0.1, sigma2_b=0.1, k_a=1, k_b=1)
    with pytest.raises(ValueError, match=rf"plan: component 2 is {wrong:g}"):
        plan(10, k=4, components=PairedComponents(0.1, 0.1, wrong))
    with pytest.raises(ValueError, match=rf"plan: base 0 is {wrong:g}"):
        plan(10, k=4, base=wrong)
    with pytest.raises(ValueError, match=rf"detectable_effect_from_rate: base 0 is {wrong:g}"):
        detectable_effect_from_rate(10, base=wrong, k=4)


def test_no_tasks_and_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="detectable_effect: n 0 is 0"):
        detectable_effect(0, omega2=0.1, sigma2_a=0.1, sigma2_b=0.1, k_a=1, k_b=1)
    with pytest.raises(ValueError, match="tasks_needed: k 1 is 0"):
        tasks_needed(0.1, omega2=0.1, sigma2_a=0.1, sigma2_b=0.1, k_a=1, k_b=0)


# -- the planner --------------------------------------------------------------------------------------------


def test_the_plan_is_one_sentence() -> None:
    assert plan(40, k=4, base=0.6).sentence == (
        "40 held-out tasks with 4 samples each show a gain of 15.5 points or more with 80 % power "
        "(base 0.60); 5 points need 372 tasks; 8 samples a task would show 11.2 and 80 tasks would show 10.8."
    )


def test_the_plan_from_components_says_what_more_tasks_do_that_more_samples_cannot() -> None:
    found = plan(40, k=4, components=PairedComponents(0.05, 0.15, 0.15))
    assert found.sentence == (
        "40 held-out tasks with 4 samples each show a difference of 16.7 points or more with 80 % power; "
        "5 points need 397 tasks; 8 samples a task would show 13.8 and 80 tasks would show 11.4."
    )


@pytest.mark.parametrize(("n", "k"), [(40, 4), (100, 1), (400, 16)])
def test_the_deciding_rule_asks_for_a_little_more_than_the_published_formula(n: int, k: int) -> None:
    formula = detectable_effect_from_rate(n, base=0.6, k=k)
    effect = plan(n, k=k, base=0.6).effect
    assert effect is not None
    assert formula < effect < 1.1 * formula


@pytest.mark.parametrize(("n", "k", "base"), [(8, 4, 0.6), (40, 4, 0.6), (40, 4, 0.05), (100, 16, 0.95)])
def test_a_planned_effect_is_found_as_often_as_promised(n: int, k: int, base: float) -> None:
    effect = plan(n, k=k, base=base).effect
    assert effect is not None
    rng, reps = np.random.default_rng(7), 500
    d = (rng.binomial(k, base + effect, (reps, n)) - rng.binomial(k, base, (reps, n))) / k
    found = sum(
        pseudo_pair_interval(row, k).low > 0 and np.count_nonzero(row) >= 6 and sign_flip_p(row, k) < 0.05
        for row in d
    )
    # Four points for the normal approximation, the rest for the luck of 500 draws.
    assert abs(found - 0.8 * reps) <= 0.04 * reps + 2.6 * math.sqrt(reps * 0.16)


components = st.builds(PairedComponents, st.floats(0.001, 0.3), st.floats(0.01, 0.25), st.floats(0.01, 0.25))


@settings(max_examples=40, deadline=None)
@given(st.integers(6, 3000), st.integers(1, 16), components, st.floats(0.02, 0.5))
def test_the_number_of_tasks_is_the_fewest_that_show_the_target(
    n: int, k: int, parts: PairedComponents, target: float
) -> None:
    needed = plan(n, k=k, components=parts, target=target).tasks_for_target
    assert needed is not None
    shown = plan(needed, k=k, components=parts).effect
    assert shown is not None
    assert shown <= target + 1e-9
    if needed > 6:
        less = plan(needed - 1, k=k, components=parts).effect
        assert less is None or less > target


@settings(max_examples=40, deadline=None)
@given(st.integers(20, 3000), st.integers(1, 16), components)
def test_more_of_anything_shows_smaller_effects_and_tasks_do_at_least_as_much_as_samples(
    n: int, k: int, parts: PairedComponents
) -> None:
    found = plan(n, k=k, components=parts)
    assert found.effect is not None
    assert found.effect_of_samples is not None
    assert found.effect_of_tasks is not None
    assert found.effect_of_tasks <= found.effect_of_samples <= found.effect


def test_fewer_tasks_than_must_change_show_nothing() -> None:
    found = plan(5, k=4, base=0.6)
    assert found.effect is None
    assert found.fewest == 6
    assert found.sentence.startswith(
        "5 held-out tasks with 4 samples each can show no gain (base 0.60): at least 6 tasks must change; "
    )
    assert plan(0, k=1, base=0.6).effect_of_tasks is None


def test_a_stricter_alpha_needs_more_changed_tasks() -> None:
    assert [plan(40, k=4, base=0.6, alpha=alpha).fewest for alpha in (0.05, 0.025, 0.01)] == [6, 7, 8]


def test_near_the_ceiling_there_is_no_gain_to_plan_for() -> None:
    found = plan(12, k=2, base=1.0)
    assert (found.effect, found.tasks_for_target) == (None, None)
    assert (
        found.sentence
        == "12 held-out tasks with 2 samples each can show no gain with 80 % power (base 1.00)."
    )
    assert plan(40, k=4, base=0.9, target=0.1).tasks_for_target is not None


def test_where_nothing_varied_nothing_is_promised() -> None:
    found = plan(40, k=4, components=PairedComponents(0.0, 0.0, 0.0))
    assert found == replace(found, effect=None, tasks_for_target=None, effect_of_samples=None)
    assert (
        found.sentence
        == "Nothing varied, so nothing says what 40 held-out tasks with 4 samples each could show."
    )


def test_a_plan_wants_a_rate_or_components_and_not_both() -> None:
    for given_ in ({}, {"base": 0.5, "components": PairedComponents(0.1, 0.1, 0.1)}):
        with pytest.raises(ValueError, match="either a base rate or components"):
            plan(40, k=4, **given_)  # type: ignore[arg-type]


def test_one_of_each_is_said_in_the_singular() -> None:
    one = Plan(1, 1, 0.8, 0.5, 6, None, 0.05, 900, None, None)
    assert one.sentence.startswith("1 held-out task with 1 sample each can show no gain")
