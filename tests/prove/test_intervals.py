import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

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

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)
quarters = st.lists(st.integers(-4, 4).map(lambda i: i / 4), min_size=1, max_size=9)


def test_the_worked_example_gives_its_four_answers() -> None:
    assert t_interval(EXAMPLE) == pytest.approx((0.043494, 0.456506), abs=1e-6)
    assert pseudo_pair_interval(EXAMPLE, 4) == pytest.approx((-0.014595, 0.431262), abs=1e-6)
    assert percentile_bootstrap(EXAMPLE) == pytest.approx((0.075, 0.425), abs=1e-9)
    assert sign_flip_p(EXAMPLE, 4) == pytest.approx(48 / 1024, abs=1e-12)


def test_the_worked_example_with_pseudo_tasks_at_a_kth_is_narrower_than_at_the_root() -> None:
    # The narrower one, ±1/k, failed simulation; it is the oracle of what this interval must not be.
    assert pseudo_pair_interval(EXAMPLE, 16) == pytest.approx((0.018768, 0.397898), abs=1e-6)


@pytest.mark.parametrize(
    ("c", "n", "low", "high"),
    [(7, 10, 0.396778, 0.892209), (0, 10, 0.0, 0.277533), (10, 10, 0.722467, 1.0)],
)
def test_wilson_gives_the_published_values(c: int, n: int, low: float, high: float) -> None:
    assert wilson(c, n) == pytest.approx((low, high), abs=1e-6)


def test_of_fifty_it_takes_forty_six_to_be_sure_of_four_fifths() -> None:
    assert wilson(45, 50).low == pytest.approx(0.7864, abs=5e-5)
    assert wilson(46, 50).low == pytest.approx(0.8116, abs=5e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_agrees_with_scipy(case: tuple[int, int], level: float) -> None:
    c, n = case
    expected = stats.binomtest(c, n).proportion_ci(level, method="wilson")
    assert wilson(c, n, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_statsmodels(case: tuple[int, int]) -> None:
    assert wilson(*case) == pytest.approx(proportion_confint(*case, method="wilson"), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 300).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))))
def test_wilson_rises_with_successes_narrows_with_trials_and_holds_the_rate(case: tuple[int, int]) -> None:
    c, n = case
    found, fewer, longer = wilson(c, n), wilson(c - 1, n), wilson(2 * c, 2 * n)
    assert fewer.low <= found.low <= c / n <= found.high
    assert fewer.high <= found.high
    assert longer.high - longer.low < found.high - found.low
    mirrored = wilson(n - c, n)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx(found)


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


def test_the_bootstrap_does_not_depend_on_how_many_draws_it_holds_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = np.random.default_rng(5).normal(size=40)
    whole = percentile_bootstrap(d, resamples=1000)
    monkeypatch.setattr("while_pipeline.prove.intervals._CELLS", 999)
    assert percentile_bootstrap(d, resamples=1000) == whole


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


def counted(sizes: list[int], signed_sum: int) -> Fraction:
    """The exact two-sided share, by adding up whole numbers of sign patterns."""
    patterns = {0: 1}
    for size in sizes:
        grown: dict[int, int] = {}
        for at, many in patterns.items():
            for to in (at + size, at - size):
                grown[to] = grown.get(to, 0) + many
        patterns = grown
    extreme = sum(many for at, many in patterns.items() if abs(at) >= abs(signed_sum))
    return Fraction(extreme, 2 ** len(sizes))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-60, 240), min_size=1, max_size=60))
def test_sign_flip_is_exact_however_small_the_p(scores: list[int]) -> None:
    expected = float(counted([abs(score) for score in scores], sum(scores)))
    assert sign_flip_p(np.array(scores) / 240, 240) == pytest.approx(expected, rel=1e-9)


def test_sign_flip_agrees_with_the_permutation_test_of_scipy() -> None:
    found = stats.permutation_test(
        (EXAMPLE,), np.mean, permutation_type="samples", vectorized=True, n_resamples=np.inf, axis=-1
    )
    assert sign_flip_p(EXAMPLE, 4) == pytest.approx(found.pvalue) == 0.046875


@settings(max_examples=40, deadline=None)
@given(quarters, st.randoms(use_true_random=False))
def test_sign_flip_minds_neither_order_nor_sign_nor_a_finer_lattice(d: list[float], random) -> None:  # type: ignore[no-untyped-def]
    p = sign_flip_p(d, 4)
    assert sign_flip_p(random.sample(d, len(d)), 4) == p
    assert sign_flip_p([-x for x in d], 4) == p
    assert sign_flip_p(d, 12) == p


def test_sign_flip_takes_unequal_denominators_on_a_common_lattice() -> None:
    d = [1 / 3, 1 / 4, -1 / 12, 1 / 2, 2 / 3]
    patterns = [
        abs(sum(s * v for s, v in zip(signs, (4, 3, 1, 6, 8), strict=True)))
        for signs in product((1, -1), repeat=5)
    ]
    assert sign_flip_p(d, 12) == pytest.approx(sum(v >= 20 for v in patterns) / 32)


@pytest.mark.parametrize(
    ("m", "floor"),
    [(3, 0.25), (4, 0.125), (5, 0.0625), (6, 0.03125), (8, 0.0078125), (10, 0.001953125)],
)
def test_sign_flip_cannot_go_below_its_floor(m: int, floor: float) -> None:
    assert sign_flip_p([0.25] * m, 4) == pytest.approx(floor)


@settings(max_examples=40, deadline=None)
@given(quarters, st.integers(1, 5))
def test_zero_differences_do_not_change_the_sign_flip_p(d: list[float], zeros: int) -> None:
    assert sign_flip_p([*d, *[0.0] * zeros], 4) == sign_flip_p(d, 4)


def test_five_of_five_can_never_be_significant_and_six_of_six_can() -> None:
    assert sign_flip_p([0.25] * 5, 4) == 0.0625
    assert sign_flip_p([0.25] * 6, 4) == 0.03125


def test_sign_flip_is_one_when_nothing_changed() -> None:
    assert sign_flip_p([0.0, 0.0], 4) == 1.0
    assert sign_flip_p([], 4) == 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_sign_flip_at_one_sample_is_the_exact_mcnemar_test(gained: int, lost: int) -> None:
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert sign_flip_p([1.0] * gained + [-1.0] * lost, 1) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_on_nine_and_two() -> None:
    p = sign_flip_p([1.0] * 9 + [-1.0] * 2, 1)
    assert p == pytest.approx(0.0654297, abs=1e-7)
    assert p == pytest.approx(mcnemar([[20, 2], [9, 9]], exact=True).pvalue)


def test_sign_flip_agrees_with_the_normal_law_at_ten_thousand_tasks() -> None:
    rng = np.random.default_rng(3)
    d = (rng.binomial(8, 0.6, 10_000) - rng.binomial(8, 0.595, 10_000)) / 8
    z = d.sum() / math.sqrt((d**2).sum())
    assert sign_flip_p(d, 8) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=0.02)


def test_sign_flip_agrees_with_the_normal_law_where_samples_per_task_differ() -> None:
    rng = np.random.default_rng(4)
    k_before, k_after = rng.integers(1, 17, (2, 10_000))
    d = rng.binomial(k_after, 0.6) / k_after - rng.binomial(k_before, 0.59) / k_before
    scores = np.rint(d * 240)
    z = scores.sum() / math.sqrt((scores**2).sum())
    assert abs(z) > 2
    assert sign_flip_p(d, 240) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=0.01)


def test_holm_and_benjamini_hochberg_give_the_published_values() -> None:
    assert holm(P_VALUES) == pytest.approx([0.007, 0.048, 0.06, 0.156, 0.156, 0.4, 0.74])
    assert benjamini_hochberg(P_VALUES) == pytest.approx(
        [0.007, 0.028, 0.028, 0.0574, 0.0574, 0.233333, 0.74], abs=1e-6
    )


def test_corrections_of_nothing_are_empty() -> None:
    assert holm([]).size == 0
    assert benjamini_hochberg([]).size == 0


@settings(max_examples=10, deadline=None)
@given(p_values)
def test_corrections_agree_with_statsmodels(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(p_values)
def test_holm_is_at_least_benjamini_hochberg_which_is_at_least_the_raw_p(p: list[float]) -> None:
    assert np.all(holm(p) >= benjamini_hochberg(p) - 1e-12)
    assert np.all(benjamini_hochberg(p) >= np.array(p) - 1e-12)


def test_corrections_of_one_p_leave_it_alone() -> None:
    assert holm([0.03]).tolist() == benjamini_hochberg([0.03]).tolist() == [0.03]


@settings(max_examples=40, deadline=None)
@given(p_values, st.randoms(use_true_random=False))
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


def test_the_noise_band_is_the_t_interval_of_a_difference_of_runs() -> None:
    before, after = [0.60, 0.63, 0.64], [0.70, 0.69, 0.74]
    spread = run_spread(before, after)
    band = noise_band(spread.std, df=spread.df, runs_before=3, runs_after=3)
    expected = stats.ttest_ind(after, before).confidence_interval(0.95)
    assert (expected.high - expected.low) / 2 == pytest.approx(band)


def test_a_policy_without_a_run_adds_nothing_to_the_spread() -> None:
    assert run_spread([], [0.6, 0.62, 0.64]) == run_spread([0.6, 0.62, 0.64])


LISTS: list[tuple[str, Callable[[Any], object], str]] = [
    ("t_interval", t_interval, "value"),
    ("pseudo_pair_interval", lambda d: pseudo_pair_interval(d, 4), "difference"),
    ("percentile_bootstrap", percentile_bootstrap, "value"),
    ("sign_flip_p", lambda d: sign_flip_p(d, 4), "difference"),
    ("holm", holm, "p"),
    ("benjamini_hochberg", benjamini_hochberg, "p"),
    ("run_spread", run_spread, "score"),
]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("name", "function", "what"), LISTS, ids=[name for name, _, _ in LISTS])
def test_what_is_no_number_never_becomes_a_figure(
    name: str, function: Callable[[Any], object], what: str, wrong: float
) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: {what} 2 is {wrong:g}, expected a"):
        function([0.5, 0.25, wrong, 0.0])
    with pytest.raises(ValueError, match="could not convert"):
        function(["0.5", "half"])


def test_values_out_of_range_are_refused() -> None:
    for call, message in (
        (lambda: wilson(3, 2), "wilson: count 0 is 3, expected a number from 0 to 2"),
        (lambda: wilson(math.nan, 2), "wilson: count 0 is nan"),
        (lambda: sign_flip_p([1.5], 4), "sign_flip_p: difference 0 is 1.5"),
        (lambda: sign_flip_p([0.5], 0), "sign_flip_p: k is 0, expected a number of at least 1"),
        (lambda: pseudo_pair_interval([2.0], 4), "pseudo_pair_interval: difference 0 is 2"),
        (lambda: pseudo_pair_interval([0.5], 0), "pseudo_pair_interval: k is 0"),
        (lambda: holm([0.5, 1.2]), "holm: p 1 is 1.2"),
        (lambda: noise_band(-0.1), "noise_band: run_std is -0.1"),
        (lambda: noise_band(math.inf), "noise_band: run_std is inf"),
        (lambda: noise_band(0.1, runs_after=0), "noise_band: runs_after is 0"),
        (lambda: percentile_bootstrap([0.1, 0.2], resamples=0), "percentile_bootstrap: resamples is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan])
def test_a_level_is_between_nothing_and_certainty(level: float) -> None:
    for call in (
        lambda: wilson(1, 2, level),
        lambda: t_interval([0.1, 0.2], level),
        lambda: pseudo_pair_interval([0.1, 0.2], 4, level),
        lambda: percentile_bootstrap([0.1, 0.2], level=level),
        lambda: noise_band(0.1, level=level),
    ):
        with pytest.raises(ValueError, match=rf"level is {level:g}, expected a number between 0 and 1"):
            call()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("n", "k"), [(8, 4), (20, 4), (12, 1), (30, 8)])
def test_the_pseudo_pair_interval_covers_no_difference(n: int, k: int, rate: float) -> None:
    rng = np.random.default_rng(11)
    d = (rng.binomial(k, rate, (400, n)) - rng.binomial(k, rate, (400, n))) / k
    missed = sum(not (low <= 0 <= high) for low, high in (pseudo_pair_interval(row, k) for row in d))
    assert missed <= stats.binom.ppf(0.999, 400, 0.05)
