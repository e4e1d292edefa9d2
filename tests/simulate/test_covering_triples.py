"""Covering arrays of strength 3: every possible triple, no forbidden row, and little change after an edit."""

from itertools import combinations, product

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.ids import seed_of
from while_pipeline.simulate.covering import cover, coverage
from while_pipeline.simulate.covering_grid import Axes, Row

AXES: Axes = {
    "tool": ("none", "refund", "cancel", "lookup"),
    "policy_rule": ("r1", "r2", "r3"),
    "stance": ("ordinary", "hurried", "unsure"),
    "world_state": ("exists", "missing", "unknown"),
    "tool_condition": ("success", "timeout"),
}


def needs_a_tool(axis_a: str, value_a: str, axis_b: str, value_b: str) -> bool:
    return value_a != "none" or value_b in {"success", "exists", *AXES["policy_rule"], *AXES["stance"]}


def unsealed(row: Row) -> bool:
    return seed_of("held out", row) % 5 != 0


def triples(rows: list[Row]) -> set[tuple[tuple[int, str], ...]]:
    return {triple for row in rows for triple in combinations(enumerate(row), 3)}


def allowed(row: Row) -> bool:
    return row[0] != "none" or (row[3] == "exists" and row[4] == "success")


def test_sql_finds_every_triple_of_the_grid_in_the_array() -> None:
    rows = cover(AXES, allowed_pair=needs_a_tool, strength=3)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE axis_value (axis VARCHAR, place INTEGER, value VARCHAR)")
    connection.executemany(
        "INSERT INTO axis_value VALUES (?, ?, ?)",
        [(axis, place, value) for place, (axis, values) in enumerate(AXES.items()) for value in values],
    )
    connection.execute(f"CREATE TABLE plan ({', '.join(f'{axis} VARCHAR' for axis in AXES)})")
    connection.executemany(f"INSERT INTO plan VALUES ({', '.join('?' * len(AXES))})", rows)
    uncovered = connection.execute(
        f"""
        WITH cell AS (
            UNPIVOT (SELECT row_number() OVER () AS id, * FROM plan) ON {", ".join(AXES)}
            INTO NAME axis VALUE value
        )
        SELECT a.value, b.value, c.value
        FROM axis_value a JOIN axis_value b ON a.place < b.place JOIN axis_value c ON b.place < c.place
        WHERE NOT (a.value = 'none' AND (b.value IN ('missing', 'unknown', 'timeout')
                                         OR c.value IN ('missing', 'unknown', 'timeout')))
          AND NOT EXISTS (
            FROM cell x JOIN cell y USING (id) JOIN cell z USING (id)
            WHERE (x.axis, x.value) = (a.axis, a.value) AND (y.axis, y.value) = (b.axis, b.value)
              AND (z.axis, z.value) = (c.axis, c.value)
          )
        """
    ).fetchall()
    assert uncovered == []
    assert all(map(allowed, rows))


@given(st.lists(st.integers(1, 3), min_size=3, max_size=5), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_exactly_the_triples_that_some_allowed_row_holds_are_covered(sizes: list[int], salt: int) -> None:
    axes = {f"axis{i}": tuple(f"v{i}_{j}" for j in range(size)) for i, size in enumerate(sizes)}

    def kept(row: Row) -> bool:
        return seed_of(salt, row) % 4 != 0

    assert triples(cover(axes, allowed_row=kept, strength=3)) == triples(
        [row for row in product(*axes.values()) if kept(row)]
    )


def test_an_array_of_triples_is_an_array_of_pairs_as_well_and_not_many_times_larger_than_it_must_be() -> None:
    axes = {f"axis{i}": tuple(f"v{i}_{j}" for j in range(n)) for i, n in enumerate((8, 6, 6, 5, 5, 3))}
    rows = cover(axes, strength=3)
    assert coverage(rows, axes).fraction == 1
    assert 8 * 6 * 6 <= len(rows) <= 340


def test_rows_at_hand_are_extended_and_a_complete_array_needs_none() -> None:
    rows = cover(AXES, allowed_pair=needs_a_tool, strength=3)
    assert cover(AXES, allowed_pair=needs_a_tool, have=rows, strength=3) == []
    some = rows[::2]
    new = cover(AXES, allowed_pair=needs_a_tool, have=some, strength=3)
    assert triples([*some, *new]) == triples(rows)


def test_replacing_one_rule_keeps_all_other_rows_and_replans_only_rows_of_that_rule() -> None:
    rows = cover(AXES, allowed_pair=needs_a_tool, strength=3)
    after = {**AXES, "policy_rule": ("r1", "r2", "r3 reworded")}
    kept = [row for row in rows if row[1] != "r3"]

    def still_needs_a_tool(axis_a: str, value_a: str, axis_b: str, value_b: str) -> bool:
        return needs_a_tool(axis_a, value_a, axis_b, "r3" if value_b == "r3 reworded" else value_b)

    new = cover(after, allowed_pair=still_needs_a_tool, have=rows, strength=3)
    assert {row[1] for row in new} == {"r3 reworded"}
    assert triples([*kept, *new]) == triples([row for row in product(*after.values()) if allowed(row)])


@pytest.mark.parametrize("sizes", [(), (3,), (3, 2)])
def test_fewer_than_three_axes_have_no_triples(sizes: tuple[int, ...]) -> None:
    axes = {f"axis{i}": tuple(f"v{j}" for j in range(n)) for i, n in enumerate(sizes)}
    assert cover(axes, strength=3) == []


def test_the_array_is_the_same_each_time() -> None:
    assert cover(AXES, allowed_row=unsealed, strength=3) == cover(AXES, allowed_row=unsealed, strength=3)
