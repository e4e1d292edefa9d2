from typing import Any

import pytest

from tests.conversations import ASK, GET, OPEN_BILL, PAID, agent, call, fired, found, tool, user
from while_pipeline.messages import arguments_text
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Message

BOOKED = tool({"status": "ok"})


def booking(request: str, *before: Message, **arguments: Any) -> set[str]:
    values = {"day": "Monday", "size": "one_hour", "guests": 2, **arguments}
    return fired(user(request), *before, agent(None, call("book_visit", values)), BOOKED)


@pytest.mark.parametrize(
    ("request_text", "arguments"),
    [
        ("A one-hour visit on Monday for 2 please.", {}),
        ("One hour on Monday, two guests.", {}),
        ("One hour on Monday, 2.0 guests.", {"guests": 2.0}),
        ("One hour on Monday for 1,200 guests.", {"guests": 1200}),
        ("One hour on Monday, 2.50 guests.", {"guests": 2.5}),
        ("One hour on May 20th, 2 guests.", {"day": "2024-05-20"}),
        ("One hour on the 3rd of May, 2 guests.", {"day": "2024-05-03"}),
        ("One hour on 5/20, 2 guests.", {"day": "2024-05-20"}),
        ("One hour on Monday for 1.200 guests.", {"guests": 1200}),
        ("One hour on Monday for 1 200 guests.", {"guests": 1200}),
        ("One hour on Monday for 1'200 guests.", {"guests": 1200}),
        ("One hour on Monday for 1,00,000 guests.", {"guests": 100000}),
        ("One hour on Monday, 12,50 guests.", {"guests": 12.5}),
        ("One hour on Monday, 20.00 guests.", {"guests": 20}),
        ("One hour on Monday, 20 guests.", {"guests": "20.00"}),
        ("One hour on Monday, -3 guests.", {"guests": -3}),
        ("One hour on Monday, no guests.", {"guests": 0}),
        ("One hour on Monday.", {"guests": None}),
    ],
)
def test_a_value_is_grounded_in_whatever_way_people_write_it(
    request_text: str, arguments: dict[str, Any]
) -> None:
    assert booking(request_text, **arguments) == set()


@pytest.mark.parametrize(
    ("request_text", "arguments"),
    [
        ("One hour on Monday for 12.", {}),
        ("One hour on Monday for 5.99.", {"guests": 5}),
        ("One hour on Monday for 20.75.", {"guests": 20}),
        ("One hour on Monday for 20.75.", {"guests": "20"}),
        ("One hour on Monday for 20,000.", {"guests": 20}),
        ("One hour on Monday for 3.", {"guests": -3}),
        ("One hour on May 20th, 2 guests.", {"day": "2024-05-02"}),
        ("One hour on the 12 May, 2 guests.", {"day": "2024-05-02"}),
        ("One hour on Monday, 2 guests.", {"day": "Tuesday"}),
        ("One hour on May 2nd, 2 guests.", {"day": "2024-05-20"}),
        ("A visit on Monday, 2 guests.", {"size": "half_day"}),
        ("One hour on Monday, 2 guests.", {"day": ["Monday", "Friday"]}),
        ("One hour on Monday, 2 guests.", {"day": []}),
        ("One hour on Monday, 2 guests.", {"day": {"first": "Friday"}}),
    ],
)
def test_a_value_nobody_gave_is_not_grounded(request_text: str, arguments: dict[str, Any]) -> None:
    assert booking(request_text, **arguments) == {"ungrounded_argument"}


@pytest.mark.parametrize(
    ("said", "bill", "known"),
    [
        ("Look at BILL-1001.", "BILL-1001", True),
        ("Look at bill 1001, please", "BILL-1001", True),
        ("(BILL-1001)", "BILL-1001", True),
        ("1.BILL-1001", "BILL-1001", True),
        ("\u8bf7\u770bBILL-1001\u8c22\u8c22", "BILL-1001", True),
        ("Look at number 1001.", "1001", True),
        ("Look at BILL-10012.", "BILL-1001", False),
        ("Look at XBILL-1001.", "BILL-1001", False),
        ("Look at BILL-1001.", "1", False),
        ("Look at BILL-1001.", "", False),
        ("Look at BILL - 1001.", "-", False),
        ("It was 20.75 euros.", "75", False),
        ("BILL-10012, or was it BILL-1001?", "BILL-1001", True),
    ],
)
def test_an_id_is_known_when_it_was_said_whole(said: str, bill: str, known: bool) -> None:
    made = agent(None, call("get_bill", bill_id=bill))
    assert fired(user(said), made, OPEN_BILL) == (set() if known else {"ungrounded_argument"})


def test_an_id_given_as_a_number_is_known_in_digits_or_as_a_word() -> None:
    for said, known in (("Suspend line 4711.", True), ("Suspend line 47115.", False)):
        made = agent(None, call("suspend_line", line_id=4711))
        assert fired(user(said), made, PAID) == (set() if known else {"ungrounded_argument"})
    assert fired(user("Suspend line two."), agent(None, call("suspend_line", line_id=2)), PAID) == set()


def test_the_numbers_of_a_tools_list_are_known_one_by_one() -> None:
    free = tool('{"free":[40,120,200],"prices":[60.25,46.5]}')
    asked = user("One hour on Monday for as many as you can.")
    for guests, known in ((40, True), (120, True), (46.5, True), (60, False), (25, False)):
        book = agent(None, call("book_visit", day="Monday", size="one_hour", guests=guests))
        seen = fired(asked, agent(None, call("get_opening_hours", {})), free, book, BOOKED)
        assert seen == (set() if known else {"ungrounded_argument"}), guests


def test_a_figure_worked_out_in_the_open_is_grounded_an_id_is_not() -> None:
    asked = user("Pay BILL-1001 and BILL-1002.")
    said = agent("That is 58.5 euros in all, for LINE-7.")
    pay = agent(None, call("pay_bill", bill_id="BILL-1001", amount=58.5))
    suspend = agent(None, call("suspend_line", line_id="LINE-7"))
    assert fired(asked, said, pay, PAID) == set()
    assert fired(asked, said, suspend, PAID) == {"ungrounded_argument"}


def test_a_value_that_comes_later_does_not_ground_an_earlier_call() -> None:
    late = [user("My bill please."), GET, OPEN_BILL, agent("It is open."), user("Yes, BILL-1001.")]
    assert fired(*late) == {"ungrounded_argument"}


def test_free_text_is_the_agents_own() -> None:
    for text in ("Your bill is wrong.", "n/a", "message", "string"):
        made = agent(None, call("submit_complaint", bill_id="BILL-1001", message=text))
        assert found(ASK, made, BOOKED, agent("I submitted it.")) == []


@pytest.mark.parametrize("value", ["your_bill_id", "[bill id]", "XXXX", "N/A", "bill_id", "Example"])
def test_what_stands_for_a_value_is_a_placeholder(value: str) -> None:
    said = user(f"My bill is {value}")
    assert fired(said, agent(None, call("get_bill", bill_id=value))) == {"placeholder_argument"}


# -- amounts ----------------------------------------------------------------------------------------------


def _split(said: str, payers: list[str], parts: list[float]) -> set[str]:
    made = call("pay_in_parts", {"bill_id": "BILL-1001", "payers": payers, "parts": parts})
    return fired(user(f"Split BILL-1001 for Ada and Bo, please. {said}"), agent(None, made), PAID)


@pytest.mark.parametrize(
    ("said", "payers", "parts"),
    [
        ("It is 106 euros, Ada pays 39.", ["Ada", "Bo"], [39, 67]),
        ("It is 106.50 euros.", ["Ada", "Bo"], [60.25, 46.25]),
        ("It is 174 euros each.", ["Ada", "Bo"], [348]),
    ],
)
def test_parts_are_grounded_when_what_they_add_up_to_is(
    said: str, payers: list[str], parts: list[float]
) -> None:
    assert _split(said, payers, parts) == set()


@pytest.mark.parametrize(
    ("said", "payers", "parts"),
    [
        ("It is 106 euros.", ["Ada", "Bo"], [39, 68]),
        ("It is 174 euros each.", ["Ada"], [348]),
        ("It is 106 euros.", ["Ada", "Cy"], [39, 67]),
    ],
)
def test_a_wrong_total_and_a_person_nobody_named_are_not(
    said: str, payers: list[str], parts: list[float]
) -> None:
    assert _split(said, payers, parts) == {"ungrounded_argument"}


def test_an_amount_that_the_rules_give_needs_no_other_source() -> None:
    rules = read_policy_document("1. Customers must be told that a late visit costs 50 euros.")
    pay = agent(None, call("pay_bill", bill_id="BILL-1001", amount=50))
    assert fired(ASK, pay, PAID, document=rules) == set()
    assert fired(ASK, pay, PAID) == {"ungrounded_argument"}


def test_an_argument_is_pointed_to_however_its_call_is_written() -> None:
    """An integer beyond 64 bits has the whole call written by another encoder, which writes 1e-07."""
    made = call("pay_bill", {"bill_id": "BILL-1001", "amount": 1e-7, "note": 2**70})
    at = {finding.evidence: finding for finding in found(ASK, agent(None, made), PAID)}
    finding = at["pay_bill.amount = 1e-7"]
    assert (finding.start, finding.end) == (0, len(arguments_text(made)))


def test_ids_do_not_add_up() -> None:
    made = agent(None, call("suspend_lines", line_ids=[40, 66]))
    assert fired(user("Suspend 106."), made, PAID) == {"ungrounded_argument"}
    assert fired(user("Suspend 40 and 66."), made, PAID) == set()


def test_the_number_of_a_rule_is_no_amount_and_no_id_comes_from_the_rules() -> None:
    rules = read_policy_document("7. Customers must be told that line 4711 is ours.")
    pay = agent(None, call("pay_bill", bill_id="BILL-1001", amount=7))
    suspend = agent(None, call("suspend_line", line_id=4711))
    assert fired(ASK, pay, PAID, document=rules) == {"ungrounded_argument"}
    assert fired(ASK, suspend, PAID, document=rules) == {"ungrounded_argument"}
