from collections import Counter
from functools import cache

from tests.example import DAY, GRID, SEED, TOOLS, WRITER, planned
from while_pipeline.policy_document import read_policy_document
from while_pipeline.prove.held_out import draw_held_out
from while_pipeline.simulate.axes import NONE, grid_of, is_held_out, row_of, task_id
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.tools import Tool


@cache
def _drawn(tasks: int = 80, day: str = DAY, looked_at: frozenset[str] = frozenset()) -> list[Scenario]:
    return draw_held_out(GRID, WRITER, tasks=tasks, seed=SEED, day=day, looked_at=looked_at)


def _ids(scenarios: list[Scenario]) -> set[str]:
    return {s.task_id for s in scenarios}


def test_every_task_is_sealed_possible_and_drawn_once() -> None:
    assert len(_drawn()) == len(_ids(_drawn())) == 80
    for scenario in _drawn():
        assert is_held_out(scenario.task_id, SEED)
        assert scenario.task_id == task_id(scenario.situation)
        assert GRID.allowed(row_of(scenario.situation))


def test_no_task_is_one_that_is_planned_for_training() -> None:
    assert not _ids(_drawn()) & set(map(task_id, planned()))


def test_categories_have_the_same_number_of_tasks_and_tools_share_their_categorys() -> None:
    by_category = Counter(s.category for s in _drawn())
    assert set(by_category) == {"read", "search", "create", "update", "cancel", "pay", "none", "several"}
    assert set(by_category.values()) == {10}
    by_tool = Counter(s.situation.tool for s in _drawn())
    assert set(by_tool) == set(GRID.axes["tool"])
    reads = [by_tool[t.name] for t in TOOLS if t.kind == "read"]
    assert max(reads) - min(reads) <= 1


def test_other_axes_are_met_in_all_their_values() -> None:
    for axis in ("stance", "world_state", "tool_condition", "history"):
        assert {getattr(s.situation, axis) for s in _drawn()} == set(GRID.axes[axis])


def test_the_same_day_gives_the_same_scenarios_and_another_day_other_tasks() -> None:
    again = draw_held_out(GRID, WRITER, tasks=80, seed=SEED, day=DAY)
    assert again == _drawn()
    assert len(_ids(_drawn()) & _ids(_drawn(day="2026-03-03"))) < 20


def test_more_tasks_begin_with_the_same_ones() -> None:
    assert _drawn(120)[:80] == _drawn()


def test_tasks_looked_at_are_passed_over_while_there_are_fresh_ones() -> None:
    looked_at = frozenset(_ids(_drawn()))
    assert not _ids(_drawn(looked_at=looked_at)) & looked_at


def _small() -> ScenarioWriter:
    tools = (Tool(name="ping_host", description="", parameters={}),)
    return ScenarioWriter(tools, read_policy_document("- Never tell the customer the PUK code."))


def test_an_agent_with_one_tool_gets_as_many_tasks_as_one_with_many() -> None:
    writer = _small()
    grid = grid_of(writer.tools, writer.document, SEED)
    drawn = draw_held_out(grid, writer, tasks=50, seed=SEED, day=DAY)
    assert len(drawn) == 50
    # Hardly anything can vary without a tool: its few sealed tasks are all there, the rest has the tool.
    assert 0 < sum(s.situation.tool == NONE for s in drawn) < 25


def test_tasks_looked_at_come_back_when_nothing_fresh_is_left() -> None:
    writer = _small()
    grid = grid_of(writer.tools, writer.document, SEED)
    everything = draw_held_out(grid, writer, tasks=500, seed=SEED, day=DAY)
    sealed = _ids(everything)
    assert 50 < len(everything) == len(sealed) < 150
    fresh = sorted(sealed)[:5]
    drawn = draw_held_out(grid, writer, tasks=20, seed=SEED, day=DAY, looked_at=sealed - set(fresh))
    assert sorted(s.task_id for s in drawn[:5]) == fresh
    assert len(_ids(drawn)) == 20


def test_no_task_asked_for_is_none_drawn() -> None:
    assert _drawn(0) == []
