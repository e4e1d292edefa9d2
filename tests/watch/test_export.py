import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto_json.collector.trace.v1.trace_service import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from while_pipeline.records import Conversation, Message, ToolCall
from while_pipeline.watch import otlp
from while_pipeline.watch.export import TrafficExporter
from while_pipeline.watch.read import Traffic, read_file

NOON = 1_772_452_800_123_456_789
"""2026-03-02, 12:00 UTC, with an odd number of nanoseconds."""

SYSTEM = Message(role="system", content="Be brief.")
HELLO = Message(role="user", content="Where is my order?")
DONE = Message(role="assistant", content="It is on its way.")


def _call(call_id: str, order: str) -> ToolCall:
    return ToolCall(id=call_id, name="get_order", arguments={"order_id": order})


def _asks(*calls: ToolCall) -> Message:
    return Message(role="assistant", tool_calls=calls)


def _result(call_id: str, content: str) -> Message:
    return Message(role="tool", content=content, tool_call_id=call_id)


def _clock(messages: Sequence[Message]) -> list[int]:
    return [NOON + 1_000_000_001 * i for i in range(len(messages))]


def _line(messages: Sequence[Message]) -> str:
    return TrafficExporter("clerk", "p-1").line("conv-1", messages, _clock(messages))


def _spans(messages: Sequence[Message]) -> list[otlp.Span]:
    spans, problems = otlp.spans(json.loads(_line(messages)), "t.jsonl", 1)
    assert problems == []
    return spans


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traffic")


def _read_back(messages: Sequence[Message], folder: Path) -> Traffic:
    path = folder / "t.jsonl"
    path.write_text(_line(messages) + "\n")
    return read_file(path, None)


def test_a_conversation_reads_back_as_it_was(folder: Path) -> None:
    messages = (SYSTEM, HELLO, _asks(_call("a", "O-1")), _result("a", '{"status":"sent"}'), DONE)
    traffic = _read_back(messages, folder)
    assert traffic.rejects == ()
    assert traffic.conversations == (
        Conversation(
            conversation_id="conv-1",
            day="2026-03-02",
            source="t.jsonl",
            dialect="otel_genai",
            messages=messages,
            model="p-1",
            agent_name="clerk",
            started_at_ns=_clock(messages)[1],
            ended_at_ns=_clock(messages)[-1],
        ),
    )


_ARGUMENTS = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5)
)
_RAW = st.sampled_from(["", "{", '{"a":1}{"b":2}', "[1]", "none"])


@st.composite
def _dialogues(draw: st.DrawFn) -> tuple[Message, ...]:
    """Customer and agent in turn; call ids repeat from turn to turn, as they do in real agents."""
    messages = [SYSTEM] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(Message(role="user", content=draw(st.text(max_size=8))))
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for n in range(draw(st.integers(1, 3))):
                name = draw(st.sampled_from(["get_order", "pay_bill"]))
                raw = draw(st.none() | _RAW)
                arguments = draw(_ARGUMENTS) if raw is None else None
                calls.append(ToolCall(id=f"call_{n}", name=name, arguments=arguments, raw=raw))
            said = draw(st.none() | st.text(max_size=5))
            messages.append(Message(role="assistant", content=said, tool_calls=tuple(calls)))
            messages += [_result(call.id, draw(st.text(max_size=8))) for call in calls]
        messages.append(Message(role="assistant", content=draw(st.text(max_size=8))))
    return tuple(messages)


@settings(max_examples=100, deadline=None)
@given(messages=_dialogues())
def test_any_dialogue_reads_back_as_it_was(messages: tuple[Message, ...], folder: Path) -> None:
    traffic = _read_back(messages, folder)
    (conversation,) = traffic.conversations
    assert (conversation.messages, conversation.incomplete, traffic.rejects) == (messages, None, ())


def test_a_last_tool_result_comes_back_though_no_request_resends_it(folder: Path) -> None:
    messages = (HELLO, _asks(_call("a", "O-1"), _call("b", "O-2")), _result("a", "one"), _result("b", "two"))
    (conversation,) = _read_back(messages, folder).conversations
    assert conversation.messages == messages


def test_a_last_word_that_nobody_answered_is_in_no_span(folder: Path) -> None:
    (conversation,) = _read_back((HELLO, DONE, HELLO), folder).conversations
    assert conversation.messages == (HELLO, DONE)


def test_a_conversation_is_one_trace_under_the_agents_span() -> None:
    messages = (SYSTEM, HELLO, _asks(_call("a", "O-1")), _result("a", "sent"), DONE)
    root, *children = sorted(_spans(messages), key=lambda span: span.parent_id)
    clock = _clock(messages)
    assert (root.name, root.start_ns, root.end_ns) == ("invoke_agent clerk", clock[0], clock[-1])
    assert [(s.name, s.start_ns, s.end_ns) for s in children] == [
        ("chat p-1", clock[1], clock[2]),
        ("execute_tool get_order", clock[2], clock[3]),
        ("chat p-1", clock[3], clock[4]),
    ]
    assert {(s.trace_id, s.parent_id) for s in children} == {(root.trace_id, root.span_id)}
    assert len({s.span_id for s in (root, *children)}) == 4


def test_results_given_out_of_order_stay_with_their_calls() -> None:
    messages = (HELLO, _asks(_call("a", "O-1"), _call("b", "O-2")), _result("b", "two"), _result("a", "one"))
    attributes = [s.attributes for s in _spans(messages) if s.name.startswith("execute_tool")]
    assert [(a["gen_ai.tool.call.arguments"], a["gen_ai.tool.call.result"]) for a in attributes] == [
        ('{"order_id":"O-2"}', "two"),
        ('{"order_id":"O-1"}', "one"),
    ]


def test_a_result_that_no_call_asked_for_is_no_tool_run() -> None:
    messages = (HELLO, _result("x", "sent"), _asks(_call("a", "O-1")), _result("a", "sent"), DONE)
    (tool,) = [span for span in _spans(messages) if span.name == "execute_tool get_order"]
    assert tool.end_ns == _clock(messages)[3]


def test_all_leading_system_messages_are_instructions(folder: Path) -> None:
    (conversation,) = _read_back((SYSTEM, SYSTEM, HELLO, DONE), folder).conversations
    joined = Message(role="system", content="Be brief.\nBe brief.")
    assert conversation.messages == (joined, HELLO, DONE)


@pytest.mark.parametrize(
    ("result", "error"),
    [('{"error":"timeout"}', "timeout"), ('{"status":"ok"}', None), ('{"stale":true}', None)],
)
def test_a_failed_tool_call_is_a_failed_span(result: str, error: str | None) -> None:
    messages = (HELLO, _asks(_call("a", "O-1")), _result("a", result), DONE)
    (tool,) = [span for span in _spans(messages) if span.name == "execute_tool get_order"]
    assert (tool.attributes.get("error.type"), tool.failed) == (error, error is not None)


def test_every_attribute_is_one_of_the_conventions() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    messages = (SYSTEM, HELLO, _asks(_call("a", "O-1")), _result("a", '{"error":"timeout"}'), DONE)
    used = {name for span in _spans(messages) for name in span.attributes}
    assert used - known == {"error.type"}
    assert {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.result"} <= used


def test_a_line_is_an_export_request_of_the_protocol() -> None:
    line = _line((HELLO, DONE))
    (resource,) = ExportTraceServiceRequest.from_json(line).resource_spans
    assert "\n" not in line
    assert [len(scope.spans) for scope in resource.scope_spans] == [2]


def test_the_same_conversation_gives_the_same_line_whatever_was_written_before() -> None:
    exporter = TrafficExporter("clerk", "p-1")
    first = exporter.line("conv-1", (HELLO, DONE), [NOON, NOON + 1])
    other = exporter.line("conv-1", (HELLO, DONE), [NOON, NOON + 2])
    assert exporter.line("conv-1", (HELLO, DONE), [NOON, NOON + 1]) == first
    ids = [
        json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
        for line in (first, other)
    ]
    assert ids[0] != ids[1]


@pytest.mark.parametrize(("messages", "clock"), [((), []), ((HELLO, DONE), [NOON])])
def test_every_message_needs_its_time(messages: tuple[Message, ...], clock: list[int]) -> None:
    with pytest.raises(ValueError, match="expected one time each"):
        TrafficExporter("clerk", "p-1").line("conv-1", messages, clock)


def test_one_request_is_one_span_with_all_that_was_said() -> None:
    history = (SYSTEM, HELLO, _asks(_call("a", "O-1")), _result("a", "sent"))
    exporter = TrafficExporter("clerk", "p-1")
    line = exporter.request("chatcmpl-1", history, DONE, (NOON, NOON + 5), "conv-1")
    (span,), problems = otlp.spans(json.loads(line), "t.jsonl", 1)
    assert problems == []
    assert (span.name, span.parent_id, span.start_ns, span.end_ns) == ("chat p-1", "", NOON, NOON + 5)
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    assert span.attributes.keys() <= known
    assert span.attributes["gen_ai.response.id"] == "chatcmpl-1"
    assert ExportTraceServiceRequest.from_json(line).resource_spans
    assert exporter.request("chatcmpl-1", history, DONE, (NOON, NOON + 5), "conv-1") == line
    assert exporter.request("chatcmpl-2", history, DONE, (NOON, NOON + 5), "conv-1") != line


@pytest.mark.parametrize("conversation_id", [None, "conv-1"])
def test_the_requests_of_a_conversation_read_back_as_it_was(
    folder: Path, conversation_id: str | None
) -> None:
    said = (SYSTEM, HELLO, _asks(_call("a", "O-1")), _result("a", "sent"), DONE, HELLO, DONE)
    exporter, path = TrafficExporter("clerk", "p-1"), folder / "requests.jsonl"
    turns = [i for i, message in enumerate(said) if message.role == "assistant"]
    lines = [
        exporter.request(f"r-{i}", said[:i], said[i], (NOON + i, NOON + i + 1), conversation_id)
        for i in turns
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    (conversation,) = read_file(path, None).conversations
    assert (conversation.messages, conversation.incomplete) == (said, None)
    assert (conversation.agent_name, conversation.model) == ("clerk", "p-1")
    assert conversation_id in (None, conversation.conversation_id)
