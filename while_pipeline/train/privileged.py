"""What may not stand in training data: personal data and secrets, and what only the simulator knows.

What belongs here: finding it in texts and messages. Whether a row is left out or a cut refused for it is
decided in `cuts` and `publication`; what personal data looks like, in `watch.redact`.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.constants import ANSWER_KEY_QUOTE
from while_pipeline.messages import decode_json
from while_pipeline.watch.redact import Found, found_in

_NESTED = re.compile(r"\s*[\[{]")
_FICTION = {
    # RFC 2606 and RFC 6761: domains nobody can have.
    "email": re.compile(r"@(?:[\w-]+\.)*(?:example\.(?:com|net|org)|example|test|invalid|localhost)$", re.I),
    # No area code is 555, and 555-0100 to 555-0199 are kept for fiction in every other.
    "phone": re.compile(r"(?:\+?1[ .-]?)?\(?555\)?[ .-]?\d{3}[ .-]\d{4}|.*555[ .-]?01\d\d"),
}
_PARQUET = b"PAR1"


class Hidden(NamedTuple):
    """What only the simulator knows of a rollout; texts under `ANSWER_KEY_QUOTE` characters tell nothing."""

    key: tuple[str, ...] = ()
    """Facts and effects of the answer key."""
    script: tuple[str, ...] = ()
    """The customer's lines, person and values, and what the world's records hold."""
    grading: tuple[str, ...] = ()
    """Why the rollout got its reward, and the ids it is stored under: no conversation has them at all."""


def scan(content: str | bytes, own: str = "") -> list[Found]:
    """Personal data and secrets in a text or a file's bytes, each once, in the order they stand in.

    JSON, JSON lines and Parquet are read value by value, JSON inside a value too: an escape before a number
    would hide it. Addresses and numbers that nobody can have (reserved for examples and fiction) are none.

    Args:
        content: Plain text, JSON or JSON lines, UTF-8 where it is bytes; or a Parquet file's bytes.
        own: Texts of the business itself, its policy document and its tools: an address that stands there is
            meant to be told.

    Raises:
        UnicodeDecodeError: the bytes are neither Parquet nor UTF-8.
    """
    found: dict[Found, None] = {}
    for text in _texts(content):
        found |= dict.fromkeys(one for one in personal_data(text) if one.text not in own)
    return list(found)


def personal_data_in(messages: Iterable[Mapping[str, Any]], own: str = "") -> list[Found]:
    """Personal data and secrets in messages in chat form; `own` as in `scan`."""
    found = (one for message in messages for one in personal_data(said_in(message)))
    return [one for one in found if one.text not in own]


def disguised(found: Iterable[Found]) -> str:
    """What was found, told without telling it: its kind and its first two characters."""
    return ", ".join(f"{one.kind} {one.text[:2]}…" for one in found)


@lru_cache(maxsize=16_384)
def personal_data(text: str) -> tuple[Found, ...]:
    """Personal data and secrets in one text, JSON read value by value, fiction left out."""
    return tuple(one for part in strings(text) for one in found_in(part) if not _is_fiction(one))


def unheard(messages: Iterable[Mapping[str, Any]], texts: Iterable[str]) -> str | None:
    """The first of `texts` that the agent says before it stood in any other message; None when none is.

    Args:
        messages: Messages in chat form, the system message included; arguments are objects.
        texts: What only the simulator knows. Letter case does not matter.
    """
    wanted = {text.casefold(): text for text in texts if len(text) >= ANSWER_KEY_QUOTE}
    if not wanted:
        return None
    for message in messages:
        said = said_in(message).casefold()
        for text in [one for one in wanted if one in said]:
            if message["role"] == "assistant":
                return wanted[text]
            del wanted[text]
    return None


def quoted(messages: Iterable[Mapping[str, Any]], texts: Iterable[str]) -> str | None:
    """The first of `texts` that stands in any message at all; None when none does."""
    wanted = [text for text in texts if len(text) >= ANSWER_KEY_QUOTE]
    said = [said_in(message) for message in messages] if wanted else []
    return next((text for text in wanted if any(text in one for one in said)), None)


def said_in(message: Mapping[str, Any]) -> str:
    """All texts of a message in chat form: its content, and the values of its calls' arguments."""
    calls = message.get("tool_calls") or ()
    values = [value for call in calls for value in strings(call["function"]["arguments"])]
    return "\n".join([message.get("content") or "", *values])


def strings(value: Any, *, keys: bool = False) -> Iterator[str]:
    """Every text in a JSON value, whole numbers as text, JSON in a text read in its turn; `keys` if asked."""
    if isinstance(value, str):
        inner = _decoded(value)
        yield from (value,) if inner is None else strings(inner, keys=keys)
    elif isinstance(value, dict):
        if keys:
            yield from value
        for item in value.values():
            yield from strings(item, keys=keys)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, keys=keys)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


def _is_fiction(found: Found) -> bool:
    pattern = _FICTION.get(found.kind)
    if pattern is None:
        return False
    return bool(pattern.search(found.text) if found.kind == "email" else pattern.fullmatch(found.text))


def _texts(content: str | bytes) -> Iterator[str]:
    if isinstance(content, bytes):
        if content.startswith(_PARQUET):
            for row in pl.read_parquet(io.BytesIO(content)).iter_rows():
                yield from strings(list(row), keys=True)
            return
        content = content.decode()
    whole = _decoded(content)
    if whole is not None:
        yield from strings(whole, keys=True)
        return
    for line in content.splitlines():
        yield from strings(line, keys=True)


def _decoded(text: str) -> Any:
    """The JSON object or list a text is; None when it is something else."""
    if not _NESTED.match(text):
        return None
    try:
        return decode_json(text)
    except ValueError:
        return None
