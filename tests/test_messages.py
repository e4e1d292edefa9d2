import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.messages import (
    decode_arguments,
    decode_json,
    decode_json_at,
    from_openai,
    messages_from_json,
    messages_json,
    result_status,
    steps,
    to_openai,
)
from while_pipeline.records import Message, ToolCall


def _asks(*calls: tuple[str, str]) -> Message:
    made = tuple(ToolCall(id=call_id, name=name, arguments={}) for call_id, name in calls)
    return Message(role="assistant", tool_calls=made)


def _answers(call_id: str | None, content: str) -> Message:
    return Message(role="tool", content=content, tool_call_id=call_id)


def test_results_bind_by_call_id_even_when_they_come_in_another_order() -> None:
    found = steps([_asks(("a", "f"), ("b", "f")), _answers("b", "second"), _answers("a", "first")])
    assert [(step.call.id, step.result) for step in found] == [("a", "first"), ("b", "second")]


def test_an_id_reused_in_a_later_turn_binds_within_its_own_turn() -> None:
    turns = [_asks(("a", "f")), _answers("a", "one"), _asks(("a", "g")), _answers("a", "two")]
    assert [(s.turn, s.call.name, s.result) for s in steps(turns)] == [(0, "f", "one"), (2, "g", "two")]


def test_results_without_a_known_id_bind_by_position_and_never_by_name() -> None:
    found = steps([_asks(("", "f"), ("", "f")), _answers(None, "one"), _answers("x", "two")])
    assert [step.result for step in found] == ["one", "two"]


def test_parallel_calls_spread_over_several_assistant_messages_are_one_turn() -> None:
    found = steps([_asks(("a", "f")), _asks(("b", "g")), _answers("a", "one"), _answers("b", "two")])
    assert [(step.turn, step.result) for step in found] == [(0, "one"), (1, "two")]


def test_a_call_without_a_result_is_a_step_of_unknown_status() -> None:
    (step,) = steps([_asks(("a", "f")), Message(role="user", content="hello?")])
    assert (step.result, step.status) == (None, "unknown")


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (None, "unknown"),
        ("", "ok"),
        ("Transfer successful", "ok"),
        ("Error: user not found", "error"),
        ('{"status":"ok","order":{"status":"cancelled"}}', "ok"),
        ('{"status":"cancelled","order_id":"ORD-1"}', "ok"),
        ('{"status":"timeout"}', "timeout"),
        ('{"error":"timeout","message":"try again"}', "timeout"),
        ('{"error":{"code":"not_found","message":"no such order"}}', "not_found"),
        ('{"error":{"code":404}}', "http_404"),
        ('{"error":"TimeoutError"}', "timeout"),
        ('{"error":"PERMISSION DENIED"}', "permission_denied"),
        ('{"error":"We could not find an order with that number"}', "error"),
        ('{"error":null,"status":"ok"}', "ok"),
        ('{"error":"","code":"SAVE10"}', "ok"),
        ('{"code":404,"city":"Wolfsburg"}', "ok"),
        ('{"status":404}', "http_404"),
        ('{"status":"error","code":"RATE_LIMITED"}', "rate_limited"),
        ('{"success":false}', "error"),
        ('{"isError":true}', "error"),
        ('{"order_id": "ORD-1", "sta', "malformed"),
        ('[{"error":"timeout"}]', "ok"),
        ('{"status":"failed","message":"It broke.","details":{"hint":"later"}}', "failed"),
        ('{"type":"about:blank","title":"Gone","status":410,"detail":"No such page."}', "http_410"),
        ('{"success":false,"message":"Too late.","bill_id":"BILL-1"}', "error"),
        ('{"success":false,"results":[],"next":null}', "error"),
        ('{"error":"timeout","bill_id":"BILL-1","amount":20}', "timeout"),
        ('{"isError":true,"bill_id":"BILL-1"}', "error"),
        ('{"bill_id":"BILL-1","status":"failed","amount":20}', "ok"),
        ('{"room":"A5","status":"unavailable"}', "ok"),
        ('{"code":"CONFLICT","name":"The other door"}', "ok"),
        ('{"url":"https://shop.example","status":503}', "ok"),
        ('{"payment_id":"PAY-1","success":false}', "ok"),
    ],
)
def test_a_status_is_read_from_the_result(content: str | None, status: str) -> None:
    assert result_status(content) == status


def test_arguments_are_decoded_at_most_twice() -> None:
    once = json.dumps({"a": 1})
    assert decode_arguments({"a": 1}) == ({"a": 1}, None)
    assert decode_arguments(once) == ({"a": 1}, None)
    assert decode_arguments(json.dumps(once)) == ({"a": 1}, None)
    thrice = json.dumps(json.dumps(once))
    assert decode_arguments(thrice) == (None, thrice)


@pytest.mark.parametrize(
    "raw", ["", '{"a": 1', "[1]", "null", '{"a":1}{"a":2}', '{"a": NaN}', '{"a": 1e999}']
)
def test_arguments_that_are_no_json_object_are_kept_as_text_and_never_become_an_empty_call(raw: str) -> None:
    assert decode_arguments(raw) == (None, raw)


def test_missing_arguments_are_not_an_empty_object() -> None:
    assert decode_arguments(None) == (None, "")


def test_integers_keep_all_their_digits_and_surrogates_become_text() -> None:
    assert decode_json('{"n": 123456789012345678901234567890}') == {"n": 123456789012345678901234567890}
    assert decode_json(r'["\ud83c\udf78", "\ud83c x", "end \udf78", "\uD83C"]') == [
        "\U0001f378",
        "� x",
        "end �",
        "�",
    ]


def test_absurd_nesting_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_json("[" * 100_000)


def test_openai_messages_are_read_in_all_their_spellings() -> None:
    assert from_openai({"role": "developer", "content": "Be kind."}).role == "system"
    parts = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {}}]
    assert from_openai({"role": "user", "content": parts}).content == "Hi\n[image_url]"
    assert from_openai({"role": "assistant", "content": None, "refusal": "No."}).content == "No."
    old = from_openai(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    )
    assert old.tool_calls == (ToolCall(id="", name="f", arguments={}),)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"role": "narrator"},
        {"role": "assistant", "tool_calls": [{"id": "a"}]},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]},
        {"role": "assistant", "tool_calls": {"id": "a"}},
    ],
)
def test_a_message_that_cannot_be_read_is_a_value_error(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"role|tool call|tool_calls"):
        from_openai(value)


def test_the_openai_form_carries_arguments_as_json_text() -> None:
    call = ToolCall(id="a", name="f", arguments={"city": "Zürich"})
    written = to_openai(Message(role="assistant", tool_calls=(call,)))
    assert written["content"] is None
    assert written["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"city":"Zürich"}'}


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_calls = st.builds(
    ToolCall,
    id=st.text(),
    name=st.text(min_size=1),
    arguments=st.dictionaries(st.text(), _values, max_size=3),
) | st.builds(
    ToolCall, id=st.text(), name=st.just("f"), arguments=st.none(), raw=st.sampled_from(["", "{", "[]"])
)
_messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=st.none() | st.text(),
    tool_calls=st.lists(_calls, max_size=2).map(tuple),
    tool_call_id=st.none() | st.text(),
)


@given(st.lists(_messages, max_size=4))
def test_messages_come_back_equal_from_their_json(messages: list[Message]) -> None:
    assert messages_from_json(messages_json(messages)) == tuple(messages)


def test_a_json_value_is_read_from_where_it_begins_to_where_it_ends() -> None:
    assert decode_json_at('a {"b": [1, "x"]} c', 2) == {"b": [1, "x"]}
    assert decode_json_at(r'"\ud800"]', 0) == "\ufffd"


@pytest.mark.parametrize("text", ["", "a", "{", "NaN", "1e999", "[" * 100_000, "9" * 5_000])
def test_where_no_json_begins_there_is_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (whatever the decoder says)
        decode_json_at(text, 0)
