"""Coverage: pairs planned, played and realised, counted by arm."""

import json
import random
from collections import Counter
from itertools import combinations

import duckdb
import polars as pl

from tests.example import GRID, ordinary, planned
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import AXES, situation
from while_pipeline.simulate.coverage import ALL_ARMS, PLAYED, CoverageCounts, coverage_counts, coverage_table
from while_pipeline.simulate.covering import pairs

Played = tuple[str, Situation, list[str], int]
"""(arm, situation, axes shown, rollouts)."""


def _planned(*cells: Situation) -> pl.DataFrame:
    return pl.DataFrame([cell.model_dump() for cell in cells], schema=dict.fromkeys(AXES, pl.String))


def _played(*rows: Played) -> pl.DataFrame:
    columns = dict.fromkeys(("arm", *AXES, "realised"), pl.String) | {"n": pl.Int64}
    made = [
        {"arm": arm, **cell.model_dump(), "realised": json.dumps(shown), "n": n}
        for arm, cell, shown, n in rows
    ]
    return pl.DataFrame(made, schema=columns)


def _of(
    table: pl.DataFrame, arm: str, axis_a: str, axis_b: str
) -> dict[tuple[str, str], tuple[bool, int, int]]:
    rows = table.filter(pl.col("arm") == arm, pl.col("axis_a") == axis_a, pl.col("axis_b") == axis_b)
    return {
        (row["value_a"], row["value_b"]): (row["planned"], row["played"], row["realised"])
        for row in rows.iter_rows(named=True)
    }


BILL, ORDER = ordinary("get_bill"), ordinary("cancel_order", stance="hurried")


def test_a_pair_is_played_by_its_label_and_realised_by_both_its_marks() -> None:
    table = coverage_table(
        GRID,
        _planned(BILL),
        _played(
            ("structured", BILL, ["tool", "stance"], 3),
            ("structured", BILL, ["tool"], 2),
            ("open_ended", ORDER, ["tool", "stance"], 1),
        ),
    )
    everyone = _of(table, ALL_ARMS, "tool", "stance")
    assert everyone["get_bill", "ordinary"] == (True, 5, 3)
    assert everyone["cancel_order", "hurried"] == (False, 1, 1)
    assert everyone["cancel_order", "unsure"] == (False, 0, 0)
    assert _of(table, "structured", "tool", "stance") == {("get_bill", "ordinary"): (True, 5, 3)}
    assert _of(table, "open_ended", "tool", "stance") == {("cancel_order", "hurried"): (False, 1, 1)}


def test_the_counts_are_of_the_planned_pairs_only() -> None:
    table = coverage_table(
        GRID,
        _planned(BILL),
        _played(("structured", BILL, ["tool", "stance"], 2), ("open_ended", ORDER, list(AXES), 9)),
    )
    # No rule is in play in either, and `none` is no value of this grid's rules: ten pairs of five axes.
    # The two situations share world state, condition and history.
    assert coverage_counts(table) == CoverageCounts(planned=10, played=10, realised=4)


def test_every_pair_that_can_meet_has_a_row_for_the_whole_night_even_when_nothing_was_played() -> None:
    table = coverage_table(GRID, _planned(*planned()), _played())
    assert table.select("axis_a", "value_a", "axis_b", "value_b").rows() == pairs(
        GRID.axes, GRID.allowed_pair
    )
    assert table["planned"].all()
    assert coverage_counts(table) == CoverageCounts(planned=table.height, played=0, realised=0)


def test_a_plan_of_nothing_is_realised_whole() -> None:
    assert coverage_counts(coverage_table(GRID, _planned(), _played())).fraction == 1.0


def test_the_table_agrees_with_counting_rollout_by_rollout() -> None:
    rng = random.Random(3)
    rows: list[Played] = []
    while len(rows) < 300:
        row = [rng.choice(values) for values in GRID.axes.values()]
        if GRID.allowed(row):
            shown = [axis for axis in AXES if rng.random() < 0.7]
            rows.append((rng.choice(["structured", "open_ended"]), situation(row), shown, rng.randint(1, 3)))
    seen, shown_by = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for arm, cell, shown, n in rows:
        for a, b in combinations(AXES, 2):
            for who in (arm, ALL_ARMS):
                at = (a, getattr(cell, a), b, getattr(cell, b), who)
                seen[at] += n
                shown_by[at] += n if a in shown and b in shown else 0
    table = coverage_table(GRID, _planned(*planned()), _played(*rows))
    found = {row[:5]: row[6:] for row in table.rows() if row[6]}
    assert found == {at: (n, shown_by[at]) for at, n in seen.items()}


def test_a_days_rollouts_are_read_from_the_stored_tables_without_the_lost_ones() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA simulate")
    connection.execute(
        "CREATE TABLE simulate.scenarios AS SELECT DATE '2026-03-02' AS day, 's' AS scenario_id, "
        "'structured' AS arm, "
        + ", ".join(f"'{value}' AS {axis}" for axis, value in BILL.model_dump().items())
    )
    connection.execute(
        """CREATE TABLE simulate.rollouts AS SELECT * FROM (VALUES
            (DATE '2026-03-02', 's', NULL, '["tool","stance"]'::JSON),
            (DATE '2026-03-02', 's', NULL, '["tool","stance"]'::JSON),
            (DATE '2026-03-02', 's', 'timed out', '[]'::JSON),
            (DATE '2026-03-03', 's', NULL, '["tool"]'::JSON)
        ) AS t (day, scenario_id, lost, realised)"""
    )
    read = connection.sql(PLAYED, params=["2026-03-02"]).pl()
    assert read.rows(named=True) == [
        {"arm": "structured", **BILL.model_dump(), "realised": '["tool","stance"]', "n": 2}
    ]
    assert coverage_counts(coverage_table(GRID, _planned(BILL), read)).realised == 1
