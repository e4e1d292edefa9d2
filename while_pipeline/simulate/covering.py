"""Pairwise covering arrays: few rows in which every pair of values of every two axes occurs.

What belongs here: planning rows over named axes under constraints, and counting the pairs they cover.
What does not: what the axes mean (`axes`), and whether a played row showed its values (`coverage`).

A row is built one axis at a time from the value with most uncovered pairs, best of several tries (AETG:
Cohen, Dalal, Fredman and Patton 1997, IEEE TSE 23(7)). Then rows are dropped one by one while single-cell
moves in the others, each made for one lost pair, mend the array (after TCA: Lin, Luo, Cai, Su, Hao and Zhang
2015, ASE; its tabu list did not help here).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations
from random import Random
from typing import NamedTuple

from while_pipeline.ids import seed_of

Axes = Mapping[str, tuple[str, ...]]
"""Axis name -> its values. The order of both is the order of rows and pairs."""

Row = tuple[str, ...]
"""One value per axis, in axis order."""

AllowedPair = Callable[[str, str, str, str], bool]
"""(axis_a, value_a, axis_b, value_b) -> may they meet? `axis_a` comes before `axis_b` in the axes."""

AllowedRow = Callable[[Row], bool]
"""May this full row be used? A thin filter: what forbids many rows belongs in `AllowedPair`."""

_TRIES = 8
"""Candidates per new row. With 24 the arrays are as large, give or take a row, in up to twice the time."""

_PATIENCE = 400
"""Moves without one row less after which shrinking ends. With it 179 of the 180 orders of axes of 8, 6, 6,
5, 5 and 3 values reach the bound of 48 rows, and the other one 49."""


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
) -> list[Row]:
    """Plan the rows that, with `have`, cover every pair that an allowed row can hold.

    Deterministic. To keep an array through an edit of the axes, pass its rows as `have`: those still possible
    stay, and the new rows are rows of the new value (constraints and seals can force a few others). Without
    `have` and seals, renaming a value renames it in the array and changes nothing else.

    Args:
        axes: The grid.
        allowed_pair: Constraint on two values. No row breaks it.
        allowed_row: Filter on full rows (sealed ones are refused). No row breaks it. A pair all of whose
            rows are refused stays uncovered, and `coverage` shows it.
        have: Rows that exist already. Those no longer possible under the other arguments count for nothing.

    Returns:
        New rows only, each with the most pairs not covered by `have` and the rows before it, so that
        a budget that ends early has the best prefix.

    Raises:
        ValueError: An axis has no values, or the same value twice.
    """
    grid = _Grid(axes, allowed_pair, allowed_row)
    tally = _Tally(grid)
    for row in dict.fromkeys(have):
        known = grid.encode(row)
        if known is not None:
            tally.add(known)
    uncovered = list(tally.missing)
    # The seed knows the shape only: this keeps the promise about renaming.
    rng = Random(seed_of([len(values) for values in axes.values()]))
    grown = _grow(grid, tally, rng)
    rows = _shrink(grid, tally, grown, _fewest(uncovered, grown), rng)
    return [grid.decode(row) for row in _best_first(uncovered, rows)]


def pairs(axes: Axes, allowed_pair: AllowedPair = _any_pair) -> list[Pair]:
    """List the pairs that at least one full row under `allowed_pair` holds, in axis and value order.

    A pair can be allowed and yet impossible, when no value of a third axis goes with both.

    Raises:
        ValueError: An axis has no values, or the same value twice.
    """
    grid = _Grid(axes, allowed_pair, _any_row)
    return [grid.pair(a, b) for a, b in grid.possible_pairs()]


def coverage(rows: Iterable[Row], axes: Axes, allowed_pair: AllowedPair = _any_pair) -> CoverageReport:
    """Count the possible pairs that `rows` hold.

    Rows that are not of these axes, or break `allowed_pair`, count for nothing.

    Raises:
        ValueError: An axis has no values, or the same value twice.
    """
    grid = _Grid(axes, allowed_pair, _any_row)
    known = {row for row in map(grid.encode, rows) if row is not None}
    covered = {pair for row in known for pair in combinations(row, 2)}
    return CoverageReport(pairs_planned=len(grid.possible_pairs()), pairs_covered=len(covered))


_Cells = tuple[int, ...]
"""A row as value numbers, ascending: values are numbered through the axes, so this is axis order."""


class _Grid:
    """The axes with their values numbered 0..V-1 through all axes, and sets of values as bit masks."""

    def __init__(self, axes: Axes, allowed_pair: AllowedPair, allowed_row: AllowedRow) -> None:
        self._allowed_row = allowed_row
        self.values: list[tuple[str, str]] = []
        self.domains: list[range] = []
        self.axis_of: list[int] = []
        for index, (axis, names) in enumerate(axes.items()):
            if not names or len(set(names)) < len(names):
                raise ValueError(f"cover: axis {axis!r} needs one or more distinct values, got {names!r}")
            self.domains.append(range(len(self.values), len(self.values) + len(names)))
            self.values += [(axis, name) for name in names]
            self.axis_of += [index] * len(names)
        self.masks = [_mask(domain) for domain in self.domains]
        self.partners = [0] * len(self.values)
        """Per value, the values of other axes it may meet."""
        for earlier, later in combinations(self.domains, 2):
            for a in earlier:
                for b in later:
                    if allowed_pair(*self.values[a], *self.values[b]):
                        self.partners[a] |= 1 << b
                        self.partners[b] |= 1 << a
        self._number = {value: number for number, value in enumerate(self.values)}
        self._axes = tuple(axes)

    def encode(self, row: Row) -> _Cells | None:
        """Number a row's values, or None when it is no allowed row of this grid."""
        if len(row) != len(self._axes):
            return None
        cells = tuple(self._number.get(value, -1) for value in zip(self._axes, row, strict=True))
        return cells if -1 not in cells and self.allows(cells) else None

    def decode(self, cells: _Cells) -> Row:
        return tuple(self.values[cell][1] for cell in cells)

    def pair(self, a: int, b: int) -> Pair:
        return Pair(*self.values[a], *self.values[b])

    def allows(self, cells: _Cells) -> bool:
        fits = all(self.partners[a] >> b & 1 for a, b in combinations(cells, 2))
        return fits and self._allowed_row(self.decode(cells))

    def allowed_pairs(self) -> list[tuple[int, int]]:
        return [
            (a, b)
            for earlier, later in combinations(self.domains, 2)
            for a in earlier
            for b in later
            if self.partners[a] >> b & 1
        ]

    def possible_pairs(self) -> list[tuple[int, int]]:
        """Allowed pairs that some allowed row holds."""
        possible: set[tuple[int, int]] = set()
        for pair in self.allowed_pairs():
            if pair not in possible:
                row = self.complete(pair, range(len(self.domains)), lambda value, _: (value,))
                possible.update(combinations(row or (), 2))
        return [pair for pair in self.allowed_pairs() if pair in possible]

    def complete(
        self, start: tuple[int, int], order: Sequence[int], rank: Callable[[int, int], tuple[float, ...]]
    ) -> _Cells | None:
        """Find the first allowed row with both values of `start`, by depth-first search.

        Axes are taken in `order`, values in ascending `rank(value, mask of the cells so far)`. None means
        that no allowed row holds the pair.
        """

        def extend(cells: _Cells, chosen: int, possible: int, left: Sequence[int]) -> _Cells | None:
            if not left:
                row = tuple(sorted(cells))
                return row if self._allowed_row(self.decode(row)) else None
            axis, *rest = left
            values = [value for value in self.domains[axis] if possible >> value & 1]
            for value in sorted(values, key=lambda value: rank(value, chosen)):
                narrowed = possible & self.partners[value]
                if all(narrowed & self.masks[axis] for axis in rest):
                    found = extend((*cells, value), chosen | 1 << value, narrowed, rest)
                    if found is not None:
                        return found
            return None

        a, b = start
        left = [axis for axis in order if axis not in (self.axis_of[a], self.axis_of[b])]
        possible = self.partners[a] & self.partners[b]
        return extend((a, b), 1 << a | 1 << b, possible, left)


class _Tally:
    """How often each pair occurs in the rows, and which pairs occur never or once, as bit masks."""

    def __init__(self, grid: _Grid) -> None:
        size = len(grid.values)
        self.used = [0] * size
        """Per value, its rows."""
        self.missing = list(grid.partners)
        """Per value, the partners it never meets and may."""
        self.single = [0] * size
        """Per value, the partners it meets in one row only."""
        self._times = [[0] * size for _ in range(size)]

    def add(self, cells: _Cells) -> None:
        self._count(cells, 1)

    def remove(self, cells: _Cells) -> None:
        self._count(cells, -1)

    def _count(self, cells: _Cells, step: int) -> None:
        for a in cells:
            self.used[a] += step
            for b in cells:
                if a != b:
                    self._times[a][b] += step
                    times, bit = self._times[a][b], 1 << b
                    self.missing[a] = self.missing[a] & ~bit if times else self.missing[a] | bit
                    self.single[a] = self.single[a] | bit if times == 1 else self.single[a] & ~bit


def _grow(grid: _Grid, tally: _Tally, rng: Random) -> list[_Cells]:
    """Add rows to `tally` until nothing is missing; pairs that no allowed row holds stop being missed."""
    missing, used = tally.missing, tally.used
    rows: list[_Cells] = []
    used_before = list(used)

    def rank(value: int, chosen: int) -> tuple[float, ...]:
        # Most missing pairs first. Free cells go to what the rows at hand lack, so that the new rows after
        # an edit are rows of the new value; else they spread evenly.
        gain = (missing[value] & chosen).bit_count()
        return -gain, used_before[value], used[value], rng.random()

    while any(missing):
        start = max(range(len(missing)), key=lambda value: missing[value].bit_count())
        mates = _members(missing[start])
        best, most = None, 0
        for _ in range(_TRIES):
            mate = mates[int(rng.random() * len(mates))]
            order = sorted(range(len(grid.domains)), key=lambda _: rng.random())
            row = grid.complete((start, mate), order, rank)
            if row is None:
                missing[start] ^= 1 << mate
                missing[mate] ^= 1 << start
                break
            gain = _pairs_in(missing, row)
            if gain > most:
                best, most = row, gain
        if best is not None:
            tally.add(best)
            rows.append(best)
    return rows


def _shrink(grid: _Grid, tally: _Tally, rows: list[_Cells], fewest: int, rng: Random) -> list[_Cells]:
    """Drop a row and win its lost pairs back by moves in the others, while that succeeds.

    `tally` counts `rows` and those that stay as they are, and is spent afterwards.
    """
    kept = rows
    while len(kept) > fewest:
        rows = list(kept)
        dropped = min(rows, key=lambda row: _pairs_in(tally.single, row))
        rows.remove(dropped)
        tally.remove(dropped)
        for _ in range(_PATIENCE):
            lost = [(a, b) for a, mates in enumerate(tally.missing) if mates for b in _members(mates)]
            if not lost:
                break
            options = []
            stay, put = lost[int(rng.random() * len(lost))]
            axis = grid.axis_of[put]
            for index, row in enumerate(rows):
                if stay in row:
                    others = _mask(row) ^ 1 << row[axis]
                    broken = (tally.single[row[axis]] & others).bit_count()
                    mended = (tally.missing[put] & others).bit_count()
                    options.append((broken - mended, rng.random(), index))
            for _, _, index in sorted(options):
                row = rows[index]
                moved = (*row[:axis], put, *row[axis + 1 :])
                if grid.allows(moved):
                    tally.remove(row)
                    tally.add(moved)
                    rows[index] = moved
                    break
        else:
            return kept
        kept = rows
    return kept


def _fewest(uncovered: list[int], rows: list[_Cells]) -> int:
    """Bound the rows from below: two axes alone need one row for each of their uncovered pairs."""
    columns = range(len(rows[0])) if rows else ()
    needed = [
        {(row[i], row[j]) for row in rows if uncovered[row[i]] >> row[j] & 1}
        for i, j in combinations(columns, 2)
    ]
    return max(map(len, needed), default=0)


def _best_first(uncovered: list[int], rows: list[_Cells]) -> list[_Cells]:
    """Order rows by how much each adds to those before it."""
    missing = list(uncovered)
    # A gain only falls as rows are taken, so the old gain bounds the new and few need counting again.
    queue = [(-_pairs_in(missing, row), index) for index, row in enumerate(rows)]
    heapify(queue)
    ordered: list[_Cells] = []
    while queue:
        gain, index = heappop(queue)
        row = rows[index]
        now = -_pairs_in(missing, row)
        if now > gain:
            heappush(queue, (now, index))
            continue
        ordered.append(row)
        for value in row:
            missing[value] &= ~_mask(row)
    return ordered


def _pairs_in(pairs: list[int], cells: _Cells) -> int:
    """Count the pairs of a row that are in `pairs` (per value, a mask of partners)."""
    mask = _mask(cells)
    return sum((pairs[cell] & mask).bit_count() for cell in cells) // 2


def _mask(values: Iterable[int]) -> int:
    return sum(1 << value for value in values)


def _members(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]
