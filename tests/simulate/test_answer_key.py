"""The answer key against an ideal player that reads only what the tools answer, and against plain sense."""

import json
from itertools import product
from typing import Any

import pytest

from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.records import Message, Situation, ToolCall
from while_pipeline.simulate.axes import NONE, SEVERAL, grid_of, situation, states_shown
from while_pipeline.simulate.detect import observe
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.simulate.world import World
from while_pipeline.tools import Tool, ToolKind, parse_tools
from while_pipeline.transcript import Transcript


def _entry(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "parameters": {"type": "object", "properties": properties, "required": list(properties)},
    }


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
TOOLS = parse_tools(
    [
        _entry("get_order", order_id=TEXT),
        _entry("find_orders", city=TEXT),
        _entry("create_ticket", customer_id=TEXT, priority={"type": "string", "enum": ["low", "high"]}),
        _entry("register_device", device_id=NUMBER, color=TEXT),
        _entry("update_order", order_id=TEXT, speed={"type": "string", "enum": ["slow", "fast"]}, note=TEXT),
        _entry("suspend_line", line_id=NUMBER, reason=TEXT),
        _entry("toggle_line", line_id=NUMBER),
        _entry("toggle_roaming", line_id=NUMBER, mode={"type": "string", "enum": ["on", "off"]}),
        _entry("submit_complaint", message=TEXT),
        _entry("cancel_order", order_id=TEXT),
        _entry("delete_ticket", ticket_id=TEXT),
        _entry("pay_bill", bill_id=TEXT),
        _entry("calculate", expression=TEXT),
        _entry("escort_guest", guest_id=TEXT),
        _entry("check_weather"),
        _entry("transfer_to_human", summary=TEXT),
    ],
    "tools.json",
)
BY_NAME = {tool.name: tool for tool in TOOLS}
DOCUMENT = read_policy_document(
    "- Verify the customer's identity before you look at an account.\n"
    "- Obtain an explicit yes before you change an order.\n"
    "- Never promise a date of delivery to anyone.\n"
    "- Transfer the customer to a human when they report a burnt parcel.\n"
    "- Unsold goods must be sent back within a week.\n"
)
WRITER = ScenarioWriter(TOOLS, DOCUMENT)
GRID = grid_of(TOOLS, DOCUMENT, seed=1)
EVERY_TOOL = pytest.mark.parametrize(
    "tool", [tool for tool in TOOLS if tool.kind is not ToolKind.TRANSFER], ids=lambda tool: tool.name
)
TRIES = 6
"""More than any transient fault lasts."""


def _cell(tool: str, **values: str) -> Situation:
    ordinary = {
        "policy_rule": NONE,
        "stance": "ordinary",
        "world_state": "exists",
        "tool_condition": "success",
    }
    return Situation(tool=tool, history="fresh", **(ordinary | values))


def _cells() -> list[Situation]:
    """Every combination of tool, rule, world state, tool condition and two stances that can meet."""
    combined = product(
        GRID.axes["tool"],
        GRID.axes["policy_rule"],
        ("ordinary", "mistaken"),
        GRID.axes["world_state"],
        GRID.axes["tool_condition"],
        ("fresh",),
    )
    return [situation(row) for row in combined if GRID.allowed(row)]


SCENARIOS = [WRITER.write(cell, seed) for seed, cell in enumerate(_cells())]


class _Player:
    """Does what the customer wants with the values the customer ends up giving, and reads the answers."""

    def __init__(self, scenario: Scenario) -> None:
        self.world = World(TOOLS, scenario.world)
        self.known = scenario.script.slots | scenario.script.corrections
        self.messages: list[Message] = []
        self.last: dict[str, Any] | None = None

    def ask(self, name: str) -> None:
        """Call until the answer is a sound one; what nobody can mend is accepted after enough tries."""
        arguments = {p: self.known.get(p, "my own words") for p in BY_NAME[name].required}
        for _ in range(TRIES):
            text = self.world.call(name, arguments)
            call = ToolCall(id="c", name=name, arguments=arguments)
            self.messages.append(Message(role="assistant", tool_calls=(call,)))
            self.messages.append(Message(role="tool", content=text, tool_call_id="c"))
            try:
                self.last = json.loads(text)
            except json.JSONDecodeError:
                self.last = None
                continue
            if self.last.get("stale") and not BY_NAME[name].writes:
                continue
            if self.last.get("error") not in ("timeout", "rate_limited", "permission_denied"):
                return

    def to_tell(self, name: str) -> tuple[list[str], list[str]]:
        """Facts, and what must be said, of the last answer."""
        answer = self.last
        if answer is None or "error" in answer:
            named = {"not_found": "missing", "already_done": "already"}
            return [], [named.get((answer or {}).get("error", ""), "fault")]
        if "result" in answer:
            return [str(answer["result"])], []
        if "reference" in answer:
            return [answer["reference"]], []
        if "results" in answer:
            return [str(row["order_id"]) for row in answer["results"][:1]], []
        (record,) = (value for value in answer.values() if isinstance(value, dict))
        match BY_NAME[name].kind:
            case ToolKind.READ:
                return [record["status"]], []
            case ToolKind.CREATE:
                own = {"create_ticket": "ticket_id", "register_device": "device_id"}.get(name, "complaint_id")
                return [str(record[own])], []
            case _:
                return [], []


def _kind(cell: Situation) -> RuleKind | None:
    rule = DOCUMENT.rule(cell.policy_rule)
    return rule.kind if rule else None


def test_the_key_holds_every_kind_of_request() -> None:
    kinds = {scenario.category for scenario in SCENARIOS}
    assert kinds == {kind.value for kind in ToolKind} - {"transfer"} | {NONE, SEVERAL}


def test_the_keys_effects_are_what_an_ideal_player_leaves_behind() -> None:
    for scenario in SCENARIOS:
        player = _Player(scenario)
        for goal in scenario.goals:
            player.ask(goal)
        if _kind(scenario.situation) is RuleKind.HANDOFF:
            player.ask("transfer_to_human")
        assert player.world.diff() == scenario.key.effects, scenario.situation


def test_the_keys_facts_and_duties_are_what_an_ideal_player_reads_from_the_answers() -> None:
    for scenario in SCENARIOS:
        player = _Player(scenario)
        told: list[str] = []
        duties: list[str] = []
        for goal in scenario.goals:
            player.ask(goal)
            facts, said = player.to_tell(goal)
            told, duties = [*told, *facts], [*duties, *said]
        spoken = {RuleKind.NEVER: "refuse", RuleKind.INFORM: "explain", RuleKind.HANDOFF: "handoff"}
        rule = _kind(scenario.situation)
        duties += [spoken[rule]] if rule in spoken else []
        assert scenario.key.facts == tuple(dict.fromkeys(told)), scenario.situation
        assert scenario.key.must == tuple(dict.fromkeys(duties)), scenario.situation


def test_the_key_is_what_the_state_and_the_fault_mean() -> None:
    for scenario in SCENARIOS:
        cell = scenario.situation
        if cell.tool in (NONE, SEVERAL):
            continue
        tool = BY_NAME[cell.tool]
        (*faults,) = scenario.world.faults
        effects = {path for path in scenario.key.effects if path != "transfer"}
        duties = set(scenario.key.must) - {"refuse", "explain", "handoff"}
        if faults and faults[0].persistent:
            assert (effects, duties) == (set(), {"fault"}), cell
        elif cell.world_state == "missing":
            assert (effects, duties) == (set(), {"missing"}), cell
        elif cell.world_state == "already_acted_on" and tool.writes:
            assert (effects, duties) == (set(), {"already"}), cell
        else:
            assert (bool(effects), duties) == (tool.writes, set()), cell


def test_a_mistaken_customers_first_value_does_nothing_and_is_put_right_later() -> None:
    mistaken = [scenario for scenario in SCENARIOS if scenario.script.corrections]
    assert {scenario.situation.stance for scenario in mistaken} == {"mistaken"}
    for scenario in mistaken:
        world = World(TOOLS, scenario.world.model_copy(update={"faults": ()}))
        goal = BY_NAME[scenario.goals[0]]
        world.call(goal.name, {p: scenario.script.slots.get(p, "as asked") for p in goal.required})
        assert world.diff() == {}, scenario.situation


@EVERY_TOOL
def test_the_answers_show_the_states_that_are_declared_and_no_others(tool: Tool) -> None:
    for state in GRID.axes["world_state"][1:]:
        player = _Player(WRITER.write(_cell(tool.name, world_state=state), 5))
        player.ask(tool.name)
        seen = observe(Transcript(player.messages, BY_NAME, DOCUMENT))["world_state"]
        assert (state in seen) is (state in states_shown(tool)), state


@EVERY_TOOL
def test_every_tool_condition_changes_what_the_same_calls_answer(tool: Tool) -> None:
    for condition in GRID.axes["tool_condition"]:
        player = _Player(WRITER.write(_cell(tool.name, tool_condition=condition), 5))
        player.ask(tool.name)
        seen = observe(Transcript(player.messages, BY_NAME, DOCUMENT))["tool_condition"]
        assert condition in seen
        assert seen <= {condition, "success"}


@pytest.mark.parametrize("tool", [NONE, SEVERAL, "pay_bill", "check_weather"])
def test_each_rule_changes_the_situation_it_is_put_into(tool: str) -> None:
    duties = {RuleKind.NEVER: "refuse", RuleKind.INFORM: "explain", RuleKind.HANDOFF: "handoff"}
    for rule in DOCUMENT.rules:
        if not GRID.allowed_pair("tool", tool, "policy_rule", rule.rule_id):
            continue
        scenario = WRITER.write(_cell(tool, policy_rule=rule.rule_id), 2)
        said = " ".join((scenario.script.opening, *scenario.script.follow_ups))
        goals = [BY_NAME[goal] for goal in scenario.goals]
        heard = [found.rule_id for found in DOCUMENT.in_play(said)]
        if rule.kind in duties:
            assert heard == [rule.rule_id]
            assert duties[rule.kind] in scenario.key.must
            assert ("transfer" in scenario.key.effects) is (rule.kind is RuleKind.HANDOFF)
        else:
            assert heard == []
            assert any(goal.writes or (goal.identifiers and rule.kind is RuleKind.VERIFY) for goal in goals)
