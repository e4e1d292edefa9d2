"""The sealed tasks a candidate is judged on: drawn from the held-out side of the split, by category."""

import random
from collections.abc import Collection, Sequence

from while_pipeline.ids import seed_of
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import Grid, category, situation, task_id
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter

DRAWS_PER_TOOL = 2_000
"""Bounds the search: a fifth of the space is sealed, and for a tool without an identifier one draw in six
is allowed at all."""


def draw_held_out(
    grid: Grid, writer: ScenarioWriter, *, tasks: int, seed: int, day: str, looked_at: Collection[str] = ()
) -> list[Scenario]:
    """Draw sealed tasks for a day, the same number per category as far as they go.

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
    rng = random.Random(seed_of("held-out tasks", seed, day))
    fresh: dict[str, list[Situation]] = {}
    seen_before: dict[str, list[Situation]] = {}
    drawn: set[str] = set()
    wanted = -(-tasks // len(grid.axes["tool"]))
    for tool in grid.axes["tool"]:
        found = 0
        for _ in range(DRAWS_PER_TOOL):
            row = (tool, *(rng.choice(values) for axis, values in grid.axes.items() if axis != "tool"))
            cell = situation(row)
            task = task_id(cell)
            if task in drawn or not grid.allowed(row) or grid.for_training(row):
                continue
            drawn.add(task)
            side = seen_before if task in looked_at else fresh
            side.setdefault(category(cell, writer.by_name), []).append(cell)
            found += task not in looked_at
            if found == wanted:
                break
    cells = _evenly(list(fresh.values()), tasks)
    cells += _evenly(list(seen_before.values()), tasks - len(cells))
    return [writer.write(cell, seed_of("held-out world", seed, day, task_id(cell))) for cell in cells]


def _evenly(groups: Sequence[list[Situation]], total: int) -> list[Situation]:
    """Take from the groups in turn until `total` are taken or nothing is left."""
    taken: list[Situation] = []
    for place in range(max(map(len, groups), default=0)):
        taken += [group[place] for group in groups if place < len(group)]
    return taken[:total]
