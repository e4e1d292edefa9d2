"""Lists and objects of plain values in words, and back: "Sam Fox, born 1990-02-03, and Ada Fox, born ...".

What is nested, has marks of its own or would be misheard has no words here; `slots` then writes JSON.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from while_pipeline.messages import decode_json
from while_pipeline.tools import singular, words_of

_NONE = "none"
"""An empty list."""

_BARE = r"[A-Za-z0-9@._+:/-]*[A-Za-z0-9]"
_NAME = r"[A-Z][a-z]+(?: [A-Z][a-z]+)+"
"""A person's name needs no quotes: capitals show where it ends."""
_PLAIN = re.compile(rf"{_NAME}|{_BARE}")
_AND, _AND_ALSO = " and ", ", and "
"""Between words, and between objects."""
_NUMBER = re.compile(r"-?\d")
_BOOLEANS = {"yes": True, "no": False}
_PAIR = re.compile(rf"((?:(?!(?:is|are|and) )[a-z0-9]+ )+)(?!and\b)({_NAME}|{_BARE})")
"""A field and its value: "cabin economy"; names of fields are in lower case."""
_NEXT_FIELD = "; "
"""Between fields: a comma would run into the next value of the sentence."""
_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("first_name", "last_name", "dob"), "{} {}, born {}"),
    (("first_name", "last_name", "date_of_birth"), "{} {}, date of birth {}"),
    (("*_number", "date"), "{} on {}"),
    (("*_id", "quantity"), "{} x {}"),
    (("payment_id", "amount"), "{1} from {0}"),
)
"""Fields that people say without naming them; `*` is what the parameter's name says is listed."""


def is_plain(text: str) -> bool:
    """Whether a text is one plain word or a person's name, so that everybody sees where it ends."""
    return bool(_PLAIN.fullmatch(text))


def plain_at(text: str, start: int) -> str | None:
    """The plain word or name that begins at `start`."""
    found = _PLAIN.match(text, start)
    return found.group() if found else None


def said(value: list[Any] | dict[str, Any], parameter: str) -> str | None:
    """Words for a list of plain values or of objects alike, or for one object; None when there are none."""
    if value == []:
        return _NONE
    items = value if isinstance(value, list) else [value]
    if all(isinstance(item, dict) for item in items):
        fields = tuple(items[0])
        texts = [_object(item, parameter) if tuple(item) == fields else None for item in items]
        joint = _AND_ALSO
    else:
        texts = [_word(item) for item in items]
        joint = _AND
    text = joint.join(filter(None, texts))
    misheard = None in texts or heard(text, 0, parameter, one=isinstance(value, dict)) != value
    return None if misheard else text


def heard(text: str, start: int, parameter: str, *, one: bool) -> Any:
    """The list, or the `one` object, whose words begin at `start`; None when there is none."""
    items: list[Any] = []
    end = start
    while True:
        found = _object_at(text, end, parameter) or (None if one else _scalar_at(text, end))
        if found is None or (items and not _alike(found[0], items[0])):
            break
        item, stop = found
        if one:
            return item
        items.append(item)
        joint = _AND_ALSO if isinstance(item, dict) else _AND
        if not text.startswith(joint, stop):
            break
        end = stop + len(joint)
    return [] if items == [_NONE] else items or None


def _alike(one: Any, other: Any) -> bool:
    keys = [list(value) if isinstance(value, dict) else None for value in (one, other)]
    return keys[0] == keys[1]


def _word(value: Any) -> str | None:
    """A plain value as a word that is heard as the same value; None when there is no such word."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if is_plain(value) and _typed(value) == value else None
    text = json.dumps(value) if isinstance(value, int | float) else ""
    return text if _PLAIN.fullmatch(text) and _typed(text) == value else None


def _typed(word: str) -> Any:
    if word in _BOOLEANS:
        return _BOOLEANS[word]
    if not _NUMBER.match(word):
        return word
    try:
        return decode_json(word)
    except ValueError:
        return word


def _scalar_at(text: str, start: int) -> tuple[Any, int] | None:
    found = _PLAIN.match(text, start)
    return (_typed(found.group()), found.end()) if found else None


def _object(item: Mapping[str, Any], parameter: str) -> str | None:
    """An object's words: those of its shape, else every field by name; None when it would be misheard."""
    if not item:
        return None
    words = [_word(value) for value in item.values()]
    named = zip(item, words, strict=True)
    texts = [_NEXT_FIELD.join(f"{' '.join(words_of(field))} {word}" for field, word in named)]
    texts[:0] = [s.template.format(*words) for s in _shapes(parameter) if s.fields == tuple(item)]
    alike = (text for text in texts if _object_at(text, 0, parameter) == (dict(item), len(text)))
    return None if None in words else next(alike, None)


def _object_at(text: str, start: int, parameter: str) -> tuple[dict[str, Any], int] | None:
    for shape in _shapes(parameter):
        found = shape.pattern.match(text, start)
        if found:
            values = (_typed(found.group(f"v{i}")) for i in range(len(shape.fields)))
            return dict(zip(shape.fields, values, strict=True)), found.end()
    return _fields_at(text, start)


def _fields_at(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    item: dict[str, Any] = {}
    end = start
    while found := _PAIR.match(text, end):
        item["_".join(found.group(1).split())] = _typed(found.group(2))
        start = found.end()
        if not text.startswith(_NEXT_FIELD, start):
            break
        end = start + len(_NEXT_FIELD)
    return (item, start) if item else None


class _Shape(NamedTuple):
    """One of `_SHAPES` among what a parameter lists."""

    fields: tuple[str, ...]
    template: str
    pattern: re.Pattern[str]
    """Finds the words; its groups `v0`, `v1`, ... are the fields' values."""


@lru_cache(maxsize=4096)
def _shapes(parameter: str) -> list[_Shape]:
    words = words_of(parameter)
    noun = "_".join([*words[:-1], singular(words[-1])]) if words else ""
    made = []
    for general, template in _SHAPES:
        fields = tuple(field.replace("*", noun) for field in general)
        groups = [f"(?P<v{i}>{_BARE})" for i in range(len(fields))]
        made.append(_Shape(fields, template, re.compile(template.format(*groups))))
    return made
