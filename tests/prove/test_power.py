import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.prove.power import (
    detectable_effect,
    detectable_effect_from_rate,
    tasks_needed,
    tasks_needed_from_rate,
)


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
