import pytest

from tests.long_texts import PATIENCE_S, cpu_seconds, long
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Message, ToolCall
from while_pipeline.tools import parse_tools
from while_pipeline.transcript import Transcript, asks, own_words

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


def test_faults_are_the_steps_answered_with_an_error() -> None:
    answers = ["open", '{"error": "timeout"}', '{"stale": true}', '{"status": "paid"}', "Error: no"]
    calls = [m for text in answers for m in (agent(None, "get_bill"), tool(text))]
    faulty = transcript(user("Hi"), *calls, agent(None, "get_bill")).faults
    assert [(step.position, step.status) for step in faulty] == [(1, "timeout"), (4, "error")]


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


def test_an_assistant_turn_without_words_and_calls_is_silent() -> None:
    said = transcript(user("Hi"), agent(None), agent(" \n"), agent("", "get_bill"), tool("x"), agent("Yes."))
    assert said.silent == [1, 2]


def test_what_was_heard_before_is_found_in_any_case_and_what_the_agent_said_is_not() -> None:
    assert TALK.was_heard("my bill", 1)
    assert not TALK.was_heard("my bill", 0)
    assert not TALK.was_heard("one moment", 7)
    assert TALK.lowered_before(3) == ["look at my bill", "open"]


def test_a_call_is_superseded_by_a_later_turns_call_of_the_tool_not_by_one_beside_it() -> None:
    both = transcript(user("Hi"), agent(None, "get_bill", "get_bill"), tool("a", "0"), tool("b", "1"))
    assert [both.superseded(step) for step in both.steps] == [False, False]
    again = transcript(user("Hi"), agent(None, "get_bill"), tool("a"), agent(None, "get_bill"), tool("b"))
    assert [again.superseded(step) for step in again.steps] == [True, False]


PAY = {
    one.name: one
    for one in parse_tools(
        [
            {
                "name": "pay_bill",
                "parameters": {
                    "type": "object",
                    "properties": {"bill_id": {"type": "string"}, "card_id": {"type": "string"}},
                    "required": ["bill_id", "card_id"],
                },
            }
        ],
        "test",
    )
}


def _paid_again(answer: str, first: dict[str, str] | None, second: dict[str, str]) -> bool:
    """Whether a call of an answer is superseded by another of a later turn."""
    one, two = (ToolCall(id="0", name="pay_bill", arguments=values) for values in (first, second))
    made = [Message(role="assistant", content=None, tool_calls=(call,)) for call in (one, two)]
    said = Transcript([user("Hi"), made[0], tool(answer), made[1], tool("ok")], PAY, read_policy_document(""))
    return said.superseded(said.steps[0])


A, B = {"bill_id": "BILL-1", "card_id": "C-1"}, {"bill_id": "BILL-2", "card_id": "C-1"}


@pytest.mark.parametrize(
    "answer", ['{"error": "permission_denied"}', '{"error": "timeout"}', '{"stale": true}', "Error: no money"]
)
def test_a_call_for_another_record_supersedes_nothing(answer: str) -> None:
    assert not _paid_again(answer, A, B)
    assert _paid_again(answer, A, A)
    assert _paid_again(answer, A, {"bill_id": "bill-1", "card_id": "C-1"})
    assert _paid_again(answer, A, {"bill_id": "BILL-1", "card_id": "C-2"})  # the same bill, by another card


@pytest.mark.parametrize(
    "answer",
    [
        '{"error": "not_found"}',
        '{"error": "invalid_argument"}',
        "Error: bill not found",
        "Error: the card does not match",
    ],
)
def test_an_id_that_was_wrong_may_have_been_corrected(answer: str) -> None:
    assert _paid_again(answer, A, B)


def test_a_broken_call_names_no_record() -> None:
    assert _paid_again('{"error": "internal"}', None, A)


def test_calls_without_a_key_are_for_the_same_when_all_their_ids_are() -> None:
    def superseded(name: str, later: str) -> bool:
        made = [
            Message(
                role="assistant",
                content=None,
                tool_calls=(ToolCall(id="0", name=name, arguments={"a_id": "1", "b_id": b, "note": b}),),
            )
            for b in ("2", later)
        ]
        denied = tool('{"error": "permission_denied"}')
        said = transcript(user("Hi"), made[0], denied, made[1], tool("ok"))
        return said.superseded(said.steps[0])

    assert superseded("undeclared", "2")
    assert not superseded("undeclared", "3")


@pytest.mark.parametrize("mark", ['"', "'", "'a ", "\u2018a ", "\u201c", "\u201e", "\u00ab"])
def test_quotations_that_never_end_are_looked_for_once(mark: str) -> None:
    assert cpu_seconds(lambda: own_words(long(mark))) < PATIENCE_S


@pytest.mark.parametrize(
    ("text", "quotations"),
    [
        ('He said "I have paid it", no more.', ['"I have paid it"']),
        ("He said 'I've paid it', no more.", ["'I've paid it'"]),
        ("\u201cPaid,\u201d he wrote.", ["\u201cPaid,\u201d"]),
        ("\u00abPaid\u00bb or \u201ePaid\u201c", ["\u00abPaid\u00bb", "\u201ePaid\u201c"]),
        ("\u00ab Paid or \u00abpaid\u00bb", ["\u00abpaid\u00bb"]),
        ("I've paid the customers' bills.", []),
        ('A 5" and a 6" screen', []),
        ('An open "quotation', []),
    ],
)
def test_what_stands_in_quotation_marks_is_blanked_in_its_place(text: str, quotations: list[str]) -> None:
    own = text
    for quotation in quotations:
        own = own.replace(quotation, "_" * len(quotation))
    assert own_words(text) == own


@pytest.mark.parametrize(
    ("error", "said", "untold"),
    [
        ("timeout", "It is open.", True),
        ("timeout", "It timed out.", False),
        ("not_found", "There is no such bill.", False),
        ("already_done", "It was already paid.", False),
        ("timeout", "It was already paid.", True),
        ("conflict", "The bank declined it.", False),
        ("conflict", "The bank has it.", True),
    ],
)
def test_a_fault_is_told_in_the_words_of_its_kind(error: str, said: str, untold: bool) -> None:
    begin = [user("Hi"), agent(None, "get_bill"), tool(f'{{"error": "{error}"}}')]
    found = transcript(*begin, agent(said), user("And?"), agent("It failed.")).untold_faults
    assert [texts for _, texts in found] == ([[(3, said)]] if untold else [])


@pytest.mark.parametrize(
    ("text", "position", "asking"),
    [("Is it open? Yes.", 3, True), ("Is it open? Yes.", 12, False), ("Is it open", 3, False)],
)
def test_a_sentence_asks_when_it_ends_with_a_question_mark(text: str, position: int, asking: bool) -> None:
    assert asks(text, position) is asking
