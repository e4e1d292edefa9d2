import itertools
import random

import pytest

from tests.example import GRID, RULE, TOOLS
from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.simulate.axes import (
    AXES,
    NONE,
    SEVERAL,
    WORLD_STATES,
    category,
    grid_of,
    is_held_out,
    row_of,
    situation,
    states_shown,
    task_id,
)
from while_pipeline.tools import Tool, ToolKind, parse_tools

ORDINARY = dict.fromkeys(AXES, NONE) | {
    "stance": "ordinary",
    "world_state": "exists",
    "tool_condition": "success",
    "history": "fresh",
}


def _allowed(**values: str) -> bool:
    return GRID.allowed([(ORDINARY | values)[axis] for axis in AXES])


def test_the_examples_axes_have_these_sizes() -> None:
    assert {axis: len(values) for axis, values in GRID.axes.items()} == {
        "tool": 13,
        "policy_rule": 14,
        "stance": 10,
        "world_state": 6,
        "tool_condition": 6,
        "history": 5,
    }
    assert tuple(GRID.axes) == AXES


def test_handing_over_is_asked_of_the_agent_by_rules_and_is_no_request() -> None:
    transfers = {tool.name for tool in TOOLS if tool.kind is ToolKind.TRANSFER}
    assert transfers
    assert not transfers & set(GRID.axes["tool"])


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        ({}, True),
        ({"tool_condition": "timeout"}, False),
        ({"world_state": "missing"}, False),
        ({"tool": "get_bill", "world_state": "missing", "tool_condition": "timeout"}, True),
        ({"tool": "find_customer", "tool_condition": "timeout"}, True),
        ({"tool": "find_customer", "world_state": "missing"}, False),
        ({"tool": "book_appointment", "world_state": "already_acted_on"}, True),
        ({"tool": "book_appointment", "world_state": "duplicate"}, False),
        ({"tool": "get_bill", "world_state": "duplicate"}, True),
        ({"tool": SEVERAL, "tool_condition": "stale"}, True),
        ({"tool": "get_bill", "tool_condition": "stale"}, True),
        ({"tool": "pay_bill", "tool_condition": "stale"}, False),
        ({"tool": "pay_bill", "tool_condition": "malformed"}, True),
        ({"tool": SEVERAL, "policy_rule": RULE[RuleKind.CONFIRM], "tool_condition": "stale"}, False),
        ({"tool": SEVERAL, "policy_rule": RULE[RuleKind.VERIFY], "tool_condition": "stale"}, True),
        ({"tool": SEVERAL, "world_state": "missing"}, False),
    ],
)
def test_a_condition_needs_a_tool_and_a_world_state_needs_an_identifier(
    values: dict[str, str], allowed: bool
) -> None:
    assert _allowed(**values) is allowed


@pytest.mark.parametrize(
    ("state", "condition", "allowed"),
    [
        ("missing", "timeout", True),
        ("missing", "stale", False),
        ("already_acted_on", "stale", False),
        ("duplicate", "stale", True),
        ("unknown", "permission_denied", False),
        ("exists", "permission_denied", True),
    ],
)
def test_a_condition_that_hides_the_record_goes_with_an_ordinary_one_only(
    state: str, condition: str, allowed: bool
) -> None:
    assert _allowed(tool="get_bill", world_state=state, tool_condition=condition) is allowed


@pytest.mark.parametrize(
    ("tool", "kinds"),
    [
        ("pay_bill", set(RuleKind)),
        ("get_bill", set(RuleKind) - {RuleKind.CONFIRM}),
        ("find_customer", set(RuleKind) - {RuleKind.CONFIRM, RuleKind.VERIFY}),
        (NONE, set(RuleKind) - {RuleKind.CONFIRM, RuleKind.VERIFY}),
        (SEVERAL, set(RuleKind)),
    ],
)
def test_a_rule_goes_with_the_tools_that_put_it_in_play(tool: str, kinds: set[RuleKind]) -> None:
    assert {kind for kind in RuleKind if _allowed(tool=tool, policy_rule=RULE[kind])} == kinds


def test_a_rule_that_no_tool_puts_in_play_is_not_in_the_grid() -> None:
    document = read_policy_document("- Obtain an explicit yes before you change a booking.")
    looks = [tool for tool in TOOLS if tool.kind is ToolKind.READ]
    grid = grid_of(looks, document, 0)
    assert (grid.axes["policy_rule"], grid.rules_beyond) == ((NONE,), 1)


def test_a_toggle_is_never_done_already() -> None:
    entry = {
        "name": "toggle_line",
        "parameters": {"properties": {"line_id": {"type": "string"}}, "required": ["line_id"]},
    }
    (tool,) = parse_tools([entry], "t.json")
    assert states_shown(tool) == set(WORLD_STATES[1:]) - {"already_acted_on"}


def test_a_row_is_allowed_when_all_its_pairs_are_in_either_order() -> None:
    rng = random.Random(1)
    for _ in range(300):
        row = [rng.choice(values) for values in GRID.axes.values()]
        named = list(zip(AXES, row, strict=True))
        pairs = list(itertools.permutations(named, 2))
        assert GRID.allowed(row) is all(GRID.allowed_pair(*a, *b) for a, b in pairs)


def test_rules_beyond_the_grid_are_counted_and_those_put_in_play_by_words_stay() -> None:
    informs = [f"- Customers should know fact number {i} of the house." for i in range(20)]
    document = read_policy_document("\n".join([*informs, "- Never tell the customer the code of the door."]))
    grid = grid_of(TOOLS, document, 7)
    assert (len(grid.axes["policy_rule"]), grid.rules_beyond) == (16, 5)
    assert document.of_kind(RuleKind.NEVER)[0].rule_id in grid.axes["policy_rule"]


def test_rules_that_do_not_fit_take_turns_and_the_day_alone_decides_whose_it_is() -> None:
    document = read_policy_document(
        "\n".join(f"- Never tell secret number {i} to anyone." for i in range(41))
    )
    days = [grid_of(TOOLS, document, 7, day) for day in range(739_000, 739_041)]
    shown = [set(grid.axes["policy_rule"]) for grid in days]
    every = {rule.rule_id for rule in document.rules}
    assert all(len(rules) == 16 for rules in shown)
    assert all(shown[i] | shown[i + 1] | shown[i + 2] == every for i in range(39))
    counts = [sum(rule in rules for rules in shown) for rule in every]
    assert set(counts) == {16}
    assert grid_of(TOOLS, document, 7, 739_005) == days[5]


def test_an_agent_without_rules_and_with_one_tool_still_has_a_grid() -> None:
    grid = grid_of([Tool(name="ping", description="", parameters={})], read_policy_document("Hello."), 0)
    assert (grid.axes["policy_rule"], grid.axes["tool"]) == ((NONE,), ("ping", NONE))


def test_a_fifth_of_the_tasks_is_held_out_by_task_and_seed() -> None:
    tasks = [f"task-{i}" for i in range(4000)]
    held = {seed: {task for task in tasks if is_held_out(task, seed)} for seed in (7, 8)}
    # Within four standard deviations of a fair 20 %.
    assert all(abs(len(tasks_held) - 800) < 4 * (4000 * 0.2 * 0.8) ** 0.5 for tasks_held in held.values())
    assert held[7] != held[8]


def test_the_grid_trains_on_what_is_not_held_out() -> None:
    row = tuple(values[0] for values in GRID.axes.values())
    assert GRID.for_training(row) is not is_held_out(task_id(situation(row)), 7)


def test_a_situation_and_its_row_are_the_same_and_every_axis_decides_the_task() -> None:
    row = tuple(values[0] for values in GRID.axes.values())
    assert row_of(situation(row)) == row
    others = [(*row[:i], GRID.axes[axis][1], *row[i + 1 :]) for i, axis in enumerate(AXES)]
    assert len({task_id(situation(r)) for r in [row, *others]}) == 1 + len(AXES)


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        ("get_bill", "read"),
        ("pay_bill", "pay"),
        ("find_customer", "search"),
        (NONE, NONE),
        (SEVERAL, SEVERAL),
    ],
)
def test_a_tasks_category_is_what_kind_of_request_it_is(tool: str, named: str) -> None:
    cell = situation([(ORDINARY | {"tool": tool})[axis] for axis in AXES])
    assert category(cell, {t.name: t for t in TOOLS}) == named
