"""The mock world: a small state machine built from the tools' JSON Schemas, one per rollout.

Reads, searches, creations, updates, cancellations and payments act on the same records, so what was
written is read back. Faults are scheduled per tool and call number. Nothing here knows the agent, the
customer or the answer key.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema.exceptions import best_match

from while_pipeline.ids import canonical_json, content_id
from while_pipeline.records import Record
from while_pipeline.tools import Tool, ToolKind, is_identifier, noun_of, words_of

PERSISTENT = 1_000_000
"""Failures of a fault that never clears."""

SINGLE = "current"
"""Id of the one record of an entity that no tool names by id (the device in the customer's hand)."""

_STATE_AFTER = {
    "suspend": "suspended", "resume": "active", "activate": "active", "deactivate": "inactive",
    "block": "blocked", "unblock": "active", "enable": "enabled", "disable": "disabled",
    "connect": "connected", "disconnect": "disconnected", "toggle": "toggled",
}  # fmt: skip
_ECHOES = frozenset(
    {"string", "value", "example", "user@example.com", "unknown", "n/a", "none", "null", "todo"}
)

Records = dict[str, dict[str, dict[str, Any]]]
"""entity -> id -> fields."""


class Fault(Record):
    """A scheduled failure: the tool's first `failures` calls fail in the way of `condition`."""

    tool: str
    condition: str
    failures: int

    @property
    def persistent(self) -> bool:
        """Whether retrying never helps."""
        return self.failures >= PERSISTENT


class WorldStart(Record):
    """Everything a world begins with; equal starts answer equal calls equally."""

    records: Records
    faults: tuple[Fault, ...] = ()


class World:
    """One episode's world. Not shared between rollouts."""

    def __init__(self, tools: Sequence[Tool], start: WorldStart) -> None:
        """Begin from `start`, which is left as it is."""
        self._tools = {tool.name: tool for tool in tools}
        self._start = start
        self._records: Records = copy.deepcopy(start.records)
        self._calls: dict[str, int] = {}
        self._faults = {fault.tool: fault for fault in start.faults}
        self._transferred = False

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """Answer one tool call as JSON text (or, under a `malformed` fault, as broken text)."""
        tool = self._tools.get(name)
        if tool is None:
            return _error("unknown_tool", f"There is no tool named {name}.")
        if arguments is None:
            return _error("invalid_argument", "The arguments are not a JSON object.")
        problem = _invalid(tool, arguments)
        if problem is not None:
            return problem
        attempt = self._calls.get(name, 0)
        self._calls[name] = attempt + 1
        fault = self._faults.get(name)
        active = fault is not None and attempt < fault.failures
        if fault is None or not active:
            return canonical_json(self._act(tool, arguments))
        if fault.condition == "stale":
            return canonical_json(_outdated(self._act(tool, arguments)))
        if fault.condition == "malformed":
            return '{"status":"ok","' + tool.entity + '":{"' + tool.entity + "_i"
        return _error(fault.condition, _FAULT_TEXT[fault.condition])

    def diff(self) -> dict[str, Any]:
        """What changed since the start: `entity/id/field` -> new value, and `transfer` when handed off."""
        changed: dict[str, Any] = {}
        for entity, rows in self._records.items():
            before = self._start.records.get(entity, {})
            for key, fields in rows.items():
                old = before.get(key, {})
                changed |= {
                    f"{entity}/{key}/{f}": v for f, v in fields.items() if f not in old or old[f] != v
                }
        if self._transferred:
            changed["transfer"] = True
        return dict(sorted(changed.items()))

    def records(self) -> Records:
        """A copy of the records as they are now."""
        return copy.deepcopy(self._records)

    def _act(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        missing = self._unknown_reference(tool, arguments)
        if missing is not None:
            return missing
        match tool.kind:
            case ToolKind.TRANSFER:
                self._transferred = True
                return {"status": "ok", "transferred": True}
            case ToolKind.CREATE:
                return self._create(tool, arguments)
            case ToolKind.SEARCH:
                return self._search(tool, arguments)
            case ToolKind.READ:
                return self._read(tool, arguments)
            case ToolKind.OTHER:
                compared = {p: v for p, v in arguments.items() if not tool.free_text(p)}
                return {"status": "ok", "reference": f"REF-{content_id(tool.name, compared)[:6].upper()}"}
            case _:
                return self._write(tool, arguments)

    def _unknown_reference(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        for parameter, value in arguments.items():
            if is_identifier(parameter) and not (tool.kind is ToolKind.CREATE and parameter == tool.key):
                noun = noun_of(parameter)
                tables = [self._records.get(noun, {})] if noun else list(self._records.values())
                if not any(str(value) in table for table in tables):
                    message = f"No {(noun or 'record').replace('_', ' ')} with {parameter} {value} was found."
                    return {"error": "not_found", "message": message}
        return None

    def _target(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        if tool.key is None:
            table = self._records.setdefault(tool.entity, {})
            return tool.entity, table.setdefault(SINGLE, {"status": "active"})
        key = str(arguments[tool.key])
        if noun_of(tool.key) is not None:
            return tool.entity, self._records[tool.entity][key]
        return next((e, table[key]) for e, table in self._records.items() if key in table)

    def _read(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        entity, record = self._target(tool, arguments)
        return {"status": "ok", entity: record}

    def _search(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        rows = self._records.get(tool.entity, {}).values()
        wanted = {p: v for p, v in arguments.items() if not tool.free_text(p)}
        found = [row for row in rows if all(p not in row or _same(row[p], v) for p, v in wanted.items())]
        return {"status": "ok", "count": len(found), "results": found}

    def _create(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        table = self._records.setdefault(tool.entity, {})
        fields = {p: v for p, v in arguments.items() if not tool.free_text(p)}
        for key, row in table.items():
            if (
                row.get("status") != "cancelled"
                and fields
                and all(row.get(p) == v for p, v in fields.items())
            ):
                return {"error": "already_done", "message": f"An identical {tool.entity} exists: {key}."}
        if tool.key is None:
            key = f"{tool.entity.replace('_', '')[:4].upper()}-{9_000 + len(table)}"
        else:
            key = str(arguments[tool.key])
            if key in table:
                return {"error": "conflict", "message": f"Another {tool.entity} has the id {key}."}
        table[key] = {f"{tool.entity}_id": key, **fields, "status": "created"}
        return {"status": "ok", tool.entity: table[key]}

    def _write(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        entity, record = self._target(tool, arguments)
        changes = self._changes(tool, arguments)
        if all(record.get(field) == value for field, value in changes.items()):
            return {"error": "already_done", "message": f"This was already done; nothing changed. {changes}"}
        # Money goes back after a cancellation; nothing else happens to what is cancelled.
        if record.get("status") == "cancelled" and changes != {"payment": "refunded"}:
            return {"error": "not_allowed", "message": f"This {entity} is cancelled and cannot be changed."}
        before = {"previous_status": record["status"]} if "status" in record else {}
        resumed = {"resumed": record.pop("pending_action")} if "pending_action" in record else {}
        record.update(changes)
        return {"status": "ok", entity: record, **before, **resumed}

    def _changes(self, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if tool.kind is ToolKind.CANCEL:
            return {"status": "cancelled"}
        if tool.kind is ToolKind.PAY:
            return {"payment": "refunded" if "refund" in words_of(tool.name) else "paid"}
        fields = {p: v for p, v in arguments.items() if not is_identifier(p) and not tool.free_text(p)}
        return fields or state_change(tool)


def state_change(tool: Tool) -> dict[str, str]:
    """The field an argument-less update sets: `enable_roaming` -> roaming; `suspend_line` -> status."""
    after = _STATE_AFTER.get(tool.verb, f"{tool.verb}_done")
    nouns = [w for w in words_of(tool.name) if w != tool.verb and w not in tool.entity.split("_")]
    field = nouns[0] if tool.verb in ("enable", "disable", "toggle") and nouns else "status"
    return {field: after}


def _outdated(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer as an old copy would give it: flagged, and with a status that no longer holds.

    An error is an error however old.
    """
    if "error" in answer:
        return answer

    def old(value: Any) -> Any:
        if isinstance(value, list):
            return [old(item) for item in value]
        return {**value, "status": "superseded"} if isinstance(value, dict) else value

    aged = {name: old(value) for name, value in answer.items()}
    return {**aged, "stale": True, "as_of": "2020-01-01T00:00:00Z"}


_FAULT_TEXT = {
    "timeout": "The request timed out before the system answered.",
    "rate_limited": "Too many requests; try again in a moment.",
    "permission_denied": "This account has no permission for that action.",
}


def _error(code: str, message: str) -> str:
    return canonical_json({"error": code, "message": message})


def _invalid(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    error = best_match(tool.validator.iter_errors(arguments))
    if error is not None:
        where = ".".join(map(str, error.absolute_path)) or next(
            (p for p in tool.required if p not in arguments), "arguments"
        )
        return _error("invalid_argument", f"{where}: {error.message}")
    for parameter, value in arguments.items():
        listed = "enum" in tool.properties.get(parameter, {})
        if isinstance(value, str) and not (listed or tool.free_text(parameter)) and _echoes(parameter, value):
            return _error(
                "invalid_argument", f"{parameter}: {value!r} is not a value; ask the customer for it."
            )
    return None


def _echoes(parameter: str, value: str) -> bool:
    """Whether a value only repeats the schema or a stock example instead of naming something."""
    low = value.strip().lower()
    shape = low.strip("<>[]{}")
    return not low or low in _ECHOES or words_of(shape) == words_of(parameter) or shape.startswith("your_")


def _same(stored: Any, asked: Any) -> bool:
    if isinstance(stored, str) and isinstance(asked, str):
        return stored.strip().lower() == asked.strip().lower()
    return json.dumps(stored, sort_keys=True) == json.dumps(asked, sort_keys=True)
