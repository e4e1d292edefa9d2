"""The OpenTelemetry GenAI attributes: what a span says about messages and tool calls.

Source: OpenTelemetry semantic conventions for generative AI (`gen_ai.*`), with messages as `role` and
`parts`, on the span or on its `gen_ai.client.inference.operation.details` event. One span at a time; how
spans make conversations belongs to `threads`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from while_pipeline.messages import content_text, decode_json, from_openai, role_of, tool_call
from while_pipeline.records import Message, ToolCall
from while_pipeline.watch.otlp import Attributes, Span

DIALECT = "otel_genai"

DETAILS_EVENT = "gen_ai.client.inference.operation.details"
INPUT, OUTPUT, SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"

_MODEL_OPERATIONS = ("chat", "generate_content", "text_completion")
_AGENT_OPERATIONS = ("invoke_agent", "invoke_workflow")
_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """One request to a model or an agent: the history sent and the answer."""

    span: Span
    history: tuple[Message, ...]
    output: tuple[Message, ...]
    problem: str | None
    """What is known to be missing or unreadable."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolRun:
    """One tool execution."""

    span: Span
    call: ToolCall
    result: str | None
    problem: str | None


def conversation_key(span: Span) -> str | None:
    """The source's own id of the conversation, or of the session."""
    keys = (span.attributes.get(name) for name in ("gen_ai.conversation.id", "session.id"))
    return next((str(key) for key in keys if key not in (None, "")), None)


def agent_name(span: Span) -> str | None:
    """Name of the agent a span belongs to, as far as the span itself says."""
    name = span.attributes.get("gen_ai.agent.name")
    return name if isinstance(name, str) else None


def model_name(span: Span) -> str | None:
    """Name of the model that was asked for, or that answered."""
    names = (span.attributes.get(f"gen_ai.{side}.model") for side in ("request", "response"))
    return next((name for name in names if isinstance(name, str)), None)


def operation(span: Span) -> str | None:
    """`model`, `agent`, `tool`, or None for any other span.

    Without `gen_ai.operation.name`, which some instrumentations leave out, the other attributes decide.
    """
    name = span.attributes.get("gen_ai.operation.name")
    if name in _MODEL_OPERATIONS:
        return "model"
    if name in _AGENT_OPERATIONS:
        return "agent"
    if name == "execute_tool" or (name is None and "gen_ai.tool.name" in span.attributes):
        return "tool"
    attributes = _with_details(span)
    return "model" if name is None and (INPUT in attributes or OUTPUT in attributes) else None


def exchange(span: Span) -> Exchange | None:
    """Read the messages of a model or agent span; None when it carries none."""
    attributes = _with_details(span)
    if not attributes.keys() & {INPUT, OUTPUT}:
        return None
    problems = [f"{span.dropped} attributes were dropped"] if span.dropped else []
    history = _messages(INPUT, attributes.get(INPUT), problems)
    output = _messages(OUTPUT, attributes.get(OUTPUT), problems)
    if SYSTEM in attributes and not (history and history[0].role == "system"):
        history.insert(0, Message(role="system", content=_instructions(attributes[SYSTEM])))
    return Exchange(span, tuple(history), tuple(output), "; ".join(problems) or None)


def tool_run(span: Span) -> ToolRun | None:
    """Read a tool span; None when it names no tool. A failed run without a result has its error as result."""
    attributes = span.attributes
    name = attributes.get("gen_ai.tool.name") or span.name.partition("execute_tool ")[2]
    if not isinstance(name, str) or not name:
        return None
    result = content_text(attributes.get("gen_ai.tool.call.result"))
    if result is None and (span.failed or "error.type" in attributes):
        result = json.dumps({"error": str(attributes.get("error.type", "error"))})
    call = tool_call(
        attributes.get("gen_ai.tool.call.id"), name, attributes.get("gen_ai.tool.call.arguments")
    )
    return ToolRun(span, call, result, f"{span.dropped} attributes were dropped" if span.dropped else None)


def from_parts(value: Mapping[str, Any]) -> list[Message]:
    """Read one raw message; every tool response in it becomes a tool message of its own, before its text.

    Raises:
        ValueError: the role is not known, or a tool call has no name.
    """
    if not isinstance(value.get("parts"), list):
        return [from_openai(value)]
    role = role_of(value)
    calls: list[ToolCall] = []
    results: list[Message] = []
    texts: list[str] = []
    for part in value["parts"]:
        kind = part.get("type") if isinstance(part, dict) else "text"
        if kind == "tool_call":
            calls.append(tool_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            call_id = part.get("id")
            results.append(
                Message(
                    role="tool",
                    content=content_text(part.get("response", part.get("result"))),
                    tool_call_id=call_id if isinstance(call_id, str) else None,
                )
            )
        elif kind not in ("reasoning", "thinking"):
            text = content_text([part] if isinstance(part, dict) else part)
            texts += [] if text is None else [text]
    if results and not texts:
        return results
    content = "\n".join(texts) if texts or not calls else None
    return [*results, Message(role=role, content=content, tool_calls=tuple(calls))]


def _with_details(span: Span) -> Attributes:
    details = [attributes for name, attributes in span.events if name == DETAILS_EVENT]
    return {key: value for held in (span.attributes, *details) for key, value in held.items()}


def _messages(name: str, value: Any, problems: list[str]) -> list[Message]:
    """Read a list of raw messages, given as values or JSON text; what cannot be read goes to `problems`."""
    if isinstance(value, str):
        try:
            value = decode_json(value)
        except ValueError:
            problems.append(f"{name} breaks off or is not JSON ({len(value)} characters)")
            value = list(_whole_prefix(value))
    if value is not None and not isinstance(value, list):
        problems.append(f"{name} is not a list")
        return []
    messages: list[Message] = []
    for number, raw in enumerate(value or [], start=1):
        try:
            if not isinstance(raw, dict):
                raise ValueError("not an object")
            messages += from_parts(raw)
        except ValueError as error:
            problems.append(f"{name}, message {number}: {error}")
    return messages


def _whole_prefix(text: str) -> Iterator[Any]:
    """The elements of a JSON array that come before the place where its text breaks off."""
    decoder = json.JSONDecoder()
    position = len(text) - len(text.lstrip(_SPACE + "["))
    while position < len(text):
        try:
            _, end = decoder.raw_decode(text, position)
            yield decode_json(text[position:end])
        except ValueError:
            return
        position = end + len(text[end:]) - len(text[end:].lstrip(_SPACE + ","))


def _instructions(value: Any) -> str | None:
    """System instructions: parts, JSON text of parts, or plain text."""
    if isinstance(value, str):
        try:
            decoded = decode_json(value)
        except ValueError:
            return value
        value = decoded if isinstance(decoded, list) else value
    return content_text(value)
