"""Texts that suit a parameter: by the format its schema names, by its name, by its description's example.

Pure word lists and shapes; whether a text fits the whole schema is the business of `values`.
"""

import random
import re
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from while_pipeline.schemas import Schema
from while_pipeline.tool_words import FREE_TEXT
from while_pipeline.tools import is_identifier, names_records, noun_of, words_of

if TYPE_CHECKING:
    from while_pipeline.simulate.values import Persona

_CITIES = (
    "Lisbon", "Oslo", "Dublin", "Vienna", "Porto", "Madrid", "Turin", "Ghent", "Malmo", "Lyon",
)  # fmt: skip
_CODES = (
    "LIS", "OSL", "DUB", "VIE", "OPO", "MAD", "TRN", "GNT", "MMX", "LYS",
)  # fmt: skip
_STREETS = ("Elm Street", "Mill Lane", "Station Road", "Harbour Row", "Church Walk", "Park Avenue")
_PLAIN_WORDS = ("amber", "basic", "cedar", "delta", "ember", "flint")
_SENTENCES = (
    "I no longer need it.",
    "My plans have changed.",
    "It does not work as it should.",
    "I was told to ask for this.",
    "Please take care of it for me.",
)
"""Wordings for a reason, a note, a summary: they hold no identifier, so none can pass for one."""
_PERSON_WORDS = frozenset({
    "name", "full", "customer", "user", "contact", "holder", "passenger", "guest", "client", "member",
    "patient", "account", "owner", "cardholder", "my", "your", "billing", "recipient",
})  # fmt: skip

_BIRTH = frozenset({"birth", "dob", "birthday", "birthdate"})

_Draw = Callable[["Persona", random.Random], str]

_KINDS: tuple[tuple[frozenset[str], _Draw], ...] = tuple(
    (frozenset(signs.split()), draw)
    for signs, draw in (
        ("email mail", lambda p, _: p.email),
        ("phone mobile telephone cell msisdn", lambda p, _: p.phone_number),
        (" ".join(_BIRTH), lambda p, _: p.date_of_birth),
        ("postcode zip postal", lambda p, _: p.postcode),
        ("surname", lambda p, _: p.full_name.partition(" ")[2]),
        ("date day", lambda _, rng: date(rng)),
        ("time", lambda _, rng: f"{rng.randrange(8, 18):02d}:{rng.choice(('00', '15', '30', '45'))}"),
        ("address street", lambda _, rng: f"{rng.randrange(1, 99)} {rng.choice(_STREETS)}"),
        ("origin destination airport iata", lambda _, rng: rng.choice(_CODES)),
        ("city town place location", lambda _, rng: rng.choice(_CITIES)),
        ("country nationality", lambda _, rng: rng.choice(("Portugal", "Norway", "Ireland", "Austria"))),
        ("currency", lambda _, rng: rng.choice(("EUR", "USD", "GBP"))),
        ("language locale", lambda _, rng: rng.choice(("English", "French", "German"))),
        ("url uri link website", lambda _, rng: f"https://example.org/{rng.choice(_PLAIN_WORDS)}"),
        ("color colour", lambda _, rng: rng.choice(("blue", "green", "black", "red"))),
        ("query keyword keywords search term question", lambda _, rng: rng.choice((
            "delivery times", "opening hours", "how to return a parcel", "roaming prices",
        ))),
        ("expression formula", lambda _, rng: f"{rng.randrange(2, 60)} + {rng.randrange(2, 60)}"),
    )
)  # fmt: skip
"""Words of a name, and the text that has one of them is given; the first that matches counts."""


@lru_cache(maxsize=4096)
def _draw_of(name: str) -> _Draw | None:
    return next((draw for signs, draw in _KINDS if not signs.isdisjoint(words_of(name))), None)


def date(rng: random.Random, first_year: int = 2026, last_year: int = 2027) -> str:
    """Draw an ISO date."""
    return f"{rng.randint(first_year, last_year)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def of_length(text: str, low: int, high: int, rng: random.Random) -> str:
    """The text cut or filled up to a length: with digits where it holds some, else by saying it again."""
    if any(sign.isdigit() for sign in text):
        text += "".join(str(rng.randrange(10)) for _ in range(low - len(text)))
    while len(text) < low:
        text += f" {text or 'and'}"
    return text[: max(high, 0)]


def formatted(name: str, kind: str | None, person: "Persona", rng: random.Random) -> str | None:
    """A text of a JSON Schema `format`; None for a format that fits any text."""
    if kind in ("email", "idn-email"):
        return person.email
    if kind == "date":
        return person.date_of_birth if _BIRTH & set(words_of(name)) else date(rng)
    if kind in ("uri", "iri", "uri-reference", "iri-reference"):
        return f"https://example.org/{'-'.join(words_of(name)) or 'page'}/{rng.randrange(1, 255)}"
    draw = _FORMATS.get(kind or "")
    return draw(rng) if draw else None


_FORMATS: dict[str, Callable[[random.Random], str]] = {
    "date-time": lambda rng: f"{date(rng)}T{rng.randrange(8, 18):02d}:30:00Z",
    "time": lambda rng: f"{rng.randrange(8, 18):02d}:30:00Z",
    "duration": lambda rng: f"P{rng.randrange(1, 9)}D",
    "hostname": lambda rng: f"shop{rng.randrange(1, 255)}.example.org",
    "idn-hostname": lambda rng: f"shop{rng.randrange(1, 255)}.example.org",
    "ipv4": lambda rng: f"192.0.2.{rng.randrange(1, 255)}",
    "ipv6": lambda rng: f"2001:db8::{rng.randrange(1, 255):x}",
    "uuid": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
    "json-pointer": lambda _: "/status",
    "relative-json-pointer": lambda _: "1/status",
    "regex": lambda _: "^[a-z]+$",
    "uri-template": lambda _: "https://example.org/orders/{id}",
}
"""Networks and names are those reserved for documentation."""

_EXAMPLE = re.compile(
    r"(?:such as|e\.g\.,?|for example,?|example:|like)\s+['\"`]([^'\"`]{1,60})['\"`]", re.IGNORECASE
)


def has_example(schema: Schema) -> bool:
    """Whether the schema shows the shape of a value by an example with a digit in it."""
    return _example(schema) is not None


def _example(schema: Schema) -> str | None:
    given = schema.get("examples")
    if given:
        return str(given[0]) if any(map(str.isdigit, str(given[0]))) else None
    return _described_example(str(schema.get("description", "")))


@lru_cache(maxsize=4096)
def _described_example(description: str) -> str | None:
    found = _EXAMPLE.search(description)
    shape = found.group(1) if found else ""
    # "such as 'YYYY-MM-DD'" names a format; without a digit there is nothing to vary
    return shape if any(map(str.isdigit, shape)) and "YY" not in shape.upper() else None


def like_example(schema: Schema, rng: random.Random) -> str | None:
    """A text of the shape of the schema's example, never the example itself; None without one."""
    example = _example(schema)
    if example is None:
        return None
    code = example.isalnum() and example.isupper()  # a record locator: letters are as random as digits

    def sign(old: str) -> str:
        if old.isdigit():
            return str(rng.randrange(10))
        return rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") if code and old.isalpha() else old

    drawn = "".join(map(sign, example))
    return drawn if drawn != example else None


def named_text(name: str, schema: Schema, person: "Persona", rng: random.Random) -> str:
    """A text of the kind that the name, then the description's example, speaks of."""
    words = words_of(name)
    if is_identifier(name) or names_records(name, schema):
        return like_example(schema, rng) or _own_id(noun_of(name) or "reference", rng)
    if not FREE_TEXT.isdisjoint(words):
        return rng.choice(_SENTENCES)
    if "YYYY-MM-DD" in str(schema.get("description", "")).upper() and not _BIRTH & set(words):
        return date(rng)
    draw = _draw_of(name)
    if draw is not None:
        return draw(person, rng)
    if "name" in words:
        return _name(words, person, rng)
    like = like_example(schema, rng)
    if like is not None:
        return like
    if not {"number", "code", "no", "reference"}.isdisjoint(words):
        return f"{rng.choice('ABCDEFGH')}{rng.randrange(100, 1000)}"
    return f"{rng.choice(_PLAIN_WORDS)}-{rng.randrange(10, 100)}"


def _name(words: tuple[str, ...], person: "Persona", rng: random.Random) -> str:
    """A person's name, part or whole, or the name of a thing (`app_name`)."""
    first, _, last = person.full_name.partition(" ")
    if not {"first", "given"}.isdisjoint(words):
        return first
    if not {"last", "family"}.isdisjoint(words):
        return last
    return person.full_name if set(words) <= _PERSON_WORDS else rng.choice(_PLAIN_WORDS).title()


_PREFIXES = {
    "account": "ACCT", "airport": "APT", "appointment": "APPT", "claim": "CLM", "complaint": "CMPL",
    "flight": "FLT", "payment": "PAY", "quote": "QUO", "reference": "REF", "request": "REQ",
    "reservation": "RSV", "shipment": "SHP",
}  # fmt: skip
"""Prefixes of records whose name does not break off well."""


@lru_cache(maxsize=1024)
def id_prefix(entity: str) -> str:
    """How an id of an entity begins, in at most four letters: `order` -> `ORD`, `line` -> `LINE`.

    Of several words the last one counts. It breaks off after a consonant, as abbreviations do.
    """
    noun = entity.rpartition("_")[2]
    if noun in _PREFIXES:
        return _PREFIXES[noun]
    short = noun if len(noun) <= 4 else noun[:4].rstrip("aeiou") or noun[:4]
    return short.upper()


def _own_id(entity: str, rng: random.Random) -> str:
    return f"{id_prefix(entity)}-{rng.randrange(10_000, 100_000)}"
