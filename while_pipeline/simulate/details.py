"""What the records of a toolset hold beyond what a scenario says of them: the fields, and their values.

The values follow from the record's id, so every read of it, in every rollout, shows the same. Which fields an
answer promises is read in `answer_fields`; what was written over them is kept by `world`.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from while_pipeline.answer_fields import MONEY, kept_fields, promised_fields
from while_pipeline.ids import seed_of
from while_pipeline.schemas import Schema
from while_pipeline.simulate.changes import marks
from while_pipeline.simulate.values import Persona, persona, value_for
from while_pipeline.tools import PERSON_ENTITIES, Tool, ToolKind, words_of

_TEXT: Schema = {"type": "string"}
_DATE: Schema = {"type": "string", "format": "date"}
_USUAL: dict[str, dict[str, Schema]] = {
    "bill": {"amount": MONEY, "due_date": _DATE},
    "invoice": {"amount": MONEY, "due_date": _DATE},
    "order": {"total": MONEY, "order_date": _DATE},
    "payment_request": {"amount": MONEY},
    "certificate": {"amount": MONEY},
    "line": {"phone_number": _TEXT},
    "airport": {"city": _TEXT},
    "flight": {"flight_number": {"type": "string", "description": "such as 'HF204'"}, "departure_time": _TEXT,
               "price": MONEY},
    "outage": {"started_on": _DATE},
}  # fmt: skip
"""Fields that people expect of an entity, by the last words of its name, whatever its tools say."""


class Details:
    """The further fields of a toolset's records."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Read them off the tools: what looks promise, what creations and updates leave on a record."""
        entities = dict.fromkeys(tool.entity for tool in tools)
        self._fields: dict[str, dict[str, Schema]] = {e: dict(_usual(e)) for e in entities}
        writes = [tool for tool in tools if tool.writes and tool.kind is not ToolKind.CREATE]
        never = {"status", "payment"}.union(*map(marks, tools))
        for tool in tools:
            fields = self._fields[tool.entity]
            for name, schema in (promised_fields(tool) | kept_fields(tool)).items():
                if name not in never:
                    fields.setdefault(name, schema)
        self.settable = frozenset(never.union(*(tool.properties for tool in writes)))
        """Fields that a call of some tool sets."""
        switches = [t.entity for t in writes if t.key is None]
        self.switches = {e: _switched(f, e, switches) for e, f in self._fields.items()}
        """Entity -> field -> the single record whose status the field is (`mobile_data` -> `data`)."""
        self.belongings = {
            t.entity: _belongings(t, entities) for t in tools if t.kind is ToolKind.READ and t.key
        }
        """Entity -> entities of the records that a read of it lists ("including their reservations")."""

    def fields(self, entity: str) -> Mapping[str, Schema]:
        """Plain schema per further field of an entity's records."""
        return self._fields.get(entity, {})

    def draw(
        self, seed: int, entity: str, key: str, record: Mapping[str, Any], person: Persona | None
    ) -> dict[str, Any]:
        """Draw the further fields of the record with this id: the same for the same seed and id.

        A duplicate holds what its twin holds. Names and addresses are those of `person`, where there is one.
        """
        fields = self._fields.get(entity)
        if not fields:
            return {}
        rng = random.Random(seed_of("details", seed, entity, min(key, str(record.get("duplicate_of", key)))))
        whose = person or persona(rng)
        drawn: dict[str, Any] = {}
        for name, schema in fields.items():
            of_thing = name == "name" and entity not in PERSON_ENTITIES
            called = f"{entity.rpartition('_')[2]}_name" if of_thing else name
            drawn[name] = value_for(called, schema, whose, rng, beside=drawn)
        return drawn


def _usual(entity: str) -> Mapping[str, Schema]:
    return next((fields for noun, fields in _USUAL.items() if f"_{entity}".endswith(f"_{noun}")), {})


def _switched(fields: Mapping[str, Schema], entity: str, switches: Sequence[str]) -> dict[str, str]:
    """`airplane_mode_status` and `mobile_data` are how the records `airplane_mode` and `data` stand."""
    found: dict[str, str] = {}
    for field in fields:
        name = f"_{field}".removesuffix("_status")
        of = next((s for s in switches if s != entity and name.endswith(f"_{s}")), None)
        if of is not None:
            found[field] = of
    return found


def _belongings(tool: Tool, entities: Iterable[str]) -> tuple[str, ...]:
    words = words_of(tool.description)
    return tuple(e for e in entities if e != tool.entity and f"{e}s" in words)


class _Same:
    """A toolset compared by identity: reading one takes longer than an episode."""

    __slots__ = ("tools",)

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.tools is other.tools

    def __hash__(self) -> int:
        return id(self.tools)


@lru_cache(maxsize=64)
def _details_of(same: _Same) -> Details:
    return Details(same.tools)


def details_of(tools: Sequence[Tool]) -> Details:
    """The details of a toolset, read once; a sequence that was given must not be changed afterwards."""
    return _details_of(_Same(tools))
