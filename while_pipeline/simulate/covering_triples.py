"""Rows that cover triples: grown one at a time, as AETG does it (see `covering_pairs`), and not thinned out.

Names and constraints belong to `covering_grid`.
"""

from collections.abc import Iterable
from itertools import combinations
from random import Random

from while_pipeline.simulate.covering_grid import Cells, NumberedGrid, mask_of, members

_TRIES = 4
"""Candidates per new row. For axes of 8, 6, 6, 5, 5 and 3 values, 2 give 336 rows, 4 give 324, 12 give 329 in
three times the time."""


class _Missing:
    """The triples not covered yet."""

    def __init__(self, grid: NumberedGrid) -> None:
        size = len(grid.values)
        self.with_both = [[0] * size for _ in range(size)]
        """Per two values, the thirds that are missing with them, as a bit mask."""
        for a, b in grid.allowed_pairs():
            self.with_both[a][b] = self.with_both[b][a] = grid.partners[a] & grid.partners[b]
        self.left = [sum(map(int.bit_count, thirds)) for thirds in self.with_both]
        """Per value, twice the triples it is missing in."""

    def drop(self, cells: Cells) -> None:
        """Count the triples of some values as covered."""
        mask = mask_of(cells)
        for a in cells:
            thirds = self.with_both[a]
            for b in cells:
                covered = thirds[b] & mask
                if covered:
                    thirds[b] ^= covered
                    self.left[a] -= covered.bit_count()

    def gain(self, value: int, cells: Cells, chosen: int) -> int:
        """Twice the missing triples that a value makes with two of `cells`, whose mask is `chosen`."""
        thirds = self.with_both[value]
        return sum((thirds[cell] & chosen).bit_count() for cell in cells)


def triple_rows(grid: NumberedGrid, have: Iterable[Cells], rng: Random) -> list[Cells]:
    """Find the rows that, with `have`, cover every triple that an allowed row holds."""
    missing = _Missing(grid)
    used = [0] * len(grid.values)
    for cells in have:
        missing.drop(cells)
        for cell in cells:
            used[cell] += 1
    used_before = list(used)

    def rank(value: int, cells: Cells, chosen: int) -> tuple[float, ...]:
        # As for pairs: what covers most, then what the rows at hand lack, then what is used least.
        return -missing.gain(value, cells, chosen), used_before[value], used[value], rng.random()

    rows: list[Cells] = []
    axes = range(len(grid.domains))
    while any(missing.left):
        first = max(range(len(used)), key=missing.left.__getitem__)
        second = max(range(len(used)), key=lambda value: missing.with_both[first][value].bit_count())
        thirds = members(missing.with_both[first][second])
        best, most = None, 0
        for _ in range(_TRIES):
            start = (first, second, thirds[int(rng.random() * len(thirds))])
            row = grid.complete(start, sorted(axes, key=lambda _: rng.random()), rank)
            if row is None:  # no allowed row holds it
                missing.drop(start)
                break
            gain = _triples_in(missing, row)
            if gain > most:
                best, most = row, gain
        if best is not None:
            missing.drop(best)
            for cell in best:
                used[cell] += 1
            rows.append(best)
    return rows


def _triples_in(missing: _Missing, cells: Cells) -> int:
    """Count the missing triples of a row."""
    mask = mask_of(cells)
    return sum((missing.with_both[a][b] & mask).bit_count() for a, b in combinations(cells, 2)) // 3
