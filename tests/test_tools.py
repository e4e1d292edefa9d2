import json
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tests.example import EXAMPLE, ROOT, SHARED
from while_pipeline.errors import ProjectError
from while_pipeline.tools import Tool, load_tools, parse_tools

DESCRIBED = {"name": "get_order", "description": "Read."}
ORDER = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}


# -- the shapes people have their tools in ----------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        [{"type": "function", "function": DESCRIBED | {"parameters": ORDER}}],
        [{"type": "function", **DESCRIBED, "parameters": ORDER}],
        {"tools": [DESCRIBED | {"inputSchema": ORDER}]},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [DESCRIBED | {"inputSchema": ORDER}]}},
        [DESCRIBED | {"input_schema": ORDER}],
    ],
    ids=["openai chat", "openai responses", "mcp", "mcp json-rpc answer", "anthropic"],
)
def test_every_vendors_shape_gives_the_same_tool(document: Any) -> None:
    assert parse_tools(document, "tools.json") == (
        Tool(name="get_order", description="Read.", parameters=ORDER),
    )


def test_the_openai_shape_reads_back() -> None:
    tools = parse_tools([{"name": "get_order", "input_schema": ORDER}], "tools.json")
    assert parse_tools([tool.openai() for tool in tools], "tools.json") == tools


def test_two_hundred_tools_are_read() -> None:
    assert len(parse_tools([{"name": f"get_{n}", "input_schema": ORDER} for n in range(200)], "t")) == 200


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    (tool,) = parse_tools([{"name": "list_all_airports"}], "tools.json")
    assert (tool.required, tool.properties, tool.validator.is_valid({})) == ((), {}, True)


# -- typed python functions -------------------------------------------------------------------------------


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    street: str
    number: int | None = None


def order_pizza(
    size: Size, address: Address, count: int = 1, payment: Literal["card", "cash"] = "card"
) -> str:
    """Order a pizza.

    It is brought.
    """
    raise NotImplementedError


def unnamed(*things: str) -> None:
    """Takes what cannot be named."""


def unknowable(thing: "NoSuchType") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Names a type nobody defined."""


def opaque(thing: sys.flags.__class__) -> None:  # type: ignore[name-defined]
    """Takes what JSON cannot carry."""


NOT_A_LIST = order_pizza
NOT_FUNCTIONS = ["order_pizza"]
EMPTY: list[Any] = []
TWICE = [order_pizza, order_pizza]


@pytest.fixture(autouse=True)
def _this_module_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "my_tools", sys.modules[__name__])


def test_a_typed_function_is_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "TOOLS", [order_pizza], raising=False)
    (tool,) = load_tools("my_tools:TOOLS", ROOT)
    assert (tool.name, tool.description) == ("order_pizza", "Order a pizza.\n\nIt is brought.")
    assert tool.required == ("size", "address")
    assert tool.properties["size"]["enum"] == ["small", "large"]
    assert tool.properties["address"]["properties"]["number"]["type"] == "integer"
    good = {"size": "small", "address": {"street": "Elm"}}
    assert tool.validator.is_valid(good)
    assert not tool.validator.is_valid(good | {"size": "huge"})


@pytest.mark.parametrize(
    ("value", "mend"),
    [
        ("tools.yaml", "name a .json file beside while.yaml, or module:attr"),
        ("no_such_module_anywhere:TOOLS", "it could not be imported: ModuleNotFoundError"),
        ("my_tools:NO_SUCH_NAME", "it could not be imported: AttributeError"),
        (":TOOLS", "it could not be imported: ValueError"),
        ("my_tools:NOT_A_LIST", "a non-empty list of Python functions"),
        ("my_tools:NOT_FUNCTIONS", "a non-empty list of Python functions"),
        ("my_tools:EMPTY", "a non-empty list of Python functions"),
        ("my_tools:TWICE", "two tools share this name"),
    ],
)
def test_a_wrong_name_for_the_tools_is_told_with_its_mend(value: str, mend: str) -> None:
    with pytest.raises(ProjectError, match=r"while\.yaml") as caught:
        load_tools(value, ROOT)
    assert mend in caught.value.mend


@pytest.mark.parametrize(
    ("function", "mend"),
    [
        (unnamed, "name every parameter"),
        (unknowable, "no JSON Schema"),
        (opaque, "no JSON Schema"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_named(
    function: Any, mend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "TOOLS", [function], raising=False)
    with pytest.raises(ProjectError, match=function.__name__) as caught:
        load_tools("my_tools:TOOLS", ROOT)
    assert mend in caught.value.mend


# -- what is wrong with a tools file ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "key", "mend"),
    [
        ([], "tools", "non-empty JSON array"),
        ({"functions": []}, "tools", "non-empty JSON array"),
        ("get_order", "tools", "non-empty JSON array"),
        (["get_order"], "tools[0]", "each tool is a JSON object"),
        ([{"function": None}], "tools[0].function", "a JSON object with name and parameters"),
        ([{"name": "ok"}, {"description": "no name"}], "tools[1].name", "letters, digits"),
        ([{"name": "get order"}], "tools[0].name", "letters, digits"),
        ([{"name": "f", "parameters": []}], "tools[0] (f).parameters", "of type object"),
        ([{"name": "f", "parameters": {"type": "array"}}], "tools[0] (f).parameters", "of type object"),
        (
            [{"name": "f", "parameters": {"properties": {"a": {"type": "strnig"}}}}],
            "tools[0] (f).parameters.properties.a.type",
            "not valid under any",
        ),
        (
            [{"name": "f", "parameters": {"properties": {"a": {"$ref": "#/$defs/A"}}}}],
            "tools[0] (f).parameters.$ref",
            "leads nowhere",
        ),
        ([{"name": "f"}, {"name": "f"}], "name", "two tools share this name"),
    ],
)
def test_a_bad_tool_is_told_by_position_name_field_and_mend(document: Any, key: str, mend: str) -> None:
    with pytest.raises(ProjectError, match=r"^tools\.json: ") as caught:
        parse_tools(document, "tools.json")
    assert caught.value.key == key
    assert mend in caught.value.mend


@pytest.mark.parametrize("content", [b"[{", b"\xff"])
def test_a_file_that_is_not_json_is_told(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_bytes(content)
    with pytest.raises(ProjectError, match=r"tools\.json: file") as caught:
        load_tools("tools.json", tmp_path)
    assert "it is not JSON" in caught.value.mend


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"tools\.json: file = 'tools\.json': No such file"):
        load_tools("tools.json", tmp_path)


def test_what_was_written_is_what_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps([{"name": "f", "parameters": ORDER}]))
    assert [tool.name for tool in load_tools("t.json", tmp_path)] == ["f"]


# -- what names tell --------------------------------------------------------------------------------------

EXAMPLE_GOLDEN = """
    get_customer_profile  read      customer        customer_id
    find_customer         search    customer        -
    get_data_usage        read      line            line_id
    get_bill              read      bill            bill_id
    list_network_outages  search    network_outage  -
    suspend_line          update    line            line_id
    change_plan           update    line            line_id
    enable_roaming        update    line            line_id
    cancel_order          cancel    order           order_id
    pay_bill              pay       bill            bill_id
    book_appointment      create    appointment     -
    transfer_to_human     transfer  record          -
"""
AIRLINE_GOLDEN = """
    book_reservation               create    reservation     -
    calculate                      other     record          -
    cancel_reservation             cancel    reservation     reservation_id
    get_reservation_details        read      reservation     reservation_id
    get_user_details               read      user            user_id
    list_all_airports              search    airport         -
    search_direct_flight           search    direct_flight   -
    search_onestop_flight          search    onestop_flight  -
    send_certificate               create    certificate     -
    think                          other     record          -
    transfer_to_human_agents       transfer  record          -
    update_reservation_baggages    update    reservation     reservation_id
    update_reservation_flights     update    reservation     reservation_id
    update_reservation_passengers  update    reservation     reservation_id
"""
TELECOM_GOLDEN = """
    get_customer_by_phone     search    customer  -
    get_customer_by_id        read      customer  customer_id
    get_customer_by_name      search    customer  -
    get_details_by_id         read      record    id
    suspend_line              update    line      line_id
    resume_line               update    line      line_id
    get_bills_for_customer    search    bill      -
    send_payment_request      pay       bill      bill_id
    get_data_usage            read      line      line_id
    enable_roaming            update    line      line_id
    disable_roaming           update    line      line_id
    transfer_to_human_agents  transfer  record    -
    refuel_data               update    line      line_id
"""


def _reading(tools: tuple[Tool, ...]) -> list[tuple[str, ...]]:
    return [(tool.name, tool.kind.value, tool.entity, tool.key or "-") for tool in tools]


def _golden(table: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in table.strip().splitlines()]


def test_kind_entity_and_key_of_the_examples_tools() -> None:
    assert _reading(load_tools("tools.json", EXAMPLE)) == _golden(EXAMPLE_GOLDEN)


@pytest.mark.parametrize(
    ("path", "golden"),
    [
        ("tau-bench/airline.tools.openai.json", AIRLINE_GOLDEN),
        ("tau2-telecom/tools.openai.json", TELECOM_GOLDEN),
    ],
)
def test_kind_entity_and_key_of_public_benchmark_tools(path: str, golden: str) -> None:
    if not (SHARED / path).exists():
        pytest.skip(f"the public data set {path} is not beside this checkout")
    assert _reading(load_tools(path, SHARED)) == _golden(golden)


@pytest.mark.parametrize(
    ("name", "required", "kind"),
    [
        ("refund_order", ["order_id"], "pay"),
        ("issue_refund", ["order_id", "amount"], "pay"),
        ("order_lookup", ["order_id"], "read"),
        ("order_pizza", ["size"], "create"),
        ("transfer_line", ["line_id", "customer_id"], "update"),
        ("transfer_to_agent", ["conversation_id"], "transfer"),
        ("escalate", [], "transfer"),
        ("cancelOrder", ["orderId"], "cancel"),
        ("get_order", [], "read"),
        ("multiply", ["a", "b"], "other"),
    ],
)
def test_the_kind_of_a_tool_follows_from_its_name(name: str, required: list[str], kind: str) -> None:
    schema = {"type": "object", "properties": {p: {"type": "string"} for p in required}, "required": required}
    assert Tool(name=name, description="", parameters=schema).kind == kind


def test_an_invented_free_text_is_the_agents_own_and_a_number_is_not() -> None:
    schema = {"properties": {"reason": {"type": "string"}, "reason_code": {"type": "integer"}}}
    tool = Tool(name="f", description="", parameters=schema)
    assert (tool.free_text("reason"), tool.free_text("reason_code")) == (True, False)


# -- what names records -----------------------------------------------------------------------------------

TEXT = {"type": "string"}
NAMES_A_RECORD: list[tuple[str, dict[str, Any], str | None]] = [
    ("line_id", TEXT, "line"),
    ("orderId", TEXT, "order"),
    ("id", TEXT, None),
    ("order_number", TEXT, "order"),
    ("invoice_no", {"type": "integer"}, "invoice"),
    ("booking_reference", TEXT, "booking"),
    ("ticket_uuid", {"type": "string", "format": "uuid"}, "ticket"),
    ("tracking_number", TEXT, None),
    ("new_plan_id", TEXT, "plan"),
    ("payment_ids", {"type": "array", "items": TEXT}, "payment"),
    ("order", {"type": "string", "description": "Number of the order, on the receipt."}, "order"),
    ("account", {"type": "string", "format": "uuid"}, "account"),
    ("user", {"type": "integer", "description": "The user's ID."}, "user"),
]
NAMES_NONE: list[tuple[str, dict[str, Any]]] = [
    ("phone_number", TEXT),
    ("flight_number", TEXT),
    ("zip_code", TEXT),
    ("country_code", TEXT),
    ("idempotency_id", {"type": "string", "format": "uuid"}),
    ("conversation_id", TEXT),
    ("verify_id", {"type": "boolean"}),
    ("order", {"type": "string", "description": "What to order."}),
    ("order", {"type": "object", "description": "The order, with its number."}),
    ("paid", TEXT),
]


def _taking(parameter: str, schema: dict[str, Any], name: str = "change_it") -> Tool:
    schema = {"type": "object", "properties": {parameter: schema}, "required": [parameter]}
    return Tool(name=name, description="", parameters=schema)


@pytest.mark.parametrize(("parameter", "schema", "entity"), NAMES_A_RECORD)
def test_a_parameter_names_a_record_by_name_schema_or_description(
    parameter: str, schema: dict[str, Any], entity: str | None
) -> None:
    tool = _taking(parameter, schema)
    assert tool.references == {parameter: entity}
    assert tool.identifiers == (() if schema["type"] == "array" else (parameter,))


@pytest.mark.parametrize(("parameter", "schema"), NAMES_NONE)
def test_other_numbers_codes_and_ids_name_none(parameter: str, schema: dict[str, Any]) -> None:
    assert _taking(parameter, schema).references == {}


@pytest.mark.parametrize("name", ["get_customer_orders", "list_orders", "get_all_orders_for_customer"])
def test_what_is_looked_for_by_its_owner_is_not_the_owner(name: str) -> None:
    tool = _taking("customer_id", TEXT, name)
    assert (tool.kind, tool.entity, tool.key) == ("search", "order", None)


def test_an_order_is_cancelled_by_its_number() -> None:
    tool = _taking("order_number", TEXT, "cancel_order")
    assert (tool.kind, tool.entity, tool.key) == ("cancel", "order", "order_number")


# -- what MCP adds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    [
        {"order": {"type": "object", "properties": {"total": {"type": "number"}}}},
        {"orders": {"type": "array", "items": {"properties": {"total": {"type": "number"}}}}},
        {"result": {"$ref": "#/$defs/Order"}},
        {"total": {"type": "number"}},
    ],
    ids=["under its name", "in a list", "by reference", "flat"],
)
def test_the_output_schema_tells_the_fields_of_a_record(output: dict[str, Any]) -> None:
    order = {"type": "object", "properties": {"total": {"type": "number"}}}
    schema = {"type": "object", "properties": output, "$defs": {"Order": order}}
    (tool,) = parse_tools({"tools": [DESCRIBED | {"inputSchema": ORDER, "outputSchema": schema}]}, "t")
    assert tool.output_fields == {"total": {"type": "number"}}


def test_a_broken_output_schema_is_told() -> None:
    with pytest.raises(ProjectError) as told:
        parse_tools([DESCRIBED | {"inputSchema": ORDER, "outputSchema": {"type": "array"}}], "tools.json")
    assert told.value.key == "tools[0] (get_order).outputSchema"


def test_a_tool_that_only_reads_by_its_own_word_changes_nothing() -> None:
    entry = {"name": "refund_order", "inputSchema": ORDER}
    plain, hinted = (
        parse_tools([entry | {"annotations": {"readOnlyHint": hint}}], "tools.json")[0]
        for hint in (False, True)
    )
    assert (plain.kind, plain.writes) == ("pay", True)
    assert (hinted.kind, hinted.key, hinted.writes) == ("read", "order_id", False)
