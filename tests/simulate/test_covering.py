"""Covering arrays: every possible pair, no forbidden row, few rows, and little change after an edit."""

import os
import subprocess
import sys
from functools import partial
from itertools import combinations, pairwise, product
from math import prod
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.ids import seed_of
from while_pipeline.simulate.covering import Pair, cover, coverage, pairs
from while_pipeline.simulate.covering_grid import AllowedPair, AllowedRow, Axes, Row


def grid(*sizes: int) -> dict[str, tuple[str, ...]]:
    return {f"axis{i}": tuple(f"v{i}_{j}" for j in range(size)) for i, size in enumerate(sizes)}


Case = tuple[Axes, AllowedPair, AllowedRow]


def unsealed(row: Row) -> bool:
    """Seal one full row in five, by its hash."""
    return seed_of("held out", row) % 5 != 0


def needs_a_tool(axis_a: str, value_a: str, axis_b: str, value_b: str) -> bool:
    """Conditions and world states need a tool, world states one with an identifier."""
    at = {axis_a: value_a, axis_b: value_b}
    if at.get("tool") == "none":
        return (
            at.get("tool_condition", "success") == "success" and at.get("world_state", "exists") == "exists"
        )
    return at.get("tool") != "list_plans" or at.get("world_state", "exists") == "exists"


SUPPORT: Axes = {
    "tool": ("none", "list_plans", "refund", "cancel", "lookup"),
    "policy_rule": ("r1", "r2", "r3", "r4", "r5", "r6"),
    "stance": ("ordinary", "hurried", "unsure", "retry", "mistaken", "exploratory", "ambiguous", "boundary"),
    "world_state": ("exists", "missing", "already_acted_on", "duplicate", "partially_completed", "unknown"),
    "tool_condition": ("success", "timeout", "malformed", "stale", "permission_denied"),
    "history": ("fresh", "prior_failure", "repeat_visit"),
}


def replaced(axes: Axes, axis: str, old: str, new: str) -> Axes:
    return {
        name: tuple(new if (name, value) == (axis, old) else value for value in values)
        for name, values in axes.items()
    }


def brute_force_pairs(
    axes: Axes, allowed_pair: AllowedPair | None = None, allowed_row: AllowedRow | None = None
) -> set[Pair]:
    """The oracle: walk the whole grid."""
    found: set[Pair] = set()
    for row in product(*axes.values()):
        held = [Pair(a, x, b, y) for (a, x), (b, y) in combinations(tuple(zip(axes, row, strict=True)), 2)]
        if all(allowed_pair is None or allowed_pair(*pair) for pair in held) and (
            allowed_row is None or allowed_row(row)
        ):
            found.update(held)
    return found


def held_by(rows: list[Row], axes: Axes) -> set[Pair]:
    return {
        Pair(a, x, b, y)
        for row in rows
        for (a, x), (b, y) in combinations(tuple(zip(axes, row, strict=True)), 2)
    }


@st.composite
def constrained_grids(draw: st.DrawFn) -> Case:
    """A small grid, some forbidden pairs and some refused rows."""
    axes = grid(*draw(st.lists(st.integers(1, 4), min_size=2, max_size=5)))
    every_pair = sorted(brute_force_pairs(axes))
    forbidden = draw(st.sets(st.sampled_from(every_pair), max_size=len(every_pair) // 3))
    salt = draw(st.integers(0, 1000))
    return (
        axes,
        lambda a, x, b, y: (a, x, b, y) not in forbidden,
        lambda row: seed_of(salt, row) % 4 != 0,
    )


def test_sql_finds_every_pair_of_the_example_grid_in_the_array() -> None:
    rows = cover(SUPPORT, allowed_pair=needs_a_tool, allowed_row=unsealed)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE axis_value (axis VARCHAR, place INTEGER, value VARCHAR)")
    connection.executemany(
        "INSERT INTO axis_value VALUES (?, ?, ?)",
        [(axis, place, value) for place, (axis, values) in enumerate(SUPPORT.items()) for value in values],
    )
    connection.execute(f"CREATE TABLE plan ({', '.join(f'{axis} VARCHAR' for axis in SUPPORT)})")
    connection.executemany(f"INSERT INTO plan VALUES ({', '.join('?' * len(SUPPORT))})", rows)
    connection.execute(
        f"""
        CREATE VIEW cell AS
        UNPIVOT (SELECT row_number() OVER () AS id, * FROM plan) ON {", ".join(SUPPORT)}
        INTO NAME axis VALUE value
        """
    )
    uncovered = connection.execute(
        """
        SELECT a.axis, a.value, b.axis, b.value
        FROM axis_value a JOIN axis_value b ON a.place < b.place
        WHERE NOT (a.value = 'none' AND b.axis = 'world_state' AND b.value <> 'exists')
          AND NOT (a.value = 'none' AND b.axis = 'tool_condition' AND b.value <> 'success')
          AND NOT (a.value = 'list_plans' AND b.axis = 'world_state' AND b.value <> 'exists')
          AND NOT EXISTS (
            FROM cell x JOIN cell y USING (id)
            WHERE x.axis = a.axis AND x.value = a.value AND y.axis = b.axis AND y.value = b.value
          )
        """
    ).fetchall()
    broken = connection.execute(
        """
        SELECT * FROM plan
        WHERE tool = 'none' AND (world_state <> 'exists' OR tool_condition <> 'success')
           OR tool = 'list_plans' AND world_state <> 'exists'
        """
    ).fetchall()
    assert uncovered == []
    assert broken == []


@given(constrained_grids())
@settings(max_examples=25, deadline=None)
def test_exactly_the_pairs_that_some_allowed_row_holds_are_covered(case: Case) -> None:
    axes, allowed_pair, allowed_row = case
    rows = cover(axes, allowed_pair=allowed_pair, allowed_row=allowed_row)
    assert held_by(rows, axes) == brute_force_pairs(axes, allowed_pair, allowed_row)


@given(constrained_grids())
@settings(max_examples=25, deadline=None)
def test_the_possible_pairs_agree_with_a_walk_of_the_whole_grid(case: Case) -> None:
    axes, allowed_pair, _ = case
    listed = pairs(axes, allowed_pair)
    assert len(listed) == len(set(listed))
    assert set(listed) == brute_force_pairs(axes, allowed_pair)


@given(constrained_grids(), st.data())
@settings(max_examples=25, deadline=None)
def test_rows_at_hand_are_extended_to_full_coverage_without_needless_rows(
    case: Case, data: st.DataObject
) -> None:
    axes, allowed_pair, allowed_row = case
    whole = cover(axes, allowed_pair=allowed_pair, allowed_row=allowed_row)
    have = [row for row in whole if data.draw(st.booleans())]
    new = cover(axes, allowed_pair=allowed_pair, allowed_row=allowed_row, have=have)
    assert held_by([*have, *new], axes) == held_by(whole, axes)
    for row in new:
        others = [*have, *(other for other in new if other != row)]
        assert held_by(others, axes) != held_by(whole, axes)


def test_sealed_rows_are_never_planned_yet_every_pair_is_covered() -> None:
    assert any(not unsealed(row) for row in cover(SUPPORT)), "the seal must bite for this test to mean much"
    rows = cover(SUPPORT, allowed_row=unsealed)
    assert all(map(unsealed, rows))
    assert coverage(rows, SUPPORT).fraction == 1


@pytest.mark.parametrize(
    ("sizes", "at_most"),
    [
        ((8, 6, 6, 5, 5, 3), 50),
        ((3, 5, 6, 8, 5, 6), 50),
        ((5, 5, 10, 6, 5, 5), 62),
        ((3,) * 4, 9),
        ((3,) * 13, 17),
        ((4,) * 10, 28),
        ((10,) * 4, 111),
        ((30, 16, 10, 6, 6, 5), 485),
    ],
)
def test_arrays_are_no_larger_than_those_of_the_best_greedy_tools(
    sizes: tuple[int, ...], at_most: int
) -> None:
    axes = grid(*sizes)
    rows = cover(axes)
    assert coverage(rows, axes).fraction == 1
    assert len(rows) <= at_most


@pytest.mark.parametrize(("sizes", "count"), [((5, 5, 10, 6, 5, 5), 530), ((3, 2, 10, 6, 5, 5), 381)])
def test_without_constraints_every_pair_of_values_is_possible(sizes: tuple[int, ...], count: int) -> None:
    assert len(pairs(grid(*sizes))) == count


def test_a_pair_that_no_third_value_goes_with_is_not_planned() -> None:
    axes = {
        "tool": ("none", "list_plans"),
        "world": ("exists", "missing"),
        "condition": ("success", "timeout"),
    }

    def allowed(axis_a: str, value_a: str, axis_b: str, value_b: str) -> bool:
        return (value_a, value_b) not in {
            ("none", "missing"),
            ("none", "timeout"),
            ("list_plans", "missing"),
        }

    possible = pairs(axes, allowed)
    assert not any("missing" in pair for pair in possible)
    assert coverage(cover(axes, allowed_pair=allowed), axes, allowed).pairs_planned == len(possible) == 7


def test_a_pair_whose_rows_are_all_sealed_shows_as_uncovered() -> None:
    axes = grid(2, 2)
    rows = cover(axes, allowed_row=lambda row: row != ("v0_1", "v1_1"))
    report = coverage(rows, axes)
    assert (report.pairs_planned, report.pairs_covered, report.fraction) == (4, 3, 0.75)


def test_rows_of_other_axes_or_with_unknown_values_cover_nothing() -> None:
    axes = grid(2, 2)
    strangers = [("v0_0", "gone"), ("v0_0",), ("v0_0", "v1_0", "v2_0")]
    assert coverage(strangers, axes).pairs_covered == 0
    assert cover(axes, have=strangers) == cover(axes)


def test_rows_at_hand_that_are_now_sealed_or_forbidden_are_replaced() -> None:
    rows = cover(SUPPORT)
    new = cover(SUPPORT, allowed_pair=needs_a_tool, allowed_row=unsealed, have=rows)
    still = [row for row in rows if unsealed(row)]
    report = coverage([*still, *new], SUPPORT, needs_a_tool)
    assert report.fraction == 1
    assert all(map(unsealed, new))


def test_a_complete_array_needs_no_new_rows() -> None:
    assert cover(SUPPORT, have=cover(SUPPORT)) == []


@given(st.lists(st.integers(2, 4), min_size=2, max_size=5), st.data())
@settings(max_examples=25, deadline=None)
def test_replacing_a_value_replans_only_rows_of_that_value(sizes: list[int], data: st.DataObject) -> None:
    axes = grid(*sizes)
    place = data.draw(st.integers(0, len(sizes) - 1))
    axis = list(axes)[place]
    old = data.draw(st.sampled_from(axes[axis]))
    rows = cover(axes)
    after = replaced(axes, axis, old, "new")
    kept = [row for row in rows if row[place] != old]
    new = cover(after, have=rows)
    assert {row[place] for row in new} == {"new"}
    assert coverage([*kept, *new], after).fraction == 1


def test_replacing_one_rule_under_constraints_and_seals_replans_only_rows_of_that_rule() -> None:
    constrained_cover = partial(cover, allowed_pair=needs_a_tool, allowed_row=unsealed)
    rows = constrained_cover(SUPPORT)
    after = replaced(SUPPORT, "policy_rule", "r3", "r3 reworded")
    kept = [row for row in rows if row[1] != "r3"]
    new = constrained_cover(after, have=rows)
    assert coverage([*kept, *new], after, needs_a_tool).fraction == 1
    assert {row[1] for row in new} == {"r3 reworded"}
    assert len(new) <= len(rows) - len(kept) + 2


def test_adding_a_rule_keeps_every_row_and_adds_rows_of_that_rule_only() -> None:
    after = {**SUPPORT, "policy_rule": (*SUPPORT["policy_rule"], "r7")}
    rows = cover(SUPPORT)
    new = cover(after, have=rows)
    assert coverage([*rows, *new], after).fraction == 1
    assert {row[1] for row in new} == {"r7"}
    assert len(new) == len(SUPPORT["stance"])


def test_without_seals_a_renamed_value_is_renamed_in_the_array_and_nothing_else_changes() -> None:
    after = replaced(SUPPORT, "policy_rule", "r3", "r3 reworded")
    rows = cover(SUPPORT, allowed_pair=needs_a_tool)
    renamed = [tuple("r3 reworded" if value == "r3" else value for value in row) for row in rows]
    assert cover(after, allowed_pair=needs_a_tool) == renamed


def test_each_row_adds_at_least_as_many_pairs_as_the_next() -> None:
    rows = cover(SUPPORT, allowed_pair=needs_a_tool)
    covered = [len(held_by(rows[:n], SUPPORT)) for n in range(len(rows) + 1)]
    gains = [after - before for before, after in pairwise(covered)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] == 15


@given(st.lists(st.integers(1, 6), min_size=2, max_size=2))
def test_two_axes_need_their_whole_product(sizes: list[int]) -> None:
    axes = grid(*sizes)
    assert sorted(cover(axes)) == sorted(product(*axes.values()))
    assert len(cover(axes)) == prod(sizes)


@pytest.mark.parametrize("axes", [{}, grid(3)])
def test_fewer_than_two_axes_have_nothing_to_cover(axes: Axes) -> None:
    assert cover(axes) == []
    assert pairs(axes) == []
    assert coverage([], axes).fraction == 1


@pytest.mark.parametrize("values", [(), ("a", "b", "a")])
def test_an_axis_without_values_or_with_a_repeated_one_is_refused_by_name(values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="'stance'"):
        cover({"tool": ("x",), "stance": values})


def test_the_array_is_the_same_in_every_process() -> None:
    script = (
        "from while_pipeline.ids import seed_of\n"
        "from while_pipeline.simulate.covering import cover\n"
        f"axes = {SUPPORT!r}\n"
        "print(cover(axes, allowed_row=lambda row: seed_of('held out', row) % 5 != 0))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "4242")
    }
    assert printed == {str(cover(SUPPORT, allowed_row=unsealed))}
