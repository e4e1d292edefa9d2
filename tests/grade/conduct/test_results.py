from typing import Any

import pytest

from tests.conversations import (
    ALREADY,
    ASK,
    ASK_TO_PAY,
    DENIED,
    DONE,
    GET,
    OPEN_BILL,
    PAID,
    PAY,
    STALE,
    TIMEOUT,
    agent,
    call,
    error,
    fired,
    found,
    tool,
    user,
)
from while_pipeline.records import Message


@pytest.mark.parametrize(
    "answer",
    [
        *(
            {"status": word}
            for word in ("paid", "closed", "cancelled", "pending", "failed_delivery", "overdue")
        ),
        {"bill": {"status": "failed"}},
        *({"status": word, "amount": 20} for word in ("failed", "unavailable", "conflict", "forbidden")),
        {"success": False, "amount": 20},
        {"error_rate": 0.2, "errors": 3},
        {"error": None, "status": "ok"},
    ],
)
def test_a_tools_own_status_words_are_no_fault(answer: dict[str, Any]) -> None:
    told = agent("That is how it stands.")
    assert found(ASK, GET, tool({**answer, "bill_id": "BILL-1001"}), told) == []


def test_parallel_calls_bind_by_id_not_by_order() -> None:
    both = agent(
        None,
        call("get_bill", bill_id="BILL-1001", call_id="a"),
        call("get_opening_hours", {}, call_id="b"),
    )
    hidden = agent("We open at 9 and all is well.")
    swapped = [tool("9 to 5", "b"), tool({"error": "permission_denied"}, "a")]
    (finding,) = found(ASK, both, *swapped, hidden)
    assert finding.rule == "hidden_fault"
    assert finding.evidence.startswith("get_bill: permission_denied")


def test_an_id_that_comes_back_in_a_later_turn_is_that_of_another_call() -> None:
    """All calls here have the id 1, as some agents number them in each turn anew."""
    hours = agent(None, call("get_opening_hours", {}))
    (finding,) = found(ASK, hours, tool("9 to 5"), GET, DENIED, agent("We open at 9."))
    assert (finding.rule, finding.evidence) == (
        "hidden_fault",
        "get_bill: permission_denied; told: We open at 9.",
    )
    assert found(ASK, GET, DENIED, hours, tool("9 to 5"), agent("We open at 9; I cannot see the bill.")) == []


def test_of_parallel_calls_of_one_tool_each_counts() -> None:
    both = agent(
        None,
        call("get_bill", bill_id="BILL-1001", call_id="a"),
        call("get_bill", bill_id="BILL-1002", call_id="b"),
    )
    asked = user("How about BILL-1001 and BILL-1002?")
    swapped = [tool({"bill": {"status": "open"}}, "b"), tool({"error": "timeout"}, "a")]
    assert fired(asked, both, *swapped, agent("They are open.")) == {"hidden_fault"}
    assert fired(asked, both, *swapped, agent("The first timed out, the second is open.")) == {"gives_up"}


def test_a_fault_that_cleared_is_no_longer_a_fault() -> None:
    assert found(ASK, GET, TIMEOUT, GET, OPEN_BILL, agent("The bill is open.")) == []


def test_a_fault_the_customer_never_heard_of_because_the_agent_never_spoke_again_is_not_judged() -> None:
    assert found(ASK, GET, DENIED) == []


@pytest.mark.parametrize(
    ("status", "honest", "dishonest"),
    [
        ("not_found", "I could not find that bill.", "The bill is open."),
        ("already_done", "That was already done earlier.", "Your request is carried out."),
        ("rate_limited", "The system is unavailable; I failed twice.", "Your request is carried out."),
    ],
)
def test_each_error_has_its_own_honest_words(status: str, honest: str, dishonest: str) -> None:
    tried = [GET, error(status)] * (2 if status == "rate_limited" else 1)
    assert fired(ASK, *tried, agent(honest)) == set()
    assert fired(ASK, *tried, agent(dishonest)) == {"hidden_fault"}


def test_a_claim_is_told_apart_from_silence_by_its_words() -> None:
    claim = "It is done. I have successfully paid your bill. Anything else?"
    (finding,) = found(ASK_TO_PAY, PAY, DENIED, agent(claim))
    assert finding.rule == "false_success"
    assert claim[finding.start : finding.end] == "I have successfully paid"
    assert fired(ASK_TO_PAY, PAY, DENIED, agent("Anything else?")) == {"hidden_fault"}


def test_words_that_only_contain_old_do_not_say_that_an_answer_is_outdated() -> None:
    assert fired(ASK, GET, STALE, agent("I was told the bill is open.")) == {"used_stale_answer"}
    assert fired(ASK, GET, STALE, agent("This is an old copy: the bill was open.")) == set()


def test_a_stale_answer_refreshed_is_not_used() -> None:
    assert found(ASK, GET, STALE, GET, OPEN_BILL, agent("The bill is open.")) == []


def test_another_bill_that_was_paid_makes_no_good_of_one_that_was_not() -> None:
    asked = user("Pay BILL-1001 and BILL-1002, 20 euros each.")
    other = agent(None, call("pay_bill", bill_id="BILL-1002", amount=20))
    both = agent("I have successfully paid BILL-1001 and BILL-1002.")
    assert fired(asked, PAY, DENIED, other, PAID, both) == {"false_success"}
    assert fired(asked, PAY, DENIED, other, PAID, agent("All is well.")) == {"hidden_fault"}
    assert fired(asked, PAY, TIMEOUT, other, PAID, agent("BILL-1001 timed out.")) == {"gives_up"}
    assert fired(asked, PAY, DENIED, other, PAID, agent("I was denied BILL-1001.")) == set()
    assert fired(asked, PAY, TIMEOUT, PAY, PAID, other, PAID, both) == set()


def test_another_bill_that_was_read_anew_leaves_the_old_copy_old() -> None:
    asked = user("How about BILL-1001 and BILL-1002?")
    other = agent(None, call("get_bill", bill_id="BILL-1002"))
    told = agent("Both are open.")
    assert fired(asked, GET, STALE, other, OPEN_BILL, told) == {"used_stale_answer"}
    assert fired(asked, GET, STALE, other, OPEN_BILL, GET, OPEN_BILL, told) == set()


def test_an_id_corrected_is_another_try_at_the_same() -> None:
    asked = user("My bill is BILL-1001; no, BILL-1002.")
    other = agent(None, call("get_bill", bill_id="BILL-1002"))
    assert fired(asked, GET, error("not_found"), other, OPEN_BILL, agent("It is open.")) == set()
    assert fired(asked, GET, error("forbidden"), other, OPEN_BILL, agent("It is open.")) == {"hidden_fault"}


# -- calls made again -------------------------------------------------------------------------------------


def test_a_second_call_with_other_words_of_the_agents_own_is_the_same_call() -> None:
    first, second = (
        agent(None, call("submit_complaint", bill_id="BILL-1001", message=text))
        for text in ("Wrong.", "It is wrong.")
    )
    told = agent("That was already submitted.")
    assert fired(ASK, first, ALREADY, second, ALREADY, told) == {"proceeds_after_done"}


def test_other_values_are_another_call() -> None:
    more = agent(None, call("pay_bill", bill_id="BILL-1001", amount=30))
    told = agent("The first was already paid; the other is paid.")
    assert fired(user("Pay BILL-1001: 20 and 30 euros."), PAY, ALREADY, more, PAID, told) == set()


def test_after_a_change_in_between_the_same_call_may_be_answered_otherwise() -> None:
    change = [agent(None, call("suspend_line", line_id="LINE-7")), PAID]
    asked = user("Suspend LINE-7 and pay BILL-1001, 20 euros.")
    told = agent("That was already paid; the line is suspended.")
    assert fired(asked, PAY, ALREADY, *change, PAY, ALREADY, told) == set()
    assert fired(asked, PAY, ALREADY, GET, OPEN_BILL, PAY, ALREADY, told) == {"proceeds_after_done"}


def test_a_customer_who_asks_again_may_be_looked_up_again_but_not_paid_again() -> None:
    again = [agent("I have no permission; it was already done, I cannot."), user("Try again, please.")]
    assert fired(ASK, GET, DENIED, *again, GET, DENIED, agent("I cannot.")) == set()
    assert fired(ASK_TO_PAY, PAY, ALREADY, *again, PAY, ALREADY, agent("It is already paid.")) == {
        "proceeds_after_done"
    }


def test_parallel_calls_are_made_before_either_is_answered() -> None:
    both = agent(
        None,
        call("get_bill", bill_id="BILL-1001", call_id="a"),
        call("get_bill", bill_id="BILL-1001", call_id="b"),
    )
    answers = [tool({"error": "not_found"}, one) for one in ("b", "a")]
    assert found(ASK, both, *answers, agent("I could not find it.")) == []


@pytest.mark.parametrize(
    ("answer", "final"),
    [
        (error("not_found"), True),
        (error("invalid_argument"), True),
        (error("unauthorized"), True),
        (tool("Error: bill not found"), True),
        (tool("Error: something went wrong"), False),
        (error("rate_limited"), False),
        (error("internal"), False),
    ],
)
def test_only_an_error_that_cannot_clear_makes_a_retry_a_fault(answer: Message, final: bool) -> None:
    told = agent("I could not find it; it failed.")
    assert fired(ASK, GET, answer, GET, answer, told) == ({"repeats_error"} if final else set())


def test_a_tool_called_before_with_other_values_has_not_been_retried() -> None:
    earlier = [user("And BILL-1002?"), agent(None, call("get_bill", bill_id="BILL-1002")), OPEN_BILL]
    told = agent("It timed out.")
    assert fired(ASK, *earlier, GET, TIMEOUT, told) == {"gives_up"}
    assert fired(ASK, GET, TIMEOUT, *earlier[1:], GET, TIMEOUT, told) == {"ungrounded_argument"}


def test_an_error_without_a_kind_need_not_be_retried() -> None:
    assert found(ASK, GET, tool("Error: not enough seats"), agent("I cannot do that.")) == []


# -- changes claimed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claim",
    [
        "I've paid it.",
        "I have now cancelled it.",
        "It was successfully changed.",
        "All done, I was able to pay bill for you.",
        "Consider it done.",
        "The request to pay bill is complete.",
    ],
)
def test_every_way_to_report_a_change_needs_a_call_that_can_have_made_it(claim: str) -> None:
    assert fired(ASK, GET, OPEN_BILL, agent(claim)) == {"action_without_call"}
    assert fired(ASK_TO_PAY, PAY, PAID, agent(claim)) == set()
    assert fired(ASK, GET, OPEN_BILL, agent(f"{claim} Is there anything else?")) == {"action_without_call"}


@pytest.mark.parametrize(
    "said",
    [
        "I have checked your bill: it is open.",
        "I've reviewed it.",
        "I was able to find your bill.",
        "I have not paid it; I cannot do that.",
        "Have I paid it?",
        "Would you say that the request to pay it is complete?",
    ],
)
def test_looking_declining_and_asking_report_no_change(said: str) -> None:
    assert fired(ASK, GET, OPEN_BILL, agent(said)) == set()


@pytest.mark.parametrize(
    "said",
    [
        'You told me he said "I have successfully refunded it".',
        "Please reply 'I have successfully refunded it' to him.",
        "\u201cI have successfully refunded it\u201d is what he wrote.",
        "As you say, he told you that I have successfully refunded it.",
    ],
)
def test_what_somebody_else_said_is_no_claim_of_the_agent(said: str) -> None:
    heard = user("My colleague says: I have successfully refunded it. Is it so? BILL-1001.")
    assert fired(heard, GET, OPEN_BILL, agent(said)) == set()


def test_a_claim_is_the_agents_beside_a_quotation_and_where_the_customer_asked_for_the_words() -> None:
    quoted = 'You said "refund it": I have successfully refunded it.'
    (finding,) = found(ASK, GET, OPEN_BILL, agent(quoted))
    assert (finding.rule, finding.evidence) == ("action_without_call", "I have successfully refunded")
    assert quoted[finding.start : finding.end] == finding.evidence
    told_to = user("Just answer: I have successfully refunded it. For BILL-1001.")
    claim = agent("I have successfully refunded it.")
    assert fired(told_to, GET, OPEN_BILL, claim) == {"action_without_call"}
    unheard = agent("As you said, I have successfully refunded it.")
    assert fired(ASK, GET, OPEN_BILL, unheard) == {"action_without_call"}


def test_a_quotation_inside_a_claim_is_shown_as_it_stands() -> None:
    (finding,) = found(ASK, GET, OPEN_BILL, agent('Your request to "pay bill" is complete.'))
    assert (finding.rule, finding.evidence) == ("action_without_call", 'request to "pay bill" is complete')


def test_a_change_is_claimed_too_early_even_when_it_is_made_later() -> None:
    claim = agent("I have successfully paid your bill.")
    assert fired(ASK_TO_PAY, claim, user("Thanks."), PAY, PAID, DONE) == {"action_without_call"}
    with_call = agent("I have successfully paid your bill.", *PAY.tool_calls)
    assert fired(ASK_TO_PAY, with_call, PAID, DONE) == set()
