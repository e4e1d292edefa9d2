import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.worlds import START, TEXT, TOOLS, call, tool
from tests.worlds import world as a_world
from while_pipeline.messages import result_status
from while_pipeline.simulate.world import PERSISTENT, Fault, World, WorldStart

# -- what was written is read back ------------------------------------------------------------------------


class OrdersAgainstAModel(RuleBasedStateMachine):
    """The world against a plain dictionary of orders: city, cancelled, refunded."""

    orders = Bundle("orders")
    cities = st.sampled_from(["Oslo", "Porto", "Ghent"])

    def __init__(self) -> None:
        super().__init__()
        self.world = a_world()
        self.twin = a_world()
        self.untouched = a_world()
        self.model: dict[str, dict[str, Any]] = {
            "ORD-1": {"city": "Oslo", "status": "active", "payment": None}
        }

    def _both(self, name: str, **arguments: Any) -> dict[str, Any]:
        answer = call(self.world, name, **arguments)
        assert call(self.twin, name, **arguments) == answer, "equal worlds answer equal calls equally"
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
        OrdersAgainstAModel, settings=settings(max_examples=25, stateful_step_count=20, deadline=None)
    )


def test_a_start_is_left_as_it_was() -> None:
    before = START.model_dump_json()
    call(a_world(), "cancel_order", order_id="ORD-1")
    assert START.model_dump_json() == before


def test_records_that_were_given_out_are_copies() -> None:
    world = a_world()
    world.records()["order"]["ORD-1"]["status"] = "stolen"
    assert call(world, "get_order", order_id="ORD-1")["order"]["status"] == "active"


def test_a_record_created_under_its_own_id_is_found_by_it() -> None:
    world = a_world()
    assert call(world, "register_device", device_id="DEV-7", model="X")["status"] == "ok"
    assert call(world, "get_device", device_id="DEV-7")["device"]["model"] == "X"
    assert call(world, "register_device", device_id="DEV-7", model="X")["error"] == "already_done"
    assert call(world, "register_device", device_id="DEV-7", model="Y")["error"] == "conflict"


def test_a_payment_is_made_once() -> None:
    world = a_world()
    assert call(world, "pay_bill", bill_id="BILL-1", method="card")["bill"]["payment"] == "paid"
    assert call(world, "pay_bill", bill_id="BILL-1", method="bank")["error"] == "already_done"


def test_a_line_is_suspended_and_resumed_and_its_roaming_switched_on() -> None:
    world = a_world()
    assert call(world, "resume_line", line_id="LINE-1")["error"] == "already_done"
    assert call(world, "suspend_line", line_id="LINE-1", reason="lost")["line"]["status"] == "suspended"
    assert call(world, "resume_line", line_id="LINE-1")["line"]["status"] == "active"
    call(world, "enable_roaming", line_id="LINE-1")
    assert world.diff() == {"line/LINE-1/roaming": "enabled"}


def test_how_much_and_how_was_paid_is_written_and_a_second_payment_is_not() -> None:
    world = a_world()
    call(world, "pay_bill", bill_id="BILL-1", method="card")
    call(world, "pay_bill", bill_id="BILL-1", method="bank")
    assert world.diff() == {"bill/BILL-1/method": "card", "bill/BILL-1/payment": "paid"}


def test_what_is_deleted_is_gone_and_a_second_deletion_was_done_already() -> None:
    world = a_world()
    assert call(world, "delete_order", order_id="ORD-1")["status"] == "ok"
    assert call(world, "delete_order", order_id="ORD-1")["error"] == "already_done"
    for name in ("get_order", "cancel_order", "refund_order"):
        assert call(world, name, order_id="ORD-1")["error"] == "not_found"
    assert call(world, "search_orders", city="Oslo")["results"] == []
    assert world.diff() == {"order/ORD-1/status": "deleted"}


def test_the_only_record_of_its_kind_can_be_deleted_too() -> None:
    made = World((tool("get_profile"), tool("update_profile", "city"), tool("delete_profile")), START)
    assert call(made, "delete_profile")["status"] == "ok"
    assert call(made, "get_profile")["error"] == "not_found"
    assert call(made, "update_profile", city="Oslo")["error"] == "not_found"
    assert call(made, "delete_profile")["error"] == "already_done"


def test_a_switch_goes_back_and_forth() -> None:
    world = a_world()
    states = [call(world, "toggle_wifi")["wifi"]["status"] for _ in range(3)]
    assert states == ["inactive", "active", "inactive"]
    assert world.diff() == {"wifi/current/status": "inactive"}


def test_an_update_that_only_names_another_record_points_to_it() -> None:
    world = a_world()
    call(world, "register_device", device_id="DEV-7", model="X")
    assert call(world, "swap_device", line_id="LINE-1", device_id="DEV-8")["error"] == "not_found"
    assert call(world, "swap_device", line_id="LINE-1", device_id="DEV-7")["status"] == "ok"
    assert world.diff()["device/DEV-7/line_id"] == "LINE-1"


def test_a_bare_id_names_a_record_of_any_kind() -> None:
    assert call(a_world(), "get_details_by_id", id="LINE-1")["line"]["line_id"] == "LINE-1"
    assert call(a_world(), "get_details_by_id", id="LINE-2")["error"] == "not_found"


def test_what_names_no_record_is_one_record() -> None:
    world = a_world()
    assert call(world, "check_weather") == {"status": "ok", "weather": {"status": "active"}}
    assert world.diff() == {}, "reading changes nothing"


def test_a_list_is_as_long_as_was_asked_for_and_says_how_many_there_are() -> None:
    bills = {f"B-{n}": {"bill_id": f"B-{n}", "customer_id": "CUST-1"} for n in range(5)}
    world = World(TOOLS, WorldStart(records={"customer": START.records["customer"], "bill": bills}))
    answer = call(world, "list_bills", customer_id="CUST-1", limit=2)
    assert (answer["count"], [row["bill_id"] for row in answer["results"]]) == (5, ["B-0", "B-1"])


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
    world = a_world()
    answer = call(world, name, **arguments)
    assert answer["error"] == "invalid_argument"
    assert named in answer["message"]
    assert world.diff() == {}


def test_an_undeclared_tool_and_arguments_that_are_no_object_are_refused() -> None:
    assert call(a_world(), "drop_table")["error"] == "unknown_tool"
    assert json.loads(a_world().call("get_order", None))["error"] == "invalid_argument"


@pytest.mark.parametrize("value", [["ORD-1"], {"a": 1}, 7, 1.5, True])
def test_an_identifier_of_any_type_is_looked_up(value: Any) -> None:
    assert call(a_world(), "get_ticket", ticket_id=value)["error"] == "not_found"


# -- faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("condition", ["timeout", "rate_limited", "malformed"])
def test_a_transient_fault_clears_after_its_failures_and_nothing_was_done_before(
    condition: str, failures: int
) -> None:
    world = a_world(Fault(tool="cancel_order", condition=condition, failures=failures))
    for _ in range(failures):
        assert result_status(world.call("cancel_order", {"order_id": "ORD-1"})) == condition
        assert world.diff() == {}
    assert call(world, "cancel_order", order_id="ORD-1")["status"] == "ok"
    assert world.diff() == {"order/ORD-1/status": "cancelled"}


def test_a_persistent_fault_never_clears() -> None:
    fault = Fault(tool="cancel_order", condition="permission_denied", failures=PERSISTENT)
    world = a_world(fault)
    statuses = {result_status(world.call("cancel_order", {"order_id": "ORD-1"})) for _ in range(50)}
    assert (fault.persistent, statuses, world.diff()) == (True, {"permission_denied"}, {})


def test_a_fault_is_one_tools_own() -> None:
    world = a_world(Fault(tool="cancel_order", condition="timeout", failures=PERSISTENT))
    assert call(world, "get_order", order_id="ORD-1")["status"] == "ok"


def test_a_call_that_was_refused_is_no_attempt() -> None:
    world = a_world(Fault(tool="cancel_order", condition="timeout", failures=1))
    assert call(world, "cancel_order")["error"] == "invalid_argument"
    assert call(world, "cancel_order", order_id="ORD-1")["error"] == "timeout"


def test_a_stale_answer_says_so_hides_the_state_and_then_clears() -> None:
    world = a_world(Fault(tool="get_order", condition="stale", failures=1))
    old, new = (world.call("get_order", {"order_id": "ORD-1"}) for _ in range(2))
    assert [result_status(old), result_status(new)] == ["stale", "ok"]
    assert [json.loads(answer)["order"]["status"] for answer in (old, new)] == ["superseded", "active"]


def test_an_error_is_an_error_however_old() -> None:
    world = a_world(Fault(tool="get_order", condition="stale", failures=1))
    assert result_status(world.call("get_order", {"order_id": "ORD-2"})) == "not_found"


def test_a_request_for_money_is_no_payment() -> None:
    tools = (
        tool("send_payment_request", "bill_id"),
        tool("get_bill", "bill_id"),
        tool("pay_bill", "bill_id"),
    )
    made = World(tools, START)
    call(made, "send_payment_request", bill_id="BILL-1")
    assert call(made, "get_bill", bill_id="BILL-1")["bill"]["payment"] == "requested"
    assert call(made, "send_payment_request", bill_id="BILL-1")["error"] == "already_done"
    assert call(made, "pay_bill", bill_id="BILL-1")["bill"]["payment"] == "paid"


def test_what_is_created_has_another_id_in_another_world_and_the_same_in_the_same() -> None:
    def created(seed: int, city: str) -> Any:
        made = World(TOOLS, START.model_copy(update={"seed": seed}))
        return call(made, "create_order", customer_id="CUST-1", city=city)["order"]["order_id"]

    assert created(1, "Rome") == created(1, "Rome")
    assert len({created(seed, city) for seed in range(5) for city in ("Rome", "Bonn")}) == 10


def test_a_required_list_wants_an_entry_unless_it_may_be_empty() -> None:
    entries = {"type": "array", "items": TEXT}
    tools = (
        tool("book_trip", "flights", flights=entries),
        tool("order_meal", "extras", extras={**entries, "description": "Extras, empty for none."}),
    )
    answer = call(World(tools, START), "book_trip", flights=[])
    assert (answer["error"], "flights" in answer["message"]) == ("invalid_argument", True)
    assert call(World(tools, START), "book_trip", flights=["HF1"])["status"] == "ok"
    assert call(World(tools, START), "order_meal", extras=[])["status"] == "ok"


@pytest.mark.parametrize("condition", ["malformed", "stale"])
def test_a_fault_looks_different_from_world_to_world_and_the_same_in_the_same(condition: str) -> None:
    fault = Fault(tool="get_order", condition=condition, failures=1)

    def answered(seed: int) -> str:
        start = START.model_copy(update={"faults": (fault,), "seed": seed})
        return World(TOOLS, start).call("get_order", {"order_id": "ORD-1"})

    answers = [answered(seed) for seed in range(60)]
    assert answers == [answered(seed) for seed in range(60)]
    assert {result_status(answer) for answer in answers} == {condition}
    assert len(set(answers)) > 20
    assert not any("ORD-1" in answer for answer in answers if condition == "malformed")


def test_an_old_copy_has_other_amounts_but_the_same_ids() -> None:
    records = {"bill": {"7": {"bill_id": 7, "status": "active", "amount": 40.15}}}
    fault = Fault(tool="get_bill", condition="stale", failures=1)
    made = World(
        (tool("get_bill", "bill_id", bill_id={"type": "integer"}),),
        WorldStart(records=records, faults=(fault,)),
    )
    old, new = (call(made, "get_bill", bill_id=7)["bill"] for _ in range(2))
    assert (old["bill_id"], new["amount"]) == (7, 40.15)
    assert old["amount"] != 40.15
