import base64
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.example import SHARED
from while_pipeline.messages import steps, to_openai
from while_pipeline.records import Conversation, Message
from while_pipeline.watch.otlp import any_value, hex_id
from while_pipeline.watch.read import Traffic, read_file, read_traffic

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_740_787_200_123_456_789  # 2025-03-01, with nanoseconds that a float would lose


def _any(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": _any(v)} for k, v in value.items()]}}
    return {"stringValue": value}


def _pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any(value)} for key, value in attributes.items()]


def _span(number: int, attributes: dict[str, Any], trace: str = TRACE, **more: Any) -> dict[str, Any]:
    """Span `number` runs during second `number` after START."""
    begin = START + number * 10**9
    return {
        "traceId": trace,
        "spanId": f"{number + 1:016x}",
        "name": "chat m",
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + 10**9),
        "attributes": _pairs(attributes),
        **more,
    }


def _text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _call(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}],
    }


def _response(call_id: str, response: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def _chat(
    number: int, history: Any, output: Any, key: str | None = "c-1", trace: str = TRACE, **more: Any
) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": history if isinstance(history, str) else json.dumps(history),
        "gen_ai.output.messages": output if isinstance(output, str) else json.dumps(output),
        **({"gen_ai.conversation.id": key} if key else {}),
    }
    return _span(number, attributes, trace, **more)


def _tool(number: int, name: str, trace: str = TRACE, **attributes: Any) -> dict[str, Any]:
    named = {f"gen_ai.tool.{key.replace('__', '.')}": value for key, value in attributes.items()}
    return _span(number, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **named}, trace)


def _document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def _read(tmp_path: Path, *spans: dict[str, Any]) -> Traffic:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(_document(span)) + "\n" for span in spans))
    return read_file(path, None)


def _one(tmp_path: Path, *spans: dict[str, Any]) -> Conversation:
    traffic = _read(tmp_path, *spans)
    assert not traffic.rejects
    (made,) = traffic.conversations
    return made


def _roles(made: Conversation) -> str:
    return "".join(message.role[0] for message in made.messages)


HI, HELLO, ORDER = _text("user", "Hi"), _text("assistant", "Hello"), _text("user", "Where is ORD-1?")
LOOK, FOUND = _call("a", "look_up", {"id": "ORD-1"}), _response("a", {"status": "ok"})
DONE = _text("assistant", "It is on its way.")


def test_the_longest_history_and_its_answer_are_the_conversation(tmp_path: Path) -> None:
    turns = [_chat(0, [HI], [HELLO]), _chat(1, [HI, HELLO, ORDER], [LOOK])]
    made = _one(tmp_path, *turns, _chat(2, [HI, HELLO, ORDER, LOOK, FOUND], [DONE]))
    assert (made.conversation_id, made.day, made.model, made.dialect) == (
        "c-1",
        "2025-03-01",
        "m",
        "otel_genai",
    )
    assert (made.started_at_ns, made.ended_at_ns) == (START, START + 3 * 10**9)
    assert _roles(made) == "uauata"
    (step,) = steps(made.messages)
    assert (step.call.arguments, step.result, step.status) == ({"id": "ORD-1"}, '{"status": "ok"}', "ok")
    assert made.incomplete is None


def test_order_of_lines_and_reading_again_change_nothing(tmp_path: Path) -> None:
    turns = [_chat(0, [HI], [HELLO]), _chat(1, [HI, HELLO, ORDER], [LOOK])]
    assert _one(tmp_path, *turns) == _one(tmp_path, *turns[::-1]) == _one(tmp_path, *turns, *turns)


def test_messages_may_be_structured_values_or_json_text_on_the_span_or_its_details_event(
    tmp_path: Path,
) -> None:
    values = {"gen_ai.input.messages": [HI], "gen_ai.output.messages": [LOOK]}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c-1", "gen_ai.request.model": "m"}
    event = {"name": "gen_ai.client.inference.operation.details", "attributes": _pairs(values)}
    on_span = _one(tmp_path, _span(0, {**chat, **values}))
    on_event = _one(tmp_path, _span(0, chat, events=[event]))
    assert on_span == on_event == _one(tmp_path, _chat(0, [HI], [LOOK]))


@pytest.mark.parametrize(
    "instructions", ["Be kind.", json.dumps([{"type": "text", "content": "Be kind."}])], ids=["text", "parts"]
)
def test_system_instructions_lead_the_conversation(tmp_path: Path, instructions: str) -> None:
    span = _chat(0, [HI], [HELLO])
    span["attributes"] += _pairs({"gen_ai.system_instructions": instructions})
    made = _one(tmp_path, span)
    assert (_roles(made), made.messages[0].content) == ("sua", "Be kind.")


def test_without_a_conversation_id_histories_that_extend_each_other_join(tmp_path: Path) -> None:
    other = [_text("user", "Cancel"), _text("assistant", "Which?")]
    spans = [
        _chat(0, [HI], [HELLO], None, "1" * 32),
        _chat(1, other[:1], other[1:], None, "2" * 32),
        _chat(2, [HI, HELLO, ORDER], [DONE], None, "3" * 32),
        _chat(3, [*other, ORDER], [DONE], None, "4" * 32),
    ]
    made = _read(tmp_path, *spans).conversations
    assert [c.messages[0].content for c in made] == ["Hi", "Cancel"]
    assert [_roles(c) for c in made] == ["uaua", "uaua"]
    assert len({c.conversation_id for c in made}) == 2


def test_two_conversations_in_one_trace_stay_apart(tmp_path: Path) -> None:
    cancel = [_text("user", "Cancel"), _text("assistant", "Which?")]
    spans = _chat(0, [HI], [HELLO], None), _chat(1, cancel[:1], cancel[1:], None)
    assert len(_read(tmp_path, *spans).conversations) == 2


def test_equal_short_conversations_of_different_customers_stay_apart(tmp_path: Path) -> None:
    spans = _chat(0, [HI], [HELLO], None, "1" * 32), _chat(1, [HI], [HELLO], None, "2" * 32)
    assert len({c.conversation_id for c in _read(tmp_path, *spans).conversations}) == 2


def test_histories_join_within_a_file_only_but_ids_across_files(tmp_path: Path) -> None:
    for key, count in ((None, 2), ("c-1", 1)):
        for name, span in (
            ("a", _chat(0, [HI], [HELLO], key)),
            ("b", _chat(1, [HI, HELLO, ORDER], [DONE], key)),
        ):
            (tmp_path / f"{name}.json").write_text(json.dumps(_document(span)))
        assert len(read_traffic(sorted(tmp_path.iterdir()), tmp_path, None).conversations) == count


def test_the_session_id_is_a_conversation_id(tmp_path: Path) -> None:
    spans = [_chat(0, [HI], [HELLO], None), _chat(1, [ORDER], [DONE], None)]
    for span in spans:
        span["attributes"] += _pairs({"session.id": "s-1"})
    made = _one(tmp_path, *spans)
    assert (made.conversation_id, _roles(made)) == ("s-1", "uaua")


def test_trace_ids_in_hex_and_base64_are_the_same_id(tmp_path: Path) -> None:
    coded = base64.b64encode(bytes.fromhex(TRACE)).decode()
    assert hex_id(TRACE.upper(), 16) == hex_id(coded, 16) == hex_id(f"0x{TRACE}", 16) == TRACE
    parent = _span(0, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}, coded)
    parent["attributes"] += _pairs({"gen_ai.conversation.id": "c-9"})
    child = _chat(1, [HI], [HELLO], None, TRACE, parentSpanId=base64.b64encode(bytes(7) + b"\1").decode())
    made = _one(tmp_path, parent, child)
    assert (made.conversation_id, made.agent_name) == ("c-9", "desk")


@pytest.mark.parametrize("bad", ["xyz", "00", "!" * 32])
def test_a_span_with_a_broken_id_is_rejected_alone(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(_document(_chat(0, [HI], [HELLO], trace=bad), _chat(1, [HI], [HELLO]))))
    traffic = read_file(path, None)
    assert len(traffic.conversations) == 1
    assert "is not an id of 16 bytes" in traffic.rejects[0].reason


def test_results_that_live_only_in_tool_spans_are_joined(tmp_path: Path) -> None:
    both = {"role": "assistant", "parts": [*LOOK["parts"], *_call("b", "refund", {"id": "ORD-1"})["parts"]]}
    made = _one(
        tmp_path,
        _chat(0, [HI], [both]),
        _tool(1, "look_up", call__id="a", call__arguments='{"id":"ORD-1"}', call__result="found"),
        _tool(
            2, "refund", call__id="b", call__arguments='{"id":"ORD-1"}', call__result='{"error":"timeout"}'
        ),
    )
    assert [(m.tool_call_id, m.content) for m in made.messages[2:]] == [
        ("a", "found"),
        ("b", '{"error":"timeout"}'),
    ]
    assert [step.status for step in steps(made.messages)] == ["ok", "timeout"]
    assert made.incomplete is None


def test_a_failed_tool_span_without_a_result_gives_its_error(tmp_path: Path) -> None:
    span = _tool(1, "look_up", call__id="a")
    span["attributes"] += _pairs({"error.type": "TimeoutError"})
    (step,) = steps(_one(tmp_path, _chat(0, [HI], [LOOK]), span).messages)
    assert step.status == "timeout"


def test_a_tool_span_and_a_message_for_the_same_call_are_one_step(tmp_path: Path) -> None:
    chats = [_chat(0, [ORDER], [LOOK]), _chat(2, [ORDER, LOOK, FOUND], [DONE])]
    made = _one(tmp_path, *chats, _tool(1, "look_up", call__id="a", call__result='{"status": "ok"}'))
    assert len(steps(made.messages)) == 1
    assert made.incomplete is None


def test_without_call_ids_a_tool_span_binds_by_name_and_arguments_never_by_name_alone(tmp_path: Path) -> None:
    spans = [
        _tool(1, "look_up", call__arguments='{"id":"ORD-2"}', call__result="two"),
        _tool(2, "look_up", call__arguments='{"id":"ORD-1"}', call__result="one"),
        _tool(3, "look_up", call__result="whose?"),
    ]
    made = _one(tmp_path, _chat(0, [HI], [LOOK]), *spans)
    assert [step.result for step in steps(made.messages)] == ["one"]
    assert made.incomplete == "2 tool spans match no call in the messages"


def test_call_ids_numbered_anew_on_resending_do_not_split_a_conversation(tmp_path: Path) -> None:
    renamed = _call("fc_1", "look_up", {"id": "ORD-1"})
    made = _one(
        tmp_path, _chat(0, [ORDER], [LOOK], None), _chat(1, [ORDER, renamed, FOUND], [DONE], None, "2" * 32)
    )
    assert (_roles(made), made.messages[1].tool_calls[0].id) == ("uata", "a")


def test_a_call_seen_by_two_instrumentations_is_one_call(tmp_path: Path) -> None:
    outer, inner = _chat(0, [HI], [LOOK], None), _chat(0, [HI], [LOOK], None)
    inner["spanId"], inner["parentSpanId"] = "f" * 16, outer["spanId"]
    assert len(steps(_one(tmp_path, outer, inner).messages)) == 1


@pytest.mark.parametrize("second", [[ORDER], [HELLO, ORDER]], ids=["not resent", "front dropped"])
def test_an_agent_that_does_not_resend_everything_still_has_one_conversation(
    tmp_path: Path, second: list[dict[str, Any]]
) -> None:
    made = _one(tmp_path, _chat(0, [HI], [HELLO]), _chat(1, second, [DONE]))
    assert [m.content for m in made.messages] == ["Hi", "Hello", "Where is ORD-1?", "It is on its way."]


def test_a_sub_agent_in_the_same_conversation_is_kept_apart(tmp_path: Path) -> None:
    inner = [_text("system", "You do sums."), _text("user", "1 + 1")]
    outer = [_text("system", "You help."), HI]
    made = _read(
        tmp_path,
        _chat(0, outer, [LOOK]),
        _chat(1, inner, [_text("assistant", "2")]),
        _chat(2, [*outer, LOOK, FOUND], [DONE]),
    ).conversations
    assert [_roles(c) for c in made] == ["suata", "sua"]
    assert made[0].conversation_id == "c-1"
    assert made[1].conversation_id.startswith("c-1/")


def test_a_truncated_history_is_rebuilt_from_the_earlier_span_and_said(tmp_path: Path) -> None:
    whole = json.dumps([HI, HELLO, ORDER])
    made = _one(tmp_path, _chat(0, [HI], [HELLO]), _chat(1, whole[:-20], [DONE]))
    assert [m.content for m in made.messages] == ["Hi", "Hello", "It is on its way."]
    assert made.incomplete == (
        f"gen_ai.input.messages breaks off or is not JSON ({len(whole) - 20} characters)"
    )


def test_a_truncation_that_a_later_span_makes_good_is_no_loss(tmp_path: Path) -> None:
    spans = [_chat(0, [HI], [HELLO]), _chat(1, json.dumps([HI, HELLO, ORDER])[:-20], [LOOK])]
    made = _one(tmp_path, *spans, _chat(2, [HI, HELLO, ORDER, LOOK, FOUND], [DONE]))
    assert (_roles(made), made.incomplete) == ("uauata", None)


def test_dropped_attributes_make_a_conversation_incomplete(tmp_path: Path) -> None:
    made = _one(tmp_path, _chat(0, [HI], [HELLO], droppedAttributesCount=2))
    assert made.incomplete == "2 attributes were dropped"


def test_one_bad_message_hides_no_other(tmp_path: Path) -> None:
    made = _one(tmp_path, _chat(0, [HI, {"role": "narrator", "parts": []}, "?"], [HELLO]))
    assert _roles(made) == "ua"
    assert "message 2: unknown role 'narrator'" in (made.incomplete or "")


def test_arguments_as_text_are_decoded_and_bad_ones_kept(tmp_path: Path) -> None:
    output = [_call("a", "f", json.dumps(json.dumps({"n": 1}))), _call("b", "f", '{"n": 1}{"n": 2}')]
    calls = [step.call for step in steps(_one(tmp_path, _chat(0, [HI], output)).messages)]
    assert [(c.arguments, c.raw) for c in calls] == [({"n": 1}, None), (None, '{"n": 1}{"n": 2}')]


def test_a_tool_response_inside_a_user_message_is_a_tool_message(tmp_path: Path) -> None:
    user = {"role": "user", "parts": [*FOUND["parts"], *ORDER["parts"]]}
    made = _one(tmp_path, _chat(0, [HI, LOOK, user], [DONE]))
    assert _roles(made) == "uatua"


def test_reasoning_is_left_out_and_an_empty_answer_is_a_turn(tmp_path: Path) -> None:
    thinking = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}]}
    made = _one(tmp_path, _chat(0, [HI], [thinking]))
    assert made.messages[1] == Message(role="assistant", content="")


def test_any_values_keep_their_types_and_64_bits() -> None:
    value = {"n": 9223372036854775807, "list": ["a", True, {"deep": -1}]}
    assert any_value(_any(value)) == value
    assert any_value({}) is None


def test_spans_without_content_are_a_reject_with_the_reason(tmp_path: Path) -> None:
    (reject,) = _read(tmp_path, _span(0, {"gen_ai.operation.name": "chat"})).rejects
    assert (reject.line, reject.reason[:25]) == (1, "1 spans: no messages: con")
    (reject,) = _read(tmp_path, _span(0, {"http.method": "GET"})).rejects
    assert "none is a model, agent or tool span" in reject.reason


def test_without_an_operation_name_the_other_attributes_decide(tmp_path: Path) -> None:
    chat, tool = _chat(0, [HI], [LOOK]), _tool(1, "look_up", call__id="a", call__result="found")
    for span in (chat, tool):
        span["attributes"] = [p for p in span["attributes"] if p["key"] != "gen_ai.operation.name"]
    assert [step.result for step in steps(_one(tmp_path, chat, tool).messages)] == ["found"]


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from _places(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.data())
def test_no_damage_to_a_document_stops_the_reader(tmp_path: Path, data: st.DataObject) -> None:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [HI, LOOK, FOUND]}
    spans = [_span(0, {**chat, "gen_ai.output.messages": [LOOK]}), _tool(1, "look_up", call__result={"a": 1})]
    document = copy.deepcopy(_document(*spans))
    holder, key = data.draw(st.sampled_from(list(_places(document))))
    holder[key] = data.draw(
        st.sampled_from([None, True, -1, 10**40, 1.5, "", "x", [], [None], {}, {"a": []}])
    )
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    assert all(reject.reason for reject in read_file(path, None).rejects)


def _public(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the public trace {parts[-1]} is not beside this checkout")
    return path


def test_real_instrumentation_of_known_conversations_gives_them_back() -> None:
    traffic = read_file(_public("traces", "generated", "traceloop.otlp.json"), None)
    assert not traffic.rejects
    played = {
        (record["task_id"], record["trial"]): record["traj"]
        for record in json.loads(_public("tau-bench", "gpt-4o-airline.json").read_text())
    }
    assert len(traffic.conversations) == 4
    for made in traffic.conversations:
        task, trial = (int(part.strip("taskril")) for part in made.conversation_id.split("-"))
        known = played[task, trial][: len(made.messages)]
        assert [(m.role, m.content) for m in made.messages] == [(m["role"], m["content"]) for m in known]
        calls = [json.loads(c["function"]["arguments"]) for m in known for c in m.get("tool_calls", [])]
        assert [step.call.arguments for step in steps(made.messages)] == calls
        assert made.incomplete is None


def test_the_conventions_own_example_reads_whole() -> None:
    (made,) = read_file(
        _public("traces", "strands_evals", "otel_genai_convention_spans.json"), None
    ).conversations
    assert (made.conversation_id, made.agent_name, _roles(made)) == (
        "conv_otel_test_001",
        "WeatherAssistant",
        "uatta",
    )
    assert [(s.call.arguments, s.status) for s in steps(made.messages)] == [
        ({"location": "Paris"}, "ok"),
        ({"location": "London"}, "error"),
    ]
    assert made.incomplete is None


def test_a_coordinator_and_its_specialists_are_three_conversations() -> None:
    made = read_file(
        _public("traces", "strands_evals", "openai_agents_genai_live_spans.json"), None
    ).conversations
    assert [c.agent_name for c in made] == ["coordinator", "research_specialist", "math_specialist"]
    assert [len(steps(c.messages)) for c in made] == [2, 1, 2]
    for conversation in made:
        for message in conversation.messages:
            answered = {m.tool_call_id for m in conversation.messages}
            assert all(call["id"] in answered for call in to_openai(message).get("tool_calls", []))


@pytest.mark.parametrize("name", ["otel-v2-events.otlp.json", "otel-v2-nocontent.otlp.json"])
def test_traces_without_content_are_rejected_conversation_by_conversation(name: str) -> None:
    traffic = read_file(_public("traces", "generated", name), None)
    assert not traffic.conversations
    assert all("no messages" in reject.reason for reject in traffic.rejects)
