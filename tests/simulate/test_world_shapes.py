import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.worlds import START, TEXT, TOOLS, call, tool, with_output
from tests.worlds import world as a_world
from while_pipeline.simulate.values import persona
from while_pipeline.simulate.world import World, WorldStart

# -- ids of every shape -----------------------------------------------------------------------------------


def test_of_several_ids_each_must_name_a_record() -> None:
    assert call(a_world(), "ship_orders", order_ids=["ORD-1"]).get("error") is None
    answer = call(a_world(), "ship_orders", order_ids=["ORD-1", "ORD-2"])
    assert (answer["error"], "ORD-2" in answer["message"]) == ("not_found", True)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "string", "format": "uuid"},
        {"type": "string", "pattern": "^T[0-9]{6}$"},
        {"type": "string", "description": "Ticket id, such as 'T77X1Q'."},
    ],
    ids=str,
)
def test_what_is_created_has_an_id_of_the_shape_it_is_asked_for_by(schema: dict[str, Any]) -> None:
    tools = (tool("create_ticket", "topic"), tool("get_ticket", "ticket_id", ticket_id=schema))
    world = World(tools, WorldStart(records={}))
    ids = [call(world, "create_ticket", topic=topic)["ticket"]["ticket_id"] for topic in "abc"]
    assert len(set(ids)) == 3
    for key, topic in zip(ids, "abc", strict=True):
        assert call(world, "get_ticket", ticket_id=key)["ticket"]["topic"] == topic


def test_seven_and_seven_point_zero_are_one_id() -> None:
    tools = (tool("get_seat", "seat_id", seat_id={"type": "number"}),)
    world = World(tools, WorldStart(records={"seat": {"7": {"seat_id": 7}}}))
    assert call(world, "get_seat", seat_id=7.0)["seat"] == {"seat_id": 7}


# -- fields that the output schema promises ---------------------------------------------------------------

SHOWN = {
    "type": "object",
    "properties": {
        "order_id": TEXT,
        "status": TEXT,
        "city": TEXT,
        "total": {"type": "number", "minimum": 1},
        "customer_name": TEXT,
        "placed_on": {"type": "string", "format": "date"},
    },
}
WITH_OUTPUT = tuple(with_output(t, SHOWN) if t.name in ("get_order", "search_orders") else t for t in TOOLS)


def test_a_record_shows_what_the_output_schema_promises_and_always_the_same() -> None:
    world = World(WITH_OUTPUT, START)
    read = call(world, "get_order", order_id="ORD-1")["order"]
    assert read.keys() == SHOWN["properties"].keys()
    assert Draft202012Validator(SHOWN).is_valid(read)
    assert (read["order_id"], read["city"], read["status"]) == ("ORD-1", "Oslo", "active")
    assert call(World(WITH_OUTPUT, START), "search_orders", city="Oslo")["results"] == [read]
    assert world.diff() == {}


def test_what_was_written_counts_before_what_was_promised() -> None:
    world = World(WITH_OUTPUT, START)
    call(world, "update_order", order_id="ORD-1", city="Porto")
    assert call(world, "get_order", order_id="ORD-1")["order"]["city"] == "Porto"


def test_what_a_tool_sets_is_shown_once_it_is_set() -> None:
    output = {"properties": {"roaming": TEXT, "payment": TEXT, "owner": TEXT}}
    tools = (tool("enable_roaming", "line_id"), with_output(tool("get_line", "line_id"), output))
    made = World(tools, START)
    assert call(made, "get_line", line_id="LINE-1")["line"].keys() == {"line_id", "status", "owner"}
    call(made, "enable_roaming", line_id="LINE-1")
    assert call(made, "get_line", line_id="LINE-1")["line"]["roaming"] == "enabled"


def test_names_in_records_are_those_of_the_person_the_world_knows() -> None:
    person = persona(random.Random(3))
    customer = {"CUST-1": {"customer_id": "CUST-1", **person.model_dump()}}
    start = WorldStart(records=START.records | {"customer": customer})
    read = call(World(WITH_OUTPUT, start), "get_order", order_id="ORD-1")["order"]
    assert read["customer_name"] == person.full_name


def test_a_reference_depends_on_what_was_asked_and_not_on_the_agents_own_words() -> None:
    tools = (tool("escort", "place thought"),)

    def reference(place: str, thought: str) -> Any:
        return call(World(tools, START), "escort", place=place, thought=thought)["reference"]

    assert reference("Oslo", "hm") == reference("Oslo", "aha") != reference("Porto", "hm")


def test_what_is_calculated_is_the_result_and_what_cannot_be_is_refused_by_name() -> None:
    assert call(a_world(), "calculate", expression="38 + 51", thought="hm") == {"status": "ok", "result": 89}
    answer = call(a_world(), "calculate", expression="__import__('os')", thought="hm")
    assert (answer["error"], "expression" in answer["message"]) == ("invalid_argument", True)


def test_a_thought_is_noted_and_nothing_more() -> None:
    assert call(World((tool("think", "thought"),), START), "think", thought="hm") == {"status": "ok"}


def test_a_transfer_is_a_change_of_its_own() -> None:
    world = a_world()
    call(world, "transfer_to_human", summary="stolen phone")
    assert world.diff() == {"transfer": True}
