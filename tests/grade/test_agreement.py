from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa

from while_pipeline.grade.agreement import (
    Agreement,
    Confusion,
    Worth,
    agreement,
    confusion,
    nominal_alpha,
    worth,
)
from while_pipeline.prove.intervals import wilson

counts = st.integers(0, 60)
tables = st.builds(Confusion, counts, counts, counts, counts).filter(lambda table: sum(table) > 0)


def described(*table: int) -> Agreement:
    found = agreement(Confusion(*table))
    assert found is not None
    return found


def test_kappa_of_the_textbook_table_has_its_published_interval() -> None:
    found = described(20, 5, 10, 15)
    assert found.kappa == pytest.approx(0.4)
    assert (found.kappa_low, found.kappa_high) == pytest.approx((0.151092, 0.648908), abs=1e-6)


@settings(deadline=None)
@given(st.builds(Confusion, *[st.integers(1, 60)] * 4))
def test_kappa_and_its_interval_match_statsmodels(table: Confusion) -> None:
    a, b, c, d = table
    theirs = cohens_kappa([[a, b], [c, d]])
    found = described(*table)
    assert found.kappa == pytest.approx(theirs.kappa)
    assert found.kappa_low == pytest.approx(max(-1, theirs.kappa_low))
    assert found.kappa_high == pytest.approx(min(1, theirs.kappa_upp))


@pytest.mark.parametrize("table", [(45, 3, 2, 0), (20, 5, 10, 15)])
def test_kappa_matches_statsmodels_on_the_worked_tables(table: tuple[int, int, int, int]) -> None:
    a, b, c, d = table
    theirs = cohens_kappa([[a, b], [c, d]])
    found = described(*table)
    assert (found.kappa, found.kappa_low, found.kappa_high) == pytest.approx(
        (theirs.kappa, theirs.kappa_low, theirs.kappa_upp)
    )


def test_a_rare_class_makes_kappa_lie_and_ac1_not() -> None:
    found = described(45, 3, 2, 0)
    assert found.agreement == pytest.approx(0.90)
    assert found.kappa == pytest.approx(-0.0504, abs=5e-5)
    assert (found.kappa_low, found.kappa_high) == pytest.approx((-0.098365, -0.002475), abs=1e-6)
    assert found.ac1 == pytest.approx(0.889503, abs=1e-6)


def test_agreement_and_the_recall_of_each_class_carry_wilson_intervals() -> None:
    found = described(20, 5, 10, 15)
    assert (found.n, found.agreement, found.low, found.high) == (50, 0.7, *wilson(35, 50))
    assert found.sensitivity == (20, 25, 0.8, *wilson(20, 25))
    assert found.specificity == (15, 25, 0.6, *wilson(15, 25))


def test_perfect_agreement_has_kappa_one_with_no_width_but_an_honest_wilson_bound() -> None:
    found = described(8, 0, 0, 8)
    assert (found.kappa, found.kappa_low, found.kappa_high, found.ac1) == (1.0, 1.0, 1.0, 1.0)
    assert found.low < 0.81


@pytest.mark.parametrize("table", [(8, 2, 0, 0), (8, 0, 2, 0), (0, 0, 3, 9), (0, 4, 0, 9)])
def test_one_constant_rater_has_kappa_zero_without_an_interval(table: tuple[int, int, int, int]) -> None:
    found = described(*table)
    assert (found.kappa, found.kappa_low, found.kappa_high) == (0.0, None, None)


@pytest.mark.parametrize("table", [(7, 0, 0, 0), (0, 0, 0, 7)])
def test_kappa_is_undefined_when_both_are_constant_on_the_same_class(
    table: tuple[int, int, int, int],
) -> None:
    found = described(*table)
    assert (found.kappa, found.kappa_low, found.kappa_high) == (None, None, None)
    assert (found.agreement, found.ac1) == (1.0, 1.0)


def test_two_constants_that_never_agree_have_kappa_zero() -> None:
    assert described(0, 5, 0, 0).kappa == 0.0


def test_a_class_without_items_has_no_recall() -> None:
    found = described(8, 2, 0, 0)
    assert found.specificity is None
    assert found.sensitivity is not None


def test_an_empty_table_has_no_agreement() -> None:
    assert agreement(Confusion(0, 0, 0, 0)) is None


@settings(deadline=None)
@given(tables)
def test_swapping_the_raters_or_the_names_of_the_classes_changes_no_coefficient(table: Confusion) -> None:
    a, b, c, d = table
    ours = described(*table)
    for other in (described(a, c, b, d), described(d, c, b, a)):
        for field in ("agreement", "low", "high", "kappa", "kappa_low", "kappa_high", "ac1"):
            assert getattr(other, field) == pytest.approx(getattr(ours, field), abs=1e-9)


@settings(deadline=None)
@given(tables)
def test_every_figure_stays_in_its_range_and_inside_its_interval(table: Confusion) -> None:
    found = described(*table)
    assert 0 <= found.low <= found.agreement <= found.high <= 1
    assert -1 <= found.ac1 <= 1
    if found.kappa_low is not None and found.kappa is not None and found.kappa_high is not None:
        assert -1 <= found.kappa_low <= found.kappa + 1e-12
        assert found.kappa - 1e-12 <= found.kappa_high <= 1


@settings(deadline=None)
@given(st.builds(Confusion, *[st.integers(1, 60)] * 4))
def test_the_interval_of_kappa_is_the_delta_methods(table: Confusion) -> None:
    """Multinomial variance of kappa by numerical gradient: no formula shared with the code."""
    p = np.array(table) / sum(table)

    def kappa(p: np.ndarray) -> float:
        a, b, c, d = p / p.sum()
        chance = (a + b) * (a + c) + (c + d) * (b + d)
        return float((a + d - chance) / (1 - chance))

    step = 1e-6
    gradient = np.array([(kappa(p + step * e) - kappa(p - step * e)) / (2 * step) for e in np.eye(4)])
    spread = np.sqrt((p @ gradient**2 - (p @ gradient) ** 2) / sum(table))
    found = described(*table)
    assert found.kappa == pytest.approx(kappa(p))
    assert found.kappa_low == pytest.approx(max(-1, kappa(p) - 1.959964 * spread), abs=1e-5)
    assert found.kappa_high == pytest.approx(min(1, kappa(p) + 1.959964 * spread), abs=1e-5)


def test_confusion_counts_every_pair_once_and_leaves_out_unknowns() -> None:
    pairs = list(product([True, False, None], repeat=2))
    gold, verdict = (pl.Series([pair[i] for pair in pairs], dtype=pl.Boolean) for i in (0, 1))
    assert confusion(gold, verdict) == (1, 1, 1, 1)


def test_confusion_keeps_gold_in_the_rows() -> None:
    gold = pl.Series([True, True, True, False])
    verdict = pl.Series([True, False, False, False])
    assert confusion(gold, verdict) == Confusion(both_true=1, gold_only=2, verdict_only=0, both_false=1)


def test_confusion_of_nothing_is_all_zero() -> None:
    nothing = pl.Series([], dtype=pl.Boolean)
    assert confusion(nothing, nothing) == (0, 0, 0, 0)


items = st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefgh")), min_size=2, max_size=40)


def worth_of(made: list[tuple[bool, str]]) -> Worth:
    hits, tasks = zip(*made, strict=True)
    return worth(pl.Series(hits, dtype=pl.Boolean), pl.Series(tasks))


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_one_label_a_task_is_worth_one_and_gives_wilson(hits: list[bool]) -> None:
    of = worth_of([(hit, f"t{i}") for i, hit in enumerate(hits)])
    assert of == (len(hits), pytest.approx(stats.norm.ppf(0.975)))
    found = agreement(Confusion(sum(hits), len(hits) - sum(hits), 0, 0), of=of)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(wilson(sum(hits), len(hits)))


@given(
    st.lists(st.booleans(), min_size=2, max_size=20).filter(lambda hits: len(set(hits)) == 2),
    st.integers(2, 5),
)
def test_copies_of_a_label_are_worth_no_more_than_the_label(hits: list[bool], copies: int) -> None:
    of = worth_of([(hit, f"t{i}") for i, hit in enumerate(hits) for _ in range(copies)])
    assert of.labels == pytest.approx(len(hits) - 1)
    assert of.quantile == pytest.approx(stats.t.ppf(0.975, len(hits) - 1))


@given(items)
def test_labels_are_worth_their_number_over_the_ratio_of_the_two_variances(
    made: list[tuple[bool, str]],
) -> None:
    hits = np.array([hit for hit, _ in made], dtype=float)
    tasks = np.array([task for _, task in made])
    n, c = len(hits), len(set(tasks))
    residual = hits - hits.mean()
    apart, together = float(residual @ residual), sum(residual[tasks == t].sum() ** 2 for t in set(tasks))
    spread = c not in (1, n) and apart > 1e-9
    assert worth_of(made).labels == pytest.approx(
        n / max(1.0, together / apart * c / (c - 1)) if spread else c
    )


@pytest.mark.parametrize("made", [[(True, "a")] * 16, [(True, "a")] * 46 + [(False, "a")] * 4])
def test_labels_of_one_task_are_worth_one(made: list[tuple[bool, str]]) -> None:
    assert worth_of(made).labels == 1


def test_where_labels_err_together_a_judge_at_the_bar_rarely_gets_over_it() -> None:
    rng = np.random.default_rng(0)
    tasks = [f"t{i}" for i in range(8) for _ in range(8)]
    over = 0
    for _ in range(1_000):
        # Agreement .8 in the mean; labels of a task correlate by a half.
        rates = np.repeat(rng.beta(0.8, 0.2, 8), 8)
        hits = pl.Series(rng.random(64) < rates)
        right = int(hits.sum())
        found = agreement(Confusion(right, 64 - right, 0, 0), of=worth(hits, pl.Series(tasks)))
        assert found is not None
        over += found.low >= 0.8
    # 2.5 % is meant; taken for 64 labels that stand alone, it would be 17 %.
    assert over / 1_000 < 0.07


def test_labels_that_are_worth_less_widen_the_intervals_and_move_no_coefficient() -> None:
    table = Confusion(20, 5, 10, 15)
    alone, together = agreement(table), agreement(table, of=Worth(25.0, float(stats.norm.ppf(0.975))))
    assert alone is not None
    assert together is not None
    assert (together.low, together.high) == pytest.approx(wilson(17.5, 25))
    assert (together.agreement, together.kappa, together.ac1) == (alone.agreement, alone.kappa, alone.ac1)
    assert together.kappa_high is not None
    assert alone.kappa_high is not None
    assert together.kappa_high - 0.4 == pytest.approx((alone.kappa_high - 0.4) * 2**0.5)


STANDARD = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
"""Four observers, twelve units: the example that every account of the coefficient uses."""


def ratings(*observers: str) -> list[tuple[str, object]]:
    return [
        (f"u{unit}", label)
        for observer in observers
        for unit, label in enumerate(observer.split())
        if label != "."
    ]


def test_krippendorffs_alpha_of_the_standard_example() -> None:
    assert nominal_alpha(ratings(*STANDARD)) == pytest.approx(0.743421, abs=1e-6)


def test_alpha_is_the_same_whatever_the_order_and_the_names_of_the_labels() -> None:
    renamed = [(unit, "vwxyz"[int(str(label)) - 1]) for unit, label in ratings(*STANDARD)]
    assert nominal_alpha(renamed[::-1]) == pytest.approx(0.743421, abs=1e-6)


def test_alpha_of_two_observers_by_hand() -> None:
    # One unit of four disagrees, and of the eight labels five are 1 and three are 0.
    assert nominal_alpha(ratings("1 1 0 1", "1 1 0 0")) == pytest.approx(1 - (8 - 1) * 1 / (5 * 3))


def test_alpha_is_undefined_without_a_unit_labelled_twice_and_without_two_labels() -> None:
    assert nominal_alpha(ratings("1 0 .", ". . 1")) is None
    assert nominal_alpha(ratings("1 1 0", "1 1 .")) is None
    assert nominal_alpha([]) is None
