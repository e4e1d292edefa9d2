"""What a write does to a record: the fields it sets, and which of them show that it was done.

Pure functions of tool, arguments and record. Keeping the records belongs to `world`.
"""

from collections.abc import Mapping
from typing import Any

from while_pipeline.ids import canonical_json
from while_pipeline.simulate.answers import Fields
from while_pipeline.tools import PERSON_ENTITIES, Tool, ToolKind, is_identifier, words_of

_STATE_AFTER = {
    "suspend": "suspended", "resume": "active", "activate": "active", "deactivate": "inactive",
    "block": "blocked", "unblock": "active", "enable": "enabled", "disable": "disabled",
    "connect": "connected", "disconnect": "disconnected", "toggle": "inactive", "swap": "swapped",
    "set": "set", "reset": "reset",
}  # fmt: skip
_SWITCHES = {"inactive": "active", "disabled": "enabled", "disconnected": "connected", "off": "on"}
_TOGGLED = _SWITCHES | {on: off for off, on in _SWITCHES.items()}
DELETES = frozenset({"delete", "remove"})
"""Verbs after which a record is gone; after the other cancellations it is there and reads cancelled."""


def state_change(tool: Tool) -> dict[str, str]:
    """The field an argument-less update sets: `enable_roaming` -> roaming; `suspend_line` -> status."""
    after = _STATE_AFTER.get(tool.verb) or _participle(tool.verb)
    nouns = [w for w in words_of(tool.name) if w != tool.verb and w not in tool.entity.split("_")]
    field = nouns[0] if tool.verb in ("enable", "disable", "toggle") and nouns else "status"
    return {field: after}


def changes(tool: Tool, arguments: Mapping[str, Any], record: Fields) -> tuple[Fields, Fields]:
    """What shows that a write to `record` was done, and all that it sets."""
    fields = {
        p: v
        for p, v in compared(tool, arguments).items()
        if p not in tool.references and not is_identifier(p)
    }
    if tool.kind is ToolKind.CANCEL:
        mark = {"status": "deleted" if tool.verb in DELETES else "cancelled"}
    elif tool.kind is ToolKind.PAY:
        mark = {"payment": _payment(tool)}
    elif fields:
        return fields, fields
    else:
        # `swap_device(line_id, device_id)` sets the device; whose line it is, the person only proves.
        others = {p: v for p, v in arguments.items() if p in tool.references and p != tool.key}
        set_ = {p: v for p, v in others.items() if tool.references[p] not in PERSON_ENTITIES}
        if set_:
            return set_, set_
        mark = state_change(tool)
        if tool.verb == "toggle":
            mark = {f: _TOGGLED.get(str(record.get(f, "active")), "inactive") for f in mark}
    return mark, {**fields, **mark}


def marks(tool: Tool) -> frozenset[str]:
    """Fields that show that a write was done, whatever its arguments say: never there before it."""
    if not tool.writes or tool.kind is ToolKind.CREATE:
        return frozenset()
    own = tool.properties if tool.kind in (ToolKind.PAY, ToolKind.CANCEL) else {}
    return frozenset({*own, *state_change(tool)})


def _payment(tool: Tool) -> str:
    """What a payment leaves a record as; whoever asks for money has not got it yet."""
    words = words_of(tool.name)
    return "refunded" if "refund" in words else "requested" if "request" in words else "paid"


def _participle(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if verb.endswith("y") else f"{verb}ed"


def compared(tool: Tool, arguments: Mapping[str, Any]) -> Fields:
    """The arguments that are not the agent's own words."""
    return {p: v for p, v in arguments.items() if not tool.free_text(p)}


def said(value: Any) -> str:
    """A value as an answer's message says it: JSON, save for plain text."""
    return value if isinstance(value, str) else canonical_json(value)
