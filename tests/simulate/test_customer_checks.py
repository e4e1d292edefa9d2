import pytest

from tests.toolsets import PERSON
from while_pipeline.records import Message
from while_pipeline.simulate.customer_checks import blame, leaks, plays_agent
from while_pipeline.simulate.script import Script

SCRIPT = Script(
    opening="It is about that thing.",
    goal_line="Please cancel my order.",
    persona=PERSON,
    slots={},
    corrections={},
    follow_ups=(),
    confirmation="Yes, go ahead.",
    holds_back=True,
)
FAULT = '{"error": "timeout", "message": "It timed out."}'
DONE = '{"status": "ok"}'


@pytest.mark.parametrize(
    ("text", "key", "leaked"),
    [
        ("It is APPO-48213.", ["APPO-48213"], True),
        ("it is appo-48213!", ["APPO-48213"], True),
        ("It is APPO-482135.", ["APPO-48213"], False),
        ("My line is active.", ["active"], True),
        ("It was already cancelled.", ["cancelled"], True),
        ("I am an active person.", ["active"], False),
        ("It is inactive.", ["active"], False),
        ("Unused data expires at the end of the month, I know.", ["unused data expires at the end"], True),
        ("Hello.", ["APPO-48213", "active", ""], False),
        ("Hello.", [], False),
    ],
)
def test_a_text_leaks_what_the_key_says_and_the_customer_was_not_given(
    text: str, key: list[str], leaked: bool
) -> None:
    assert leaks(text, key) is leaked


@pytest.mark.parametrize(
    ("text", "plays"),
    [
        ("How can I help you today?", True),
        ("I can help you with that.", True),
        ("Let me check your account.", True),
        ("I have updated your plan.", True),
        ("Your order has been cancelled.", True),
        ("Is there anything else I can do for you?", True),
        ("Thank you for contacting us.", True),
        ("I am transferring you to a colleague.", True),
        ("Can you help me?", False),
        ("Let me look again, my order id is ORDE-1.", False),
        ("Please check my order, I have tried it twice.", False),
        ("Has my order been cancelled?", False),
        ("Thank you for your help.", False),
    ],
)
def test_the_agents_part_is_recognised(text: str, plays: bool) -> None:
    assert plays_agent(text) is plays


def _talk(*turns: str | Message) -> list[Message]:
    """Texts alternate, the customer first."""
    roles = ("user", "assistant")
    return [
        m if isinstance(m, Message) else Message(role=roles[i % 2], content=m) for i, m in enumerate(turns)
    ]


def _tool(result: str) -> Message:
    return Message(role="tool", content=result, tool_call_id="c")


@pytest.mark.parametrize(
    ("ended", "messages", "whose"),
    [
        ("lost", _talk("Hello."), "infrastructure"),
        ("satisfied", _talk("Please cancel my order.", "Done."), "nobody"),
        ("satisfied", _talk("It is about that thing.", "Shall I?", "Yes, go ahead.", "Done."), "nobody"),
        ("transferred", _talk("It is about that thing.", "I transfer you."), "nobody"),
        ("satisfied", _talk("It is about that thing.", "Hello."), "customer"),
        ("satisfied", _talk("How can I help you? Please cancel my order.", "Done."), "customer"),
        ("gone", _talk("Hello.", "Your id?", "It is 1.", "Your id?", "It is 1.", "Your id?"), "agent"),
        ("gone", _talk("Hello.", "Your id?"), "customer"),
        ("max_turns", _talk("Hello.", "Hm.", "And?", "Hm."), "agent"),
        ("max_turns", [*_talk("Hello."), _tool(DONE)], "agent"),
        ("max_turns", [*_talk("Hello."), _tool(FAULT)], "world"),
    ],
)
def test_an_ending_is_somebodys_doing(ended: str, messages: list[Message], whose: str) -> None:
    assert blame(ended, SCRIPT, messages) == whose
