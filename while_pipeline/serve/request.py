"""A chat completion request: what is read of its JSON, and what is refused.

What belongs here: the wire form, and the rules a conversation must keep to be answered. What a policy cannot
do is refused by name rather than left undone in silence. What does not belong: HTTP (`app`), and answering
(`policy`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json, seed_of
from while_pipeline.messages import decode_json, from_openai, json_text, messages_json
from while_pipeline.records import Message, Record
from while_pipeline.tools import Tool, parse_tools

REMEMBERED_TOOLSETS = 64
"""Lists of tools that are read once: an application sends the same one with every request."""

MAX_TOOLS, MAX_CALLS, MAX_MESSAGES = 128, 128, 2048
"""In a request, in a message, in a conversation: OpenAI's own limits. Each tool is held against every other,
and each call against every result."""
MAX_TEXT = 2**17
"""Characters of a message, and of the system messages together. A long policy document has a fifth of that;
the worst Markdown of this length is read in two seconds."""
MAX_SCHEMAS = 2**18
"""Characters of all tools' JSON, 2,048 for each of `MAX_TOOLS`; so much is checked in two seconds."""

_TEXT_PARTS = ("text", "refusal")

_ONLY: dict[str, tuple[Any, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "n": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "stop": ([],),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto", "none"),
    "modalities": (["text"],),
}
"""Values of parameters that this policy can honour: it is sampled as it is, one reply a request."""


class RequestError(Exception):
    """A request that is refused, in the words of OpenAI's error object."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        """`param` names what is wrong in the request; `status` is HTTP's."""
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


@dataclass(frozen=True)
class Toolset:
    """The tools of a request."""

    text: str
    """Their JSON text, in the order sent, for a schema's order counts: equal texts are one toolset."""
    tools: tuple[Tool, ...] = field(compare=False)


class ChatRequest(Record):
    """One request, checked."""

    model: str
    messages: tuple[Message, ...]
    toolset: Toolset
    seed: int
    """The request's own, else one that the conversation and the tools decide."""
    stream: bool
    logprobs: bool
    conversation_id: str | None
    """`metadata.conversation_id`."""
    kept: bool
    """Whether the conversation may become traffic; `store: false` says no."""


class _Wire(BaseModel):
    """The body. What is named here and has no effect is in the comment of its group."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str
    messages: list[dict[str, Any]]
    tools: list[Any] | None = None
    seed: int | None = None
    stream: bool | None = None
    logprobs: bool | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None

    # See `_ONLY`.
    temperature: Any = None
    top_p: Any = None
    n: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    top_logprobs: Any = None
    logit_bias: Any = None
    stop: Any = None
    response_format: Any = None
    tool_choice: Any = None
    modalities: Any = None

    # Without effect: a reply is a few sentences and has no tokens to count; calls come one at a time.
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    parallel_tool_calls: bool | None = None
    stream_options: dict[str, Any] | None = None

    # Without effect: who asks, and how the host is to treat them.
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None


def read_request(body: bytes) -> ChatRequest:
    """Read the body of a chat completion request.

    Raises:
        RequestError: it is no JSON object, a parameter is unknown or cannot be honoured, or the messages are
            no conversation; `param` says where.
    """
    try:
        return _read(body)
    except RecursionError:
        raise RequestError("The body is nested too deeply.") from None


def _read(body: bytes) -> ChatRequest:
    try:
        wire = _Wire.model_validate(_object(body))
    except ValidationError as error:
        raise _refused(error) from None
    for name, known in _ONLY.items():
        value = getattr(wire, name)
        # A bool equals 1 or 0, and is none of them here.
        if value is not None and (isinstance(value, bool) or value not in known):
            choice = " or ".join(map(canonical_json, known))
            raise RequestError(
                f"Unsupported value: {name!r} is {_short(value)}; this policy supports {choice} only.",
                param=name,
                code="unsupported_value",
            )
    messages = _conversation(wire.messages)
    toolset = _toolset(() if wire.tool_choice == "none" else wire.tools or ())
    own = seed_of("serve", messages_json(messages), toolset.text)
    return ChatRequest(
        model=wire.model,
        messages=messages,
        toolset=toolset,
        seed=own if wire.seed is None else wire.seed,
        stream=bool(wire.stream),
        logprobs=bool(wire.logprobs),
        conversation_id=(wire.metadata or {}).get("conversation_id") or None,
        kept=wire.store is not False,
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = decode_json(body.decode())
    except ValueError as error:  # not UTF-8, not JSON
        raise RequestError(f"We could not parse the JSON body of your request: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(f"The body is a JSON {type(value).__name__}; expected an object.")
    return value


def _refused(error: ValidationError) -> RequestError:
    first = error.errors(include_url=False)[0]
    param = _path(first["loc"])
    match first["type"]:
        case "extra_forbidden":
            return RequestError(
                f"Unrecognized request argument supplied: {param}", param=param, code="unknown_parameter"
            )
        case "missing":
            return RequestError(
                f"Missing required parameter: {param!r}.", param=param, code="missing_required_parameter"
            )
    return RequestError(
        f"Invalid value for {param!r}: {first['msg']}; it is {_short(first['input'])}.",
        param=param,
        code="invalid_value",
    )


def _path(loc: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _at_most(limit: int, value: Sequence[Any], param: str) -> None:
    if len(value) > limit:
        kind = "string" if isinstance(value, str) else "array"
        raise RequestError(
            f"Invalid {param!r}: {kind} too long; its length is {len(value)}, at most {limit} is allowed.",
            param=param,
            code=f"{kind}_above_max_length",
        )


def _wrong(param: str, what: str) -> RequestError:
    return RequestError(f"Invalid {param}: {what}.", param=param, code="invalid_value")


# -- the conversation ---------------------------------------------------------------------------------------


def _conversation(values: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Read the messages; every tool message answers one open call of the last turn, and none stays open."""
    if not values:
        raise _wrong("messages", "the conversation is empty; expected at least one message")
    _at_most(MAX_MESSAGES, values, "messages")
    messages: list[Message] = []
    open_calls: set[str] = set()
    for index, value in enumerate(values):
        where = f"messages[{index}]"
        message = _message(value, where)
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                answered = _short(message.tool_call_id)
                raise _wrong(
                    where,
                    "messages with role 'tool' must answer a call of the assistant message before them; "
                    f"no open call has the id {answered}",
                )
            open_calls.discard(message.tool_call_id)
        elif open_calls:
            raise _wrong(where, f"the tool calls {', '.join(sorted(open_calls))} have no result before it")
        else:
            open_calls = _calls(message, where)
        messages.append(message)
    if open_calls:
        raise _wrong("messages", f"the tool calls {', '.join(sorted(open_calls))} have no result")
    told = "\n".join(message.content or "" for message in messages if message.role == "system")
    _at_most(MAX_TEXT, told, "messages (of role system)")
    return tuple(messages)


def _message(value: Mapping[str, Any], where: str) -> Message:
    _check_content(value.get("content"), f"{where}.content")
    try:
        message = from_openai(value)
    except ValueError as error:
        raise _wrong(where, str(error)) from None
    if message.content is None and not message.tool_calls:
        raise _wrong(f"{where}.content", f"a message of role {message.role} needs content")
    _at_most(MAX_TEXT, message.content or "", f"{where}.content")
    _at_most(MAX_CALLS, message.tool_calls, f"{where}.tool_calls")
    return message


def _check_content(content: Any, where: str) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise _wrong(where, "expected a string or a list of text parts")
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _TEXT_PARTS:
            raise _wrong(f"{where}[{index}]", f"expected a text part; it is {_short(part)}")
        if not isinstance(part.get(kind), str):
            raise _wrong(f"{where}[{index}].{kind}", f"expected a string; it is {_short(part.get(kind))}")


def _calls(message: Message, where: str) -> set[str]:
    """Ids of a message's calls, each its own."""
    if message.tool_calls and message.role != "assistant":
        raise _wrong(f"{where}.tool_calls", "only the assistant calls tools")
    ids: set[str] = set()
    for position, call in enumerate(message.tool_calls):
        at = f"{where}.tool_calls[{position}]"
        if call.arguments is None:
            raise _wrong(f"{at}.function.arguments", f"not a JSON object: {_short(call.raw)}")
        if not call.id or call.id in ids:
            raise _wrong(f"{at}.id", "each call of a message needs an id of its own")
        ids.add(call.id)
    return ids


# -- the tools ----------------------------------------------------------------------------------------------


def _toolset(values: Sequence[Any]) -> Toolset:
    _at_most(MAX_TOOLS, values, "tools")
    text = json_text(list(values))
    _at_most(MAX_SCHEMAS, text, "tools")
    try:
        return _read_toolset(text)
    except ProjectError as error:
        where = error.key if error.key.startswith("tools") else f"tools: {error.key}"
        raise _wrong(where, f"it is {_short(error.value)}; {error.mend}") from None


@lru_cache(maxsize=REMEMBERED_TOOLSETS)
def _read_toolset(text: str) -> Toolset:
    values = decode_json(text)
    return Toolset(text, parse_tools(values, "the request") if values else ())
