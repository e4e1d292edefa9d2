import pytest

from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Message, ToolCall
from while_pipeline.tools import parse_tools
from while_pipeline.transcript import Transcript

TOOLS = {
    tool.name: tool
    for tool in parse_tools([{"name": "get_bill"}, {"name": "transfer_to_human_agent"}], "test")
}


def user(text: str) -> Message:
    return Message(role="user", content=text)


def agent(text: str | None, *tools: str) -> Message:
    calls = tuple(ToolCall(id=f"{i}", name=name, arguments={}) for i, name in enumerate(tools))
    return Message(role="assistant", content=text, tool_calls=calls)


def tool(text: str, call_id: str = "0") -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id)


def transcript(*messages: Message) -> Transcript:
    return Transcript(messages, TOOLS, read_policy_document(""))


TALK = transcript(
    Message(role="system", content="Be kind."),
    user("Look at my bill"),
    agent("One moment.", "get_bill"),
    tool("open"),
    agent("It is open."),
    agent("Shall I pay it?"),
    user("No"),
    agent("Then we\u2019re done."),
)


def test_the_system_message_is_not_part_of_it() -> None:
    assert TALK.messages[0] == user("Look at my bill")
    assert "Be kind" not in TALK.text()


def test_texts_carry_their_message_index_and_questions_are_no_replies() -> None:
    assert [i for i, _ in TALK.agent_texts] == [1, 3, 4, 6]
    assert [i for i, _ in TALK.replies] == [1, 3, 6]
    assert TALK.agent_words == 2 + 3 + 4 + 3


def test_curly_apostrophes_are_made_straight() -> None:
    assert TALK.agent_texts[-1] == (6, "Then we're done.")


def test_before_a_message_the_agent_knew_customer_and_tools_only() -> None:
    assert TALK.heard_before(0) == []
    assert TALK.heard_before(3) == ["Look at my bill", "open"]
    assert TALK.customer_before(6) == ["Look at my bill", "No"]


def test_the_reply_after_a_message_ends_where_the_customer_speaks() -> None:
    assert TALK.reply_after(1) == "It is open. Shall I pay it?"
    assert TALK.reply_after(0) == "One moment. It is open. Shall I pay it?"
    assert TALK.reply_after(5) == "Then we're done."
    assert TALK.reply_after(6) == ""


def test_a_judge_reads_every_message_and_every_call_with_its_arguments_as_json() -> None:
    broken = ToolCall(id="1", name="get_bill", arguments=None, raw="{oops")
    whole = ToolCall(id="2", name="get_bill", arguments={"id": "B\u00f8"})
    empty = ToolCall(id="3", name="get_bill", arguments={})
    said = transcript(user("Hi"), Message(role="assistant", tool_calls=(broken, whole, empty)), tool("x"))
    assert said.text().splitlines() == [
        "USER: Hi",
        "CALL: get_bill {oops",
        'CALL: get_bill {"id":"B\u00f8"}',
        "CALL: get_bill {}",
        "TOOL: x",
    ]


def test_the_last_step_of_a_tool_is_its_last_call() -> None:
    twice = transcript(user("Hi"), agent(None, "get_bill"), tool("a"), agent(None, "get_bill"), tool("b"))
    assert twice.last_step("get_bill").result == "b"


@pytest.mark.parametrize(
    ("last", "handed"),
    [
        (agent("I am transferring you to a human colleague now."), True),
        (agent(None, "transfer_to_human_agent"), True),
        (agent("I cannot transfer you to a human agent."), False),
        (agent("It is open.", "get_bill"), False),
    ],
)
def test_a_customer_is_handed_over_by_a_call_or_by_words_that_do_not_decline(
    last: Message, handed: bool
) -> None:
    assert transcript(user("Hi"), last).handed_over is handed
