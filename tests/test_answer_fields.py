from typing import Any

import pytest

from tests.example import BY_NAME
from tests.toolsets import NAMES, toolset
from while_pipeline.answer_fields import kept_fields, promised_fields, subject_of, to_tell
from while_pipeline.tools import Tool, ToolKind


def _look(name: str, description: str = "", output: dict[str, Any] | None = None) -> Tool:
    key = f"{name.split('_')[1]}_id"
    schema = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    return Tool(name=name, description=description, parameters=schema, output=output)


@pytest.mark.parametrize(
    ("name", "description", "fields"),
    [
        ("get_bill", "Get one bill with its amount and status.", ("amount", "status")),
        ("get_bill", "Returns the bill amount, due date and the e-mail it went to.", ("amount", "due_date")),
        ("get_line_usage", "", ("usage",)),
        ("get_line_data_usage", "", ("data_usage_gb",)),
        ("get_order", "Shows the total price, including shipping cost.", ("total_price", "shipping_cost")),
        ("get_account", "Shows the credit limit and the current balance.", ("credit_limit", "balance")),
        ("get_line", "Checks if mobile data is enabled and whether VPN is on.", ("mobile_data", "vpn")),
        ("get_order", "Get the details of an order.", ()),
        ("get_order", "Gets an order. The price of everything has its limits.", ()),
    ],
)
def test_what_a_read_is_about_is_read_off_its_name_and_description(
    name: str, description: str, fields: tuple[str, ...]
) -> None:
    assert subject_of(_look(name, description)) == fields


def test_an_output_schema_counts_before_the_description() -> None:
    output = {"properties": {"amount": {"type": "number", "minimum": 3}, "bill_id": {"type": "string"}}}
    bill = _look("get_bill", "Get a bill with its balance and amount.", output)
    assert subject_of(bill) == ("amount",)
    assert promised_fields(bill)["amount"]["minimum"] == 3
    assert "bill_id" not in promised_fields(bill)


@pytest.mark.parametrize("name", NAMES)
def test_only_looks_promise_and_only_creations_and_updates_keep(name: str) -> None:
    for tool in toolset(name)[0]:
        looks = tool.kind in (ToolKind.READ, ToolKind.SEARCH)
        assert looks or not (subject_of(tool) or promised_fields(tool))
        assert tool.kind in (ToolKind.CREATE, ToolKind.UPDATE) or not kept_fields(tool)


def test_what_is_kept_is_neither_an_id_nor_the_agents_own_words_nor_an_increment() -> None:
    assert kept_fields(BY_NAME["change_plan"]).keys() == {"plan"}
    assert kept_fields(BY_NAME["suspend_line"]) == {}
    names = {"line_id": {"type": "string"}, "gb_amount": {"type": "number"}}
    schema = {"type": "object", "properties": names, "required": [*names]}
    assert kept_fields(Tool(name="refuel_data", description="", parameters=schema)) == {}


@pytest.mark.parametrize(
    ("description", "record", "told"),
    [
        (
            "Get a bill with its amount and status.",
            {"amount": 7.15, "status": "active"},
            ["amount", "status"],
        ),
        ("Get a bill with its amount.", {"amount": 7.15, "status": "active"}, ["amount"]),
        ("Get a bill with its amount.", {"amount": 7.15, "status": "closed"}, ["amount", "status"]),
        ("Get a bill with its amount.", {"amount": [7.15], "status": "active"}, ["status"]),
        ("Get a bill with its amount and balance.", {"balance": 3}, ["balance"]),
        ("Get a bill.", {"amount": 7.15}, ["status"]),
    ],
)
def test_told_is_the_first_subject_and_a_status_that_matters(
    description: str, record: dict[str, object], told: list[str]
) -> None:
    said = to_tell(_look("get_bill", description), record)
    assert list(said) == told
    assert all(value == record.get(field, "unknown") for field, value in said.items())
