from typing import Any

import pytest

from tests.example import ordinary
from tests.toolsets import toolset
from tests.worlds import call, tool, with_output
from while_pipeline.simulate.scenario import ScenarioWriter, call_arguments
from while_pipeline.simulate.world import World, WorldStart
from while_pipeline.tools import Tool

NUMBER = {"type": "integer"}
TOOLS = (
    tool("get_booking", "booking_id").model_copy(update={"description": "Get a booking with its price."}),
    tool("get_member", "member_id").model_copy(update={"description": "Get a member and their bookings."}),
    tool("search_bookings", "origin"),
    tool(
        "book_booking",
        "member_id origin destination total_bags paid_bags",
        total_bags=NUMBER,
        paid_bags=NUMBER,
    ),
    tool("update_booking", "booking_id cabin", cabin={"enum": ["eco", "first"], "type": "string"}),
    tool("pay_booking", "booking_id method"),
    tool("cancel_booking", "booking_id"),
)
KEYS = [f"BOOK-{n}" for n in range(40)]
RECORDS = {
    "booking": {key: {"booking_id": key, "status": "active"} for key in KEYS},
    "member": {"M-1": {"member_id": "M-1", "status": "active"}},
}


def _world(seed: int = 1, records: dict[str, Any] = RECORDS, tools: tuple[Tool, ...] = TOOLS) -> World:
    return World(tools, WorldStart(records=records, seed=seed))


def _booking(world: World, key: str) -> dict[str, Any]:
    record = call(world, "get_booking", booking_id=key)["booking"]
    assert isinstance(record, dict)
    return record


def test_a_read_shows_what_it_promises_and_what_other_tools_can_set() -> None:
    shown = _booking(_world(), "BOOK-1")
    assert shown.keys() == {
        "booking_id", "status", "price", "origin", "destination", "total_bags", "paid_bags", "cabin",
    }  # fmt: skip
    assert shown["cabin"] in ("eco", "first")
    assert "method" not in shown, "nobody has paid"


def test_the_values_of_a_record_agree_with_each_other() -> None:
    world = _world()
    for key in KEYS:
        shown = _booking(world, key)
        assert shown["origin"] != shown["destination"]
        assert shown["paid_bags"] <= shown["total_bags"]


def test_every_read_in_every_world_of_the_same_start_shows_the_same_and_changes_nothing() -> None:
    one, other = _world(), _world()
    twin = one.fork()
    for key in reversed(KEYS):
        _booking(other, key)
    assert [_booking(one, key) for key in KEYS] == [_booking(twin, key) for key in KEYS]
    assert [_booking(one, key) for key in KEYS] == [_booking(other, key) for key in KEYS]
    assert one.diff() == {}
    assert _booking(_world(2), KEYS[0]) != _booking(one, KEYS[0])


def test_a_search_finds_by_what_a_read_shows() -> None:
    world = _world()
    for origin in {_booking(world, key)["origin"] for key in KEYS}:
        found = call(world, "search_bookings", origin=origin)["results"]
        assert found == [shown for key in KEYS if (shown := _booking(world, key))["origin"] == origin]


def test_setting_what_a_read_shows_already_is_done_and_anything_else_is_read_back() -> None:
    world = _world()
    now = _booking(world, "BOOK-1")["cabin"]
    assert call(world, "update_booking", booking_id="BOOK-1", cabin=now)["error"] == "already_done"
    other = "eco" if now == "first" else "first"
    assert call(world, "update_booking", booking_id="BOOK-1", cabin=other)["status"] == "ok"
    assert _booking(world, "BOOK-1")["cabin"] == other
    assert world.diff() == {"booking/BOOK-1/cabin": other}


def test_what_was_paid_is_shown_once_it_was() -> None:
    world = _world()
    call(world, "pay_booking", booking_id="BOOK-1", method="card")
    shown = _booking(world, "BOOK-1")
    assert (shown["method"], shown["payment"]) == ("card", "paid")


def test_a_duplicate_holds_what_its_twin_holds() -> None:
    twins = {
        "A-1": {"booking_id": "A-1", "duplicate_of": "A-2"},
        "A-2": {"booking_id": "A-2", "duplicate_of": "A-1"},
    }
    world = _world(records={"booking": twins})
    first, second = (_booking(world, key) for key in twins)
    assert {f: v for f, v in first.items() if f not in ("booking_id", "duplicate_of")} == {
        f: v for f, v in second.items() if f not in ("booking_id", "duplicate_of")
    }


def test_what_belongs_to_a_person_is_listed_as_it_is_created() -> None:
    world = _world()
    assert call(world, "get_member", member_id="M-1")["member"]["booking_ids"] == []
    asked = {"origin": "LIS", "destination": "OSL", "total_bags": 2, "paid_bags": 1}
    made = call(world, "book_booking", member_id="M-1", **asked)["booking"]["booking_id"]
    assert call(world, "get_member", member_id="M-1")["member"]["booking_ids"] == [made]


def test_an_output_schema_shows_its_own_fields_only() -> None:
    declared = with_output(TOOLS[0], {"properties": {"origin": {"type": "string"}}})
    shown = _booking(_world(tools=(declared, *TOOLS[1:])), "BOOK-1")
    assert shown.keys() == {"booking_id", "status", "origin"}


def test_a_switch_is_shown_wherever_it_is_spoken_of() -> None:
    status = Tool(name="check_network", description="Shows whether mobile data is enabled.", parameters={})
    world = _world(tools=(status, tool("toggle_data")))
    seen = []
    for _ in range(2):
        seen.append(call(world, "check_network")["network"]["mobile_data"])
        call(world, "toggle_data")
    assert seen == ["active", "inactive"]


@pytest.mark.parametrize(
    ("agent", "name", "fields"),
    [
        ("example", "get_bill", {"amount"}),
        ("example", "get_data_usage", {"data_usage_gb"}),
        ("example", "get_customer_profile", {"full_name", "email"}),
        ("airline", "get_user_details", {"full_name", "reservation_ids"}),
        (
            "airline",
            "get_reservation_details",
            {"origin", "destination", "cabin", "flights", "total_baggages"},
        ),
        ("telecom", "get_data_usage", {"data_usage_gb", "data_limit_gb", "cycle_end_date"}),
        ("phone", "run_speed_test", {"internet_connection_speed_mbps"}),
        ("phone", "check_status_bar", {"battery_level_percent"}),
        ("phone", "check_installed_apps", {"name"}),
        ("telecom", "get_bills_for_customer", {"amount"}),
    ],
)
def test_public_tools_answer_what_they_promise(agent: str, name: str, fields: set[str]) -> None:
    tools, document = toolset(agent)
    scenario = ScenarioWriter(tools, document).write(ordinary(name), 3)
    asked = call_arguments(next(t for t in tools if t.name == name), scenario.script.slots)
    answer = call(World(tools, scenario.world), name, **asked)
    record = next((v for v in answer.values() if isinstance(v, dict)), None) or answer["results"][0]
    assert fields <= record.keys()
