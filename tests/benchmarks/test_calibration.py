"""The calibration judges the library only if its batches are the library's own figures."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from benchmarks.calibration import drift, nights, published
from benchmarks.calibration.batch import pseudo_pair, rule, sign_flip_p, t, verdict_p
from benchmarks.calibration.bootstrap import bootstrap
from benchmarks.calibration.cells import METHODS, Cell, Effort, grid, simulate
from benchmarks.calibration.rates import rate_intervals
from benchmarks.calibration.report import page
from benchmarks.calibration.truths import BY_NAME, FAMILIES, TRUTHS
from tests.example import ROOT
from while_pipeline.prove import intervals
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.pass_at import rate_interval
from while_pipeline.prove.verdict import Verdict

EXAMPLE = np.array([[0.25, 0.5, 0, 0.25, -0.25, 0.5, 0.75, 0, 0.25, 0.25]])
SMALL = Effort(replicates=200, bootstrapped=50, resamples=100)


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Scores of some samples, and the k they are out of."""
    k = draw(st.integers(1, 6))
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 14)))
    return draw(arrays.arrays(np.float64, shape, elements=st.integers(-k, k).map(float))), k


@settings(max_examples=60, deadline=None)
@given(batches())
def test_a_batch_gives_the_librarys_figures_row_by_row(batch: tuple[np.ndarray, int]) -> None:
    scores, k = batch
    found = zip(
        sign_flip_p(scores, k),
        zip(*pseudo_pair(scores / k, 1 / math.sqrt(k)), strict=True),
        zip(*t(scores / k), strict=True),
        strict=True,
    )
    for row, (p, pseudo, plain) in zip(scores / k, found, strict=True):
        assert p == pytest.approx(intervals.sign_flip_p(row, k), abs=1e-12)
        assert pseudo == pytest.approx(intervals.pseudo_pair_interval(row, k), abs=1e-12)
        assert plain == pytest.approx(intervals.t_interval(row), abs=1e-12)


@pytest.mark.parametrize(("n", "k"), [(300, 4), (50, 16), (40, 120)])
def test_the_fast_sign_flip_is_exact_at_size_too(n: int, k: int) -> None:
    scores = BY_NAME["low, lift .2"].differences(np.random.default_rng(1), 5, n, k)
    mixed = scores * np.random.default_rng(2).choice((-1, 1), scores.shape)
    for batch in (scores, mixed):
        expected = [intervals.sign_flip_p(row / k, k) for row in batch]
        assert sign_flip_p(batch, k) == pytest.approx(expected, abs=1e-12)


def test_the_rule_is_the_verdict_of_the_delta() -> None:
    k, n = 4, 12
    rng = np.random.default_rng(3)
    scores = np.concatenate(
        [BY_NAME[name].differences(rng, 20, n, k) for name in ("low, lift .2", "rare collapse")]
    )
    scores[::3] *= -1
    verdicts = [_verdict(row, k) for row in scores]
    better, worse = rule(scores, k)

    assert better.tolist() == [verdict == Verdict.BETTER for verdict in verdicts]
    assert worse.tolist() == [verdict == Verdict.WORSE for verdict in verdicts]
    assert {Verdict.BETTER, Verdict.WORSE} <= set(verdicts)


def _verdict(scores: np.ndarray, k: int) -> str:
    rows = [
        (f"task {i}", "all", arm, sample, sample < passes, "j", "c")
        for i, score in enumerate(scores.astype(int).tolist())
        for arm, passes in (("before", max(0, -score)), ("after", max(0, score)))
        for sample in range(k)
    ]
    columns = ["task_id", "category", "arm", "sample", "passed", "judge", "customer"]
    return paired_delta(pl.DataFrame(rows, columns, orient="row")).row(0, named=True)["verdict"]


@settings(max_examples=60, deadline=None)
@given(batches())
def test_the_rates_of_a_batch_have_the_librarys_interval(batch: tuple[np.ndarray, int]) -> None:
    scores, k = batch
    rates = np.abs(scores) / k
    for row, found in zip(rates, zip(*rate_intervals(rates), strict=True), strict=True):
        assert found == pytest.approx(rate_interval(row), abs=1e-12)


def test_the_p_of_a_verdict_is_1_on_the_other_side_and_where_too_few_tasks_changed() -> None:
    better, worse = verdict_p(np.array([[1.0] * 6, [-1.0] * 6, [1.0] * 5 + [0.0]]), 1)

    assert better.tolist() == pytest.approx([2 / 2**6, 1, 1])
    assert worse.tolist() == pytest.approx([1, 2 / 2**6, 1])


def test_bootstraps_give_the_worked_example() -> None:
    for bounds in bootstrap(np.random.default_rng(0), EXAMPLE, 20_000):
        assert (bounds.low[0], bounds.high[0]) == pytest.approx((0.075, 0.425), abs=0.0126)


def test_bca_agrees_with_scipy() -> None:
    d = np.random.default_rng(4).exponential(size=(1, 20))
    expected = stats.bootstrap(
        d, np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(5)
    ).confidence_interval
    _, found = bootstrap(np.random.default_rng(6), d, 20_000)

    assert (found.low[0], found.high[0]) == pytest.approx((expected.low, expected.high), abs=0.03)


def test_equal_values_leave_a_bootstrap_without_width() -> None:
    for bounds in bootstrap(np.random.default_rng(0), np.full((1, 5), 0.25), 100):
        assert (bounds.low[0], bounds.high[0]) == pytest.approx((0.25, 0.25))
        assert bounds.covers(0.25).all()


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.name)
def test_a_truths_samples_have_its_mean_difference(truth) -> None:
    k = 3
    scores = truth.differences(np.random.default_rng(7), 4_000, 10, k)
    error = scores.std() / math.sqrt(scores.size) / k

    assert np.abs(scores).max() <= k
    assert scores.mean() / k == pytest.approx(truth.effect, abs=4 * error)


def test_the_grid_has_every_kind_of_cell() -> None:
    cells = grid()
    nulls = [cell for cell in cells if BY_NAME[cell.truth].is_null]

    assert len(cells) == len(set(cells)) >= 250
    assert 0 < len(nulls) < len(cells)
    assert {BY_NAME[cell.truth].family for cell in nulls} == set(FAMILIES)


def test_a_cell_is_the_same_every_time() -> None:
    cells = [Cell("rare large jumps", 15, 8), Cell("shared luck, lift .1", 8, 4)]
    assert [simulate(cell, SMALL) for cell in cells] == [simulate(cell, SMALL) for cell in cells]
    assert [row.method for row in simulate(cells[0], SMALL)] == list(METHODS)


@pytest.mark.parametrize("design", nights.DESIGNS)
def test_looks_are_the_same_every_time_and_correction_only_takes_away(design: str) -> None:
    looks = nights.thirty(design, BY_NAME["coin, no effect"], 2, replicates=60)

    assert looks == nights.thirty(design, BY_NAME["coin, no effect"], 2, replicates=60)
    assert looks.corrected is not None
    assert looks.corrected < looks.uncorrected


def test_promotions_are_the_same_every_time() -> None:
    drifts = [drift.thirty("N(0, .02)", "our rule", replicates=20) for _ in range(2)]
    assert drifts[0] == drifts[1]


def test_nothing_comes_of_promoting_what_has_no_effect() -> None:
    found = drift.thirty("no effect at all", "any higher mean", replicates=5)
    assert found.promotions > 0
    assert (found.change, found.harmful) == (0, None)


def test_a_policy_falls_when_every_higher_mean_is_promoted_and_most_candidates_harm() -> None:
    found = drift.thirty("N(-.02, .02), mostly harmful", "any higher mean", replicates=40)
    assert found.change < -4 * found.error


def test_the_published_page_says_what_the_published_figures_say() -> None:
    figures = published.read(ROOT / "docs")

    assert list(dict.fromkeys(row.cell for row in figures.cells)) == grid()
    assert page(*figures, Effort()) == (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
