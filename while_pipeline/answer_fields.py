"""What a tool's answer is about: the fields its name, description and output schema promise.

The mock world shows these fields, and what is told of a result is chosen here, so that an answer key and an
agent mean the same field. What values the fields hold belongs to `simulate.details`; what a tool does, to
`tools`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import dropwhile, takewhile
from typing import Any

from while_pipeline.schemas import Schema
from while_pipeline.tools import Tool, ToolKind, is_identifier, words_of

ORDINARY = "active"
"""Status of a record nothing special is to be said about."""

MONEY: Schema = {"type": "number", "examples": [n + c / 100 for n in range(7, 90, 3) for c in (15, 49, 95)]}
"""Amounts whose last cent is not zero: 37.40 is said in two ways, 37.45 in one."""
_GIGABYTES: Schema = {"type": "number", "examples": [n + t / 10 for n in range(1, 20) for t in (2, 3, 7)]}
_MEGABITS: Schema = {"type": "number", "examples": [n + 0.5 for n in range(4, 120, 3)]}
_PERCENT: Schema = {"type": "integer", "examples": list(range(21, 98, 4))}
_COUNT: Schema = {"type": "integer", "examples": list(range(2, 9))}
_STRENGTH: Schema = {"type": "string", "enum": ["poor", "fair", "good", "excellent"]}
SWITCH: Schema = {"type": "string", "enum": ["enabled", "disabled"]}
_TEXT: Schema = {"type": "string"}
_DATE: Schema = {"type": "string", "format": "date"}

_SCHEMA_OF: dict[str, Schema] = {
    **dict.fromkeys("amount balance price cost fee total charge due".split(), MONEY),
    **dict.fromkeys("usage used limit allowance quota".split(), _GIGABYTES),
    **dict.fromkeys("level percentage".split(), _PERCENT),
    **dict.fromkeys("quantity points seats stock".split(), _COUNT),
    **dict.fromkeys("name email mail phone address city country url colour color".split(), _TEXT),
    "speed": _MEGABITS,
    "strength": _STRENGTH,
    "status": SWITCH,
    "date": _DATE,
}
"""Last word of a noun phrase that is a field, and what such a field holds."""
_UNIT = {id(_GIGABYTES): "gb", id(_MEGABITS): "mbps", id(_PERCENT): "percent"}

_CUES = re.compile(
    r"\b(?:with (?:its|their|the|an?)|including|includes?|shows?|displays?|provides|returns?|gets?|retrieves?"
    r"|checks?|measures|looks? up|finds? out)\s+([^.;:]+)",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\([^)]*\)")
_PARTS = re.compile(r",|\band\b|\bor\b|\b(?:with (?:its|their)|including)\b", re.IGNORECASE)
_SWITCHED = re.compile(
    r"\b(?:if|whether) (?:the |your )?([\w -]+?) is (?:currently )?(?:turned )?(?:on|off|enabled)\b",
    re.IGNORECASE,
)
_PASSED_OVER = frozenset({
    "the", "a", "an", "all", "its", "their", "your", "our", "his", "her", "current", "currently", "one",
    "new", "what", "displays", "shows", "which", "known", "open", "latest",
})  # fmt: skip
_ENDS = frozenset({
    "of", "for", "on", "in", "at", "by", "from", "to", "that", "you", "is", "are", "this", "per", "if", "whether",
})  # fmt: skip
LONGEST = 3
"""Words of a noun phrase that name a field; longer ones are sentences."""


def subject_of(tool: Tool) -> tuple[str, ...]:
    """Names of the fields that the answer of a look is about, the first one first; `status` may be among them.

    Read from the tool's name (`get_data_usage`), then from its description ("with its amount and status"); of
    a tool with an output schema, those that it declares. Empty where nothing is said, and for other tools.
    """
    if tool.kind not in (ToolKind.READ, ToolKind.SEARCH):
        return ()
    named = tuple(_described(tool.name, tool.verb, tool.entity, tool.description))
    return tuple(f for f in named if f in tool.output_fields) if tool.output else named


def promised_fields(tool: Tool) -> dict[str, Schema]:
    """Plain schema per field, besides the record's id and status, that the answer of a look promises."""
    if tool.kind not in (ToolKind.READ, ToolKind.SEARCH):
        return {}
    described = _described(tool.name, tool.verb, tool.entity, tool.description)
    fields = tool.output_fields if tool.output else described
    return {f: s for f, s in fields.items() if f != "status" and not is_identifier(f)}


def kept_fields(tool: Tool) -> dict[str, Schema]:
    """Plain schema per parameter whose value a creation or an update leaves on the record.

    Not among them are ids, the agent's own words, and what is added to something (`gb_amount`).
    """
    if tool.kind not in (ToolKind.CREATE, ToolKind.UPDATE):
        return {}
    own = tool.properties if tool.kind is ToolKind.UPDATE else tool.required
    return {
        p: tool.properties[p]
        for p in own
        if p in tool.properties
        and p not in tool.references
        and not is_identifier(p)
        and not tool.free_text(p)
        and (tool.kind is ToolKind.CREATE or "amount" not in words_of(p))
    }


def to_tell(tool: Tool, record: Mapping[str, Any]) -> dict[str, Any]:
    """What the customer must hear of a record that a read gave: field -> value.

    That is the first subject of the read that the record has; and the status where the read is about it, or
    about nothing else, or where it is out of the ordinary. A record without a status has the status `unknown`.
    """
    subject = subject_of(tool)
    scalar = (f for f in subject if f != "status" and type(record.get(f)) in (str, int, float))
    told = {f: record[f] for f in list(scalar)[:1]}
    if not told or "status" in subject or record.get("status", ORDINARY) != ORDINARY:
        told["status"] = record.get("status", "unknown")
    return told


@lru_cache(maxsize=2048)
def _described(name: str, verb: str, entity: str, description: str) -> dict[str, Schema]:
    """Field -> schema by name and description. Callers must not change it."""
    after = [w for w in words_of(name) if w != verb]
    plain = _ASIDE.sub("", description).replace("Wi-Fi", "wifi").replace("'s", "")
    phrases: list[Sequence[str]] = [list(takewhile(lambda w: w not in _ENDS, after))]
    for found in _CUES.finditer(plain):
        phrases += [_noun_phrase(part) for part in _PARTS.split(found.group(1))]
    fields: dict[str, Schema] = {}
    for field, schema in (found for phrase in phrases for found in _field(phrase, entity.split("_"))):
        if not any(field.endswith(f"_{known}") for known in fields):  # "billing cycle data usage" again
            fields.setdefault(field, schema)
    for found in _SWITCHED.finditer(plain):
        words = _noun_phrase(found.group(1))
        if words and words != entity.split("_"):
            fields.setdefault("_".join(words[-LONGEST:]), SWITCH)
    return fields


def _noun_phrase(text: str) -> list[str]:
    words = [w for w in words_of(text) if w not in _PASSED_OVER]
    return list(takewhile(lambda w: w not in _ENDS, words))


def _field(phrase: Sequence[str], entity: Sequence[str]) -> Iterator[tuple[str, Schema]]:
    """The field that a noun phrase names, if it does: `bill amount` of a bill is its `amount`."""
    if not phrase or len(phrase) > LONGEST + 1 or phrase[-1] not in _SCHEMA_OF:
        return
    words = [*dropwhile(lambda w: w in entity, phrase[:-1]), phrase[-1]]
    schema = _SCHEMA_OF[words[-1]]
    if schema is MONEY and "data" in words:
        schema = _GIGABYTES
    if words[-1] == "used":
        words[-1] = "usage"
    unit = [] if _UNIT.get(id(schema)) is None or words[-1] == "percentage" else [_UNIT[id(schema)]]
    yield "_".join([*words[-LONGEST:], *unit]), schema
