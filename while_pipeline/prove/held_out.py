"""The sealed tasks a candidate is judged on: drawn from the held-out side of the split, by category."""

import random
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice

from while_pipeline.ids import seed_of
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import Grid, category, situation, task_id
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter

MIN_DRAWS = 2_000
DRAWS_PER_TASK = 10
"""Bound the search for one tool's tasks: a fifth of the space is sealed, so ten draws find two."""


def draw_held_out(
    grid: Grid, writer: ScenarioWriter, *, tasks: int, seed: int, day: str, looked_at: Collection[str] = ()
) -> list[Scenario]:
    """Draw sealed tasks for a day, the same number per category, and per tool in it, as far as they go.

    Tasks that an earlier look was taken at (`looked_at`) are passed over while there are others: the
    held-out side of the space is usually far larger than a night needs.

    Args:
        grid: The axes; its seed decides which side a task is on.
        writer: Makes a task concrete; the day's seed decides worlds and words.
        tasks: How many tasks to draw.
        seed: The project's seed.
        day: ISO day.
        looked_at: Ids of tasks that are no longer fresh.
    """
    by_category: dict[str, list[str]] = {}
    for tool in grid.axes["tool"]:
        some = situation([tool, *(values[0] for axis, values in grid.axes.items() if axis != "tool")])
        by_category.setdefault(category(some, writer.by_name), []).append(tool)
    draws = max(MIN_DRAWS, DRAWS_PER_TASK * tasks)

    def side(seen: bool) -> Iterator[Situation]:
        return _in_turn(
            _in_turn(
                filter(
                    lambda cell: (task_id(cell) in looked_at) is seen,
                    _sealed(grid, tool, draws, random.Random(seed_of("held-out tasks", seed, day, tool))),
                )
                for tool in tools
            )
            for tools in by_category.values()
        )

    cells = list(islice(chain(side(seen=False), side(seen=True)), tasks))
    return [writer.write(cell, seed_of("held-out world", seed, day, task_id(cell))) for cell in cells]


def _sealed(grid: Grid, tool: str, draws: int, rng: random.Random) -> Iterator[Situation]:
    """Distinct sealed situations of a tool, as far as the draws go."""
    axes = [
        [value for value in values if grid.allowed_pair("tool", tool, axis, value)]
        for axis, values in grid.axes.items()
        if axis != "tool"
    ]
    drawn: set[tuple[str, ...]] = set()
    for _ in range(draws):
        row = (tool, *(rng.choice(values) for values in axes))
        if row in drawn:
            continue
        drawn.add(row)
        if grid.allowed(row) and not grid.for_training(row):
            yield situation(row)


def _in_turn(sources: Iterable[Iterator[Situation]]) -> Iterator[Situation]:
    """Take one from each source in turn until all are empty."""
    waiting = deque(sources)
    while waiting:
        source = waiting.popleft()
        for cell in source:
            yield cell
            waiting.append(source)
            break
