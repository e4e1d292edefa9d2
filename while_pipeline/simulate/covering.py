"""Covering arrays: few rows in which every pair (or triple) of values of different axes occurs.

What belongs here: planning rows over named axes under constraints, and counting the pairs they cover.
What does not: how rows are found (`covering_pairs`, `covering_triples`), what the axes mean (`axes`), and
whether a played row showed its values (`coverage`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Literal, NamedTuple

from while_pipeline.ids import seed_of
from while_pipeline.simulate.covering_grid import AllowedPair, AllowedRow, Axes, NumberedGrid, Row
from while_pipeline.simulate.covering_pairs import pair_rows
from while_pipeline.simulate.covering_triples import triple_rows

Strength = Literal[2, 3]
"""How many values are to occur together: pairs, or triples in some ten times the rows."""


class Pair(NamedTuple):
    """Two values of two axes, the earlier axis first."""

    axis_a: str
    value_a: str
    axis_b: str
    value_b: str


@dataclass(frozen=True)
class CoverageReport:
    """How many of the pairs that can occur do occur."""

    pairs_planned: int
    pairs_covered: int

    @property
    def fraction(self) -> float:
        """Share covered, in [0, 1]; 1.0 when there is nothing to cover (fewer than two axes)."""
        return self.pairs_covered / self.pairs_planned if self.pairs_planned else 1.0


def _any_pair(_axis_a: str, _value_a: str, _axis_b: str, _value_b: str) -> bool:
    return True


def _any_row(_row: Row) -> bool:
    return True


def cover(
    axes: Axes,
    *,
    allowed_pair: AllowedPair = _any_pair,
    allowed_row: AllowedRow = _any_row,
    have: Iterable[Row] = (),
    strength: Strength = 2,
) -> list[Row]:
    """Plan the rows that, with `have`, cover every pair (or triple) that an allowed row can hold.

    Deterministic. To keep an array through an edit of the axes, pass its rows as `have`: those still possible
    stay, and the new rows are rows of the new value (constraints and seals can force a few others). Without
    `have` and seals, renaming a value renames it in the array and changes nothing else.

    Args:
        axes: The grid.
        allowed_pair: Constraint on two values. No row breaks it.
        allowed_row: Filter on full rows (sealed ones are refused). No row breaks it. A pair all of whose
            rows are refused stays uncovered, and `coverage` shows it.
        have: Rows that exist already. Those no longer possible under the other arguments count for nothing.
        strength: 2 for pairs, 3 for triples; fewer axes than that leave nothing to cover.

    Returns:
        New rows only. Of pairs, each has the most not covered by `have` and the rows before it, and of
        triples as good as the most, so that a budget that ends early has the best prefix.

    Raises:
        ValueError: An axis has no values, or the same value twice.
    """
    grid = NumberedGrid(axes, allowed_pair, allowed_row)
    known = [cells for row in dict.fromkeys(have) if (cells := grid.encode(row)) is not None]
    # The seed knows the shape only: this keeps the promise about renaming.
    rng = Random(seed_of([len(values) for values in axes.values()]))
    find = pair_rows if strength == 2 else triple_rows
    return [grid.decode(cells) for cells in find(grid, known, rng)]


def pairs(axes: Axes, allowed_pair: AllowedPair = _any_pair) -> list[Pair]:
    """List the pairs that at least one full row under `allowed_pair` holds, in axis and value order.

    A pair can be allowed and yet impossible, when no value of a third axis goes with both.

    Raises:
        ValueError: An axis has no values, or the same value twice.
    """
    grid = NumberedGrid(axes, allowed_pair, _any_row)
    return [Pair(*grid.values[a], *grid.values[b]) for a, b in grid.possible_pairs()]


def coverage(rows: Iterable[Row], axes: Axes, allowed_pair: AllowedPair = _any_pair) -> CoverageReport:
    """Count the possible pairs that `rows` hold.

    Rows that are not of these axes, or break `allowed_pair`, count for nothing.

    Raises:
        ValueError: An axis has no values, or the same value twice.
    """
    grid = NumberedGrid(axes, allowed_pair, _any_row)
    known = {row for row in map(grid.encode, rows) if row is not None}
    covered = {pair for row in known for pair in combinations(row, 2)}
    return CoverageReport(pairs_planned=len(grid.possible_pairs()), pairs_covered=len(covered))
