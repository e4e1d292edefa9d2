"""What the embedded agent takes as a conversation, and what tools may answer it."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.example import BASE, DOCUMENT, TOOLS, scenarios
from tests.long_texts import PATIENCE_S, SIGNS, cpu_seconds, long
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.view import UnanswerableError
from while_pipeline.messages import json_text
from while_pipeline.records import Message, ToolCall
from while_pipeline.simulate.rollout import system_message

SYSTEM = system_message(DOCUMENT)
USER = Message(role="user", content="Please show me bill BIL-48213.")
CALL = ToolCall(id="a", name="get_bill", arguments={"bill_id": "BIL-48213"})
ASKS = Message(role="assistant", tool_calls=(CALL,))
SAYS = Message(role="assistant", content="How can I help you?")
RESULT = Message(role="tool", content='{"bill":{"amount":37.45}}', tool_call_id="a")


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "empty"),
        ([SYSTEM], "empty"),
        ([SYSTEM, SAYS], "no customer speaks"),
        ([SYSTEM, RESULT], "no customer speaks"),
        ([SYSTEM, USER, SAYS], "of role assistant"),
        ([SYSTEM, USER, ASKS], "of role assistant"),
        ([USER, SYSTEM], "of role system"),
        ([SYSTEM, USER, RESULT], "nothing was called"),
        ([USER, SAYS, RESULT], "nothing was called"),
    ],
)
def test_a_conversation_that_leaves_nothing_to_answer_is_an_error(
    messages: Sequence[Message], says: str
) -> None:
    with pytest.raises(UnanswerableError, match=says):
        EmbeddedAgent(BASE).respond(messages, TOOLS, 1)


@pytest.mark.parametrize(
    "messages",
    [[USER], [SYSTEM, USER], [SAYS, USER], [SYSTEM, USER, ASKS, RESULT], [SYSTEM, USER, ASKS, RESULT, USER]],
)
def test_anything_else_is_answered(messages: Sequence[Message]) -> None:
    message = EmbeddedAgent(BASE).respond(messages, TOOLS, 1).message
    assert message.role == "assistant"
    assert message.content or message.tool_calls


def test_a_tool_that_answers_in_plain_text_is_quoted() -> None:
    result = Message(role="tool", content="37.45 dollars, due on Friday", tool_call_id="a")
    texts = [
        EmbeddedAgent(BASE).respond([SYSTEM, USER, ASKS, result], TOOLS, seed).message.content or ""
        for seed in range(20)
    ]
    assert any("37.45 dollars, due on Friday" in text for text in texts)


def test_an_agent_without_tools_says_what_is_left() -> None:
    asks = Message(role="user", content="What can you help me with?")
    texts = [EmbeddedAgent(BASE).respond([SYSTEM, asks], (), seed).message.content or "" for seed in range(9)]
    assert all("I can tell you our rules" in text for text in texts)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["results", "result", "reference", "status", "error", "message", "bill", "stale"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
_RESULTS = st.text(max_size=20) | _JSON.map(json_text)


@settings(max_examples=150)
@given(number=st.integers(0, 79), seed=st.integers(0, 2**63 - 1), results=st.lists(_RESULTS, min_size=1))
def test_whatever_a_tool_answers_the_conversation_goes_on(
    number: int, seed: int, results: Sequence[str]
) -> None:
    rng = random.Random(seed)
    messages = [SYSTEM, Message(role="user", content=scenarios(80, seed=3)[number].script.opening)]
    agent = EmbeddedAgent(BASE)
    for _ in range(6):
        message = agent.respond(messages, TOOLS, rng.getrandbits(63)).message
        assert message.content or message.tool_calls
        messages.append(message)
        for call in message.tool_calls:
            messages.append(Message(role="tool", content=rng.choice(results), tool_call_id=call.id))
        if not message.tool_calls:
            messages.append(Message(role="user", content="Yes, I am Ann Lee, born 1990-02-03, ORD-1."))


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("before", ["", "Please show me my bill. The bill id is "])
def test_a_long_message_is_read_in_time_that_grows_with_its_length(before: str, sign: str) -> None:
    user, agent = Message(role="user", content=before + long(sign)), EmbeddedAgent(BASE)
    said = Message(role="assistant", content=long(sign))
    assert cpu_seconds(lambda: agent.respond([SYSTEM, user], TOOLS, 1)) < PATIENCE_S
    assert cpu_seconds(lambda: agent.respond([SYSTEM, USER, said, user], TOOLS, 1)) < PATIENCE_S


@pytest.mark.parametrize("result", [*map(long, SIGNS), json_text([{"a": n} for n in range(200_000)])])
def test_a_long_result_is_read_in_time_that_grows_with_its_length(result: str) -> None:
    asks = Message(role="user", content="Please show me bill BIL-48213. I also want to pay my bill.")
    talk = [SYSTEM, asks, ASKS, Message(role="tool", content=result, tool_call_id="a")]
    assert cpu_seconds(lambda: EmbeddedAgent(BASE).respond(talk, TOOLS, 1)) < PATIENCE_S
