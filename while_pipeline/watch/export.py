"""Conversations to OTLP/JSON: what an agent of this project writes into a traffic folder.

What belongs here: a conversation, or one request of it, as spans under the OpenTelemetry GenAI conventions,
made by the real SDK. It is the inverse of the readers (`otlp`, `genai`, `threads`). What does not: playing
conversations, and where files go.
"""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode, set_span_in_context
from opentelemetry.util.types import AttributeValue

from while_pipeline.ids import seed_of
from while_pipeline.messages import arguments_text, messages_json, steps
from while_pipeline.records import Message, Step
from while_pipeline.watch import genai

PROVIDER = "while_pipeline"
"""`gen_ai.provider.name`: who serves the model."""

_NO_ERROR = frozenset({"ok", "stale"})


class TrafficExporter:
    """Writes the conversations of one agent.

    Source: OpenTelemetry semantic conventions for generative AI (agent, inference and tool spans). Each
    conversation is one trace: `invoke_agent` around everything, `chat` per assistant message with the whole
    history as its input, `execute_tool` per tool result. Trace and span ids derive from the content, so the
    same conversation gives the same bytes.
    """

    def __init__(self, agent_name: str, model: str) -> None:
        """Write for the agent `agent_name`, answered by `model` (a policy version)."""
        self._agent, self._model = agent_name, model
        self._finished = InMemorySpanExporter()
        self._ids = _SeededIds()
        # Not Resource.create: it adds the SDK's version and the environment, and the bytes would follow them.
        resource = Resource({"service.name": agent_name})
        provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._finished))
        self._tracer = provider.get_tracer(__name__)

    def line(self, conversation_id: str, messages: Sequence[Message], clock: Sequence[int]) -> str:
        """Encode one conversation as one line of OTLP/JSON, an object with `resourceSpans`.

        What comes after the last assistant message and its tool results is in no span, as with any agent: a
        customer's last word that was never answered does not come back when the line is read.

        Args:
            conversation_id: The conversation's own id.
            messages: All messages; the leading system messages become the `gen_ai.system_instructions`.
            clock: Unix nanoseconds at which each message was complete, ascending.

        Raises:
            ValueError: there is no message, or not one time per message.
        """
        if not messages or len(clock) != len(messages):
            raise ValueError(f"line: {len(messages)} messages and {len(clock)} times, expected one time each")
        self._finished.clear()
        self._ids.seed(conversation_id, messages_json(messages), list(clock))
        shared: dict[str, AttributeValue] = {"gen_ai.conversation.id": conversation_id}
        leading, instructions = _instructions(messages)
        model = {**self._about_model(), **shared, **instructions}
        agent = {"gen_ai.agent.name": self._agent, **model}
        inside = self._record("invoke_agent", self._agent, agent, (clock[0], clock[-1]), Context())
        results = _results(messages)
        for index, message in enumerate(messages):
            times = clock[max(index - 1, 0)], clock[index]
            if message.role == "assistant":
                chat = _chat(messages[leading:index], message)
                self._record("chat", self._model, {**model, **chat}, times, inside)
            elif index in results:
                step = results[index]
                self._record("execute_tool", step.call.name, {**shared, **_tool(step)}, times, inside)
        return encode_spans(self._finished.get_finished_spans()).to_json()

    def request(
        self,
        response_id: str,
        history: Sequence[Message],
        answer: Message,
        times: tuple[int, int],
        conversation_id: str | None = None,
    ) -> str:
        """Encode one answered request as one line of OTLP/JSON: a `chat` span, a trace of its own.

        That is what a server sees of a conversation: it runs no tools, and their results come with the next
        request. Without a conversation id the readers join requests by their histories, within a file.

        Args:
            response_id: The answer's own id; the trace and span ids follow from it.
            history: The messages sent, whole; the leading system messages become the instructions.
            answer: The assistant message given.
            times: Unix nanoseconds at which the request came and the answer was complete.
            conversation_id: The caller's own id of the conversation, where there is one.
        """
        self._finished.clear()
        self._ids.seed(response_id)
        leading, instructions = _instructions(history)
        attributes = {
            "gen_ai.agent.name": self._agent,
            **self._about_model(),
            "gen_ai.response.model": self._model,
            "gen_ai.response.id": response_id,
            **({} if conversation_id is None else {"gen_ai.conversation.id": conversation_id}),
            **instructions,
            **_chat(history[leading:], answer),
        }
        self._record("chat", self._model, attributes, times, Context())
        return encode_spans(self._finished.get_finished_spans()).to_json()

    def _about_model(self) -> dict[str, AttributeValue]:
        return {"gen_ai.provider.name": PROVIDER, "gen_ai.request.model": self._model}

    def _record(
        self,
        operation: str,
        subject: str,
        attributes: Mapping[str, AttributeValue],
        times: tuple[int, int],
        parent: Context,
    ) -> Context:
        """Record one span; gives the context for its children."""
        start, end = times
        named = {"gen_ai.operation.name": operation, **attributes}
        span = self._tracer.start_span(f"{operation} {subject}", parent, attributes=named, start_time=start)
        if "error.type" in attributes:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)
        return set_span_in_context(span, parent)


class _SeededIds(IdGenerator):
    def seed(self, *content: Any) -> None:
        self._random = Random(seed_of(*content))

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64)

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128)


def _instructions(messages: Sequence[Message]) -> tuple[int, dict[str, AttributeValue]]:
    """How many leading messages are the system's, and the attribute that holds them."""
    leading = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    if not leading:
        return 0, {}
    return leading, {genai.SYSTEM: _json([_text(message) for message in messages[:leading]])}


def _results(messages: Sequence[Message]) -> dict[int, Step]:
    """The step that each tool message is the result of, by the message's index."""
    left = [index for index, message in enumerate(messages) if message.role == "tool"]
    found: dict[int, Step] = {}
    for step in steps(messages):
        if step.result is not None:
            index = next(i for i in left if i > step.turn and (messages[i].content or "") == step.result)
            left.remove(index)
            found[index] = step
    return found


def _chat(history: Sequence[Message], answer: Message) -> dict[str, AttributeValue]:
    finish = "tool_call" if answer.tool_calls else "stop"
    return {
        genai.INPUT: _json([_parts(message) for message in history]),
        genai.OUTPUT: _json([{**_parts(answer), "finish_reason": finish}]),
        "gen_ai.response.finish_reasons": (finish,),
    }


def _tool(step: Step) -> dict[str, AttributeValue]:
    failed = {} if step.status in _NO_ERROR else {"error.type": step.status}
    return {
        "gen_ai.tool.name": step.call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": step.call.id,
        "gen_ai.tool.call.arguments": arguments_text(step.call),
        "gen_ai.tool.call.result": step.result or "",
        **failed,
    }


def _parts(message: Message) -> dict[str, Any]:
    """A message in the conventions' form, a role and parts; the inverse of `genai.from_parts`."""
    if message.role == "tool":
        response = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        return {"role": "tool", "parts": [response]}
    texts = [] if message.content is None else [_text(message)]
    calls = [
        {
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "arguments": call.raw if call.arguments is None else call.arguments,
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": [*texts, *calls]}


def _text(message: Message) -> dict[str, Any]:
    return {"type": "text", "content": message.content or ""}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
