"""How each arm of the search chooses its next situations."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from while_pipeline.constants import EXPLORATION_FLOOR
from while_pipeline.ids import seed_of
from while_pipeline.records import Arm, Situation
from while_pipeline.simulate.axes import Grid, row_of, situation

if TYPE_CHECKING:
    from while_pipeline.simulate.search import Probed

TRIES = 60
"""Draws before an arm gives a row up: with a fifth of the space sealed, sixty misses mean none fits."""


_Pick = Callable[[str, Sequence[str], random.Random], str]
"""(axis, values that fit, random numbers) -> the value to play."""


@dataclass(frozen=True)
class Choice:
    """A situation to write, with the seed of its world, the number of its phrasing and who asked for it."""

    cell: Situation
    seed: int
    phrasing: int = 0
    spot_id: str | None = None


@dataclass(frozen=True)
class Spot:
    """A weak spot of the traffic with its share of the steered budget."""

    spot_id: str
    tool: str
    tool_condition: str
    stance: str
    share: float


class Chooser:
    """Chooses situations for the arms of one night."""

    def __init__(self, grid: Grid, plan: Sequence[Situation], spots: Sequence[Spot], seed: int) -> None:
        """Choose within `grid`; `plan` is the covering array, `spots` are the traffic's weak spots."""
        self._grid, self._plan, self._spots, self._seed = grid, list(plan), list(spots), seed
        self._next = self._drawn = 0
        self._played: Counter[tuple[str, str]] = Counter()

    def choose(self, arm: Arm, rows: int, probed: "Sequence[Probed]") -> list[Choice]:
        """Up to `rows` choices; fewer when the arm has nothing left."""
        pick = {
            "structured": self._structured,
            "llm_guided": self._steered,
            "open_ended": self._open,
            "behavior_targeted": self._targeted,
            "failure_mutation": self._mutation,
        }[arm]
        choices: list[Choice] = []
        for _ in range(rows):
            choice = pick(probed)
            if choice is not None:
                choices.append(choice)
                self._played.update(zip(self._grid.axes, row_of(choice.cell), strict=True))
        return choices

    def _structured(self, probed: "Sequence[Probed]") -> Choice | None:
        """The covering array in order, then round again with other worlds."""
        if not self._plan:
            return None
        turn, position = divmod(self._next, len(self._plan))
        self._next += 1
        return Choice(self._plan[position], seed_of(self._seed, "structured", turn, position))

    def _steered(self, probed: "Sequence[Probed]") -> Choice | None:
        """A situation at a weak spot, the open axes filled with the values played least so far.

        This is the arm a model writes for when a writer is configured; offline the template writer is
        steered to the weakest cells instead.
        """
        rng = self._rng()
        spot = self._draw_spot(rng)
        fixed = {} if spot is None else {a: getattr(spot, a) for a in ("tool", "tool_condition", "stance")}
        cell = self._draw(rng, fixed, self._least_played)
        return None if cell is None else Choice(cell, self._world(), spot_id=spot.spot_id if spot else None)

    def _open(self, probed: "Sequence[Probed]") -> Choice | None:
        """Any situation of the grid, drawn evenly."""
        cell = self._draw(self._rng(), {}, _any)
        return None if cell is None else Choice(cell, self._world())

    def _targeted(self, probed: "Sequence[Probed]") -> Choice | None:
        """A neighbour of a scenario whose behaviour was seen least: one axis changed."""
        if not probed:
            return None
        rng = self._rng()
        copies = Counter(p.signature for p in probed)
        fewest = min(copies.values())
        source = rng.choice([p for p in probed if copies[p.signature] == fewest]).scenario.situation
        return self._neighbour(source, rng)

    def _mutation(self, probed: "Sequence[Probed]") -> Choice | None:
        """A failed situation again: other words for it, or one axis changed."""
        failed = [p for p in probed if p.failed]
        if not failed:
            return None
        rng = self._rng()
        source = rng.choice(failed).scenario.situation
        if rng.random() < 0.5:
            return Choice(source, self._world(), phrasing=1 + rng.randrange(1_000))
        return self._neighbour(source, rng)

    def _neighbour(self, source: Situation, rng: random.Random) -> Choice | None:
        """The situation with one axis changed to another value that fits."""
        rows = [
            (*row_of(source)[:i], value, *row_of(source)[i + 1 :])
            for i, (axis, values) in enumerate(self._grid.axes.items())
            for value in values
            if value != getattr(source, axis)
        ]
        near = [row for row in rows if self._grid.allowed(row) and self._grid.for_training(row)]
        return Choice(situation(rng.choice(near)), self._world()) if near else None

    def _draw_spot(self, rng: random.Random) -> Spot | None:
        """A weak spot by its share; nothing in the exploring part of the budget."""
        if not self._spots or rng.random() < EXPLORATION_FLOOR:
            return None
        return rng.choices(self._spots, weights=[spot.share for spot in self._spots])[0]

    def _least_played(self, axis: str, values: Sequence[str], rng: random.Random) -> str:
        fewest = min(self._played[axis, value] for value in values)
        return rng.choice([value for value in values if self._played[axis, value] == fewest])

    def _draw(self, rng: random.Random, fixed: Mapping[str, str], pick: _Pick) -> Situation | None:
        """A situation that may be trained on, with `fixed` values where the grid has them.

        The other axes are filled in order, each from the values that can meet those before. When `pick`
        keeps leading to sealed situations, chance takes its place.
        """
        held = {axis: value for axis, value in fixed.items() if value in self._grid.axes[axis]}
        for attempt in range(TRIES):
            cell = dict(held)
            for axis in self._grid.axes:
                values = [held[axis]] if axis in held else self._fitting(axis, cell)
                if not values:
                    break
                cell[axis] = (pick if attempt < TRIES // 2 else _any)(axis, values, rng)
            else:
                row = tuple(cell[axis] for axis in self._grid.axes)
                if self._grid.allowed(row) and self._grid.for_training(row):
                    return situation(row)
        return None

    def _fitting(self, axis: str, cell: Mapping[str, str]) -> list[str]:
        """Values of an axis that can meet every value of an unfinished situation."""
        return [
            value
            for value in self._grid.axes[axis]
            if all(self._grid.allowed_pair(axis, value, other, met) for other, met in cell.items())
        ]

    def _rng(self) -> random.Random:
        self._drawn += 1
        return random.Random(seed_of(self._seed, "choice", self._drawn))

    def _world(self) -> int:
        return seed_of(self._seed, "world", self._drawn)


def _any(axis: str, values: Sequence[str], rng: random.Random) -> str:
    return rng.choice(values)
