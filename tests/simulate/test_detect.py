import json
from functools import cache
from typing import Any

import pytest

from tests.example import BY_NAME, DOCUMENT, RULE, TOOLS, WRITER, ordinary, rollouts, transcript
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.policy_document import RuleKind
from while_pipeline.records import Message, Situation, ToolCall
from while_pipeline.simulate.axes import (
    AXES,
    HISTORIES,
    NONE,
    SEVERAL,
    STANCES,
    TOOL_CONDITIONS,
    WORLD_STATES,
)
from while_pipeline.simulate.detect import Observed, observe, place, realised, signature
from while_pipeline.transcript import Transcript

SOUND = {
    "tool": "match", "argument": "ask", "verify": "verify", "confirm": "confirm", "fault": "retry",
    "final": "report", "stale": "refresh", "refuse": "refuse", "handoff": "handoff", "style": "plain",
}  # fmt: skip
SOUND_AGENT = EmbeddedAgent(
    Weights(
        weights={
            head: {option: {BIAS: 50.0 if option == SOUND[head] else -50.0} for option in options}
            for head, options in HEADS.items()
        }
    )
)
"""A policy that as good as never draws a defect."""


def _cell(tool: str = "get_bill", **values: str) -> Situation:
    """An ordinary situation in which the agent must know whom it talks to."""
    return ordinary(tool, **({"policy_rule": RULE[RuleKind.VERIFY]} | values))


@cache
def _observed(cell: Situation, seed: int = 1) -> Observed:
    """What a sound policy's rollout of a situation shows."""
    (rollout,) = rollouts(SOUND_AGENT, [WRITER.write(cell, seed)])
    assert rollout.seeded == ()
    return observe(transcript(rollout))


def _talk(*said: Message | str) -> Transcript:
    """A conversation; plain strings are the agent's and the customer's texts in turn, customer first."""
    messages = [m if isinstance(m, Message) else Message(role="user", content=m) for m in said]
    return Transcript(messages, BY_NAME, DOCUMENT)


def _agent(text: str) -> Message:
    return Message(role="assistant", content=text)


def _step(
    tool: str, arguments: dict[str, Any] | None, result: dict[str, Any] | str
) -> tuple[Message, Message]:
    call = ToolCall(id="c", name=tool, arguments=arguments, raw=None if arguments is not None else "{")
    text = result if isinstance(result, str) else json.dumps(result)
    return Message(role="assistant", tool_calls=(call,)), Message(role="tool", content=text, tool_call_id="c")


# -- planned values are read back from a sound policy's rollouts ------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tool", ["cancel_order", NONE])
@pytest.mark.parametrize("stance", STANCES)
def test_every_stance_is_heard_again(stance: str, tool: str, seed: int) -> None:
    assert _observed(_cell(tool, stance=stance), seed)["stance"] == {stance}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tool", ["cancel_order", NONE])
@pytest.mark.parametrize("history", HISTORIES)
def test_every_history_is_heard_again(history: str, tool: str, seed: int) -> None:
    assert _observed(_cell(tool, history=history), seed)["history"] == {history}


@pytest.mark.parametrize(
    "tool", ["get_bill", "find_customer", "pay_bill", "cancel_order", "book_appointment", SEVERAL]
)
@pytest.mark.parametrize("condition", TOOL_CONDITIONS)
def test_every_tool_condition_is_seen_and_a_success_only_where_there_was_one(
    tool: str, condition: str
) -> None:
    seen = _observed(_cell(tool, tool_condition=condition))["tool_condition"]
    assert condition in seen
    assert seen <= {condition, "success"}
    if condition == "permission_denied" and tool != SEVERAL:
        assert seen == {"permission_denied"}


@pytest.mark.parametrize("state", WORLD_STATES)
@pytest.mark.parametrize("tool", ["get_bill", "pay_bill", "cancel_order", "suspend_line", "change_plan"])
def test_every_world_state_is_seen_where_a_record_is_named(tool: str, state: str) -> None:
    assert state in _observed(_cell(tool, world_state=state))["world_state"]


@pytest.mark.parametrize(
    "tool", ["get_bill", "pay_bill", "cancel_order", "find_customer", "book_appointment", SEVERAL]
)
@pytest.mark.parametrize("values", [{}, {"tool_condition": "stale"}, {"tool_condition": "timeout"}])
def test_an_ordinary_record_shows_no_special_state_whatever_is_done_to_it(
    tool: str, values: dict[str, str]
) -> None:
    assert _observed(_cell(tool, **values))["world_state"] == {"exists"}


def test_a_mistaken_customer_shows_the_missing_record_and_then_the_right_one() -> None:
    assert _observed(_cell(stance="mistaken"))["world_state"] == {"missing", "exists"}


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS if tool.kind != "transfer"])
def test_every_tool_is_seen(tool: str) -> None:
    assert _observed(_cell(tool))["tool"] == {tool}


def test_no_tool_and_several_are_values_too() -> None:
    assert _observed(_cell(NONE))["tool"] == {NONE}
    several = _observed(_cell(SEVERAL))["tool"]
    assert SEVERAL in several
    assert len(several) == 3


@pytest.mark.parametrize("rule", DOCUMENT.rules, ids=lambda rule: rule.text[:30])
def test_every_rule_is_seen_where_it_can_come_into_play(rule: Any) -> None:
    assert rule.rule_id in _observed(_cell("cancel_order", policy_rule=rule.rule_id))["policy_rule"]


def test_what_is_asked_for_is_done_before_the_conversation_is_handed_over() -> None:
    cell = _cell("cancel_order", policy_rule=RULE[RuleKind.HANDOFF])
    assert realised(cell, _observed(cell)) == list(AXES)
    alone = _cell(NONE, policy_rule=RULE[RuleKind.HANDOFF])
    assert _observed(alone)["tool"] == {NONE}
    assert realised(alone, _observed(alone)) == list(AXES)


# -- what is not shown is not realised --------------------------------------------------------------------


def test_a_label_without_a_mark_in_the_conversation_is_not_realised() -> None:
    cell = _cell(
        "pay_bill", stance="hurried", world_state="missing", tool_condition="timeout", history="repeat_visit"
    )
    assert realised(cell, observe(_talk("Hello.", _agent("Hello.")))) == []


def test_realised_axes_come_in_axis_order() -> None:
    assert realised(_cell(), _observed(_cell())) == list(AXES)


# -- world states, from hand-written answers --------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "result", "state"),
    [
        ("get_bill", {"status": "ok", "bill": {"bill_id": "B-1", "status": "active"}}, "exists"),
        ("get_bill", {"status": "ok", "bill": {"bill_id": "B-1", "status": "closed"}}, "already_acted_on"),
        ("get_bill", {"status": "ok", "bill": {"bill_id": "B-1", "payment": "paid"}}, "already_acted_on"),
        ("get_bill", {"status": "ok", "bill": {"bill_id": "B-1", "duplicate_of": "B-2"}}, "duplicate"),
        ("get_bill", {"status": "ok", "bill": {"bill_id": "B-1", "status": "unknown"}}, "unknown"),
        ("get_bill", {"error": "not_found", "message": "No bill."}, "missing"),
        ("get_bill", {"status": "ok", "bill": {"status": "superseded"}, "stale": True}, "exists"),
        ("find_customer", {"status": "ok", "count": 0, "results": []}, "missing"),
        ("pay_bill", {"status": "ok", "bill": {"payment": "paid"}, "previous_status": "active"}, "exists"),
        ("pay_bill", {"error": "already_done", "message": "Nothing changed."}, "already_acted_on"),
        ("pay_bill", {"status": "ok", "bill": {"payment": "paid"}, "resumed": "pay"}, "partially_completed"),
        ("pay_bill", {"error": "timeout", "message": "Timed out."}, "exists"),
    ],
)  # fmt: skip
def test_a_tools_answer_shows_one_world_state(tool: str, result: dict[str, Any], state: str) -> None:
    talk = _talk("Hello.", *_step(tool, {"bill_id": "B-1"}, result), _agent("Done."))
    assert observe(talk)["world_state"] == {state}


def test_what_the_agent_did_itself_is_not_taken_for_done_before() -> None:
    done = _step("pay_bill", {"bill_id": "B-1"}, {"status": "ok", "bill": {"payment": "paid"}})
    read = _step("get_bill", {"bill_id": "B-1"}, {"status": "ok", "bill": {"payment": "paid"}})
    assert observe(_talk("Pay.", *done, *read))["world_state"] == {"exists"}
    assert observe(_talk("Pay.", *read, *done))["world_state"] == {"exists", "already_acted_on"}


# -- placing a conversation -------------------------------------------------------------------------------


def test_a_conversation_is_placed_at_its_most_telling_values() -> None:
    talk = _talk(
        "It is me again. Quick one, I have two minutes.",
        *_step("pay_bill", {"bill_id": "B-1"}, {"error": "timeout", "message": "Timed out."}),
        *_step("pay_bill", {"bill_id": "B-1"}, {"error": "already_done", "message": "Nothing changed."}),
        *_step("get_bill", {"bill_id": "B-1"}, {"status": "ok", "bill": {"bill_id": "B-1"}}),
        _agent("It was paid already."),
    )
    assert place(talk) == Situation(
        tool=SEVERAL, policy_rule=RULE[RuleKind.VERIFY], stance="hurried",
        world_state="already_acted_on", tool_condition="timeout", history="repeat_visit",
    )  # fmt: skip


@pytest.mark.parametrize(
    "talk", [_talk(), _talk("Hello."), _talk("Hello.", _agent("Hello. How can I help?"))]
)
def test_small_talk_is_placed_at_the_ordinary_values(talk: Transcript) -> None:
    assert place(talk) == _cell(NONE, policy_rule=NONE)


def test_a_tool_the_agent_does_not_have_keeps_its_name() -> None:
    assert place(_talk("Hello.", *_step("reboot_moon", {}, {"status": "ok"}))).tool == "reboot_moon"


# -- behaviour signatures ---------------------------------------------------------------------------------

OK = {"status": "ok", "bill": {"bill_id": "BILL-1", "customer_id": "CUST-9"}}


def _sign(*said: Message | str) -> str:
    return signature(_talk(*said))


def test_a_signature_is_the_same_for_the_same_behaviour_in_other_words_and_worlds() -> None:
    first = _sign("Bill BILL-1.", *_step("get_bill", {"bill_id": "BILL-1"}, OK), _agent("It is active."))
    other = _sign(
        "See BILL-7 please.", *_step("get_bill", {"bill_id": "BILL-7"}, OK), _agent("Found it, fine.")
    )
    assert first == other


BASE = ("Bill BILL-1.", *_step("get_bill", {"bill_id": "BILL-1"}, OK), _agent("It is active."))


@pytest.mark.parametrize(
    "said",
    [
        ("Bill BILL-1.", *_step("pay_bill", {"bill_id": "BILL-1"}, OK), _agent("It is active.")),
        ("Bill BILL-1.", *_step("get_bill", {"bill_id": "BILL-2"}, OK), _agent("It is active.")),
        ("Bill BILL-1.", *_step("get_bill", {}, OK), _agent("It is active.")),
        ("Bill BILL-1.", *_step("get_bill", {"bill_id": "BILL-1"}, "Error: down"), _agent("It is active.")),
        ("Bill BILL-1.", *_step("get_bill", {"bill_id": "BILL-1"}, OK), _agent("I cannot say.")),
        ("Bill BILL-1.", *_step("get_bill", {"bill_id": "BILL-1"}, OK), _agent("It is active. " * 4)),
        (*BASE[:3], *BASE[1:3], BASE[3]),
        ("Bill BILL-1.", _agent("It is active.")),
    ],
    ids=["tool", "invented", "absent", "status", "refusal", "length", "twice", "no call"],
)  # fmt: skip
def test_each_ingredient_tells_signatures_apart(said: tuple[Message | str, ...]) -> None:
    assert _sign(*said) != _sign(*BASE)


def test_a_signature_knows_a_value_from_a_tool_from_one_by_the_customer_or_by_nobody() -> None:
    def second(customer: str) -> str:
        profile = _step("get_customer_profile", {"customer_id": customer}, {"status": "ok"})
        return _sign("BILL-1, I am CUST-3.", *_step("get_bill", {"bill_id": "BILL-1"}, OK), *profile)

    derived, told, invented = second("CUST-9"), second("CUST-3"), second("CUST-5")
    assert len({derived, told, invented}) == 3


def test_a_value_said_only_afterwards_was_invented() -> None:
    late = _sign(
        "Hello.", *_step("get_bill", {"bill_id": "BILL-1"}, OK), _agent("It is active."), "It is BILL-1."
    )
    never = _sign("Hello.", *_step("get_bill", {"bill_id": "BILL-1"}, OK), _agent("It is active."), "I see.")
    assert late == never


def test_the_order_of_calls_counts() -> None:
    bill = _step("get_bill", {"bill_id": "B"}, OK)
    usage = _step("get_data_usage", {"line_id": "B"}, OK)
    assert _sign("B", *bill, *usage) != _sign("B", *usage, *bill)


def test_lengths_are_told_apart_up_to_twelve_times_twelve_words() -> None:
    def words(n: int) -> str:
        return _sign("Hello.", _agent("word " * n))

    assert words(0) == words(11)
    assert words(11) != words(12)
    assert words(143) != words(144)
    assert words(144) == words(5000)


def test_arguments_that_did_not_decode_are_absent() -> None:
    broken = _sign("BILL-1", *_step("get_bill", None, {"error": "invalid_argument"}))
    empty = _sign("BILL-1", *_step("get_bill", {}, {"error": "invalid_argument"}))
    assert broken == empty
