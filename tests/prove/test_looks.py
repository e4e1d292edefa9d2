import json
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.prove.looks import look_row, times_looked_at
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


def test_the_level_is_bonferronis_for_the_task_seen_most_often() -> None:
    row = look_row("c", "s", ["a", "b", "new"], Counter({"a": 1, "b": 4, "elsewhere": 9}), 0.95)
    assert (row["look"], row["n_fresh"]) == (5, 1)
    assert 1 - row["level"] == pytest.approx(0.05 / 5)


def test_looks_are_counted_over_all_days() -> None:
    looks = _looks(["a", "b"], ["b", "c"], ["b"])
    assert times_looked_at(looks) == {"a": 1, "b": 3, "c": 1}
    assert looks["look"].to_list() == [1, 2, 3]
    assert looks["n_fresh"].to_list() == [2, 1, 0]


def test_nothing_looked_at_is_an_empty_count() -> None:
    assert times_looked_at(_looks()) == Counter()


@settings(deadline=None)
@given(st.lists(TASKS, min_size=1, max_size=8), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_levels_of_all_looks_at_a_task_spend_no_more_than_the_last_allows(
    looks: list[list[str]], level: float
) -> None:
    earlier: Counter[str] = Counter()
    for tasks in looks:
        row = look_row("c", "s", tasks, earlier, level)
        earlier.update(tasks)
        assert row["look"] == max(earlier[task] for task in tasks)
        assert 1 - row["level"] == pytest.approx((1 - level) / row["look"])
