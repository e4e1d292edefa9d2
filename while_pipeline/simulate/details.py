"""What the records of a toolset hold beyond what a scenario says of them: the fields, and their values.

The values follow from the record's id, so every read of it, in every rollout, shows the same. Which fields an
answer promises is read in `answer_fields`; what was written over them is kept by `world`.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from while_pipeline.answer_fields import MONEY, kept_fields, promised_fields
from while_pipeline.ids import seed_of
from while_pipeline.schemas import Checker, Schema
from while_pipeline.simulate.changes import marks
from while_pipeline.simulate.consistent import consistent
from while_pipeline.simulate.values import TRIES, Persona, persona, value_for
from while_pipeline.tools import PERSON_ENTITIES, Tool, ToolKind, words_of

_NOBODY = Persona(full_name="", date_of_birth="", email="", phone_number="", postcode="")
"""Whose records are that say nothing about anybody."""
_TEXT: Schema = {"type": "string"}
_USUAL: dict[str, dict[str, Schema]] = {
    "bill": {"amount": MONEY, "due_date": _TEXT},
    "invoice": {"amount": MONEY, "due_date": _TEXT},
    "order": {"total": MONEY, "order_date": _TEXT},
    "payment_request": {"amount": MONEY},
    "certificate": {"amount": MONEY},
    "line": {"phone_number": _TEXT},
    "airport": {"city": _TEXT},
    "flight": {"flight_number": {"type": "string", "description": "such as 'HF204'"}, "departure_time": _TEXT,
               "price": MONEY},
    "outage": {"start_date": _TEXT},
}  # fmt: skip
"""Fields that people expect of an entity, by the last words of its name, whatever its tools say."""


class _Field(NamedTuple):
    """How the values of a field are drawn."""

    name: str
    called: str
    """Its name as it is understood: the `name` of an app is an `app_name`."""
    schema: Schema
    choices: tuple[Any, ...]
    """All values there are, where the schema lists them."""
    personal: bool
    """Whether the value may be about a person."""


class Details:
    """The further fields of a toolset's records."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Read them off the tools: what looks promise, what creations and updates leave on a record."""
        entities = dict.fromkeys(tool.entity for tool in tools)
        schemas: dict[str, dict[str, Schema]] = {e: dict(_usual(e)) for e in entities}
        writes = [tool for tool in tools if tool.writes and tool.kind is not ToolKind.CREATE]
        never = {"status", "payment"}.union(*map(marks, tools))
        for tool in tools:
            for name, schema in (promised_fields(tool) | kept_fields(tool)).items():
                if name not in never:
                    schemas[tool.entity].setdefault(name, schema)
        self._fields = {e: [_field(e, *of) for of in own.items()] for e, own in schemas.items() if own}
        self._names = {e: frozenset(own) for e, own in schemas.items()}
        self.settable = frozenset(never.union(*(tool.properties for tool in writes)))
        """Fields that a call of some tool sets."""
        switches = [t.entity for t in writes if t.key is None]
        self.switches = {e: _switched(own, e, switches) for e, own in schemas.items()}
        """Entity -> field -> the single record whose status the field is (`mobile_data` -> `data`)."""
        self.belongings = {
            t.entity: _belongings(t, entities) for t in tools if t.kind is ToolKind.READ and t.key
        }
        """Entity -> entities of the records that a read of it lists ("including their reservations")."""

    def names(self, entity: str) -> frozenset[str]:
        """Names of the further fields of an entity's records."""
        return self._names.get(entity, frozenset())

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
        whose = person or (persona(rng) if any(field.personal for field in fields) else _NOBODY)
        drawn: dict[str, Any] = {}
        for field in fields:
            if field.choices:
                chosen = (rng.choice(field.choices) for _ in range(TRIES))
                agreeing = (value for value in chosen if consistent(field.called, value, drawn))
                drawn[field.name] = next(agreeing, field.choices[0])
            else:
                drawn[field.name] = value_for(field.called, field.schema, whose, rng, beside=drawn)
        return drawn


def _field(entity: str, name: str, schema: Schema) -> _Field:
    of_thing = name == "name" and entity not in PERSON_ENTITIES
    valid = Checker(schema).is_valid
    words = words_of(name)
    plain = schema.get("type") in ("integer", "number", "boolean") or words[-1:] == ("date",)
    choices = tuple(v for v in schema.get("enum") or schema.get("examples") or () if valid(v))
    return _Field(
        name=name,
        called=f"{entity.rpartition('_')[2]}_name" if of_thing else name,
        schema=schema,
        choices=choices,
        personal=not choices and (not plain or "birth" in words),
    )


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
