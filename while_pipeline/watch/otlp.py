"""Spans out of their containers: OTLP/JSON (`resourceSpans`) and flat lists of span objects.

What belongs here: the container, so ids, times and attribute values. What the attributes mean belongs to a
dialect (`genai`), how spans make conversations to `threads`.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """One span, whatever held it."""

    trace_id: str
    """32 lower-case hex digits, from hex or base64."""
    span_id: str
    parent_id: str
    name: str
    start_ns: int | None
    """Unix nanoseconds; None when the source gives none or zero."""
    end_ns: int | None
    attributes: Attributes
    events: tuple[tuple[str, Attributes], ...]
    """Name and attributes of each span event."""
    dropped: int
    """Attributes the SDK dropped, on the span and its events."""
    failed: bool
    """Status code ERROR."""
    source: str
    line: int


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an OTLP/JSON trace document."""
    return isinstance(record.get("resourceSpans"), list)


def recognises_flat(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is one span with plain attributes."""
    return "trace_id" in record and "span_id" in record and isinstance(record.get("attributes"), dict)


def spans(record: Mapping[str, Any], source: str, line: int) -> tuple[list[Span], list[str]]:
    """Read the spans of an OTLP/JSON document.

    Returns:
        The spans, and for each that could not be read the reason.
    """
    read: list[Span] = []
    problems: list[str] = []
    for resource in _objects(record.get("resourceSpans")):
        for scope in _objects(resource.get("scopeSpans")):
            for span in _objects(scope.get("spans")):
                try:
                    read.append(_span(span, source, line))
                except ValueError as error:
                    problems.append(f"span {span.get('name')!r}: {error}")
    return read, problems


def flat_span(record: Mapping[str, Any], source: str, line: int) -> Span:
    """Read one flat span object: snake-case keys, plain attribute values, times in nanoseconds.

    Raises:
        ValueError: an id or a time cannot be read.
    """
    events = _objects(record.get("span_events", record.get("events")))
    status = record.get("status")
    return Span(
        trace_id=hex_id(record.get("trace_id"), 16),
        span_id=hex_id(record.get("span_id"), 8),
        parent_id=hex_id(record.get("parent_span_id"), 8),
        name=str(record.get("name", "")),
        start_ns=_integer(record.get("start_time")) or None,
        end_ns=_integer(record.get("end_time")) or None,
        attributes=dict(record["attributes"]),
        events=tuple(
            (str(event.get("event_name", event.get("name", ""))), _plain(event.get("attributes")))
            for event in events
        ),
        dropped=_integer(record.get("dropped_attributes_count")),
        failed=isinstance(status, dict) and status.get("code") == "ERROR",
        source=source,
        line=line,
    )


def hex_id(value: Any, size: int) -> str:
    """Trace or span id of `size` bytes in lower-case hex.

    It may come as hex (OTLP/JSON) or base64 (what plain protobuf JSON writes).

    An absent id is the empty string.

    Raises:
        ValueError: it is neither form.
    """
    if value is None or value == "":
        return ""
    text = str(value).removeprefix("0x")
    try:
        raw = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != size:
        raise ValueError(f"{text[:40]!r} is not an id of {size} bytes")
    return raw.hex()


def any_value(value: Any) -> Any:
    """Decode an OTLP AnyValue; 64-bit integers written as strings become integers, an empty one None."""
    if not isinstance(value, dict):
        return None
    for kind, inner in value.items():
        if kind == "intValue":
            return _integer(inner)
        if kind == "arrayValue":
            return [any_value(item) for item in _list(inner)]
        if kind == "kvlistValue":
            return _attributes(_list(inner))
        if kind in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
            return inner
    return None


def _span(span: Mapping[str, Any], source: str, line: int) -> Span:
    events = _objects(span.get("events"))
    status = span.get("status")
    return Span(
        trace_id=hex_id(span.get("traceId"), 16),
        span_id=hex_id(span.get("spanId"), 8),
        parent_id=hex_id(span.get("parentSpanId"), 8),
        name=str(span.get("name", "")),
        start_ns=_integer(span.get("startTimeUnixNano")) or None,
        end_ns=_integer(span.get("endTimeUnixNano")) or None,
        attributes=_attributes(span.get("attributes")),
        events=tuple((str(e.get("name", "")), _attributes(e.get("attributes"))) for e in events),
        dropped=sum(_integer(part.get("droppedAttributesCount")) for part in (span, *events)),
        failed=isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR"),
        source=source,
        line=line,
    )


def _attributes(pairs: Any) -> Attributes:
    return {str(pair["key"]): any_value(pair.get("value")) for pair in _objects(pairs) if "key" in pair}


def _plain(attributes: Any) -> Attributes:
    return dict(attributes) if isinstance(attributes, dict) else {}


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _list(holder: Any) -> list[Any]:
    values = holder.get("values") if isinstance(holder, dict) else None
    return values if isinstance(values, list) else []


def _integer(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int) or (isinstance(value, str) and value.lstrip("-").isdecimal()):
        return int(value)
    raise ValueError(f"{str(value)[:40]!r} is not an integer")
