import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from while_pipeline.prove.intervals import (
    benjamini_hochberg,
    holm,
    noise_band,
    percentile_bootstrap,
    pseudo_pair_interval,
    run_spread,
    sign_flip_p,
    t_interval,
    wilson,
)

EXAMPLE = [0.25, 0.5, 0, 0.25, -0.25, 0.5, 0.75, 0, 0.25, 0.25]
P_VALUES = [0.001, 0.008, 0.012, 0.039, 0.041, 0.2, 0.74]

quarters = st.lists(st.integers(-4, 4).map(lambda i: i / 4), min_size=1, max_size=9)


def test_the_worked_example_gives_its_four_answers() -> None:
    assert t_interval(EXAMPLE) == pytest.approx((0.043494, 0.456506), abs=1e-6)
    assert pseudo_pair_interval(EXAMPLE, 4) == pytest.approx((-0.014595, 0.431262), abs=1e-6)
    assert percentile_bootstrap(EXAMPLE) == pytest.approx((0.075, 0.425), abs=1e-9)
    assert sign_flip_p(EXAMPLE, 4) == pytest.approx(48 / 1024, abs=1e-12)


@pytest.mark.parametrize(
    ("c", "n", "low", "high"),
    [(7, 10, 0.396778, 0.892209), (0, 10, 0.0, 0.277533), (10, 10, 0.722467, 1.0)],
)
def test_wilson_gives_the_published_values(c: int, n: int, low: float, high: float) -> None:
    assert wilson(c, n) == pytest.approx((low, high), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_agrees_with_scipy(case: tuple[int, int], level: float) -> None:
    c, n = case
    expected = stats.binomtest(c, n).proportion_ci(level, method="wilson")
    assert wilson(c, n, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_touches_the_ends_exactly() -> None:
    assert wilson(0, 7).low == 0.0
    assert wilson(7, 7).high == 1.0


def test_intervals_are_undefined_without_enough_values() -> None:
    assert all(map(math.isnan, wilson(0, 0)))
    assert all(map(math.isnan, t_interval([0.5])))
    assert all(map(math.isnan, percentile_bootstrap([0.5])))
    assert all(map(math.isnan, pseudo_pair_interval([], 4)))


def test_a_single_difference_has_a_pseudo_pair_interval_that_settles_nothing() -> None:
    low, high = pseudo_pair_interval([1.0], 1)
    assert low < -1
    assert high > 1


def test_equal_differences_fool_t_and_bootstrap_but_not_the_pseudo_pairs() -> None:
    same = [0.25] * 5
    assert t_interval(same) == (0.25, 0.25)
    assert percentile_bootstrap(same) == (0.25, 0.25)
    low, high = pseudo_pair_interval(same, 4)
    assert low < 0 < high


@settings(max_examples=40, deadline=None)
@given(quarters.filter(lambda d: len(d) > 1), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_t_agrees_with_scipy(d: list[float], level: float) -> None:
    if len(set(d)) > 1:
        expected = stats.ttest_1samp(d, 0).confidence_interval(level)
        assert t_interval(d, level) == pytest.approx((expected.low, expected.high), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(quarters, st.integers(1, 16))
def test_pseudo_pairs_mirror_with_the_differences(d: list[float], k: int) -> None:
    low, high = pseudo_pair_interval(d, k)
    assert pseudo_pair_interval([-x for x in d], k) == pytest.approx((-high, -low))


def test_the_bootstrap_follows_its_seed_and_agrees_with_scipy() -> None:
    d = np.random.default_rng(5).normal(size=40)
    assert percentile_bootstrap(d, seed=1) == percentile_bootstrap(d, seed=1)
    assert percentile_bootstrap(d, seed=1) != percentile_bootstrap(d, seed=2)
    expected = stats.bootstrap((d,), np.mean, method="percentile", rng=1, vectorized=True).confidence_interval
    assert percentile_bootstrap(d, seed=1) == pytest.approx((expected.low, expected.high), abs=0.02)


@settings(max_examples=40, deadline=None)
@given(quarters)
def test_sign_flip_counts_every_sign_pattern(d: list[float]) -> None:
    sizes = [round(abs(x) * 4) for x in d]
    observed = abs(sum(round(x * 4) for x in d))
    sums = [
        abs(sum(s * v for s, v in zip(signs, sizes, strict=True)))
        for signs in product((1, -1), repeat=len(d))
    ]
    assert sign_flip_p(d, 4) == pytest.approx(sum(v >= observed for v in sums) / len(sums), rel=1e-12)


def test_sign_flip_takes_unequal_denominators_on_a_common_lattice() -> None:
    d = [1 / 3, 1 / 4, -1 / 12, 1 / 2, 2 / 3]
    patterns = [
        abs(sum(s * v for s, v in zip(signs, (4, 3, 1, 6, 8), strict=True)))
        for signs in product((1, -1), repeat=5)
    ]
    assert sign_flip_p(d, 12) == pytest.approx(sum(v >= 20 for v in patterns) / 32)


@pytest.mark.parametrize(("m", "floor"), [(3, 0.25), (4, 0.125), (5, 0.0625), (6, 0.03125), (8, 0.0078125)])
def test_sign_flip_cannot_go_below_its_floor(m: int, floor: float) -> None:
    assert sign_flip_p([0.25] * m, 4) == pytest.approx(floor)


@settings(max_examples=40, deadline=None)
@given(quarters, st.integers(1, 5))
def test_zero_differences_do_not_change_the_sign_flip_p(d: list[float], zeros: int) -> None:
    assert sign_flip_p([*d, *[0.0] * zeros], 4) == sign_flip_p(d, 4)


def test_sign_flip_is_one_when_nothing_changed() -> None:
    assert sign_flip_p([0.0, 0.0], 4) == 1.0
    assert sign_flip_p([], 4) == 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_sign_flip_at_one_sample_is_the_exact_mcnemar_test(gained: int, lost: int) -> None:
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert sign_flip_p([1.0] * gained + [-1.0] * lost, 1) == pytest.approx(expected, rel=1e-9)


def test_sign_flip_agrees_with_the_normal_law_at_ten_thousand_tasks() -> None:
    rng = np.random.default_rng(3)
    d = (rng.binomial(8, 0.6, 10_000) - rng.binomial(8, 0.595, 10_000)) / 8
    z = d.sum() / math.sqrt((d**2).sum())
    assert sign_flip_p(d, 8) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=0.02)


def test_holm_and_benjamini_hochberg_give_the_published_values() -> None:
    assert holm(P_VALUES) == pytest.approx([0.007, 0.048, 0.06, 0.156, 0.156, 0.4, 0.74])
    assert benjamini_hochberg(P_VALUES) == pytest.approx(
        [0.007, 0.028, 0.028, 0.0574, 0.0574, 0.233333, 0.74], abs=1e-6
    )


def test_corrections_of_nothing_are_empty() -> None:
    assert holm([]).size == 0
    assert benjamini_hochberg([]).size == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_holm_keeps_its_order_and_lies_between_the_raw_p_and_bonferroni(p: list[float], random) -> None:  # type: ignore[no-untyped-def]
    adjusted = holm(p)
    assert np.all(adjusted >= p)
    assert np.all(adjusted <= np.minimum(np.array(p) * len(p), 1) + 1e-12)
    order = random.sample(range(len(p)), len(p))
    assert holm([p[i] for i in order]) == pytest.approx(adjusted[order])


def test_the_noise_band_gives_the_published_values() -> None:
    assert noise_band(0.02) == pytest.approx(0.0554, abs=5e-5)
    assert noise_band(0.02, df=2) == pytest.approx(0.1217, abs=5e-5)
    assert noise_band(0.02, df=4, runs_before=3, runs_after=3) == pytest.approx(0.0453, abs=5e-5)


def test_the_spread_of_re_runs_is_pooled_within_policies() -> None:
    spread = run_spread([0.60, 0.62, 0.64], [0.70, 0.72, 0.74], [0.9])
    assert spread == pytest.approx((0.02, 4))


def test_the_noise_is_unknown_without_a_re_run() -> None:
    spread = run_spread([0.6], [0.7])
    assert math.isnan(spread.std)
    assert spread.df == 0
    assert math.isnan(noise_band(spread.std, df=spread.df))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("n", "k"), [(8, 4), (20, 4), (12, 1), (30, 8)])
def test_the_pseudo_pair_interval_covers_no_difference(n: int, k: int, rate: float) -> None:
    rng = np.random.default_rng(11)
    d = (rng.binomial(k, rate, (400, n)) - rng.binomial(k, rate, (400, n))) / k
    missed = sum(not (low <= 0 <= high) for low, high in (pseudo_pair_interval(row, k) for row in d))
    assert missed <= stats.binom.ppf(0.999, 400, 0.05)
