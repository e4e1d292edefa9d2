"""How a parameter's value is said in a conversation and heard back: `line_id` <-> "line number LINE-4821".

One module for both directions, so that what the customer says is what an agent can hear. Lists and objects
are in `listed`; how what a tool does is asked for belongs to `goals`.
"""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any

from while_pipeline import listed
from while_pipeline.messages import decode_json, decode_json_at
from while_pipeline.tools import is_identifier, singular, words_of

REMEMBERED = 32_768
"""(slot, message) pairs that are read once, 20 MB at most: every turn hears all earlier ones again."""

NAMINGS = 8
"""Places, from the last, at which a parameter is named that are looked at: each may have the rest of a text
read, and nobody names anything so often without a value."""

FORMS = (
    "{name} is {value}",
    "{name} {value}",
    "{noun} number is {value}",
    "{noun} number {value}",
    "{noun} {value}",
)
"""Ways to say a value. The last three are for identifiers; where one would be misheard, the first is said."""
_PLURAL = "{name} are {value}"
_FOR_ANY = 2
"""Forms that suit any value."""
FORMS_IN_SENTENCE = (0, 2)
"""Forms that make a sentence after "my"; after a colon each will do."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d\b")
_OPENERS = ('"', "[", "{")
_COUNTED = re.compile(
    r"(?!(?:is|are|to|should)\b)(?=[A-Za-z@._+/-]*\d)[A-Za-z0-9][A-Za-z0-9@._+:/-]*(?<![@._+:/-])|[\"\[{]"
)
"""What is plainly a value, with no "is" before it."""
_IDENTIFIER = re.compile(r"[A-Z]{2,}[_-]?\d{3,}\b|\d{4,}\b(?![-.:/]\d)")
"""What is plainly an identifier, with nothing but its noun before it."""
_WORDS = {"yes": True, "no": False, "true": True, "false": False}


def say(parameter: str, value: Any, form: int = 0) -> str:
    """Words for one value: `line id is LINE-4821`.

    Args:
        parameter: The parameter's name.
        value: Any JSON value.
        form: Which of `FORMS`; any whole number, counted round.
    """
    named = words_of(parameter)
    text = spoken(value, parameter)
    noun = " ".join(named[:-1]) if is_identifier(parameter) else ""
    form %= len(FORMS) if noun else _FOR_ANY
    sure = {1: _COUNTED, 3: _COUNTED, 4: _IDENTIFIER}.get(form)
    if sure:
        found = sure.match(text)
        # Quoted and JSON values are marked by their first character, all others must be plain to the end.
        if not found or (found.group() not in _OPENERS and found.end() < len(text)):
            form = 0
    plural = form == 0 and bool(named) and (named[-1] == "ids" or singular(named[-1]) != named[-1])
    return (_PLURAL if plural else FORMS[form]).format(name=" ".join(named), noun=noun, value=text)


def spoken(value: Any, parameter: str = "") -> str:
    """A value as a person would write it; what is neither plain nor a list of plain things is quoted or JSON.

    `parameter` lets a list leave out what its name says: "HAT012 on 2026-05-14" among `flights`.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and listed.is_plain(value):
        return value
    text = listed.said(value, parameter) if isinstance(value, list | dict) else None
    return json.dumps(value, ensure_ascii=False) if text is None else text


class Slot:
    """A parameter as it is listened for: its schema is read once, not for every message."""

    def __init__(self, parameter: str, schema: Mapping[str, Any]) -> None:
        """Listen for `parameter`, whose values `schema` types."""
        named = words_of(parameter)
        self.parameter = parameter
        self.first_word = named[0] if named else ""
        self.kind, self.format = schema.get("type"), schema.get("format")
        self.enum = frozenset(map(spoken, schema.get("enum") or ()))
        self.items = (schema.get("items") or {}).get("type")

    def hear(self, text: str) -> Any:
        """The last value said in `text`, as the schema types it; None when none was said.

        A value that is none of the schema's `enum`, or no date where its `format` is one, was not said.
        """
        value = _hear(self, text)
        return deepcopy(value) if isinstance(value, list | dict) else value


def hear(parameter: str, schema: Mapping[str, Any], text: str) -> Any:
    """What a `Slot` of `parameter` and `schema` hears in `text`."""
    return Slot(parameter, schema).hear(text)


@lru_cache(maxsize=REMEMBERED)
def _hear(slot: Slot, text: str) -> Any:
    # Looking for a fixed word first is far cheaper than a pattern, and most messages do not have it.
    if not slot.first_word or slot.first_word not in text.lower():
        return None
    found = [match.end() for match in _pattern(slot.parameter).finditer(text)]
    values = (_value_at(text, end, slot) for end in found[: -NAMINGS - 1 : -1])
    return next((value for value in values if value is not None), None)


@lru_cache(maxsize=4096)
def _pattern(parameter: str) -> re.Pattern[str]:
    named = words_of(parameter)
    words = r"[\s_-]".join(map(re.escape, named))
    # A one-word name is often the end of a longer one: "customer id" is not "id".
    start = (
        r"(?:(?<![\w'][\s_-])|(?<=\bmy\s)|(?<=\bthe\s)|(?<=\band\s)|(?<=\bnew\s))\b"
        if len(named) == 1
        else r"\b"
    )
    sure = rf",?\s+(?-i:(?={_COUNTED.pattern}))"
    ways = rf"{words}(?:\s+(?:is|are|should\s+be|to)\b\s*|\s*[:=]\s*|{sure})"
    if is_identifier(parameter) and len(named) > 1:
        noun = r"[\s_-]".join(map(re.escape, named[:-1]))
        ways += rf"|{noun}\s+number(?:\s+is\b\s*|\s*[:=]\s*|{sure})"
        ways += rf"|{noun},?\s+(?-i:(?={_IDENTIFIER.pattern}))"
    return re.compile(rf"{start}(?:{ways})", re.IGNORECASE)


def _value_at(text: str, start: int, slot: Slot) -> Any:
    if text[start : start + 1] in _OPENERS:
        try:
            value = decode_json_at(text, start)
        except ValueError:
            return None
        return value if not slot.enum or spoken(value) in slot.enum else None
    if slot.kind in ("array", "object"):
        value = listed.heard(text, start, slot.parameter, one=slot.kind == "object")
        # "The flights are changed" names no flight.
        wrong = slot.items == "object" and not all(isinstance(item, dict) for item in value or ())
        return None if wrong else value
    word = listed.plain_at(text, start)
    if word is None:
        return None
    if slot.kind == "boolean":
        return _WORDS.get(word.lower())
    if (slot.enum and word not in slot.enum) or (slot.format == "date" and not _DATE.fullmatch(word)):
        return None
    if slot.kind in ("integer", "number"):
        try:
            value = decode_json(word)
        except ValueError:
            return None
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    return word
