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

MONEY: Schema = {
    "type": "number",
    "examples": [round(n + c / 100, 2) for n in range(7, 90, 3) for c in (15, 49, 95)],
}
"""Amounts whose last cent is not zero: 37.40 is said in two ways, 37.45 in one."""
_MEASURE: Schema = {
    "type": "number",
    "examples": [round(n + t / 10, 1) for n in range(1, 20) for t in (2, 3, 7)],
}
_COUNT: Schema = {"type": "integer", "examples": list(range(2, 9))}
_PERCENT: Schema = {"type": "integer", "examples": list(range(21, 98, 4))}
_STRENGTH: Schema = {"type": "string", "enum": ["weak", "moderate", "strong"]}
_SWITCH: Schema = {"type": "string", "enum": ["enabled", "disabled"]}
_TEXT: Schema = {"type": "string"}

_SCHEMA_OF: dict[str, Schema] = {
    word: schema
    for words, schema in (
        ("amount balance price cost fee total charge due", MONEY),
        ("usage limit allowance quota speed", _MEASURE),
        ("level percentage", _PERCENT),
        ("quantity points seats stock", _COUNT),
        ("strength", _STRENGTH),
        ("status", _SWITCH),
        ("date name email mail phone address city country url colour color", _TEXT),
    )
    for word in words.split()
}
"""Last word of a noun phrase that is a field, and what such a field holds."""
_UNITS = {"data": "gb", "speed": "mbps", "level": "percent"}
"""Word of a number's name, and the unit that is put behind it: a bare number says little."""

_CUES = re.compile(
    r"\b(?:with (?:its|their|the|an?)|including|includes?|shows?|displays?|provides|returns?|gets?|retrieves?"
    r"|checks?|measures|looks? up|finds? out)\s+([^.;:]+)",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\([^()]*\)")
_PARTS = re.compile(r",|\band\b|\bor\b|\b(?:with (?:its|their)|including)\b", re.IGNORECASE)
_SWITCHED = re.compile(
    r"\b(?:if|whether) (?:the |your )?([\w -]{1,80}?) is (?:currently )?(?:turned )?(?:on|off|enabled)\b",
    re.IGNORECASE,
)
_PASSED_OVER = frozenset({
    "the", "a", "an", "all", "its", "their", "your", "our", "his", "her", "current", "currently", "one",
    "new", "what", "displays", "shows", "which", "known", "open", "latest",
})  # fmt: skip
_ENDS = frozenset({
    "of", "for", "on", "in", "at", "by", "from", "to", "that", "you", "is", "are", "this", "per", "if",
    "whether",
})  # fmt: skip
LONGEST = 3
"""Words of a noun phrase that name a field; longer ones are sentences."""


def subject_of(tool: Tool) -> tuple[str, ...]:
    """Names of the fields that the answer of a look is about, in order; `status` may be among them.

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

    That is the first subject of the read that the record has; and the status where the read is about it or
    about nothing else, or where it is out of the ordinary. A record without a status has the `unknown` one.
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
        # `cycle_data_usage_gb` is the `data_usage_gb` again; the status of one thing is not that of another.
        if not any(field.endswith(f"_{known}") for known in fields if known != "status"):
            fields.setdefault(field, schema)
    for found in _SWITCHED.finditer(plain):
        words = _noun_phrase(found.group(1))
        if words and words != entity.split("_"):
            fields.setdefault("_".join(words[-LONGEST:]), _SWITCH)
    return fields


def _noun_phrase(text: str) -> list[str]:
    words = [w for w in words_of(text) if w not in _PASSED_OVER]
    return list(takewhile(lambda w: w not in _ENDS, words))


def _field(phrase: Sequence[str], entity: Sequence[str]) -> Iterator[tuple[str, Schema]]:
    """The field that a noun phrase names, if it does: `bill amount` of a bill is its `amount`."""
    last = "usage" if phrase and phrase[-1] == "used" else phrase[-1] if phrase else ""
    if last not in _SCHEMA_OF or len(phrase) > LONGEST + 1:
        return
    words = [*dropwhile(lambda w: w in entity, phrase[:-1]), last][-LONGEST:]
    schema = _SCHEMA_OF[last]
    if schema in (MONEY, _MEASURE):  # a data amount is a measure, a credit limit is money
        schema = _MEASURE if "data" in words else MONEY if "credit" in words else schema
    unit = next((_UNITS[w] for w in words if w in _UNITS), None)
    yield "_".join([*words, unit] if unit and schema in (_MEASURE, _PERCENT) else words), schema
