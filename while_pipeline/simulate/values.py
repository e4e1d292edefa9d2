"""Plausible values for tool parameters, read from their JSON Schemas, and the person a scenario is about."""

import random
from collections.abc import Mapping
from typing import Any

from while_pipeline.records import Record
from while_pipeline.tools import is_identifier, noun_of, words_of

_FIRST = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo", "Iris", "Jon", "Kim", "Lea", "Max",
    "Nora", "Omar", "Pia", "Quinn", "Rosa", "Sam", "Tess",
)  # fmt: skip
_LAST = (
    "Abel", "Brandt", "Costa", "Diaz", "Eriksen", "Fox", "Greco", "Hale", "Ito", "Jansen", "Kaya",
    "Lind", "Moreau", "Novak", "Ortiz", "Park",
)  # fmt: skip
_CITIES = (
    "Lisbon", "Oslo", "Dublin", "Vienna", "Porto", "Madrid", "Turin", "Ghent", "Malmo", "Lyon",
)  # fmt: skip
_CODES = (
    "LIS", "OSL", "DUB", "VIE", "OPO", "MAD", "TRN", "GNT", "MMX", "LYS",
)  # fmt: skip


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


def date(rng: random.Random, first_year: int = 2026, last_year: int = 2027) -> str:
    """Draw an ISO date."""
    return f"{rng.randint(first_year, last_year)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def identifier(entity: str, schema: Mapping[str, Any], rng: random.Random) -> str | int:
    """Draw an id that shows what it names (`LINE-48213`), or a bare number where the schema wants one."""
    number = rng.randrange(10_000, 100_000)
    return (
        number
        if schema.get("type") in ("integer", "number")
        else f"{entity.replace('_', '')[:4].upper()}-{number}"
    )


def value_for(parameter: str, schema: dict[str, Any], person: Persona, rng: random.Random) -> Any:
    """Draw a value that satisfies the schema and suits the parameter's name."""
    if "const" in schema:
        return schema["const"]
    listed = schema.get("enum") or schema.get("examples")
    if listed:
        return rng.choice(listed)
    kind = schema.get("type", "string")
    if kind == "array":
        items = schema.get("items") or {"type": "string"}
        return [value_for(parameter, items, person, rng) for _ in range(max(1, schema.get("minItems", 1)))]
    if kind == "object":
        properties = schema.get("properties") or {}
        wanted = schema.get("required") or list(properties)
        return {name: value_for(name, properties.get(name, {}), person, rng) for name in wanted}
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        return _number(schema, rng)
    text = _text(parameter, schema, person, rng)
    return text[: schema.get("maxLength", len(text))].ljust(schema.get("minLength", 0), "x")


def _number(schema: dict[str, Any], rng: random.Random) -> Any:
    """Draw a small number within the bounds: a whole one where there is one."""
    step = schema.get("multipleOf", 1)
    lows = [-(-schema["minimum"] // step)] if "minimum" in schema else []
    lows += [schema["exclusiveMinimum"] // step + 1] if "exclusiveMinimum" in schema else []
    highs = [schema["maximum"] // step] if "maximum" in schema else []
    highs += [-(-schema["exclusiveMaximum"] // step) - 1] if "exclusiveMaximum" in schema else []
    low = max(lows) if lows else min([1, *highs])
    high = min([low + 8, *highs])
    if low > high:  # an open interval between two whole numbers
        return (schema["exclusiveMinimum"] + schema["exclusiveMaximum"]) / 2
    return rng.randint(int(low), int(high)) * step


def _text(parameter: str, schema: dict[str, Any], person: Persona, rng: random.Random) -> str:
    words = set(words_of(parameter))
    if is_identifier(parameter):
        return str(identifier(noun_of(parameter) or "record", schema, rng))
    known = [
        ({"email", "mail"}, person.email),
        ({"phone", "mobile"}, person.phone_number),
        ({"birth", "dob"}, person.date_of_birth),
        ({"postcode", "zip"}, person.postcode),
        ({"name"}, person.full_name),
    ]
    for names, value in known:
        if words & names:
            return value
    if schema.get("format") == "date" or words & {"date", "day"}:
        return date(rng)
    if words & {"origin", "destination", "from", "to", "airport"}:
        return rng.choice(_CODES)
    if words & {"city", "address", "place"}:
        return rng.choice(_CITIES)
    if words & {"number", "code"}:
        return f"{rng.choice('ABCDEFGH')}{rng.randrange(100, 1000)}"
    return f"{rng.choice(['amber', 'basic', 'cedar', 'delta', 'ember', 'flint'])}-{rng.randrange(10, 100)}"
