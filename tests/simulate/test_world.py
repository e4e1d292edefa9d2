import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from while_pipeline.messages import result_status
from while_pipeline.simulate.values import persona, value_for
from while_pipeline.simulate.world import PERSISTENT, Fault, World, WorldStart
from while_pipeline.tools import Tool, plain_schema

TEXT = {"type": "string"}


def _tool(name: str, required: str = "", **properties: dict[str, Any]) -> Tool:
    names = required.split()
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, TEXT) | properties,
        "required": names,
        "additionalProperties": False,
    }
    return Tool(name=name, description="", parameters=schema)


TOOLS = (
    _tool("get_order", "order_id"),
    _tool("search_orders", "city"),
    _tool("create_order", "customer_id city"),
    _tool("update_order", "order_id city", reason=TEXT),
    _tool("cancel_order", "order_id"),
    _tool("refund_order", "order_id"),
    _tool("pay_bill", "bill_id method", method={"enum": ["card", "bank"]}),
    _tool("suspend_line", "line_id reason"),
    _tool("resume_line", "line_id"),
    _tool("enable_roaming", "line_id"),
    _tool("register_device", "device_id model"),
    _tool("get_device", "device_id"),
    _tool("get_details_by_id", "id"),
    _tool("get_ticket", "ticket_id", ticket_id={}),
    _tool("check_weather"),
    _tool("calculate", "expression thought"),
    _tool("transfer_to_human", "summary"),
)
START = WorldStart(
    records={
        "customer": {"CUST-1": {"customer_id": "CUST-1", "status": "active"}},
        "order": {"ORD-1": {"order_id": "ORD-1", "status": "active", "city": "Oslo"}},
        "bill": {"BILL-1": {"bill_id": "BILL-1", "status": "active"}},
        "line": {"LINE-1": {"line_id": "LINE-1", "status": "active"}},
    }
)


def _world(*faults: Fault) -> World:
    return World(TOOLS, START.model_copy(update={"faults": faults}))


def _call(world: World, name: str, **arguments: Any) -> dict[str, Any]:
    answer = json.loads(world.call(name, arguments))
    assert isinstance(answer, dict)
    return answer


# -- what was written is read back ------------------------------------------------------------------------


class OrdersAgainstAModel(RuleBasedStateMachine):
    """The world against a plain dictionary of orders: city, cancelled, refunded."""

    orders = Bundle("orders")
    cities = st.sampled_from(["Oslo", "Porto", "Ghent"])

    def __init__(self) -> None:
        super().__init__()
        self.world = _world()
        self.twin = _world()
        self.untouched = _world()
        self.model: dict[str, dict[str, Any]] = {
            "ORD-1": {"city": "Oslo", "status": "active", "payment": None}
        }

    def _both(self, name: str, **arguments: Any) -> dict[str, Any]:
        answer = _call(self.world, name, **arguments)
        assert _call(self.twin, name, **arguments) == answer, "equal worlds answer equal calls equally"
        return answer

    @rule(target=orders)
    def the_order_there_was(self) -> str:
        return "ORD-1"

    @rule(target=orders, city=cities)
    def create(self, city: str) -> str:
        same = [o for o in self.model.values() if (o["city"], o.get("by")) == (city, "CUST-1")]
        answer = self._both("create_order", customer_id="CUST-1", city=city)
        if any(order["status"] != "cancelled" for order in same):
            assert answer["error"] == "already_done"
            return "ORD-1"
        key = answer["order"]["order_id"]
        assert isinstance(key, str)
        assert key not in self.model
        self.model[key] = {"city": city, "status": "created", "payment": None, "by": "CUST-1"}
        return key

    @rule(order=orders, city=cities)
    def move(self, order: str, city: str) -> None:
        answer, known = (
            self._both("update_order", order_id=order, city=city, reason="asked"),
            self.model[order],
        )
        if known["city"] == city:
            assert answer["error"] == "already_done"
        elif known["status"] == "cancelled":
            assert answer["error"] == "not_allowed"
        else:
            known["city"] = city
            assert answer["order"]["city"] == city

    @rule(order=orders)
    def cancel(self, order: str) -> None:
        answer, known = self._both("cancel_order", order_id=order), self.model[order]
        assert answer.get("error") == ("already_done" if known["status"] == "cancelled" else None)
        known["status"] = "cancelled"

    @rule(order=orders)
    def refund(self, order: str) -> None:
        answer, known = self._both("refund_order", order_id=order), self.model[order]
        assert answer.get("error") == ("already_done" if known["payment"] else None)
        known["payment"] = "refunded"

    @rule(order=orders)
    def read(self, order: str) -> None:
        record, known = self._both("get_order", order_id=order)["order"], self.model[order]
        assert (record["city"], record["status"]) == (known["city"], known["status"])
        assert record.get("payment") == known["payment"]

    @rule(city=cities)
    def search(self, city: str) -> None:
        found = {row["order_id"] for row in self._both("search_orders", city=city.upper())["results"]}
        assert found == {key for key, order in self.model.items() if order["city"] == city}

    @rule(order=consumes(orders))
    def ask_for_an_order_nobody_has(self, order: str) -> None:
        for name in ("get_order", "cancel_order", "refund_order"):
            assert self._both(name, order_id=f"{order}-X")["error"] == "not_found"

    @invariant()
    def the_diff_is_what_differs_from_the_start(self) -> None:
        wanted: dict[str, Any] = {}
        for key, order in self.model.items():
            fields = {"city": order["city"], "status": order["status"]}
            fields |= {"payment": order["payment"]} if order["payment"] else {}
            fields |= {"order_id": key, "customer_id": "CUST-1"} if "by" in order else {}
            before = START.records["order"].get(key, {})
            wanted |= {f"order/{key}/{f}": v for f, v in fields.items() if before.get(f) != v}
        assert self.world.diff() == wanted

    @invariant()
    def another_world_from_the_same_start_is_untouched(self) -> None:
        assert self.untouched.diff() == {}


def test_orders_behave_like_a_dictionary_of_orders() -> None:
    run_state_machine_as_test(
        OrdersAgainstAModel, settings=settings(max_examples=40, stateful_step_count=20, deadline=None)
    )


def test_a_start_is_left_as_it_was() -> None:
    before = START.model_dump_json()
    _call(_world(), "cancel_order", order_id="ORD-1")
    assert START.model_dump_json() == before


def test_records_that_were_given_out_are_copies() -> None:
    world = _world()
    world.records()["order"]["ORD-1"]["status"] = "stolen"
    assert _call(world, "get_order", order_id="ORD-1")["order"]["status"] == "active"


def test_a_record_created_under_its_own_id_is_found_by_it() -> None:
    world = _world()
    assert _call(world, "register_device", device_id="DEV-7", model="X")["status"] == "ok"
    assert _call(world, "get_device", device_id="DEV-7")["device"]["model"] == "X"
    assert _call(world, "register_device", device_id="DEV-7", model="X")["error"] == "already_done"
    assert _call(world, "register_device", device_id="DEV-7", model="Y")["error"] == "conflict"


def test_a_payment_is_made_once() -> None:
    world = _world()
    assert _call(world, "pay_bill", bill_id="BILL-1", method="card")["bill"]["payment"] == "paid"
    assert _call(world, "pay_bill", bill_id="BILL-1", method="bank")["error"] == "already_done"


def test_a_line_is_suspended_and_resumed_and_its_roaming_switched_on() -> None:
    world = _world()
    assert _call(world, "resume_line", line_id="LINE-1")["error"] == "already_done"
    assert _call(world, "suspend_line", line_id="LINE-1", reason="lost")["line"]["status"] == "suspended"
    assert _call(world, "resume_line", line_id="LINE-1")["line"]["status"] == "active"
    _call(world, "enable_roaming", line_id="LINE-1")
    assert world.diff() == {"line/LINE-1/roaming": "enabled"}


def test_a_bare_id_names_a_record_of_any_kind() -> None:
    assert _call(_world(), "get_details_by_id", id="LINE-1")["line"]["line_id"] == "LINE-1"
    assert _call(_world(), "get_details_by_id", id="LINE-2")["error"] == "not_found"


def test_what_names_no_record_is_one_record() -> None:
    assert _call(_world(), "check_weather") == {"status": "ok", "weather": {"status": "active"}}


def test_a_reference_depends_on_what_was_asked_and_not_on_the_agents_own_words() -> None:
    def reference(expression: str, thought: str) -> Any:
        return _call(_world(), "calculate", expression=expression, thought=thought)["reference"]

    assert reference("1+1", "hm") == reference("1+1", "aha") != reference("1+2", "hm")


def test_a_transfer_is_a_change_of_its_own() -> None:
    world = _world()
    _call(world, "transfer_to_human", summary="stolen phone")
    assert world.diff() == {"transfer": True}


# -- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("cancel_order", {}, "order_id"),
        ("cancel_order", {"order_id": 7}, "order_id"),
        ("cancel_order", {"order_id": None}, "order_id"),
        ("cancel_order", {"order_id": "ORD-1", "force": True}, "force"),
        ("pay_bill", {"bill_id": "BILL-1"}, "method"),
        ("pay_bill", {"bill_id": "BILL-1", "method": "gold"}, "method"),
        ("cancel_order", {"order_id": "order_id"}, "order_id"),
        ("cancel_order", {"order_id": "<Order ID>"}, "order_id"),
        ("cancel_order", {"order_id": "your_order_id"}, "order_id"),
        ("cancel_order", {"order_id": "string"}, "order_id"),
        ("cancel_order", {"order_id": " "}, "order_id"),
        ("search_orders", {"city": "user@example.com"}, "city"),
    ],
)
def test_arguments_that_are_wrong_or_only_echo_the_schema_are_refused_by_name(
    name: str, arguments: dict[str, Any], named: str
) -> None:
    world = _world()
    answer = _call(world, name, **arguments)
    assert answer["error"] == "invalid_argument"
    assert named in answer["message"]
    assert world.diff() == {}


def test_an_undeclared_tool_and_arguments_that_are_no_object_are_refused() -> None:
    assert _call(_world(), "drop_table")["error"] == "unknown_tool"
    assert json.loads(_world().call("get_order", None))["error"] == "invalid_argument"


@pytest.mark.parametrize("value", [["ORD-1"], {"a": 1}, 7, 1.5, True])
def test_an_identifier_of_any_type_is_looked_up(value: Any) -> None:
    assert _call(_world(), "get_ticket", ticket_id=value)["error"] == "not_found"


# -- faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("condition", ["timeout", "rate_limited", "malformed"])
def test_a_transient_fault_clears_after_its_failures_and_nothing_was_done_before(
    condition: str, failures: int
) -> None:
    world = _world(Fault(tool="cancel_order", condition=condition, failures=failures))
    for _ in range(failures):
        assert result_status(world.call("cancel_order", {"order_id": "ORD-1"})) == condition
        assert world.diff() == {}
    assert _call(world, "cancel_order", order_id="ORD-1")["status"] == "ok"
    assert world.diff() == {"order/ORD-1/status": "cancelled"}


def test_a_persistent_fault_never_clears() -> None:
    fault = Fault(tool="cancel_order", condition="permission_denied", failures=PERSISTENT)
    world = _world(fault)
    statuses = {result_status(world.call("cancel_order", {"order_id": "ORD-1"})) for _ in range(50)}
    assert (fault.persistent, statuses, world.diff()) == (True, {"permission_denied"}, {})


def test_a_fault_is_one_tools_own() -> None:
    world = _world(Fault(tool="cancel_order", condition="timeout", failures=PERSISTENT))
    assert _call(world, "get_order", order_id="ORD-1")["status"] == "ok"


def test_a_call_that_was_refused_is_no_attempt() -> None:
    world = _world(Fault(tool="cancel_order", condition="timeout", failures=1))
    assert _call(world, "cancel_order")["error"] == "invalid_argument"
    assert _call(world, "cancel_order", order_id="ORD-1")["error"] == "timeout"


def test_a_stale_answer_says_so_hides_the_state_and_then_clears() -> None:
    world = _world(Fault(tool="get_order", condition="stale", failures=1))
    old, new = (world.call("get_order", {"order_id": "ORD-1"}) for _ in range(2))
    assert [result_status(old), result_status(new)] == ["stale", "ok"]
    assert [json.loads(answer)["order"]["status"] for answer in (old, new)] == ["superseded", "active"]


def test_an_error_is_an_error_however_old() -> None:
    world = _world(Fault(tool="get_order", condition="stale", failures=1))
    assert result_status(world.call("get_order", {"order_id": "ORD-2"})) == "not_found"


# -- values for parameters --------------------------------------------------------------------------------

SCHEMAS: list[Mapping[str, Any]] = [
    {},
    {"type": "string", "minLength": 30, "maxLength": 40},
    {"type": "string", "maxLength": 3},
    {"enum": ["a", 1, None]},
    {"const": 5},
    {"type": "boolean"},
    {"type": "integer"},
    {"type": "integer", "minimum": -3, "maximum": -2},
    {"type": "integer", "maximum": 0},
    {"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 9},
    {"type": "integer", "minimum": 11, "multipleOf": 10},
    {"type": "number", "minimum": 0.5, "maximum": 1.5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": ["null", "integer"]},
    {"anyOf": [{"type": "null"}, {"type": "string"}]},
    {"type": "array", "minItems": 3, "items": {"type": "integer"}},
    {"type": "object", "properties": {"a": TEXT, "b": {"type": "number"}}, "required": ["a"]},
    {"type": "string", "pattern": "^[A-Z]{3}$", "examples": ["LIS", "OSL"]},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@given(
    seed=st.integers(),
    parameter=st.sampled_from(["city", "amount", "full_name", "order_id", "number", "date"]),
)
@settings(max_examples=15)
def test_a_drawn_value_satisfies_its_schema(schema: dict[str, Any], seed: int, parameter: str) -> None:
    rng = random.Random(seed)
    value = value_for(parameter, plain_schema(schema, {}), persona(rng), rng)
    tool = _tool("f", parameter, **{parameter: schema})
    assert tool.validator.is_valid({parameter: value}), value
