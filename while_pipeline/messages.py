"""Messages and their JSON forms, and the steps inside a conversation.

What belongs here: decoding text that models and tools wrote, the OpenAI chat form of a message, and the
pairing of tool calls with results. What does not: how a trace or a log file holds messages (`watch`).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from while_pipeline.records import Message, Role, Step, ToolCall

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Role names as vendors write them, and the role they mean."""

ERROR_STATUSES = frozenset(
    {
        "conflict",
        "error",
        "failed",
        "failure",
        "forbidden",
        "internal",
        "internal_error",
        "invalid_argument",
        "malformed",
        "not_found",
        "permission_denied",
        "rate_limited",
        "timed_out",
        "timeout",
        "unauthorized",
        "unavailable",
    }
)
"""Values of a result's `status` or `code` that mean failure. Any other is data: an order may be `pending`."""

_ANSWERS = frozenset({
    "code", "data", "description", "detail", "details", "documentationurl", "error", "errorcode",
    "errormessage", "errors", "errortype", "help", "hint", "instance", "iserror", "message", "msg",
    "ok", "path", "reason", "requestid", "retryafter", "stack", "stacktrace", "status", "statuscode",
    "success", "timestamp", "title", "traceid", "type",
})  # fmt: skip
"""Fields, in lower case without `_`, that tell how a call went. Any other tells of a record."""
_EXPLAINS = ("message", "msg", "detail", "error_message")

REMEMBERED = 32_768
"""Characters up to which what was read of a text is kept in memory: most conversations, no giants."""

_GENERIC = frozenset({"error", "failed", "failure"})
_BROKEN_OBJECT = re.compile(r'\s*(\{\s*"|\[\s*\{\s*"|<!doctype\b|<html\b)', re.IGNORECASE)


def decode_json(text: str) -> Any:
    """Decode JSON text from traffic; lone surrogates become U+FFFD, integers keep all their digits.

    Raises:
        ValueError: the text is not JSON, holds NaN or a number beyond a double, or nests too deeply.
    """
    try:
        value = _DECODER.decode(text)
        # Most text has none, and looking at every string costs more than decoding.
        escaped = "\\ud" in text or "\\uD" in text
        return _without_lone_surrogates(value) if escaped else value
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_json_at(text: str, start: int) -> Any:
    """Decode the JSON value that begins at `start` of a text, whatever follows it.

    Raises:
        ValueError: no JSON begins there, or none that `decode_json` takes.
    """
    try:
        return _without_lone_surrogates(_DECODER.raw_decode(text, start)[0])
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_arguments(value: Any) -> tuple[dict[str, Any] | None, str | None]:
    """Decode a call's arguments: an object, JSON text of one, or JSON text of JSON text of one.

    Returns:
        The object and None, or None and the text as received. `{..}{..}` is not JSON and stays text:
        which tool each object was meant for is not known.
    """
    if isinstance(value, dict):
        return value, None
    raw = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    decoded: Any = raw
    for _ in range(2):
        if isinstance(decoded, str):
            try:
                decoded = decode_json(decoded)
            except ValueError:
                return None, raw
    return (decoded, None) if isinstance(decoded, dict) else (None, raw)


def steps(messages: Sequence[Message]) -> list[Step]:
    """Pair every tool call with its result.

    A turn is a run of assistant messages and the tool messages before the next one. Inside a turn a result
    binds by call id, then what is left binds by position: ids return in later turns for other calls, and
    names never identify a call. A result no call asked for is left out.
    """
    found: list[Step] = []
    calls: list[tuple[int, ToolCall]] = []
    results: list[Message] = []
    answered = False
    for position, message in enumerate(messages):
        if message.role != "assistant":
            answered = True
            if message.role == "tool":
                results.append(message)
            continue
        if answered and calls:
            found += _made(calls, results, len(found))
            calls = []
        if answered:
            results, answered = [], False
        for call in message.tool_calls:
            calls.append((position, call))
    return found + _made(calls, results, len(found)) if calls else found


def _made(calls: Sequence[tuple[int, ToolCall]], results: Sequence[Message], before: int) -> list[Step]:
    """The steps of one turn."""
    made: list[Step] = []
    for (turn, call), message in zip(calls, _bind(calls, results), strict=True):
        result = None if message is None else message.content or ""
        made.append(Step(before + len(made), turn, call, result, result_status(result)))
    return made


def result_status(content: str | None) -> str:
    """Read a tool result's status: `ok`, an error code in lower snake case, or `unknown` without a result.

    In a JSON object, `error` and a true `isError` are an error whatever else it says. Where it tells of no
    record, so are `status` and `code` when their value is one of `ERROR_STATUSES` or an HTTP error number,
    and `success` or `ok` when false; in a record they are data: a payment may have `failed`. Text is an error
    when it starts with "Error". JSON that breaks off, or a web page, is `malformed`; an answer that says of
    itself `"stale": true` is `stale`.
    """
    if content is None:
        return "unknown"
    return _remembered_status(content) if len(content) <= REMEMBERED else _read_status(content)


def _read_status(content: str) -> str:
    if content.lstrip().startswith("Error"):
        return "error"
    try:
        value = decode_json(content)
    except ValueError:
        return "malformed" if _BROKEN_OBJECT.match(content) else "ok"
    if not isinstance(value, dict):
        return "ok"
    return _error_code(value) or ("stale" if value.get("stale") is True else "ok")


def to_openai(message: Message) -> dict[str, Any]:
    """Write a message in the OpenAI chat form; arguments are a JSON string, or the raw text received."""
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    return out


def arguments_text(call: ToolCall) -> str:
    """JSON text of a call's arguments, or what was received when it did not decode."""
    return call.raw or "" if call.arguments is None else json_text(call.arguments)


def json_text(value: Any) -> str:
    """JSON text of a value, UTF-8, keys in their order; lone surrogates and long integers are kept."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_openai(value: Mapping[str, Any]) -> Message:
    """Read a message in the OpenAI chat form, the older `function_call` included.

    Raises:
        ValueError: the role is not known, or a tool call has no name.
    """
    calls = value.get("tool_calls") or []
    if not calls and isinstance(value.get("function_call"), dict):
        calls = [{"function": value["function_call"]}]
    if not isinstance(calls, list):
        raise ValueError(f"tool_calls is a {type(calls).__name__}, not a list")
    content, call_id = value.get("content"), value.get("tool_call_id")
    return Message(
        role=role_of(value),
        content=content_text(value.get("refusal") if content is None else content),
        tool_calls=tuple(_call(call) for call in calls),
        tool_call_id=call_id if isinstance(call_id, str) else None,
    )


def role_of(value: Mapping[str, Any]) -> Role:
    """Role of a raw message.

    Raises:
        ValueError: the role is missing or not in `ROLES`.
    """
    role = value.get("role")
    if not isinstance(role, str) or role.lower() not in ROLES:
        raise ValueError(f"unknown role {role!r}")
    return ROLES[role.lower()]


def tool_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """Make a call from what was received.

    Raises:
        ValueError: the name is missing.
    """
    if not isinstance(name, str) or not name:
        raise ValueError("a tool call has no name")
    decoded, raw = decode_arguments(arguments)
    return ToolCall(id=call_id if isinstance(call_id, str) else "", name=name, arguments=decoded, raw=raw)


def content_text(content: Any) -> str | None:
    """Text of a message's content: a string, or parts joined by newlines; a part without text is `[type]`.

    Other JSON values (a tool result given as an object) become their JSON text; None stays None.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and content and all(isinstance(p, dict) and "type" in p for p in content):
        return "\n".join(_part_text(part) for part in content)
    return json.dumps(content, ensure_ascii=False)


def messages_json(messages: Sequence[Message]) -> str:
    """JSON text of messages, in the OpenAI chat form; `messages_from_json` gives equal messages back."""
    return json_text([to_openai(m) for m in messages])


def messages_from_json(text: str) -> tuple[Message, ...]:
    """Read what `messages_json` wrote.

    Raises:
        ValueError: the text is not a JSON list of messages.
    """
    return _remembered_messages(text) if len(text) <= REMEMBERED else _read_messages(text)


def _read_messages(text: str) -> tuple[Message, ...]:
    return tuple(from_openai(value) for value in decode_json(text))


# A day's conversations are read by a dozen steps of one process, and a world gives the same answers again.
_remembered_messages = lru_cache(maxsize=4096)(_read_messages)
_remembered_status = lru_cache(maxsize=16_384)(_read_status)


def _bind(calls: Sequence[tuple[int, ToolCall]], results: Sequence[Message]) -> Sequence[Message | None]:
    if [call.id for _, call in calls] == [result.tool_call_id for result in results]:
        return results
    bound: list[Message | None] = [None] * len(calls)
    left = list(results)
    for i, (_, call) in enumerate(calls):
        match = next((r for r in left if r.tool_call_id and r.tool_call_id == call.id), None)
        if match is not None:
            bound[i] = match
            left = [r for r in left if r is not match]
    for i, already in enumerate(bound):
        if already is None and left:
            bound[i] = left.pop(0)
    return bound


def _error_code(value: dict[str, Any]) -> str | None:
    nested, code, status = value.get("error"), value.get("code"), value.get("status")
    surely = bool(nested) or value.get("isError") is True
    if not surely and _is_record(value):
        return None
    if surely or False in (value.get("success"), value.get("ok")):
        inner = nested if isinstance(nested, dict) else {}
        said = map(_snake, (nested, inner.get("code"), inner.get("type"), code, status))
        codes = [name for name in said if name and name != "ok"] + ["error"]
    else:
        # A number in `code` may be a coupon or an area code; in `status` it is HTTP's.
        said = map(_snake, (code if isinstance(code, str) else None, status))
        codes = [name for name in said if name and (name in ERROR_STATUSES or name.startswith("http_"))]
    specific = [name for name in codes if name not in _GENERIC]
    return next(iter(specific + codes), None)


def _is_record(value: Mapping[str, Any]) -> bool:
    """Whether an object tells of a record; beside a message, ids alone only repeat what was asked for."""
    told = [
        name
        for name, held in value.items()
        if held not in (None, "", [], {}) and _plain(name) not in _ANSWERS
    ]
    explained = any(value.get(name) for name in _EXPLAINS)
    return not all(explained and _plain(name).endswith("id") for name in told)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _snake(code: Any) -> str | None:
    """`NOT_FOUND`, `not found` and `NotFoundError` are all `not_found`; 404 is `http_404`."""
    if isinstance(code, int) and not isinstance(code, bool):
        return f"http_{code}" if 400 <= code < 600 else None
    if not isinstance(code, str) or not code.strip():
        return None
    text = re.sub(r"(?<=[a-z])(Error|Exception)$", "", code.strip())
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    snake = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    # More words than that are a message, not a code.
    return snake if 1 <= len(text.split()) <= 3 and snake else "error"


def _call(value: Any) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise ValueError("a tool call has no function")
    return tool_call(value.get("id"), function.get("name"), function.get("arguments"))


def _part_text(part: Mapping[str, Any]) -> str:
    text = part.get("text", part.get("content"))
    return text if isinstance(text, str) else f"[{part['type']}]"


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is beyond a double")
    return number


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse)


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_lone_surrogates(k): _without_lone_surrogates(v) for k, v in value.items()}
    return value
