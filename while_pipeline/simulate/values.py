"""Plausible values for tool parameters, fit to name, description and JSON Schema, and whom they belong to.

Which record a parameter names, and what the records hold, belongs to `scenario` and `world`; what kinds of
text there are, to `texts`.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Any

from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json
from while_pipeline.records import Record
from while_pipeline.schemas import NOTHING, Checker, Schema
from while_pipeline.simulate.consistent import consistent
from while_pipeline.simulate.matching import matching_text
from while_pipeline.simulate.texts import date, formatted, has_example, id_prefix, named_text, of_length
from while_pipeline.tools import names_records, noun_of, words_of

NO_VALUES: Mapping[str, Any] = {}
TRIES = 40
"""Draws until a value must fit; past them the schema asks for what cannot be read from it."""

_FIRST = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo", "Iris", "Jon", "Kim", "Lea", "Max",
    "Nora", "Omar", "Pia", "Quinn", "Rosa", "Sam", "Tess",
)  # fmt: skip
_LAST = (
    "Abel", "Brandt", "Costa", "Diaz", "Eriksen", "Fox", "Greco", "Hale", "Ito", "Jansen", "Kaya",
    "Lind", "Moreau", "Novak", "Ortiz", "Park",
)  # fmt: skip
Refer = Callable[[str | None, Schema], str | int]
"""Gives the id of a record: of an entity (None: of any), as a plain schema wants it."""


class Persona(Record):
    """The person in the conversation: what they can prove their identity with."""

    full_name: str
    date_of_birth: str
    email: str
    phone_number: str
    postcode: str


def persona(rng: random.Random) -> Persona:
    """Draw a person. The mail domain is reserved for examples, the phone prefix for fiction."""
    first, last = rng.choice(_FIRST), rng.choice(_LAST)
    return Persona(
        full_name=f"{first} {last}",
        date_of_birth=date(rng, 1950, 2005),
        email=f"{first}.{last}{rng.randrange(100)}@example.org".lower(),
        phone_number=f"555-01{rng.randrange(10)}-{rng.randrange(10_000):04d}",
        postcode=f"{rng.randrange(10_000, 99_999)}",
    )


def identifier(entity: str, schema: Schema, rng: random.Random) -> str | int:
    """Draw an id that shows what it names (`LINE-48213`), or one of the shape its schema asks for.

    The shape is read from type, enum, format, pattern, bounds, and an example in the description ("such as
    'ZFA04Y'"); of an array, from its items.

    Raises:
        ProjectError: no id was found that fits the schema.
    """
    if schema.get("type") == "array":
        schema = schema.get("items") or {}
    numbered = numbered_id(entity, schema, rng.randrange(10_000, 100_000))
    if numbered is not None:
        return numbered
    drawn: str | int = value_for(f"{entity}_id", schema, persona(rng), rng)
    return drawn


def numbered_id(entity: str, schema: Schema, number: int) -> str | int | None:
    """The id with this number (`LINE-48213`, or 48213), or None where the schema asks for another shape."""
    whole = schema.get("type") in ("integer", "number")
    own = number if whole else f"{id_prefix(entity)}-{number}"
    if "format" in schema or (not whole and has_example(schema)):
        return None
    return own if _PLAIN_KEYS.issuperset(schema) or _fits(schema, own) else None


def value_for(
    parameter: str,
    schema: Schema,
    person: Persona,
    rng: random.Random,
    refer: Refer | None = None,
    beside: Mapping[str, Any] = NO_VALUES,
) -> Any:
    """Draw a value that fits a plain schema, and the parameter's name and description.

    Args:
        parameter: Its name; decides what kind of text a text is.
        schema: A plain schema (see `schemas.plain_schema`).
        person: Whose name, mail, phone and date of birth are given where such are asked for.
        rng: Draws everything.
        refer: Asked for the id of an existing record wherever the schema names one, nested ones too; without
            it an id is made up.
        beside: Values by name, drawn before, that this one is to agree with (see `consistent`), as far as the
            schema lets it.

    Raises:
        ProjectError: no value was found that fits the schema.
    """
    drawing = _Drawing(person, rng, refer)
    fitting = None
    for _ in range(TRIES):
        value = drawing.value(parameter, schema)
        if _PLAIN_KEYS.issuperset(schema) or _fits(schema, value):
            if not beside or names_records(parameter, schema) or consistent(parameter, value, beside):
                return value
            fitting = [value]
    if fitting:
        return fitting[0]
    raise ProjectError(
        "tools", parameter, dict(schema), "no value was found that fits; give `examples` in its schema"
    )


_PLAIN_KEYS = frozenset({"type", "description", "title", "default"})
"""A schema of these alone is fitted by any value of its type."""


@lru_cache(maxsize=4096)
def _checker(schema_text: str) -> Checker:
    return Checker(json.loads(schema_text))


def _fits(schema: Schema, value: Any) -> bool:
    return _checker(canonical_json(schema)).is_valid(value)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One drawing: who it is for and what decides."""

    person: Persona
    rng: random.Random
    refer: Refer | None

    def value(self, name: str, schema: Schema) -> Any:
        kind = schema.get("type", "string")
        named = kind != "array" and names_records(name, schema)
        if named and self.refer is not None:
            return self.refer(noun_of(name), schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice([v for v in schema["enum"] if v is not None] or schema["enum"])
        if schema.get("examples") and not named:
            return self.rng.choice(schema["examples"])
        match kind:
            case "array":
                return self._array(name, schema)
            case "object":
                return self._object(schema)
            case "boolean":
                return self.rng.random() < 0.5
            case "null":
                return None
            case "integer" | "number":
                return _number(name, schema, self.rng)
            case _:
                return self._text(name, schema)

    def _array(self, name: str, schema: Schema) -> list[Any]:
        fixed = [self.value(name, item) for item in schema.get("prefixItems", ())]
        items = schema.get("items", {})
        low, high = schema.get("minItems", 0), schema.get("maxItems", max(1, schema.get("minItems", 0)))
        if items is False or items == NOTHING:
            high = min(high, len(fixed))
        drawn, drawing = fixed[:high], self
        for _ in range(TRIES + low):
            if len(drawn) >= max(low, min(1, high)):
                break
            one = drawing.value(name.removesuffix("s"), items if isinstance(items, Mapping) else {})
            if schema.get("uniqueItems") and one in drawn:
                drawing = replace(self, person=persona(self.rng))  # nobody has two names
            else:
                drawn.append(one)
        return drawn

    def _object(self, schema: Schema) -> dict[str, Any]:
        declared = schema.get("properties", {})
        possible = [name for name, part in declared.items() if part != NOTHING]
        required = schema.get("required", [])
        wanted = list(dict.fromkeys(required or possible))
        fewest = schema.get("minProperties", 0)
        wanted += [name for name in possible if name not in wanted][: max(0, fewest - len(wanted))]
        extra = schema.get("additionalProperties", {})
        others = extra if isinstance(extra, Mapping) else {}
        if extra is not False and extra != NOTHING:
            wanted += [f"note_{n}" for n in range(1, fewest - len(wanted) + 1)]
        if len(wanted) > schema.get("maxProperties", len(wanted)):
            wanted = [*required, *(n for n in wanted if n not in required)][: schema["maxProperties"]]
        drawn: dict[str, Any] = {}
        for name in wanted:
            part = declared.get(name, others)
            named = self.refer is not None and names_records(name, part)
            for _ in range(1 if named else TRIES):
                value = self.value(name, part)
                if consistent(name, value, drawn):
                    break
            drawn[name] = value
        return drawn

    def _text(self, name: str, schema: Schema) -> str:
        text = formatted(name, schema.get("format"), self.person, self.rng)
        if text is None:
            text = named_text(name, schema, self.person, self.rng)
        if _PLAIN_KEYS.issuperset(schema):
            return text
        low = schema.get("minLength", 0)
        if "not" in schema:  # what may not be is seen by trying: short texts, too
            text = text[: self.rng.randint(0, len(text))]
        text = of_length(text, low, schema.get("maxLength", max(low, len(text))), self.rng)
        if "pattern" not in schema or _fits(schema, text):
            return text
        drawn = (matching_text(schema["pattern"], self.rng) for _ in range(TRIES))
        return next((t for t in drawn if t is not None and _fits(schema, t)), text)


_USUAL = {"year": (2024, 2027), "age": (18, 80), "rating": (1, 5), "amount": (5, 60), "price": (5, 60)}
"""First and last of what people say where a number has such a name."""


def _number(name: str, schema: Schema, rng: random.Random) -> int | float:
    """Draw a small number within the bounds: a whole one where there is one."""
    whole = schema.get("type") == "integer"
    step = Fraction(str(schema.get("multipleOf", 1)))
    if whole:
        step = Fraction(step.numerator)  # the whole numbers among the multiples of p/q are those of p
    first, last = next((_USUAL[w] for w in reversed(words_of(name)) if w in _USUAL), (1, 5))
    for _ in range(TRIES):
        lows = [ceil(Fraction(str(schema["minimum"])) / step)] if "minimum" in schema else []
        if "exclusiveMinimum" in schema:
            lows.append(floor(Fraction(str(schema["exclusiveMinimum"])) / step) + 1)
        highs = [floor(Fraction(str(schema["maximum"])) / step)] if "maximum" in schema else []
        if "exclusiveMaximum" in schema:
            highs.append(ceil(Fraction(str(schema["exclusiveMaximum"])) / step) - 1)
        low = max(lows, default=min([ceil(first / step), *highs]))
        high = min(highs, default=max(floor(last / step), low + 8))
        if low <= high or whole or "multipleOf" in schema:
            break
        step /= 10  # an open interval between two whole numbers
    usual = max(low, ceil(first / step)), min(high, floor(last / step))
    low, high = usual if usual[0] <= usual[1] else (low, max(low, min(high, low + 8)))
    number = rng.randint(low, high) * step
    return int(number) if number.denominator == 1 else float(number)
