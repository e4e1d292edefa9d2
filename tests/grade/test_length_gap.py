import polars as pl
import pytest
from scipy.stats import fisher_exact

from while_pipeline.grade.length_gap import length_gaps


def judged(*rows: tuple[str, bool, bool, int, str]) -> pl.DataFrame:
    columns = ["task_id", "gold", "verdict", "length", "seeded"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def clean(n: int, said_clean: int, length: int, first: int = 0) -> list[tuple[str, bool, bool, int, str]]:
    return [(f"t{first + i}", True, i < said_clean, length, "") for i in range(n)]


def test_the_gap_is_long_minus_short_with_fishers_p() -> None:
    (found,) = length_gaps(judged(*clean(20, 12, 10), *clean(20, 19, 90, first=20)))
    assert found.gap == pytest.approx(0.95 - 0.60)
    assert found.p == pytest.approx(fisher_exact([[19, 1], [12, 8]]).pvalue)


def test_one_rollout_a_task_counts_its_first() -> None:
    once = judged(*clean(20, 12, 10), *clean(20, 19, 90, first=20))
    again = once.with_columns(verdict=~pl.col("verdict"))
    assert length_gaps(pl.concat([once, again])) == length_gaps(once)
    assert length_gaps(pl.concat([again, once])) == length_gaps(again)


def test_long_is_longer_than_what_has_the_same_defects() -> None:
    # Answers with a leak are long and pass, those with a hidden fault short and fail: no taste for length.
    leaks = [(f"l{i}", False, True, 80 + 10 * (i % 2), "leak") for i in range(20)]
    faults = [(f"f{i}", False, False, 5 + 5 * (i % 2), "hidden_fault") for i in range(20)]
    (found,) = length_gaps(judged(*leaks, *faults))
    assert (found.gap, found.p) == (0.0, pytest.approx(1.0))


def test_each_gold_label_is_looked_at_alone_and_equal_lengths_say_nothing() -> None:
    wrong = [(f"w{i}", False, False, 10 + i % 2, "leak") for i in range(10)]
    assert len(length_gaps(judged(*clean(10, 5, 10), *clean(10, 5, 90, first=10), *wrong))) == 2
    assert length_gaps(judged(*clean(10, 5, 10))) == []
