"""The night's plan: the covering array of the grid, extended from earlier days.

What belongs here: which situations are planned and in which order. How rows are found belongs to `covering`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import Grid, category, row_of, situation, task_id
from while_pipeline.simulate.covering import CoverageReport, Strength, cover, coverage
from while_pipeline.simulate.covering_grid import Row
from while_pipeline.tools import Tool


def axes_rows(grid: Grid, tools: Sequence[Tool], document: PolicyDocument) -> list[dict[str, object]]:
    """Rows of `simulate.axes`."""
    meaning = {t.name: t.description for t in tools} | {r.rule_id: r.text for r in document.rules}
    return [
        {
            "axis": axis,
            "position": i,
            "value": value,
            "description": meaning.get(value, value.replace("_", " ")),
        }
        for axis, values in grid.axes.items()
        for i, value in enumerate(values)
    ]


def plan(
    grid: Grid, earlier: Iterable[Situation], strength: Strength = 2
) -> tuple[list[Situation], list[Situation], CoverageReport]:
    """Cover every pair (or, with strength 3, every triple) of values that can meet.

    Args:
        grid: The axes and constraints.
        earlier: Situations planned on earlier days, the newest day's first. Those still possible are kept,
            but for those that add no pair (or triple) to the ones before them: a grid whose rules take turns
            comes back to rows of many days.
        strength: How many values are to occur together.

    Returns:
        The kept situations, the new ones, and the pairs both cover. Sealed situations are in neither.
    """
    kept: list[Row] = []
    held: set[tuple[tuple[int, str], ...]] = set()
    for row in dict.fromkeys(map(row_of, earlier)):
        if _possible(grid, row):
            groups = set(combinations(enumerate(row), strength))
            if not groups <= held:
                held |= groups
                kept.append(row)
    new = cover(
        grid.axes,
        allowed_pair=grid.allowed_pair,
        allowed_row=grid.for_training,
        have=kept,
        strength=strength,
    )
    report = coverage([*kept, *new], grid.axes, grid.allowed_pair)
    return [situation(row) for row in kept], [situation(row) for row in new], report


def plan_rows(
    kept: Sequence[Situation],
    new: Sequence[Situation],
    tools: Sequence[Tool],
    played: Mapping[str, int],
) -> list[dict[str, object]]:
    """Rows of `simulate.coverage_plan`: what was played least comes first, and of that what is new.

    Args:
        kept: Situations planned before.
        new: Situations planned for the first time.
        tools: The agent's tools.
        played: Task id -> how many scenarios of it earlier days played; 0 for those not named.
    """
    by_name = {tool.name: tool for tool in tools}
    planned = [
        (task_id(cell), cell, before) for before, cells in ((False, new), (True, kept)) for cell in cells
    ]
    return [
        {
            "task_id": task,
            "position": position,
            "planned_before": before,
            "category": category(cell, by_name),
            **cell.model_dump(),
        }
        for position, (task, cell, before) in enumerate(sorted(planned, key=lambda p: played.get(p[0], 0)))
    ]


def _possible(grid: Grid, row: Row) -> bool:
    named = zip(grid.axes.values(), row, strict=True)
    return all(value in values for values, value in named) and grid.allowed(row) and grid.for_training(row)
