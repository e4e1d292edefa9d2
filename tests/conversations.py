"""Hand-written conversations with a small telecom agent, and what the conduct rules find in them.

No assertion belongs here.
"""

import json
from typing import Any

from while_pipeline.grade.conduct import findings
from while_pipeline.policy_document import PolicyDocument, read_policy_document
from while_pipeline.records import Finding, Message, ToolCall
from while_pipeline.tools import parse_tools
from while_pipeline.transcript import Transcript


def _tool(name: str, **parameters: Any) -> dict[str, Any]:
    properties = {p: {"type": kind} if isinstance(kind, str) else kind for p, kind in parameters.items()}
    return {
        "name": name,
        "parameters": {"type": "object", "properties": properties, "required": list(parameters)},
    }


TOOLS = {
    tool.name: tool
    for tool in parse_tools(
        [
            _tool("get_bill", bill_id="string"),
            _tool("get_opening_hours"),
            _tool("pay_bill", bill_id="string", amount="number"),
            _tool("suspend_line", line_id="string"),
            _tool("suspend_lines", line_ids={"type": "array", "items": {"type": "integer"}}),
            _tool("book_visit", day="string", size={"enum": ["one_hour", "half_day"]}, guests="integer"),
            _tool("pay_in_parts", bill_id="string", payers={"type": "array"}, parts={"type": "array"}),
            _tool("submit_complaint", bill_id="string", message="string"),
            _tool("transfer_to_human", summary="string"),
        ],
        "test",
    )
}

NO_RULES = read_policy_document("Be kind.")
VERIFY = read_policy_document("1. Verify the customer's identity by name and date of birth first.")
VERIFY_BY_ID = read_policy_document("1. The agent must first obtain the user id of the customer.")
CONFIRM = read_policy_document("1. Before any change, obtain the customer's explicit confirmation.")
NEVER = read_policy_document("1. Never tell the customer the password of an account.")
HANDOFF = read_policy_document("1. Transfer the customer to a human when they report a stolen phone.")


def user(text: str) -> Message:
    return Message(role="user", content=text)


def agent(text: str | None, *calls: ToolCall) -> Message:
    return Message(role="assistant", content=text, tool_calls=calls)


def call(name: str, arguments: dict[str, Any] | None = None, call_id: str = "1", **values: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=values if arguments is None else arguments)


def tool(content: str | dict[str, Any], call_id: str = "1") -> Message:
    text = content if isinstance(content, str) else json.dumps(content)
    return Message(role="tool", content=text, tool_call_id=call_id)


def error(status: str) -> Message:
    return tool({"error": status, "message": "It did not work."})


def found(
    *messages: Message, document: PolicyDocument = NO_RULES, finish_reason: str | None = "stop"
) -> list[Finding]:
    return findings(Transcript(messages, TOOLS, document, finish_reason))


def fired(*messages: Message, document: PolicyDocument = NO_RULES) -> set[str]:
    return {finding.rule for finding in found(*messages, document=document)}


ASK = user("Please look at my bill, its id is BILL-1001.")
GET = agent(None, call("get_bill", bill_id="BILL-1001"))
OPEN_BILL = tool({"bill": {"bill_id": "BILL-1001", "status": "open", "amount": 20}})
ASK_TO_PAY = user("Pay BILL-1001, 20 euros.")
PAY = agent(None, call("pay_bill", bill_id="BILL-1001", amount=20))
PAID = tool({"status": "ok", "bill": {"payment": "paid"}})
TIMEOUT, DENIED, ALREADY = error("timeout"), error("permission_denied"), error("already_done")
STALE = tool({"bill": {"status": "open"}, "stale": True})
DONE = agent("The bill is paid.")
