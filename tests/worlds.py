"""A small shop as a world of the tests: its tools, its records, and how a test calls them.

Tests that need other tools make them with `tool`. No assertion about a world's behaviour belongs here.
"""

import json
from typing import Any

from while_pipeline.simulate.user_world import WorldLike
from while_pipeline.simulate.world import Fault, World, WorldStart
from while_pipeline.tools import Tool

TEXT = {"type": "string"}


def tool(name: str, required: str = "", **properties: dict[str, Any]) -> Tool:
    names = required.split()
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, TEXT) | properties,
        "required": names,
        "additionalProperties": False,
    }
    return Tool(name=name, description="", parameters=schema)


TOOLS = (
    tool("get_order", "order_id"),
    tool("search_orders", "city"),
    tool("create_order", "customer_id city"),
    tool("update_order", "order_id city", reason=TEXT),
    tool("cancel_order", "order_id"),
    tool("refund_order", "order_id"),
    tool("pay_bill", "bill_id method", method={"enum": ["card", "bank"]}),
    tool("suspend_line", "line_id reason"),
    tool("resume_line", "line_id"),
    tool("enable_roaming", "line_id"),
    tool("register_device", "device_id model"),
    tool("get_device", "device_id"),
    tool("get_details_by_id", "id"),
    tool("get_ticket", "ticket_id", ticket_id={}),
    tool("check_weather"),
    tool("calculate", "expression thought"),
    tool("transfer_to_human", "summary"),
    tool("delete_order", "order_id"),
    tool("list_bills", "customer_id", limit={"type": "integer"}),
    tool("toggle_wifi"),
    tool("swap_device", "line_id device_id"),
    tool("ship_orders", "order_ids", order_ids={"type": "array", "items": TEXT}),
)
START = WorldStart(
    records={
        "customer": {"CUST-1": {"customer_id": "CUST-1", "status": "active"}},
        "order": {"ORD-1": {"order_id": "ORD-1", "status": "active", "city": "Oslo"}},
        "bill": {"BILL-1": {"bill_id": "BILL-1", "status": "active"}},
        "line": {"LINE-1": {"line_id": "LINE-1", "status": "active"}},
    }
)


def with_output(tool: Tool, schema: dict[str, Any]) -> Tool:
    """The tool with an output schema: made anew, for a copy would keep what was read of the old one."""
    return Tool.model_validate(tool.model_dump() | {"output": schema})


def world(*faults: Fault) -> World:
    return World(TOOLS, START.model_copy(update={"faults": faults}))


def call(of: WorldLike, name: str, **arguments: Any) -> dict[str, Any]:
    """The world's answer to a call, which is a JSON object."""
    answer = json.loads(of.call(name, arguments))
    assert isinstance(answer, dict)
    return answer


def answers_of_all_kinds() -> list[str]:
    """What a world with an output schema answers to reads, writes and a creation under a uuid."""
    output = {"properties": {"total": {"type": "number"}, "agent": TEXT, "code": {"pattern": "^[^a-z]{4}$"}}}
    tools = [with_output(t, output) if t.name == "get_order" else t for t in TOOLS]
    tools.append(tool("track_order", "order_id", order_id={"type": "string", "format": "uuid"}))
    made = World(tools[::-1], START)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_order", {"order_id": "ORD-1"}),
        ("create_order", {"customer_id": "CUST-1", "city": "Porto"}),
        ("calculate", {"expression": "1 + 1", "thought": "hm"}),
        ("pay_bill", {"bill_id": "BILL-1"}),
    ]
    return [*(made.call(name, arguments) for name, arguments in calls), json.dumps(made.diff())]
