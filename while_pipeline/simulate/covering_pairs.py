"""Rows that cover pairs: grown one at a time, then thinned out.

A row is built one axis at a time from the value with most uncovered pairs, best of several tries (AETG:
Cohen, Dalal, Fredman and Patton 1997, IEEE TSE 23(7)). Then rows are dropped one by one while single-cell
moves in the others, each made for one lost pair, mend the array (after TCA: Lin, Luo, Cai, Su, Hao and Zhang
2015, ASE; its tabu list did not help here). Names and constraints belong to `covering_grid`.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import combinations
from random import Random

from while_pipeline.simulate.covering_grid import Cells, NumberedGrid, mask_of, members

_TRIES = 8
"""Candidates per new row. With 24 the arrays are as large, give or take a row, in up to twice the time."""

_PATIENCE = 400
"""Moves without one row less after which shrinking ends. With it 179 of the 180 orders of axes of 8, 6, 6,
5, 5 and 3 values reach the bound of 48 rows, and the other one 49."""


def pair_rows(grid: NumberedGrid, have: Iterable[Cells], rng: Random) -> list[Cells]:
    """Find the rows that, with `have`, cover every pair that an allowed row holds; best first."""
    tally = _Tally(grid)
    for cells in have:
        tally.add(cells)
    uncovered = list(tally.missing)
    grown = _grow(grid, tally, rng)
    rows = _shrink(grid, tally, grown, _fewest(uncovered, grown), rng)
    return _best_first(uncovered, rows)


class _Tally:
    """How often each pair occurs in the rows, and which pairs occur never or once, as bit masks."""

    def __init__(self, grid: NumberedGrid) -> None:
        size = len(grid.values)
        self.used = [0] * size
        """Per value, its rows."""
        self.missing = list(grid.partners)
        """Per value, the partners it never meets and may."""
        self.single = [0] * size
        """Per value, the partners it meets in one row only."""
        self._times = [[0] * size for _ in range(size)]

    def add(self, cells: Cells) -> None:
        self._count(cells, 1)

    def remove(self, cells: Cells) -> None:
        self._count(cells, -1)

    def _count(self, cells: Cells, step: int) -> None:
        for a in cells:
            self.used[a] += step
            for b in cells:
                if a != b:
                    self._times[a][b] += step
                    times, bit = self._times[a][b], 1 << b
                    self.missing[a] = self.missing[a] & ~bit if times else self.missing[a] | bit
                    self.single[a] = self.single[a] | bit if times == 1 else self.single[a] & ~bit


def _grow(grid: NumberedGrid, tally: _Tally, rng: Random) -> list[Cells]:
    """Add rows to `tally` until nothing is missing; pairs that no allowed row holds stop being missed."""
    missing, used = tally.missing, tally.used
    rows: list[Cells] = []
    used_before = list(used)

    def rank(value: int, _cells: Cells, chosen: int) -> tuple[float, ...]:
        # Most missing pairs first. Free cells go to what the rows at hand lack, so that the new rows after
        # an edit are rows of the new value; else they spread evenly.
        gain = (missing[value] & chosen).bit_count()
        return -gain, used_before[value], used[value], rng.random()

    while any(missing):
        start = max(range(len(missing)), key=lambda value: missing[value].bit_count())
        mates = members(missing[start])
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


def _shrink(grid: NumberedGrid, tally: _Tally, rows: list[Cells], fewest: int, rng: Random) -> list[Cells]:
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
            lost = [(a, b) for a, mates in enumerate(tally.missing) if mates for b in members(mates)]
            if not lost:
                break
            options = []
            stay, put = lost[int(rng.random() * len(lost))]
            axis = grid.axis_of[put]
            for index, row in enumerate(rows):
                if stay in row:
                    others = mask_of(row) ^ 1 << row[axis]
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


def _fewest(uncovered: list[int], rows: list[Cells]) -> int:
    """Bound the rows from below: two axes alone need one row for each of their uncovered pairs."""
    columns = range(len(rows[0])) if rows else ()
    needed = [
        {(row[i], row[j]) for row in rows if uncovered[row[i]] >> row[j] & 1}
        for i, j in combinations(columns, 2)
    ]
    return max(map(len, needed), default=0)


def _best_first(uncovered: list[int], rows: list[Cells]) -> list[Cells]:
    """Order rows by how much each adds to those before it."""
    missing = list(uncovered)
    # A gain only falls as rows are taken, so the old gain bounds the new and few need counting again.
    queue = [(-_pairs_in(missing, row), index) for index, row in enumerate(rows)]
    heapify(queue)
    ordered: list[Cells] = []
    while queue:
        gain, index = heappop(queue)
        row = rows[index]
        now = -_pairs_in(missing, row)
        if now > gain:
            heappush(queue, (now, index))
            continue
        ordered.append(row)
        for value in row:
            missing[value] &= ~mask_of(row)
    return ordered


def _pairs_in(pairs: list[int], cells: Cells) -> int:
    """Count the pairs of a row that are in `pairs` (per value, a mask of partners)."""
    mask = mask_of(cells)
    return sum((pairs[cell] & mask).bit_count() for cell in cells) // 2
