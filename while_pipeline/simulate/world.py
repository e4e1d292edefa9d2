"""The mock world: a small state machine built from the tools' JSON Schemas, one per rollout.

Reads, searches, creations, updates, cancellations, deletions and payments act on the same records, so what
was written is read back. Faults are scheduled per tool and call number. Nothing here knows the agent, the
customer or the answer key; what single answers say is in `answers`, a user's own world in `user_world`.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from while_pipeline.ids import canonical_json, content_id, seed_of
from while_pipeline.records import Record
from while_pipeline.simulate.answers import Fields, faulty, no_such_tool, not_found, refusal, refused, same
from while_pipeline.simulate.arithmetic import expression_of, value_of
from while_pipeline.simulate.changes import DELETES, changes, compared, said
from while_pipeline.simulate.details import Details, details_of
from while_pipeline.simulate.recorded import Recorded
from while_pipeline.simulate.values import Persona, identifier, numbered_id
from while_pipeline.tools import PERSON_ENTITIES, Tool, ToolKind, is_identifier, noun_of

PERSISTENT = 1_000_000
"""Failures of a fault that never clears."""

SINGLE = "current"
"""Id of the one record of an entity that no tool names by id (the device in the customer's hand)."""

CREATED = range(1_000, 10_000)
"""Numbers of created records: below all ids a scenario draws, so none is met twice."""

_UNTOUCHED: Fields = {"status": "active"}
"""What a single record nobody described holds."""

_NONE: Mapping[str, str] = {}
_PERSONAL = frozenset(Persona.model_fields)
_PAGE_SIZES = frozenset({"limit", "max_results", "page_size", "per_page", "top_k"})

Records = dict[str, dict[str, Fields]]
"""entity -> id -> fields."""


class WorldOptions(Record):
    """The dials of the mock world."""

    transient_share: Annotated[float, Field(ge=0, le=1)] = 0.7
    """Of the scheduled faults that may clear, the share that does; the rest stays, so both are practised."""
    max_transient_failures: Annotated[int, Field(ge=1, le=5)] = 2
    """Attempts a transient fault lasts at most: at two, a patient agent recovers in three calls. Past five,
    one tool would use up half of the turns a conversation has."""


class Fault(Record):
    """A scheduled failure: the tool's first `failures` calls fail in the way of `condition`."""

    tool: str
    condition: str
    failures: Annotated[int, Field(ge=1)]

    @property
    def persistent(self) -> bool:
        """Whether retrying never helps."""
        return self.failures >= PERSISTENT


class WorldStart(Record):
    """Everything a world begins with; equal starts answer equal calls equally."""

    records: Records
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    """Decides what the records do not say: their further fields, and the ids of what is created."""


class World:
    """One episode's world. Not shared between rollouts.

    The start is never written to: what changes is kept beside it, a record at a time, so that a fork costs as
    little as has happened.
    """

    __slots__ = (
        "_attempts",
        "_changed",
        "_details",
        "_faults",
        "_read_off",
        "_recorded",
        "_seed",
        "_start",
        "_tools",
        "_toolset",
        "_transferred",
    )

    def __init__(self, tools: Sequence[Tool], start: WorldStart, recorded: Recorded | None = None) -> None:
        """Begin from `start`, which is left as it is; `recorded` lends the answers of real tools."""
        self._toolset = tools
        self._tools = {tool.name: tool for tool in tools}
        self._start, self._seed = start.records, start.seed
        self._faults = {fault.tool: fault for fault in start.faults}
        self._recorded = recorded
        self._changed: dict[tuple[str, str], Fields] = {}
        self._attempts: dict[str, int] = {}
        self._transferred = False
        self._details: dict[tuple[str, str], Fields] = {}
        self._read_off: Details | None = None

    def fork(self) -> "World":
        """A second world in the same state, independent from here on."""
        twin = object.__new__(World)
        twin._tools, twin._start, twin._faults = self._tools, self._start, self._faults
        twin._toolset, twin._recorded, twin._seed = self._toolset, self._recorded, self._seed
        # What these hold follows from the start and the tools alone.
        twin._details, twin._read_off = self._details, self._read_off
        twin._changed, twin._attempts = dict(self._changed), dict(self._attempts)
        twin._transferred = self._transferred
        return twin

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """Answer one tool call as JSON text (or, under a `malformed` fault, as broken text)."""
        tool = self._tools.get(name)
        if tool is None:
            return canonical_json(no_such_tool(name))
        problem = refusal(tool, arguments)
        if arguments is None or problem is not None:
            return canonical_json(problem)
        fault = self._faults.get(name)
        if fault is not None:
            attempt = self._attempts.get(name, 0)
            self._attempts[name] = attempt + 1
            if attempt < fault.failures:
                draw = seed_of("fault", self._seed, name, attempt, arguments)
                return faulty(fault.condition, tool.entity, lambda: self._act(tool, arguments), draw)
        return canonical_json(self._act(tool, arguments))

    def diff(self) -> dict[str, Any]:
        """What changed since the start: `entity/id/field` -> new value, and `transfer` when handed off."""
        changed: dict[str, Any] = {"transfer": True} if self._transferred else {}
        for (entity, key), fields in self._changed.items():
            before = self._start.get(entity, {}).get(key) or (_UNTOUCHED if key == SINGLE else {})
            changed |= {
                f"{entity}/{key}/{f}": v for f, v in fields.items() if f not in before or before[f] != v
            }
        return dict(sorted(changed.items()))

    def records(self) -> Records:
        """A copy of the records as they are now."""
        now = {
            entity: {key: dict(row) for key, row in table.items()} for entity, table in self._start.items()
        }
        for (entity, key), fields in self._changed.items():
            now.setdefault(entity, {})[key] = dict(fields)
        return now

    def _find(self, entity: str, key: str) -> Fields | None:
        return self._changed.get((entity, key)) or self._start.get(entity, {}).get(key)

    def _rows(self, entity: str) -> Iterator[tuple[str, Fields]]:
        """All records of an entity, those of the start first, then as they were created."""
        table = self._start.get(entity, {})
        for key, fields in table.items():
            yield key, self._changed.get((entity, key), fields)
        for (other, key), fields in self._changed.items():
            if other == entity and key not in table:
                yield key, fields

    def _home(self, key: str) -> str | None:
        """Entity of the record that has this id, whatever it is."""
        entities = (e for e, table in self._start.items() if key in table)
        return next(entities, None) or next((e for e, k in self._changed if k == key), None)

    def _act(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
        missing = self._unknown_reference(tool, arguments)
        if missing is not None:
            # Where the scenario speaks of such records, one that is not among them is not there.
            if self._recorded is None or tool.writes or tool.entity in self._start:
                return missing
            return self._recorded.answer(tool.name, arguments) or missing
        return _ACTIONS[tool.kind](self, tool, arguments)

    def _hand_over(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
        self._transferred = True
        return {"status": "ok", "transferred": True}

    def _do_other(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
        """Calculate what is to be calculated, take note of a note, and give anything else a reference."""
        given, expression = compared(tool, arguments), expression_of(tool)
        if expression is not None:
            try:
                return {"status": "ok", "result": value_of(str(arguments[expression]))}
            except ValueError as error:
                return refused("invalid_argument", f"{expression}: {error}.")
        if arguments and not given:
            return {"status": "ok"}
        reference = content_id(tool.name, given)[:6].upper()
        return {"status": "ok", "reference": f"REF-{reference}"}

    def _unknown_reference(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields | None:
        """The answer to a call that names a record there is not.

        Of several ids in an array each must exist where the world holds records of their kind. A deleted
        record is not there, save for a deletion, which is told that it was done already.
        """
        for parameter, value in arguments.items():
            if parameter in tool.references:
                noun = tool.references[parameter]
            elif parameter not in tool.properties and is_identifier(parameter):
                noun = noun_of(parameter)
            else:
                continue
            if value is None or (tool.kind is ToolKind.CREATE and parameter == tool.key):
                continue
            several = isinstance(value, list) and tool.properties[parameter].get("type") == "array"
            if several and noun not in self._start:
                continue
            for key in map(_key_text, value if several else [value]):
                entity = noun or self._home(key)
                record = self._find(entity, key) if entity else None
                gone = record is not None and record.get("status") == "deleted"
                if record is None or (gone and not (parameter == tool.key and tool.verb in DELETES)):
                    return not_found(noun, parameter, key)
        only = self._changed.get((tool.entity, SINGLE)) if tool.key is None else None
        if only and only.get("status") == "deleted" and tool.verb not in DELETES:
            return refused("not_found", f"There is no {tool.entity.replace('_', ' ')} any more.")
        return None

    def _target(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, str, Fields]:
        """Entity, id and fields of the record a call acts on."""
        key = _key_text(arguments[tool.key]) if tool.key is not None else SINGLE
        entity = self._home(key) if tool.key and tool.references.get(tool.key) is None else None
        entity = entity or tool.entity
        return entity, key, self._find(entity, key) or _UNTOUCHED

    def _read(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
        entity, key, record = self._target(tool, arguments)
        return {"status": "ok", entity: self._detailed(tool, entity, key, record)}

    def _search(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
        wanted = {p: v for p, v in compared(tool, arguments).items() if p not in _PAGE_SIZES}
        found = [
            self._detailed(tool, tool.entity, key, row)
            for key, row in self._rows(tool.entity)
            if row.get("status") != "deleted" and self._meets(tool.entity, key, row, wanted)
        ]
        size = next((v for p, v in arguments.items() if p in _PAGE_SIZES and isinstance(v, int)), len(found))
        return {"status": "ok", "count": len(found), "results": found[: max(0, size)]}

    def _create(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
        entity, fields = tool.entity, compared(tool, arguments)
        rows = dict(self._rows(entity))
        for key, row in rows.items():
            over = row.get("status") in ("cancelled", "deleted")
            if not over and fields and all(p in row and row[p] == v for p, v in fields.items()):
                return refused("already_done", f"An identical {entity} exists: {key}.")
        own: Any = self._new_id(entity, fields, rows) if tool.key is None else arguments[tool.key]
        key = _key_text(own)
        if key in rows:
            return refused("conflict", f"Another {entity} has the id {key}.")
        made = self._changed[entity, key] = {f"{entity}_id": own, **fields, "status": "created"}
        return {"status": "ok", entity: made}

    def _new_id(self, entity: str, fields: Fields, rows: Mapping[str, Fields]) -> str | int:
        """An id of the shape by which another tool will ask for the record; world and fields decide which."""
        asked = (
            t.properties[p] for t in self._tools.values() for p, n in t.references.items() if n == entity
        )
        schema: Any = next(asked, {})
        draw = seed_of("created", self._seed, entity, fields)
        while True:
            key = numbered_id(entity, schema, CREATED[draw % len(CREATED)])
            key = identifier(entity, schema, random.Random(draw)) if key is None else key
            if _key_text(key) not in rows:
                return key
            draw += 1

    def _write(self, tool: Tool, arguments: Mapping[str, Any]) -> Fields:
        entity, key, record = self._target(tool, arguments)
        mark, changed = changes(tool, arguments, record)
        now = self._with_details(entity, key, record, mark)
        if all(now.get(field) == value for field, value in mark.items()):
            stands = ", ".join(f"{field} is {said(value)}" for field, value in mark.items())
            return refused("already_done", f"This was already done; nothing changed: {stands}.")
        # Money goes back after a cancellation; nothing else happens to what is cancelled.
        if record.get("status") == "cancelled" and mark not in (
            {"payment": "refunded"},
            {"status": "deleted"},
        ):
            return refused("not_allowed", f"This {entity} is cancelled and cannot be changed.")
        before = {"previous_status": record["status"]} if "status" in record else {}
        resumed = {"resumed": record["pending_action"]} if "pending_action" in record else {}
        kept = {field: value for field, value in record.items() if field != "pending_action"}
        self._changed[entity, key] = written = {**kept, **changed}
        return {"status": "ok", entity: written, **before, **resumed}

    def _detailed(self, tool: Tool, entity: str, key: str, record: Fields) -> Fields:
        """A record as a look shows it: with its further fields, or those that the output schema declares.

        A recorded answer of the tool lends its fields, save for what tools set: made up, they might show as
        done what nobody did.
        """
        details = self._further()
        shown = self._drawn(entity, key)
        if tool.output:
            shown = {field: value for field, value in shown.items() if field in tool.output_fields}
        if self._recorded is not None:
            lent = self._recorded.fields(tool.name, key)
            shown = {**shown, **{f: v for f, v in lent.items() if f not in details.settable}}
        shown = {**shown, **record}
        for field, other in details.switches.get(entity, _NONE).items():
            if field in shown:
                shown[field] = (self._find(other, SINGLE) or _UNTOUCHED).get("status")
        for other in details.belongings.get(entity, ()) if tool.key else ():
            own = [k for k, row in self._rows(other) if _key_text(row.get(f"{entity}_id")) == key]
            shown[f"{other}_ids"] = own
        return shown

    def _further(self) -> Details:
        """Which further fields there are: read where first needed, for many an episode needs none."""
        if self._read_off is None:
            self._read_off = details_of(self._toolset)
        return self._read_off

    def _drawn(self, entity: str, key: str) -> Fields:
        """The further fields of a record, drawn once."""
        drawn = self._details.get((entity, key))
        if drawn is None:
            start = self._start.get(entity, {}).get(key, {})
            drawn = self._further().draw(self._seed, entity, key, start, self._person())
            self._details[entity, key] = drawn
        return drawn

    def _with_details(self, entity: str, key: str, record: Fields, asked: Mapping[str, Any]) -> Fields:
        """A record with its further fields where those are asked for."""
        unsaid = asked.keys() - record.keys()
        if unsaid and not unsaid.isdisjoint(self._further().names(entity)):
            return {**self._drawn(entity, key), **record}
        return record

    def _meets(self, entity: str, key: str, row: Fields, wanted: Mapping[str, Any]) -> bool:
        """Whether a record is as a search wants it; what the record does not say rules it out no more."""
        full = self._with_details(entity, key, row, wanted)
        return all(p not in full or same(full[p], v) for p, v in wanted.items())

    def _person(self) -> Persona | None:
        """Whom the records belong to: the person among them."""
        rows = (row for entity in PERSON_ENTITIES for row in self._start.get(entity, {}).values())
        known = next((row for row in rows if row.keys() >= _PERSONAL), None)
        return Persona.model_validate({f: known[f] for f in _PERSONAL}) if known else None


_ACTIONS: dict[ToolKind, Callable[[World, Tool, Mapping[str, Any]], Fields]] = {
    ToolKind.TRANSFER: World._hand_over,
    ToolKind.CREATE: World._create,
    ToolKind.SEARCH: World._search,
    ToolKind.READ: World._read,
    ToolKind.OTHER: World._do_other,
    **dict.fromkeys((ToolKind.UPDATE, ToolKind.CANCEL, ToolKind.PAY), World._write),
}


def _key_text(value: Any) -> str:
    """An id as records are kept by it: 7.0 and 7 are one number in JSON."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
