import pytest

from tests.toolsets import NAMES, toolset
from while_pipeline.goals import goal_of
from while_pipeline.tools import Tool, words_of


def _tool(name: str, description: str = "", *required: str) -> Tool:
    properties = {parameter: {"type": "string"} for parameter in required}
    return Tool(
        name=name,
        description=description,
        parameters={"type": "object", "properties": properties, "required": list(required)},
    )


@pytest.mark.parametrize(
    ("tool", "wish", "request_", "topic"),
    [
        (_tool("get_data_usage"), "check my data usage", "show me my data usage", "my data usage"),
        (_tool("get_usage", "", "line_id"), "see the usage on my line", "look up my usage", "my usage"),
        (_tool("enable_wifi", "", "line_id"), "turn on the wifi for my line", "activate my wifi", "my wifi"),
        (_tool("cancel_order", "", "order_id"), "cancel my order", "cancel my order", "my order"),
        (_tool("book_appointment"), "book an appointment", "arrange an appointment", "an appointment"),
        (_tool("bookAppointment"), "book an appointment", "arrange an appointment", "an appointment"),
        (_tool("list_all_airports"), "see all airports", "list all airports", "all airports"),
        (_tool("send_certificate"), "get a certificate", "send me a certificate", "a certificate"),
        (_tool("book_onestop_trip"), "book a one-stop trip", "arrange a one-stop trip", "a one-stop trip"),
        (_tool("create_sms"), "create an SMS", "set up an SMS", "an SMS"),
        (_tool("toggle_wifi"), "switch my wifi on or off", "toggle my wifi", "my wifi"),
        (_tool("get_bills_for_customer", "", "customer_id"), "see my bills", "show me my bills", "my bills"),
        (_tool("order_lookup", "", "order_id"), "check my order", "look up my order", "my order"),
        (_tool("check_sim_status"), "check my SIM status", "show me my SIM status", "my SIM status"),
        (_tool("can_send_mms"), "know whether I can send MMS", "see if I can send MMS", "send MMS"),
        (_tool("reboot"), "reboot", "reboot", "something"),
        (_tool("transfer_to_human"), "speak to a human", "put me through to a human", "a call with a human"),
    ],
    ids=lambda value: value.name if isinstance(value, Tool) else None,
)  # fmt: skip
def test_a_name_is_asked_for_in_plain_words(tool: Tool, wish: str, request_: str, topic: str) -> None:
    goal = goal_of(tool)
    assert wish in goal.wishes
    assert request_ in goal.requests
    assert goal.topic == topic


@pytest.mark.parametrize(
    ("name", "description", "phrase"),
    [
        (
            "book_appointment",
            "Book an appointment with a technician.",
            "book an appointment with a technician",
        ),
        ("toggle_airplane_mode", "Toggles Airplane Mode ON or OFF. When ON, ...", "toggle Airplane Mode"),
        (
            "check_vpn_status",
            "Checks if you're using a VPN connection.",
            "find out if I am using a VPN connection",
        ),
        ("think", "Use the tool to think about something.", "think about something"),
        ("suspend_line", "Suspends a specific line (max 6 months).", "suspend a line"),
    ],
)
def test_a_description_gives_a_phrase_when_it_says_it_better(
    name: str, description: str, phrase: str
) -> None:
    assert phrase in goal_of(_tool(name, description)).wishes


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("find_customer", "Search customers by phone number."),
        ("search_onestop_flight", "Search direct flights between two cities."),
        ("get_details", "Retrieves the details for a given ID."),
        ("get_bill", "This endpoint retrieves a bill."),
        ("get_bill", ""),
    ],
)
def test_a_description_written_from_the_agents_side_or_for_another_tool_gives_none(
    name: str, description: str
) -> None:
    assert goal_of(_tool(name, description)) == goal_of(_tool(name))


@pytest.mark.parametrize("name", NAMES)
def test_no_customer_speaks_in_identifiers_or_of_themselves_as_the_customer(name: str) -> None:
    for tool in toolset(name)[0]:
        goal = goal_of(tool)
        for phrase in (*goal.wishes, *goal.requests):
            assert phrase == " ".join(phrase.split())
            assert len(phrase.split()) <= 14
            assert "_" not in phrase
            assert not {"customers", "users", "tool", "database"} & set(phrase.split())
            assert phrase.count(" for my ") + phrase.count(" on my ") <= 1
            said, bare = phrase.split(), list(words_of(tool.name))
            assert said != bare or len(said) == 1 or "all" in said, "a bare name is not how a person asks"
