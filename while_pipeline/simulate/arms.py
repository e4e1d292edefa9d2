"""How each arm of the search chooses what is written next.

Everything is drawn from running indexes, so that a choice costs the same however much was played. What a
cell is worth belongs to `cells`, how a failed script is changed to `mutate`, the arms' shares to `search`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from while_pipeline.constants import CANDIDATES, CELL_WEIGHTS, EXPLORATION_FLOOR, MAX_MUTATIONS
from while_pipeline.ids import seed_of
from while_pipeline.records import Arm, Situation
from while_pipeline.simulate.axes import Grid, row_of, situation
from while_pipeline.simulate.cells import Cells, Spot
from while_pipeline.simulate.mutate import applicable
from while_pipeline.simulate.scenario import Scenario

if TYPE_CHECKING:
    from while_pipeline.simulate.search import Probed

TRIES = 60
"""Draws before an arm gives a row up: with a fifth of the space sealed, sixty misses mean none fits."""

Row = tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """What to write: a situation with the seed of its world and the number of its phrasing, or a mutant."""

    cell: Situation
    seed: int
    phrasing: int = 0
    spot_id: str | None = None
    """Weak spot that asked for it."""
    operator: str | None = None
    """How `parent` is to be mutated (see `mutate`); None for a scenario written anew."""
    parent: Scenario | None = None
    """The failed scenario to mutate."""

    def phrased(self, phrasings: int) -> "list[Choice]":
        """The choice in as many wordings, its own first."""
        return [replace(self, phrasing=self.phrasing + i) for i in range(phrasings)]


class Chooser:
    """Chooses for the arms of one night, and learns from what was played."""

    def __init__(
        self,
        grid: Grid,
        plan: Sequence[Situation],
        spots: Sequence[Spot],
        seed: int,
        weights: Mapping[str, float] = CELL_WEIGHTS,
    ) -> None:
        """Choose within `grid`.

        Args:
            grid: The axes and constraints.
            plan: The covering array.
            spots: The traffic's weak spots.
            seed: Decides every choice, with what is learnt.
            weights: What counts in a cell's weight.
        """
        self._space, self._plan, self._spots, self._seed = _Space(grid), list(plan), list(spots), seed
        self._cells = Cells(weights, spots)
        self._rarest = _Rarest()
        self._failed: list[Scenario] = []
        self._mutations: dict[str, int] = {}
        self._next = self._drawn = 0

    def choose(self, arm: Arm, rows: int) -> list[Choice]:
        """Up to `rows` choices; fewer when the arm has nothing left."""
        pick: Callable[[], Choice | None] = {
            "structured": self._structured,
            "llm_guided": self._steered,
            "open_ended": self._open,
            "behavior_targeted": self._targeted,
            "failure_mutation": self._mutation,
        }[arm]
        choices: list[Choice] = []
        for _ in range(rows):
            self._drawn += 1
            choice = pick()
            if choice is not None:
                choices.append(choice)
                self._cells.chosen(choice.cell)
        return choices

    def learn(self, probed: "Probed") -> None:
        """Take in what a probe showed."""
        self._cells.learn(probed.choice.cell, probed.realised, probed.failed)
        self._rarest.add(probed.signature, probed.choice)
        parent = probed.choice.parent
        mutations = 0 if parent is None else 1 + self._mutations[parent.scenario_id]
        if probed.failed and mutations < MAX_MUTATIONS:
            self._mutations[probed.scenario.scenario_id] = mutations
            self._failed.append(probed.scenario)

    def _structured(self) -> Choice | None:
        """The covering array in order; then again and again, each round with its free values renamed."""
        if not self._plan:
            return None
        turn, position = divmod(self._next, len(self._plan))
        self._next += 1
        cell = self._space.renamed(self._plan[position], turn)
        return Choice(cell, seed_of(self._seed, "structured", turn, position))

    def _steered(self) -> Choice | None:
        """The weightiest of a handful of situations, most of them at a weak spot of the traffic.

        This is the arm a model writes for when a writer is configured; offline the template writer is
        steered to the weightiest cells instead.
        """
        rng = self._rng()
        spot = self._draw_spot(rng)
        fixed = {} if spot is None else {a: getattr(spot, a) for a in ("tool", "tool_condition", "stance")}
        best = self._space.draw(rng, fixed, self._cells.weight)
        return None if best is None else Choice(best, self._world(), spot_id=spot.spot_id if spot else None)

    def _open(self) -> Choice | None:
        """Any situation of the grid, drawn evenly."""
        cell = self._space.draw(self._rng(), {})
        return None if cell is None else Choice(cell, self._world())

    def _targeted(self) -> Choice | None:
        """A variation of a scenario whose behaviour was seen least: other words, world, or one axis value."""
        rng = self._rng()
        source = self._rarest.draw(rng)
        if source is None:
            return None
        what = rng.randrange(3)
        if what == 0:
            return Choice(source.cell, source.seed, phrasing=1 + rng.randrange(1_000_000))
        if what == 1:
            return Choice(source.cell, self._world())
        near = self._space.neighbour(source.cell, rng)
        return None if near is None else Choice(near, self._world())

    def _mutation(self) -> Choice | None:
        """A failed scenario with its script changed by one of the operators."""
        if not self._failed:
            return None
        rng = self._rng()
        parent = rng.choice(self._failed)
        seed = self._world()
        operator = applicable(parent, seed)
        return None if operator is None else Choice(parent.situation, seed, operator=operator, parent=parent)

    def _draw_spot(self, rng: random.Random) -> Spot | None:
        """A weak spot by its share; nothing in the exploring part of the budget."""
        if not self._spots or rng.random() < EXPLORATION_FLOOR:
            return None
        return rng.choices(self._spots, weights=[spot.share for spot in self._spots])[0]

    def _rng(self) -> random.Random:
        return random.Random(seed_of(self._seed, "choice", self._drawn))

    def _world(self) -> int:
        return seed_of(self._seed, "world", self._drawn)


class _Space:
    """Draws situations that are possible and may be trained on."""

    def __init__(self, grid: Grid) -> None:
        self._grid, self._axes = grid, dict(grid.axes)
        fits = {
            (axis, value, other): tuple(v for v in values if grid.allowed_pair(axis, value, other, v))
            for axis, own in self._axes.items()
            for value in own
            for other, values in self._axes.items()
            if other != axis
        }
        self._limits = {key: values for key, values in fits.items() if values != self._axes[key[2]]}
        """What (axis, value) leaves of another axis, where that is not all."""
        bound = {axis for axis, _, _ in self._limits}
        self._free = [axis for axis in self._axes if axis not in bound]

    def draw(
        self, rng: random.Random, fixed: Mapping[str, str], weight: Callable[[Row], float] | None = None
    ) -> Situation | None:
        """A situation with `fixed` values where the grid has them; None when no draw found one.

        The other axes are filled in order, each evenly from the values that can meet those before. With a
        `weight`, `CANDIDATES` are filled each time and the weightiest that is not sealed is taken.
        """
        held = {axis: value for axis, value in fixed.items() if value in self._axes[axis]}
        if not all(self._grid.allowed_pair(*a, *b) for a, b in combinations(held.items(), 2)):
            return None
        for _ in range(TRIES):
            rows = [row for _ in range(CANDIDATES if weight else 1) if (row := self._fill(rng, held))]
            for row in sorted(rows, key=weight, reverse=True) if weight else rows:
                if self._grid.for_training(row):
                    return situation(row)
        return None

    def _fill(self, rng: random.Random, held: Mapping[str, str]) -> Row | None:
        cell = dict(held)
        for axis, values in self._axes.items():
            if axis in held:
                continue
            for other, met in cell.items():
                fits = self._limits.get((other, met, axis))
                if fits is not None:
                    values = tuple(value for value in values if value in fits)
            if not values:
                return None
            cell[axis] = rng.choice(values)
        return tuple(cell[axis] for axis in self._axes)

    def neighbour(self, source: Situation, rng: random.Random) -> Situation | None:
        """The situation with one axis changed to another value that fits."""
        row = row_of(source)
        near = [
            changed
            for i, (axis, values) in enumerate(self._axes.items())
            for value in values
            if value != getattr(source, axis)
            and self._grid.allowed(changed := (*row[:i], value, *row[i + 1 :]))
        ]
        rng.shuffle(near)
        return next((situation(row) for row in near if self._grid.for_training(row)), None)

    def renamed(self, cell: Situation, turn: int) -> Situation:
        """The cell with the values of each free axis renamed, another way each `turn`; itself at turn 0.

        An axis is free when each of its values can meet every other value. Renaming within an axis keeps
        every pair covered (a covering array stays one), and brings other triples. A renamed cell that is
        sealed is played as it stands.
        """
        changes = {}
        for step, axis in enumerate(self._free, start=1):
            values = self._axes[axis]
            changes[axis] = values[(values.index(getattr(cell, axis)) + turn * step) % len(values)]
        other = cell.model_copy(update=changes)
        return other if self._grid.for_training(row_of(other)) else cell


class _Rarest:
    """Behaviour signatures by how often they were seen, with one example each."""

    def __init__(self) -> None:
        self._copies: dict[str, int] = {}
        self._example: dict[str, Choice] = {}
        self._with: dict[int, list[str]] = {}
        self._place: dict[str, int] = {}
        self._fewest = 1

    def add(self, signature: str, example: Choice) -> None:
        """Count one copy."""
        copies = self._copies.get(signature, 0)
        if copies:
            self._take_out(signature, copies)
        else:
            self._example[signature] = example
            self._fewest = 1
        self._copies[signature] = copies + 1
        bucket = self._with.setdefault(copies + 1, [])
        self._place[signature] = len(bucket)
        bucket.append(signature)
        while not self._with.get(self._fewest):
            self._fewest += 1

    def _take_out(self, signature: str, copies: int) -> None:
        """Remove from a bucket in constant time: the last one takes the free place."""
        bucket = self._with[copies]
        last = bucket.pop()
        if last != signature:
            place = self._place[signature]
            bucket[place] = last
            self._place[last] = place

    def draw(self, rng: random.Random) -> Choice | None:
        """An example of a signature with the fewest copies, evenly among them."""
        bucket = self._with.get(self._fewest)
        return self._example[rng.choice(bucket)] if bucket else None
