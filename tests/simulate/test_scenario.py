import json
import re
from typing import Any

import pytest

from tests.example import BY_NAME, DOCUMENT, RULE, TOOLS, WRITER, ordinary, scenarios
from while_pipeline.messages import result_status
from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.records import Situation
from while_pipeline.simulate import wording
from while_pipeline.simulate.axes import HISTORIES, NONE, SEVERAL, STANCES
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.simulate.world import World, WorldOptions
from while_pipeline.tools import Tool, is_identifier, parse_tools

SCENARIOS = scenarios(250)
AMOUNT = "an amount"


def _cell(tool: str, **values: str) -> Situation:
    """An ordinary situation in which the agent must ask before it writes."""
    return ordinary(tool, **({"policy_rule": RULE[RuleKind.CONFIRM]} | values))


# -- the answer key, by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "effects", "facts", "must"),
    [
        (_cell("cancel_order"), {"order/*/status": "cancelled"}, [], []),
        (_cell("cancel_order", world_state="missing"), {}, [], ["missing"]),
        (_cell("cancel_order", world_state="already_acted_on"), {}, [], ["already"]),
        (_cell("cancel_order", world_state="duplicate"), {"order/*/status": "cancelled"}, [], []),
        (_cell("cancel_order", world_state="partially_completed"), {"order/*/status": "cancelled"}, [], []),
        (_cell("cancel_order", world_state="unknown"), {"order/*/status": "cancelled"}, [], []),
        (_cell("cancel_order", tool_condition="permission_denied"), {}, [], ["fault"]),
        (_cell("cancel_order", stance="mistaken"), {"order/*/status": "cancelled"}, [], []),
        (_cell("pay_bill"), {"bill/*/payment": "paid"}, [], []),
        (_cell("pay_bill", world_state="already_acted_on"), {}, [], ["already"]),
        (_cell("enable_roaming"), {"line/*/roaming": "enabled"}, [], []),
        (_cell("suspend_line"), {"line/*/status": "suspended"}, [], []),
        (_cell("get_bill"), {}, [AMOUNT, "active"], []),
        (_cell("get_bill", world_state="already_acted_on"), {}, [AMOUNT, "closed"], []),
        (_cell("get_bill", world_state="partially_completed"), {}, [AMOUNT, "processing"], []),
        (_cell("get_bill", world_state="unknown"), {}, [AMOUNT, "unknown"], []),
        (_cell("get_customer_profile"), {}, ["active"], []),
        (_cell("get_bill", world_state="missing"), {}, [], ["missing"]),
        (_cell("get_bill", tool_condition="stale"), {}, [AMOUNT, "active"], []),
        (_cell("get_bill", tool_condition="permission_denied"), {}, [], ["fault"]),
        (_cell("book_appointment", world_state="already_acted_on"), {}, [], ["already"]),
        (_cell("book_appointment", world_state="missing"), {}, [], ["missing"]),
        (_cell("pay_bill", policy_rule=RULE[RuleKind.NEVER]), {"bill/*/payment": "paid"}, [], ["refuse"]),
        (_cell("pay_bill", policy_rule=RULE[RuleKind.INFORM]), {"bill/*/payment": "paid"}, [], ["explain"]),
        (_cell("cancel_order", policy_rule=RULE[RuleKind.VERIFY]), {"order/*/status": "cancelled"}, [], []),
        (
            _cell("cancel_order", policy_rule=RULE[RuleKind.HANDOFF]),
            {"order/*/status": "cancelled", "transfer": True}, [], ["handoff"],
        ),
        (_cell(NONE, policy_rule=RULE[RuleKind.HANDOFF]), {"transfer": True}, [], ["handoff"]),
        (
            _cell("cancel_order", world_state="missing", policy_rule=RULE[RuleKind.NEVER]),
            {}, [], ["missing", "refuse"],
        ),
        (_cell(NONE), {}, [], []),
        (_cell(NONE, policy_rule=RULE[RuleKind.NEVER]), {}, [], ["refuse"]),
    ],
    ids=str,
)  # fmt: skip
def test_the_answer_key_is_what_a_person_would_expect(
    cell: Situation, effects: dict[str, Any], facts: list[str], must: list[str]
) -> None:
    scenario = WRITER.write(cell, 3)
    ids = [str(value) for name, value in scenario.script.slots.items() if is_identifier(name)]
    right = [
        str(scenario.script.corrections.get(name, value)) for name, value in scenario.script.slots.items()
    ]
    starred = {
        "/".join("*" if part in ids or part in right else part for part in path.split("/")): value
        for path, value in scenario.key.effects.items()
        if path.rpartition("/")[2] not in scenario.script.slots  # the method of a payment is the customer's
    }
    told = [AMOUNT if re.fullmatch(r"\d+\.\d\d", fact) else fact for fact in scenario.key.facts]
    assert (starred, told, list(scenario.key.must)) == (effects, facts, must)


def test_a_found_customer_and_a_booked_appointment_are_told_by_id() -> None:
    found = WRITER.write(_cell("find_customer"), 3)
    assert list(found.key.facts) == list(found.world.records["customer"])
    booked = WRITER.write(_cell("book_appointment"), 3)
    (fact,) = booked.key.facts
    assert booked.key.effects[f"appointment/{fact}/appointment_id"] == fact
    assert booked.key.effects[f"appointment/{fact}/slot"] == booked.script.slots["slot"]


def test_a_transient_fault_leaves_the_key_as_it_is_without_a_fault_and_a_lasting_one_does_not() -> None:
    for condition in ("timeout", "malformed", "rate_limited"):
        made = [WRITER.write(_cell("pay_bill", tool_condition=condition), seed) for seed in range(40)]
        lasting = {scenario.world.faults[0].persistent for scenario in made}
        assert lasting == {True, False}
        for scenario in made:
            if scenario.world.faults[0].persistent:
                assert (scenario.key.effects, scenario.key.must) == ({}, ("fault",))
            else:
                method = scenario.script.slots["method"]
                assert (list(scenario.key.effects.values()), scenario.key.must) == ([method, "paid"], ())


def test_a_fault_clears_where_the_record_is_special_so_that_its_state_shows() -> None:
    for state in ("missing", "already_acted_on", "duplicate", "partially_completed", "unknown"):
        cell = _cell("pay_bill", world_state=state, tool_condition="timeout")
        assert not any(WRITER.write(cell, seed).world.faults[0].persistent for seed in range(40))


def test_how_long_faults_last_is_an_option_of_the_world() -> None:
    options = WorldOptions(transient_share=1, max_transient_failures=4)
    writer = ScenarioWriter(TOOLS, DOCUMENT, options)
    made = [writer.write(_cell("pay_bill", tool_condition="timeout"), seed) for seed in range(60)]
    assert {scenario.world.faults[0].failures for scenario in made} == {1, 2, 3, 4}
    assert all("paid" in scenario.key.effects.values() for scenario in made)


@pytest.mark.parametrize("kind", [RuleKind.CONFIRM, RuleKind.VERIFY])
def test_one_of_several_requests_puts_the_rule_in_play(kind: RuleKind) -> None:
    made = [WRITER.write(_cell(SEVERAL, policy_rule=RULE[kind]), seed) for seed in range(60)]
    first = [WRITER.by_name[scenario.goals[0]] for scenario in made]
    assert all(tool.writes or (tool.identifiers and kind is RuleKind.VERIFY) for tool in first)
    assert all(len(set(scenario.goals)) == 2 for scenario in made)


def test_a_mistake_is_impossible_where_the_schema_lists_one_id_only() -> None:
    (tool,) = parse_tools(
        [
            {
                "name": "get_store",
                "parameters": {"properties": {"store_id": {"enum": ["S-1"]}}, "required": ["store_id"]},
            }
        ],
        "t.json",
    )
    assert (
        ScenarioWriter((tool,), DOCUMENT).write(_cell("get_store", stance="mistaken"), 1).script.corrections
        == {}
    )


def test_two_requests_are_both_in_the_key() -> None:
    for seed in range(30):
        scenario = WRITER.write(_cell(SEVERAL), seed)
        if set(scenario.goals) == {"cancel_order", "pay_bill"}:
            assert {"cancelled", "paid"} <= set(scenario.key.effects.values())
            break
    else:
        pytest.fail("the pair was never drawn")


def test_what_is_asked_to_be_resumed_is_not_running_yet() -> None:
    tools = parse_tools(
        [{"name": "resume_line", "parameters": {"properties": {"line_id": {}}, "required": ["line_id"]}}],
        "t.json",
    )
    writer = ScenarioWriter(tools, DOCUMENT)
    assert list(writer.write(_cell("resume_line"), 1).key.effects.values()) == ["active"]
    assert writer.write(_cell("resume_line", world_state="already_acted_on"), 1).key.must == ("already",)


@pytest.mark.parametrize("name", ["get_ticket", "cancel_ticket", "update_ticket"])
@pytest.mark.parametrize("state", ["exists", "missing", "already_acted_on", "duplicate"])
def test_ids_that_are_numbers_work_like_ids_that_are_texts(name: str, state: str) -> None:
    def writer(kind: str) -> ScenarioWriter:
        schema = {
            "type": "object",
            "properties": {"ticket_id": {"type": kind}, "priority": {"enum": ["low", "high"]}},
            "required": ["ticket_id", "priority"] if name == "update_ticket" else ["ticket_id"],
        }
        return ScenarioWriter((Tool(name=name, description="", parameters=schema),), DOCUMENT)

    text, number = (writer(kind).write(_cell(name, world_state=state), 1) for kind in ("string", "integer"))
    assert isinstance(number.script.slots["ticket_id"], int)
    assert list(number.key.effects.values()) == list(text.key.effects.values())
    assert (number.key.facts, number.key.must) == (text.key.facts, text.key.must)


# -- what is random and what is not -----------------------------------------------------------------------


def test_phrasings_of_one_seed_share_world_and_key_and_differ_in_words() -> None:
    for cell in (
        _cell("cancel_order"),
        _cell("get_bill", stance="mistaken"),
        _cell(SEVERAL, tool_condition="timeout"),
    ):
        phrasings = [WRITER.write(cell, 9, phrasing=i) for i in range(12)]
        assert len({(s.world.model_dump_json(), s.key.model_dump_json(), s.task_id) for s in phrasings}) == 1
        assert len({(json.dumps(s.script.slots), s.script.persona.model_dump_json()) for s in phrasings}) == 1
        assert len({s.script.opening for s in phrasings}) >= 10


def test_the_same_arguments_give_the_same_scenario_and_another_seed_another() -> None:
    cell = _cell("cancel_order")
    assert WRITER.write(cell, 1) == WRITER.write(cell, 1)
    assert WRITER.write(cell, 1).scenario_id != WRITER.write(cell, 2).scenario_id


def test_every_identifier_named_exists_unless_it_is_missing_or_mistaken() -> None:
    named = 0
    for scenario in SCENARIOS:
        known = {key for table in scenario.world.records.values() for key in table}
        cell = scenario.situation
        for name, value in scenario.script.slots.items():
            if is_identifier(name) and cell.world_state != "missing" and cell.stance != "mistaken":
                named += 1
                assert value in known
        assert set(scenario.script.corrections.values()) <= known
    assert named > 100


def test_what_is_missing_or_mistaken_is_really_not_there() -> None:
    for tool in ("cancel_order", "get_bill", "change_plan"):
        for values in ({"world_state": "missing"}, {"stance": "mistaken"}):
            scenario = WRITER.write(_cell(tool, **values), 4)
            world = World(TOOLS, scenario.world)
            goal = WRITER.by_name[tool]
            arguments = {p: scenario.script.slots.get(p, "as asked") for p in goal.required}
            assert result_status(world.call(tool, arguments)) == "not_found"


def test_every_required_value_is_known_to_the_customer_and_valid() -> None:
    for scenario in SCENARIOS:
        for goal in (WRITER.by_name[name] for name in scenario.goals):
            asked = {p for p in goal.required if not goal.free_text(p)}
            assert asked <= set(scenario.script.slots)
            arguments = {p: scenario.script.slots.get(p, "as asked") for p in goal.required}
            assert goal.validator.is_valid(arguments)


def test_a_scenario_reads_back_from_json() -> None:
    for scenario in SCENARIOS[:20]:
        assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario


# -- the words --------------------------------------------------------------------------------------------


def test_ten_stances_give_ten_texts_that_can_be_told_apart() -> None:
    texts = {
        stance: WRITER.write(_cell("cancel_order", stance=stance), 2).script.opening for stance in STANCES
    }
    assert len(set(texts.values())) == len(STANCES) == 10
    assert {stance: wording.heard(wording.STANCE_LINES, text) for stance, text in texts.items()} == {
        stance: {stance} for stance in STANCES
    }


def test_every_history_is_heard_in_the_opening() -> None:
    for history in HISTORIES:
        opening = WRITER.write(_cell("cancel_order", history=history), 2).script.opening
        assert wording.heard(wording.HISTORY_LINES, opening) == {history}


def test_no_sentence_belongs_to_two_stances_or_histories() -> None:
    for bank in (wording.STANCE_LINES, wording.HISTORY_LINES):
        lines = [line for said in bank.values() for line in said]
        assert len(lines) == len(set(lines))
        assert all(wording.heard(bank, line) == {value} for value, said in bank.items() for line in said)


def test_the_vague_leave_out_what_the_agent_has_to_ask_for() -> None:
    ambiguous = WRITER.write(_cell("cancel_order", stance="ambiguous"), 2).script
    unsure = WRITER.write(_cell("change_plan", stance="unsure"), 2).script
    assert str(ambiguous.slots["order_id"]) not in ambiguous.opening
    assert "cancel order" not in ambiguous.opening.lower()
    assert str(unsure.slots["line_id"]) not in unsure.opening
    assert str(unsure.slots["plan"]) in unsure.opening


@pytest.mark.parametrize("kind", [RuleKind.NEVER, RuleKind.HANDOFF, RuleKind.INFORM])
def test_a_rule_is_put_in_play_by_the_customers_words(kind: RuleKind) -> None:
    for rule in DOCUMENT.of_kind(kind):
        script = WRITER.write(_cell("get_bill", policy_rule=rule.rule_id), 2).script
        lines = [
            line
            for text in (script.opening, *script.follow_ups)
            for line in text.replace("?", "?.").split(". ")
        ]
        assert any(rule.in_play(line) for line in lines)


def test_the_answer_key_is_not_in_the_opening() -> None:
    for scenario in SCENARIOS:
        told = {str(value) for value in scenario.script.slots.values()}
        secret = [fact for fact in scenario.key.facts if fact not in told and "-" in fact]
        assert not any(fact in scenario.script.opening for fact in secret)


def test_prompts_hardly_ever_repeat() -> None:
    cell = _cell("cancel_order")
    openings = {WRITER.write(cell, seed).script.opening for seed in range(1000)}
    assert len(openings) >= 990


def test_prompts_of_a_tool_without_any_values_still_differ() -> None:
    writer = ScenarioWriter(
        (Tool(name="check_weather", description="", parameters={}),), read_policy_document("Hi.")
    )
    cell = _cell("check_weather", policy_rule=NONE, stance="hurried", history="repeat_visit")
    assert len({writer.write(cell, seed).script.opening for seed in range(300)}) >= 150


def test_only_what_was_begun_and_not_finished_is_pending() -> None:
    pending = {}
    for name in ("get_bill", "pay_bill"):
        scenario = WRITER.write(_cell(name, world_state="partially_completed"), 3)
        (bill,) = scenario.world.records["bill"].values()
        pending[name] = bill.get("pending_action")
    assert pending == {"get_bill": None, "pay_bill": "pay"}


def test_a_record_that_is_to_be_changed_has_another_value_before() -> None:
    for seed in range(30):
        scenario = WRITER.write(_cell("change_plan"), seed)
        (line,) = scenario.world.records["line"].values()
        assert line["plan"] in BY_NAME["change_plan"].properties["plan"]["enum"]
        assert line["plan"] != scenario.script.slots["plan"]
