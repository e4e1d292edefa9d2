"""The axes of a covering array with their values numbered, and allowed rows found by depth-first search.

What belongs here: numbers and bit masks in place of names, and the constraints. Which rows are worth having
belongs to `covering_pairs` and `covering_triples`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

Axes = Mapping[str, tuple[str, ...]]
"""Axis name -> its values. The order of both is the order of rows and pairs."""

Row = tuple[str, ...]
"""One value per axis, in axis order."""

AllowedPair = Callable[[str, str, str, str], bool]
"""(axis_a, value_a, axis_b, value_b) -> may they meet? `axis_a` comes before `axis_b` in the axes."""

AllowedRow = Callable[[Row], bool]
"""May this full row be used? A thin filter: what forbids many rows belongs in `AllowedPair`."""

Cells = tuple[int, ...]
"""A row as value numbers, ascending: values are numbered through the axes, so this is axis order."""


Rank = Callable[[int, Cells, int], tuple[float, ...]]
"""(value, cells so far, their mask) -> where the value stands among its axis' values, the least first."""


class NumberedGrid:
    """The axes with their values numbered 0..V-1 through all axes, and sets of values as bit masks."""

    def __init__(self, axes: Axes, allowed_pair: AllowedPair, allowed_row: AllowedRow) -> None:
        """Number the values of `axes`.

        Raises:
            ValueError: An axis has no values, or the same value twice.
        """
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
        self.masks = [mask_of(domain) for domain in self.domains]
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

    def encode(self, row: Row) -> Cells | None:
        """Number a row's values, or None when it is no allowed row of this grid."""
        if len(row) != len(self._axes):
            return None
        cells = tuple(self._number.get(value, -1) for value in zip(self._axes, row, strict=True))
        return cells if -1 not in cells and self.allows(cells) else None

    def decode(self, cells: Cells) -> Row:
        """Name a row's values again."""
        return tuple(self.values[cell][1] for cell in cells)

    def allows(self, cells: Cells) -> bool:
        """Whether a full row breaks no constraint."""
        fits = all(self.partners[a] >> b & 1 for a, b in combinations(cells, 2))
        return fits and self._allowed_row(self.decode(cells))

    def allowed_pairs(self) -> list[tuple[int, int]]:
        """Pairs of values that may meet, in axis and value order."""
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
                row = self.complete(pair, range(len(self.domains)), lambda value, _cells, _chosen: (value,))
                possible.update(combinations(row or (), 2))
        return [pair for pair in self.allowed_pairs() if pair in possible]

    def complete(self, start: Cells, order: Sequence[int], rank: Rank) -> Cells | None:
        """Find the first allowed row with all values of `start`, by depth-first search.

        Axes are taken in `order`, values in ascending `rank`. None means that no allowed row holds them all.
        """

        def extend(cells: Cells, chosen: int, possible: int, left: Sequence[int]) -> Cells | None:
            if not left:
                row = tuple(sorted(cells))
                return row if self._allowed_row(self.decode(row)) else None
            axis, *rest = left
            values = [value for value in self.domains[axis] if possible >> value & 1]
            for value in sorted(values, key=lambda value: rank(value, cells, chosen)):
                narrowed = possible & self.partners[value]
                if all(narrowed & self.masks[axis] for axis in rest):
                    found = extend((*cells, value), chosen | 1 << value, narrowed, rest)
                    if found is not None:
                        return found
            return None

        taken = {self.axis_of[value] for value in start}
        left = [axis for axis in order if axis not in taken]
        possible = -1
        for value in start:
            possible &= self.partners[value]
        return extend(start, mask_of(start), possible, left)


def mask_of(values: Iterable[int]) -> int:
    """The set of some values."""
    return sum(1 << value for value in values)


def members(mask: int) -> list[int]:
    """The values of a set, ascending."""
    return [value for value in range(mask.bit_length()) if mask >> value & 1]
