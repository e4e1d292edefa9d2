import json

from tests.worlds import START, TOOLS, call
from while_pipeline.simulate.recorded import Recorded
from while_pipeline.simulate.world import World, WorldStart

ORDER = {"order_id": "O-77", "status": "shipped", "total": 12.5, "carrier": "Gull"}
STEPS = [
    ("get_order", '{"order_id": "O-77"}', json.dumps({"order": ORDER})),
    ("get_order", '{"order_id": "O-78"}', json.dumps({"order": ORDER | {"order_id": "O-78", "total": 40}})),
    ("search_orders", '{"city": "Oslo"}', json.dumps([ORDER])),
    ("get_order", '{"order_id": "O-79"}', '{"error": "timeout"}'),
    ("get_order", "not json", "plain text"),
    ("get_order", None, None),
    ("cancel_order", '{"order_id": "O-80"}', '{"order": {"order_id": "O-80", "fee": 3}}'),
    ("unheard_of", "{}", '{"x": 1}'),
]
RECORDED = Recorded(STEPS, TOOLS)


def _world() -> World:
    return World(TOOLS, START, RECORDED)


def test_records_of_the_world_show_the_fields_of_real_ones() -> None:
    read = call(_world(), "get_order", order_id="ORD-1")["order"]
    assert (read["order_id"], read["status"], read["city"]) == ("ORD-1", "active", "Oslo")
    assert (read["carrier"], read["total"] in (12.5, 40)) == ("Gull", True)
    assert call(_world(), "get_order", order_id="ORD-1")["order"] == read
    assert call(_world(), "search_orders", city="Oslo")["results"][0]["carrier"] == "Gull"


def test_an_identical_call_about_what_the_scenario_does_not_speak_of_gets_the_real_answer() -> None:
    made = World(TOOLS, WorldStart(records={}), RECORDED)
    assert call(made, "get_order", order_id="O-77") == {"order": ORDER}
    assert call(made, "get_order", order_id="O-99")["error"] == "not_found"
    assert call(made, "cancel_order", order_id="O-77")["error"] == "not_found"
    assert call(_world(), "get_order", order_id="O-77")["error"] == "not_found"


def test_what_the_world_wrote_counts_before_what_was_recorded() -> None:
    made = _world()
    call(made, "cancel_order", order_id="ORD-1")
    assert call(made, "get_order", order_id="ORD-1")["order"]["status"] == "cancelled"
    assert made.diff() == {"order/ORD-1/status": "cancelled"}


def test_errors_writes_and_strange_tools_are_no_examples() -> None:
    assert RECORDED.answer("get_order", {"order_id": "O-79"}) is None
    assert call(_world(), "cancel_order", order_id="O-80")["error"] == "not_found"
    assert RECORDED.fields("cancel_order", "O-1") == {}
    assert RECORDED.fields("get_ticket", "T-1") == {}


def test_without_recordings_nothing_is_lent() -> None:
    asked = ("get_order", {"order_id": "ORD-1"})
    assert World(TOOLS, START, Recorded([], TOOLS)).call(*asked) == World(TOOLS, START).call(*asked)
