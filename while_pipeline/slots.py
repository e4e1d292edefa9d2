"""How a parameter's value is said in a conversation and heard back: `line_id` <-> "line id is LINE-4821".

One module for both directions, so that what the customer says is what an agent can hear.
"""

import json
import re
from functools import lru_cache
from typing import Any

from while_pipeline.tools import words_of

_BARE = re.compile(r"[A-Za-z0-9@._+:/-]*[A-Za-z0-9]")
_DECODER = json.JSONDecoder()


def say(parameter: str, value: Any) -> str:
    """Words for one value: `line id is LINE-4821`."""
    return f"{' '.join(words_of(parameter))} is {spoken(value)}"


def spoken(value: Any) -> str:
    """A value as a person would write it; anything that is not one plain word is quoted or JSON."""
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def hear(parameter: str, schema: dict[str, Any], text: str) -> Any:
    """The last value said for `parameter` in `text`, as its schema types it; None when none was said."""
    for found in reversed(list(_pattern(parameter).finditer(text))):
        value = _value_at(text, found.end(), schema)
        if value is not None:
            return value
    return None


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
    return re.compile(rf"{start}{words}(?:\s+(?:is|should\s+be|to)\b\s*|\s*[:=]\s*)", re.IGNORECASE)


def _value_at(text: str, start: int, schema: dict[str, Any]) -> Any:
    kind = schema.get("type")
    if text[start : start + 1] in ('"', "[", "{"):
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError:
            return None
        return value
    found = _BARE.match(text, start)
    if found is None:
        return None
    word = found.group()
    if kind in ("integer", "number", "boolean"):
        try:
            value = json.loads(word)
        except json.JSONDecodeError:
            return None
        return None if isinstance(value, str) else value
    return word
