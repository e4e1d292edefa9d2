import json
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.prove.looks import look_row, looks_factor, looks_of, times_looked_at
from while_pipeline.tables import prove
from while_pipeline.tables.base import frame

TASKS = st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True)


def _looks(*looks: list[str]) -> pl.DataFrame:
    earlier: Counter[str] = Counter()
    days = []
    for i, tasks in enumerate(looks):
        row = look_row(f"c{i}", "s", tasks, earlier, 0.95)
        days.append(frame(prove.Looks, f"2026-03-{i + 1:02d}", [row]))
        earlier = times_looked_at(pl.concat(days))
    return pl.concat(days) if days else frame(prove.Looks, "2026-03-01", [])


def test_the_first_look_at_fresh_tasks_needs_no_correction() -> None:
    row = look_row("c", "s", ["b", "a"], Counter(), 0.95)
    assert (row["look"], row["n_tasks"], row["n_fresh"]) == (1, 2, 2)
    assert row["level"] == pytest.approx(0.95)
    assert json.loads(row["tasks"]) == ["a", "b"]


def test_the_level_is_corrected_for_the_task_seen_most_often() -> None:
    row = look_row("c", "s", ["a", "b", "new"], Counter({"a": 1, "b": 4, "elsewhere": 9}), 0.95)
    assert (row["look"], row["n_fresh"]) == (5, 1)
    assert 1 - row["level"] == pytest.approx(0.05 / 20)


def test_a_second_look_costs_twice_and_the_tenth_ninety_times() -> None:
    assert [looks_factor(number) for number in (1, 2, 3, 4, 10)] == [1, 2, 6, 12, 90]
    with pytest.raises(ValueError, match="looks_factor: number is 0"):
        looks_factor(0)


@given(st.integers(2, 2000))
def test_all_looks_after_the_first_together_spend_no_more_than_it(looks: int) -> None:
    spent = sum(1 / looks_factor(number) for number in range(2, looks + 1))
    assert spent == pytest.approx(1 - 1 / looks)


def test_a_days_look_is_taken_from_what_was_played() -> None:
    played = pl.DataFrame(
        {"task_id": ["b", "a", "b"], "arm": ["before", "after", "after"], "policy_version": ["s", "c", "c"]}
    )
    (row,) = looks_of(played, Counter("a"), 0.95)
    assert (row["candidate"], row["serving"], row["tasks"], row["look"]) == ("c", "s", '["a","b"]', 2)
    assert looks_of(played.clear(), Counter(), 0.95) == []


def test_looks_are_counted_over_all_days() -> None:
    looks = _looks(["a", "b"], ["b", "c"], ["b"])
    assert times_looked_at(looks) == {"a": 1, "b": 3, "c": 1}
    assert looks["look"].to_list() == [1, 2, 3]
    assert looks["n_fresh"].to_list() == [2, 1, 0]


def test_nothing_looked_at_is_an_empty_count() -> None:
    assert times_looked_at(_looks()) == Counter()


@settings(deadline=None)
@given(st.lists(TASKS, min_size=1, max_size=8), st.sampled_from([0.9, 0.95, 0.99]))
def test_every_look_has_its_number_and_the_level_that_goes_with_it(
    looks: list[list[str]], level: float
) -> None:
    earlier: Counter[str] = Counter()
    for tasks in looks:
        row = look_row("c", "s", tasks, earlier, level)
        earlier.update(tasks)
        assert row["look"] == max(earlier[task] for task in tasks)
        assert 1 - row["level"] == pytest.approx((1 - level) / looks_factor(row["look"]))
