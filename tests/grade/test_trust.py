from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.grade.agreement import Confusion, agreement
from while_pipeline.grade.trust import Gate, Source, TrustRow, TrustThresholds, judge_gate, judge_trust
from while_pipeline.prove.intervals import score_interval, t_quantile, wilson

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


def whole(made: pl.DataFrame, source: Source = "seeded", **options: Any) -> TrustRow:
    return judge_trust(made, source=source, **options)[0]


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
    assert row[row._fields.index("agreement") :][:7] == found[1:8]
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
    assert "no number of labels is enough" in whole(judge(50, 10)).reason


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
    assert (row.n, row.n_skipped, row.n_tasks, row.trusted) == (0, 3, 0, False)
    assert set(row[row._fields.index("agreement") : row._fields.index("trusted")]) == {None}
    assert row.reason == "no label has a verdict (3 skipped): 16 labels are needed at least"


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
    rows = judge_trust(made, source="seeded")
    assert [row.half for row in rows] == ["all", "a", "b"]
    assert rows[0].n_tasks == 20
    assert rows[0].n == 60 == rows[1].n + rows[2].n
    assert min(rows[1].n, rows[2].n) >= 12
    assert all(row.n % 3 == 0 for row in rows)
    assert judge_trust(made.reverse(), source="seeded") == rows


def test_an_empty_half_is_not_trusted_and_nothing_breaks() -> None:
    one = labels((20, True, True), (20, False, False)).with_columns(task_id=pl.lit("one"))
    rows = judge_trust(one, source="seeded")
    assert sorted(row.n for row in rows) == [0, 40, 40]
    assert not any(row.trusted for row in rows)


def test_right_labels_of_a_few_tasks_make_no_trust_however_many_they_are() -> None:
    of_three = labels((81, True, True), (81, False, False)).with_columns(
        task_id=pl.Series([f"t{i % 3}" for i in range(162)])
    )
    row = whole(of_three)
    assert (row.n, row.n_tasks, row.agreement, row.trusted) == (162, 3, 1.0, False)
    assert (row.low, row.high) == pytest.approx(wilson(3, 3))
    assert "labels of 13 more tasks" in row.reason


def test_no_labels_at_all_are_three_untrusted_rows() -> None:
    rows = judge_trust(pl.DataFrame(schema=SCHEMA), source="seeded")
    assert [(row.n, row.trusted) for row in rows] == [(0, False)] * 3


def test_all_that_is_missing_is_said_at_once() -> None:
    row = whole(labels((6, True, True), (3, True, False), (2, False, True), (2, False, None)))
    assert len(row.reason.split("; ")) == 3


def test_thresholds_and_source_are_the_callers() -> None:
    row = whole(judge(50, 5), source="human", thresholds=TrustThresholds(min_agreement=0.75))
    assert (row.source, row.trusted) == ("human", True)
    assert row.reason == "every threshold is met over 50 labels"


def test_labels_of_one_task_that_err_together_count_for_less() -> None:
    made = judge(60, 5)
    apart = whole(made)
    # The five errors, and each five labels after them, are of one task.
    together = whole(
        made.sort(pl.col("gold") == pl.col("verdict")).with_columns(
            task_id=pl.Series([f"t{i // 5}" for i in range(60)])
        )
    )
    assert (apart.n_tasks, together.n_tasks) == (60, 12)
    assert together.agreement == apart.agreement == 55 / 60
    # Of 60 labels in blocks of five alike, as many as there are blocks are independent, but for one.
    expected = score_interval(55 / 60, 11, t_quantile(11, 0.95))
    assert (together.low, together.high) == pytest.approx(expected)
    assert (apart.trusted, together.trusted) == (True, False)
    assert "more tasks at this agreement" in together.reason


def test_what_else_was_found_of_a_judge_counts_on_all_labels_and_not_on_the_halves() -> None:
    rows = judge_trust(judge(200, 0), source="seeded", flags=["probe flattery turns 12 of 24 verdicts"])
    assert [row.trusted for row in rows] == [False, True, True]
    assert rows[0].reason == "probe flattery turns 12 of 24 verdicts"


@given(st.integers(81, 100))
def test_so_many_labels_lift_the_lower_bound_and_one_fewer_do_not(percent: int) -> None:
    needed = TrustThresholds().needed(percent / 100)
    assert wilson(needed * percent / 100, needed).low >= 0.80 - 1e-12
    assert wilson((needed - 1) * percent / 100, needed - 1).low < 0.80


def gate(*parts: list[TrustRow], graded_by: Sequence[str] = ("j1",)) -> Gate:
    return judge_gate([{"judge": "j1", **row._asdict()} for part in parts for row in part], graded_by)


SOUND = judge_trust(judge(60, 0), source="seeded")


def human(made: pl.DataFrame, *, required: bool = False) -> list[TrustRow]:
    return judge_trust(made, source="human", required=required)


def test_a_judge_that_planted_defects_trust_opens_the_gate() -> None:
    assert gate(SOUND) == (True, "seeded: every threshold is met over 60 labels")


def test_the_gate_decides_on_all_tasks_whatever_a_half_says() -> None:
    thin = judge_trust(judge(24, 0), source="seeded")
    assert [row.trusted for row in thin] == [True, False, False]
    assert gate(thin).open


def test_a_gate_without_a_measured_judge_is_shut() -> None:
    assert gate() == (False, "the judge was not measured on planted defects")
    assert not gate(human(judge(60, 0))).open


def test_people_do_not_make_up_for_planted_defects() -> None:
    found = gate(judge_trust(judge(60, 30), source="seeded"), human(judge(60, 0)))
    assert not found.open
    assert found.reason.startswith("seeded: agreement is 0.50")


def test_people_who_agree_are_named_in_the_reason() -> None:
    found = gate(SOUND, human(judge(20, 0)))
    assert found == (
        True,
        "seeded: every threshold is met over 60 labels | human: every threshold is met over 20 labels",
    )


def test_people_who_contradict_the_judge_close_the_gate() -> None:
    found = gate(SOUND, human(judge(50, 5)))
    assert not found.open
    assert found.reason.startswith("human: agreement is 0.90 over 50 labels")
    assert "12 more labels at this agreement would reach 0.80" in found.reason


@pytest.mark.parametrize(("wrong", "is_open"), [(0, True), (2, True), (5, True), (6, False)])
def test_too_few_people_to_decide_close_the_gate_only_where_they_rule_agreement_out(
    wrong: int, is_open: bool
) -> None:
    few = human(judge(10, wrong))
    assert not few[0].trusted
    assert gate(SOUND, few).open is is_open


def test_where_people_are_required_the_gate_says_how_many_labels_are_missing() -> None:
    none, few = (
        gate(SOUND, human(made, required=True)) for made in (pl.DataFrame(schema=SCHEMA), judge(10, 0))
    )
    assert none == (False, "human: no label has a verdict (0 skipped): 16 labels are needed at least")
    assert not few.open
    assert "6 more labels at this agreement would reach 0.80" in few.reason
    assert gate(SOUND, human(judge(16, 0), required=True)).open


def test_grades_of_another_judge_than_the_one_that_was_measured_keep_the_gate_shut() -> None:
    assert gate(SOUND, graded_by=["j1", "j2"]) == (False, "the grades are of j2, which was not measured")
    assert gate(SOUND, graded_by=[]).open
