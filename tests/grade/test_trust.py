import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.grade.agreement import Confusion, agreement
from while_pipeline.grade.trust import TrustRow, TrustThresholds, defect_recall, judge_trust
from while_pipeline.prove.intervals import wilson

SCHEMA = {
    "rollout_id": pl.String,
    "task_id": pl.String,
    "gold": pl.Boolean,
    "verdict": pl.Boolean,
    "length": pl.Int64,
    "seeded": pl.String,
}


def labels(
    *cells: tuple[int, bool, bool | None], length: int = 20, seeded: str = "fault_hidden"
) -> pl.DataFrame:
    """Cells of (how many, gold, verdict); every answer equally long."""
    rows = [(gold, verdict) for many, gold, verdict in cells for _ in range(many)]
    return pl.DataFrame(
        [
            (f"r{i}", f"t{i}", gold, verdict, length, "" if gold else seeded)
            for i, (gold, verdict) in enumerate(rows)
        ],
        schema=SCHEMA,
        orient="row",
    )


def whole(made: pl.DataFrame, **options: object) -> TrustRow:
    return judge_trust(made, **options)[0]  # type: ignore[arg-type]


def judge(n: int, wrong: int) -> pl.DataFrame:
    """A judge on n labels, half of them clean, that is wrong on some of the clean ones."""
    clean = n - n // 2
    return labels((clean - wrong, True, True), (wrong, True, False), (n // 2, False, False))


@pytest.mark.parametrize(
    ("n", "wrong", "trusted"), [(15, 0, False), (16, 0, True), (50, 5, False), (50, 4, True)]
)
def test_a_perfect_judge_needs_16_labels_and_46_of_50_pass_where_45_fail(
    n: int, wrong: int, trusted: bool
) -> None:
    row = whole(judge(n, wrong))
    assert (row.n, row.trusted) == (n, trusted)
    assert row.agreement == pytest.approx((n - wrong) / n)
    assert (row.low, row.high) == wilson(n - wrong, n)


def test_figures_are_those_of_the_agreement_table() -> None:
    row = whole(labels((20, True, True), (5, True, False), (10, False, True), (15, False, False)))
    found = agreement(Confusion(20, 5, 10, 15))
    assert found is not None
    assert row[4:10] == found[1:7]
    assert (row.sensitivity, row.specificity) == (0.8, 0.6)


@settings(max_examples=40, deadline=None)
@given(st.integers(17, 300), st.integers(1, 40))
def test_the_labels_it_asks_for_are_enough_at_the_same_agreement(n: int, wrong: int) -> None:
    row = whole(judge(n, min(wrong, n // 2)))
    found = [part for part in row.reason.split("; ") if "more labels at this" in part]
    if found:
        assert row.agreement is not None
        more = int(found[0].partition(": ")[2].split()[0])
        assert more > 0
        assert wilson(row.agreement * (n + more), n + more).low >= 0.80 - 1e-12
        assert wilson(row.agreement * (n + more - 1), n + more - 1).low < 0.80


def test_45_of_50_is_told_how_many_labels_are_missing() -> None:
    assert "12 more labels at this agreement would reach 0.80" in whole(judge(50, 5)).reason


def test_a_judge_at_the_threshold_is_told_that_labels_will_not_help() -> None:
    assert "more labels will not lift" in whole(judge(50, 10)).reason


def test_a_judge_that_always_says_clean_fails_on_kappa_though_it_agrees() -> None:
    row = whole(labels((190, True, True), (10, False, True)))
    assert row.low is not None
    assert row.low > 0.80
    assert (row.kappa, row.kappa_low) == (0.0, None)
    assert not row.trusted
    assert row.reason == "kappa is 0.00, below 0.60"


@pytest.mark.parametrize(("gold", "word"), [(True, "clean"), (False, "defective")])
def test_labels_of_one_class_alone_cannot_make_trust_and_the_reason_says_which(gold: bool, word: str) -> None:
    row = whole(labels((40, gold, gold)))
    assert (row.kappa, row.trusted) == (None, False)
    assert row.reason == f"kappa is undefined: all 40 labels and all verdicts are {word}, label others"


@pytest.mark.parametrize(("skipped", "trusted"), [(10, True), (11, False)])
def test_a_tenth_may_go_without_verdict_and_is_counted_not_guessed(skipped: int, trusted: bool) -> None:
    row = whole(labels((45, True, True), (45, False, False), (skipped, False, None)))
    assert (row.n, row.n_skipped, row.agreement, row.trusted) == (90, skipped, 1.0, trusted)


def test_no_verdict_at_all_gives_no_figures() -> None:
    row = whole(labels((3, True, None)))
    assert row[2:12] == (0, 3, *[None] * 8)
    assert (row.length_gap, row.trusted, row.reason) == (None, False, "no label has a verdict (3 skipped)")


def by_length(short_clean: int, long_clean: int, each: int = 50) -> pl.DataFrame:
    """Right on every defect; of `each` short and `each` long clean answers it passes so many."""
    passed = [i < short_clean for i in range(each)] + [i < long_clean for i in range(each)]
    return labels(*((1, True, verdict) for verdict in passed), (150, False, False)).with_columns(
        length=pl.Series([10] * each + [90] * each + [10, 90] * 75)
    )


def test_a_judge_that_passes_long_answers_more_often_is_flagged_though_it_agrees() -> None:
    row = whole(by_length(38, 50))
    assert row.length_gap == pytest.approx(0.24)
    assert row.length_p is not None
    assert row.length_p < 0.025
    assert row.low is not None
    assert row.low > 0.80
    assert not row.trusted
    assert row.reason.startswith("long answers are called clean more often")


def test_a_taste_for_short_answers_is_flagged_too() -> None:
    assert whole(by_length(50, 38)).length_gap == pytest.approx(-0.24)


@pytest.mark.parametrize(("short", "long"), [(47, 50), (43, 50)], ids=["not significant", "a small gap"])
def test_a_small_or_doubtful_gap_is_shown_but_not_flagged(short: int, long: int) -> None:
    row = whole(by_length(short, long))
    assert row.length_gap == pytest.approx((long - short) / 50)
    assert row.trusted


def test_missing_one_defect_that_lengthens_the_answer_is_not_read_as_a_taste_for_length() -> None:
    caught = labels((40, False, False), seeded="truncated").with_columns(length=pl.Series([5, 9] * 20))
    missed = labels((8, False, True), seeded="flattery").with_columns(length=pl.Series([80, 90] * 4))
    clean = labels((150, True, True)).with_columns(length=pl.Series([20, 40] * 75))
    row = whole(pl.concat([clean, caught, missed]))
    assert row.length_gap == pytest.approx(0.0)
    assert row.trusted


def test_answers_of_one_length_have_no_gap() -> None:
    row = whole(judge(50, 0))
    assert (row.length_gap, row.length_p, row.trusted) == (None, None, True)


def test_halves_split_the_labels_by_task_whatever_the_order() -> None:
    made = judge(60, 3).with_columns(task_id=pl.Series([f"t{i // 3}" for i in range(60)]))
    rows = judge_trust(made)
    assert [row.half for row in rows] == ["all", "a", "b"]
    assert rows[0].n == 60 == rows[1].n + rows[2].n
    assert min(rows[1].n, rows[2].n) >= 12
    assert all(row.n % 3 == 0 for row in rows)
    assert judge_trust(made.reverse()) == rows


def test_an_empty_half_is_not_trusted_and_nothing_breaks() -> None:
    rows = judge_trust(labels((20, True, True), (20, False, False)).with_columns(task_id=pl.lit("one")))
    assert sorted((row.n, row.trusted) for row in rows) == [(0, False), (40, True), (40, True)]


def test_no_labels_at_all_are_three_untrusted_rows() -> None:
    assert [(row.n, row.trusted) for row in judge_trust(pl.DataFrame(schema=SCHEMA))] == [(0, False)] * 3


def test_all_that_is_missing_is_said_at_once() -> None:
    row = whole(labels((6, True, True), (3, True, False), (2, False, True), (2, False, None)))
    assert len(row.reason.split("; ")) == 3


def test_thresholds_and_source_are_the_callers() -> None:
    row = whole(judge(50, 5), source="human", thresholds=TrustThresholds(min_agreement=0.75))
    assert (row.source, row.trusted) == ("human", True)
    assert row.reason == "every threshold is met over 50 labels"


def test_recall_is_counted_per_defect_with_skipped_ones_apart() -> None:
    made = pl.concat(
        [
            labels((9, True, True), (1, True, False)),
            labels((6, False, False), (2, False, True), (1, False, None), seeded="flattery"),
            labels((3, False, False), seeded="fault_hidden,flattery"),
            labels((2, False, None), seeded="truncated"),
        ]
    )
    assert defect_recall(made) == [
        ("fault_hidden", 3, 0, 3, 1.0, *wilson(3, 3)),
        ("flattery", 11, 1, 9, 9 / 11, *wilson(9, 11)),
        ("truncated", 0, 2, 0, None, None, None),
    ]


def test_without_planted_defects_there_is_no_recall() -> None:
    assert defect_recall(labels((5, True, True))) == []
    assert defect_recall(pl.DataFrame(schema=SCHEMA)) == []
