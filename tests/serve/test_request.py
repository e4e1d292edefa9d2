import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.example import TOOLS
from while_pipeline.records import Message, ToolCall
from while_pipeline.serve.request import (
    MAX_CALLS,
    MAX_MESSAGES,
    MAX_SCHEMAS,
    MAX_TEXT,
    MAX_TOOLS,
    ChatRequest,
    RequestError,
    read_request,
)

USER = {"role": "user", "content": "Hello"}
TEXT = {"type": "text", "text": "Hello"}


def _call(call_id: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_bill", "arguments": arguments}}


def _calls(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def _result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "{}"}


def _body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [USER], **fields}).encode()


def _read_or_refused(body: bytes) -> ChatRequest | RequestError:
    try:
        return read_request(body)
    except RequestError as refused:
        return refused


def _refusal(body: bytes) -> RequestError:
    with pytest.raises(RequestError) as refused:
        read_request(body)
    return refused.value


# -- what is read -------------------------------------------------------------------------------------------


def test_a_conversation_with_tools_is_read_whole() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]},
        _calls(_call("a", '{"bill_id":"B-1"}'), _call("b")),
        _result("b"),
        _result("a"),
    ]
    tools = [tool.openai() for tool in TOOLS]
    request = read_request(_body(messages=messages, tools=tools, seed=3, stream=True, logprobs=True))
    assert request.messages[:3] == (
        Message(role="system", content="Be brief."),
        Message(role="user", content="One\ntwo"),
        Message(
            role="assistant",
            tool_calls=(
                ToolCall(id="a", name="get_bill", arguments={"bill_id": "B-1"}),
                ToolCall(id="b", name="get_bill", arguments={}),
            ),
        ),
    )
    assert request.toolset.tools == TOOLS
    assert (request.seed, request.stream, request.logprobs) == (3, True, True)


def test_equal_lists_of_tools_are_read_once_and_their_order_counts() -> None:
    tools = [tool.openai() for tool in TOOLS]
    one, two, other = (
        read_request(_body(tools=sent)).toolset for sent in (tools, tools, list(reversed(tools)))
    )
    assert one.tools is two.tools
    assert other.tools == tuple(reversed(TOOLS))


def test_the_seed_is_the_requests_own_or_follows_from_what_was_said() -> None:
    own = {read_request(_body()).seed for _ in range(3)}
    other = {read_request(_body(messages=[{**USER, "content": f"Hello {n}"}])).seed for n in range(50)}
    assert len(own) == 1
    assert len(other - own) == 50
    assert read_request(_body(seed=-5)).seed == -5


def test_a_conversation_is_kept_unless_the_caller_says_otherwise() -> None:
    assert [read_request(_body(store=store)).kept for store in (None, True, False)] == [True, True, False]


def test_the_callers_own_id_of_the_conversation_is_in_the_metadata() -> None:
    assert read_request(_body(metadata={"conversation_id": "c-1"})).conversation_id == "c-1"
    assert read_request(_body(metadata={"other": "x"})).conversation_id is None


@pytest.mark.parametrize(
    "harmless",
    [
        {"temperature": 1.0, "top_p": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0.0},
        {"max_tokens": 5, "max_completion_tokens": 5, "parallel_tool_calls": True, "user": "u"},
        {"response_format": {"type": "text"}, "tool_choice": "auto", "stop": None, "logit_bias": {}},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"messages": [{"role": "user", "content": [TEXT]}]},
    ],
)
def test_what_changes_nothing_is_accepted(harmless: dict[str, Any]) -> None:
    assert read_request(_body(**harmless)).messages == (Message(role="user", content="Hello"),)


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("temperature", True),
        ("top_p", 0.5),
        ("n", 2),
        ("top_logprobs", 5),
        ("stop", ["\n"]),
        ("response_format", {"type": "json_object"}),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "get_bill"}}),
        ("logit_bias", {"50256": -100}),
    ],
)
def test_what_the_policy_cannot_do_is_refused_by_name(name: str, value: Any) -> None:
    refusal = _refusal(_body(**{name: value}))
    assert (refusal.status, refusal.param, refusal.code) == (400, name, "unsupported_value")
    assert name in str(refusal)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temprature": 1}, "temprature", "unknown_parameter"),
        ({"seed": "7"}, "seed", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"messages": "Hello"}, "messages", "invalid_value"),
        ({"messages": ["Hello"]}, "messages[0]", "invalid_value"),
        ({"metadata": {"conversation_id": 1}}, "metadata.conversation_id", "invalid_value"),
    ],
)
def test_a_wrong_parameter_is_named(fields: dict[str, Any], param: str, code: str) -> None:
    refusal = _refusal(_body(**fields))
    assert (refusal.status, refusal.param, refusal.code) == (400, param, code)


def test_a_missing_parameter_is_named() -> None:
    refusal = _refusal(b'{"messages":[]}')
    assert (refusal.param, refusal.code) == ("model", "missing_required_parameter")


@pytest.mark.parametrize(
    ("messages", "param", "says"),
    [
        ([], "messages", "empty"),
        ([{"role": "user"}], "messages[0].content", "needs content"),
        ([{"role": "king", "content": "x"}], "messages[0]", "unknown role 'king'"),
        ([{"content": "x"}], "messages[0]", "unknown role None"),
        ([{"role": "user", "content": {"a": 1}}], "messages[0].content", "text parts"),
        ([{"role": "user", "content": []}], "messages[0].content", "text parts"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]", "a text part"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text", "a string"),
        ([{"role": "user", "content": [TEXT, {**TEXT, "text": 5}]}], "messages[0].content[1].text", "is 5"),
        ([{**USER, "content": [{**TEXT, "type": "refusal"}]}], "messages[0].content[0].refusal", "a string"),
        ([{"role": "user", "content": ["Hello"]}], "messages[0].content[0]", "a text part"),
        ([USER, _result("a")], "messages[1]", 'no open call has the id "a"'),
        ([USER, {"role": "tool", "content": "{}"}], "messages[1]", "no open call has the id null"),
        ([USER, _calls(_call("a")), _result("b")], "messages[2]", 'no open call has the id "b"'),
        ([USER, _calls(_call("a")), _result("a"), _result("a")], "messages[3]", "no open call"),
        ([USER, _calls(_call("a")), _result("a"), USER, _result("a")], "messages[4]", "no open call"),
        ([USER, _calls(_call("a"))], "messages", "a have no result"),
        ([USER, _calls(_call("a"), _call("b")), _result("a"), USER], "messages[3]", "b have no result"),
        ([USER, _calls(_call("a"), _call("a"))], "messages[1].tool_calls[1].id", "of its own"),
        ([USER, _calls(_call(""))], "messages[1].tool_calls[0].id", "of its own"),
        ([{**USER, "tool_calls": [_call("a")]}], "messages[0].tool_calls", "only the assistant"),
        ([USER, {**_calls(), "tool_calls": "x"}], "messages[1]", "not a list"),
        ([USER, _calls({"id": "a"})], "messages[1]", "no function"),
    ],
)  # fmt: skip
def test_messages_that_are_no_conversation_are_refused_where_they_break(
    messages: list[Any], param: str, says: str
) -> None:
    refusal = _refusal(_body(messages=messages))
    assert (refusal.status, refusal.param, refusal.code) == (400, param, "invalid_value")
    assert says in str(refusal)


def _tool(number: int, **schema: Any) -> dict[str, Any]:
    function = {"name": f"get_{number}", "parameters": {"type": "object", **schema}}
    return {"type": "function", "function": function}


LONG = "a" * MAX_TEXT
SYSTEM = {"role": "system", "content": LONG}
CALLS = _calls(*(_call(f"{n}") for n in range(MAX_CALLS + 1)))


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"messages": [{**USER, "content": LONG + "a"}]}, "messages[0].content", "string"),
        ({"messages": [{**USER, "content": [{**TEXT, "text": LONG}] * 2}]}, "messages[0].content", "string"),
        ({"messages": [SYSTEM, SYSTEM, USER]}, "messages (of role system)", "string"),
        ({"messages": [USER] * (MAX_MESSAGES + 1)}, "messages", "array"),
        ({"messages": [USER, CALLS]}, "messages[1].tool_calls", "array"),
        ({"tools": [_tool(n) for n in range(MAX_TOOLS + 1)]}, "tools", "array"),
        ({"tools": [_tool(1, description="a" * MAX_SCHEMAS)]}, "tools", "string"),
    ],
)
def test_what_is_too_long_to_read_while_others_wait_is_refused(
    fields: dict[str, Any], param: str, code: str
) -> None:
    refusal = _refusal(_body(**fields))
    assert (refusal.status, refusal.param, refusal.code) == (400, param, f"{code}_above_max_length")
    assert param in str(refusal)
    assert "at most" in str(refusal)


def test_what_is_just_short_enough_is_read() -> None:
    messages = [SYSTEM, *[USER] * (MAX_MESSAGES - 2), {**USER, "content": LONG}]
    request = read_request(_body(messages=messages, tools=[_tool(n) for n in range(MAX_TOOLS)]))
    assert (len(request.messages), len(request.toolset.tools)) == (MAX_MESSAGES, MAX_TOOLS)


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "3", '"text"', '{"a":1}{"b":2}', None, [1]])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    refusal = _refusal(_body(messages=[USER, _calls(_call("a", arguments)), _result("a")]))
    assert refusal.param == "messages[1].tool_calls[0].function.arguments"
    assert "not a JSON object" in str(refusal)


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        (["get_bill"], "tools[0]"),
        ([{"type": "function", "function": {"name": "a b"}}], "tools[0].name"),
        ([{"type": "function", "function": {"name": "a", "parameters": 3}}], "tools[0] (a).parameters"),
        ([{"type": "function", "function": {"name": "a"}}] * 2, "tools: name"),
    ],
)
def test_tools_that_are_none_are_refused(tools: list[Any], param: str) -> None:
    refusal = _refusal(_body(tools=tools))
    assert (refusal.status, refusal.code) == (400, "invalid_value")
    assert (refusal.param or "").startswith(param)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[]", b"null", b'{"model":NaN}', b'{"model":1e999}', b"[" * 100_000],
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    assert _refusal(body).status == 400


@pytest.mark.parametrize("depth", [200, 900, 5_000])
def test_a_body_that_nests_deeply_is_read_or_refused(depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    schema = f'{{"type":"function","function":{{"name":"a","parameters":{{"properties":{nested}}}}}}}'
    body = f'{{"model":"m","messages":[{{"role":"user","content":"x"}}],"tools":[{schema}]}}'.encode()
    outcome = _read_or_refused(body)
    assert not isinstance(outcome, RequestError) or outcome.status == 400


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool", "system"]) | _JSON,
        "content": st.text(max_size=5) | _JSON,
        "tool_calls": st.lists(st.builds(_call, st.text(max_size=2), _JSON), max_size=2) | _JSON,
        "tool_call_id": st.text(max_size=2) | _JSON,
    },
)


@given(messages=st.lists(_MESSAGE, max_size=4), tools=st.none() | st.lists(_JSON, max_size=2), more=_JSON)
def test_anything_else_is_read_or_refused_and_nothing_breaks(messages: Any, tools: Any, more: Any) -> None:
    fields = more if isinstance(more, dict) else {}
    outcome = _read_or_refused(_body(**{**fields, "messages": messages, "tools": tools}))
    if isinstance(outcome, RequestError):
        assert outcome.status == 400
    else:
        assert len(outcome.messages) == len(messages)
