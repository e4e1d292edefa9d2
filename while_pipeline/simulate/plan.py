"""The night's plan: the covering array of the grid, extended from earlier days."""

from collections.abc import Iterable, Sequence

from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import Grid, category, row_of, situation, task_id
from while_pipeline.simulate.covering import CoverageReport, Row, cover, coverage
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


def plan(grid: Grid, earlier: Iterable[Situation]) -> tuple[list[Situation], list[Situation], CoverageReport]:
    """Cover every pair of values that can meet.

    Args:
        grid: The axes and constraints.
        earlier: Situations planned on earlier days; those still possible are kept.

    Returns:
        The kept situations, the new ones, and what both cover together. Sealed situations are in neither.
    """
    kept: list[Row] = [row for cell in earlier if _possible(grid, row := row_of(cell))]
    new = cover(grid.axes, allowed_pair=grid.allowed_pair, allowed_row=grid.for_training, have=kept)
    report = coverage([*kept, *new], grid.axes, grid.allowed_pair)
    return [situation(row) for row in kept], [situation(row) for row in new], report


def plan_rows(
    kept: Sequence[Situation], new: Sequence[Situation], tools: Sequence[Tool]
) -> list[dict[str, object]]:
    """Rows of `simulate.coverage_plan`: what is new is played first."""
    by_name = {tool.name: tool for tool in tools}
    ordered = [(cell, False) for cell in new] + [(cell, True) for cell in kept]
    return [
        {
            "task_id": task_id(cell),
            "position": position,
            "planned_before": before,
            "category": category(cell, by_name),
            **cell.model_dump(),
        }
        for position, (cell, before) in enumerate(ordered)
    ]


def _possible(grid: Grid, row: Row) -> bool:
    named = zip(grid.axes.values(), row, strict=True)
    return all(value in values for values, value in named) and grid.allowed(row) and grid.for_training(row)
