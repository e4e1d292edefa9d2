"""The mock world under real tools of others: each can be called, and what was written is read back."""

import json
import random
from typing import Any

import pytest

from tests.example import SHARED
from while_pipeline.answer_fields import kept_fields
from while_pipeline.messages import result_status
from while_pipeline.schemas import Schema
from while_pipeline.simulate.answers import Fields
from while_pipeline.simulate.values import identifier, persona, value_for
from while_pipeline.simulate.world import SINGLE, Records, World, WorldStart
from while_pipeline.tools import Tool, ToolKind, load_tools

FILES = [
    "tau-bench/airline.tools.openai.json",
    "tau2-telecom/tools.openai.json",
    "tau2-telecom/user_tools.openai.json",
]
COUNTS = dict(zip(FILES, (14, 13, 30), strict=True))


def _tools(path: str) -> tuple[Tool, ...]:
    if not (SHARED / path).exists():
        pytest.skip(f"the public data set {path} is not beside this checkout")
    return load_tools(path, SHARED)


def _valid_call(tool: Tool, seed: int) -> tuple[WorldStart, Fields]:
    """A world that holds what a call of the tool names, and the call's arguments."""
    rng, records = random.Random(seed), Records()
    person = persona(rng)

    def refer(noun: str | None, schema: Schema) -> str | int:
        entity = noun or "order"
        key = identifier(entity, schema, rng)
        records.setdefault(entity, {})[str(key)] = {f"{entity}_id": key, "status": "pending"}
        return key

    arguments = {p: value_for(p, schema, person, rng, refer) for p, schema in tool.properties.items()}
    if tool.key is None and tool.kind is ToolKind.UPDATE:
        records[tool.entity] = {SINGLE: dict.fromkeys(kept_fields(tool), "another value")}
    return WorldStart(records=records), arguments


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("seed", range(3))
def test_every_tool_takes_a_valid_call_and_a_second_one(path: str, seed: int) -> None:
    tools = _tools(path)
    assert len(tools) == COUNTS[path]
    for tool in tools:
        start, arguments = _valid_call(tool, seed)
        made = World(tools, start)
        first = made.call(tool.name, arguments)
        assert result_status(first) == "ok", (tool.name, arguments, first)
        assert bool(made.diff()) == (tool.writes or tool.kind is ToolKind.TRANSFER), tool.name
        second = made.call(tool.name, arguments)
        assert result_status(second) in ("ok", "already_done"), (tool.name, arguments, second)


@pytest.mark.parametrize("path", FILES)
def test_every_tool_refuses_a_call_without_what_it_requires_by_name(path: str) -> None:
    tools = _tools(path)
    for tool in tools:
        start, arguments = _valid_call(tool, 0)
        for name in tool.required:
            answer = World(tools, start).call(tool.name, {p: v for p, v in arguments.items() if p != name})
            assert result_status(answer) == "invalid_argument"
            assert name in answer


@pytest.mark.parametrize("path", FILES)
def test_every_tool_that_names_a_record_misses_one_that_is_not_there(path: str) -> None:
    tools = _tools(path)
    for tool in tools:
        start, arguments = _valid_call(tool, 0)
        singles = {entity: table for entity, table in start.records.items() if SINGLE in table}
        answer = World(tools, WorldStart(records=singles)).call(tool.name, arguments)
        assert result_status(answer) == ("not_found" if tool.identifiers else "ok"), tool.name


READ_BACK: list[tuple[str, str, str, dict[str, Any]]] = [
    (FILES[0], "update_reservation_baggages", "get_reservation_details", {"total_baggages": 3}),
    (FILES[0], "cancel_reservation", "get_reservation_details", {"status": "cancelled"}),
    (FILES[1], "suspend_line", "get_details_by_id", {"status": "suspended"}),
    (FILES[1], "resume_line", "get_data_usage", {"status": "active"}),
    (FILES[1], "refuel_data", "get_data_usage", {"gb_amount": 2}),
    (FILES[1], "send_payment_request", "get_details_by_id", {"payment": "requested"}),
    (FILES[2], "set_network_mode_preference", "check_network_mode_preference", {"mode": "4g_only"}),
    (FILES[2], "toggle_wifi", "check_wifi_status", {"status": "inactive"}),
    (FILES[2], "disconnect_vpn", "check_vpn_status", {"status": "disconnected"}),
    (FILES[2], "grant_app_permission", "check_app_permissions", {}),
]


@pytest.mark.parametrize(("path", "write", "read", "wanted"), READ_BACK)
def test_what_one_tool_wrote_another_reads(path: str, write: str, read: str, wanted: dict[str, Any]) -> None:
    tools = {tool.name: tool for tool in _tools(path)}
    start, arguments = _valid_call(tools[write], 1)
    made = World(tuple(tools.values()), start)
    arguments |= {name: value for name, value in wanted.items() if name in arguments}
    assert result_status(made.call(write, arguments)) == "ok"
    key = tools[read].key
    asked = {p: arguments.get(p, arguments.get(tools[write].key or "")) for p in tools[read].required}
    answer = json.loads(made.call(read, asked if key or asked else {}))
    record = next((v for v in answer.values() if isinstance(v, dict)), None) or answer["results"][0]
    assert {name: record.get(name) for name in wanted} == wanted
