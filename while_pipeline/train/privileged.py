"""What may not stand in training data: personal data and secrets, and what only the simulator knows.

What belongs here: finding it in texts and messages. Whether a row is left out or a cut refused for it is
decided in `cuts` and `publication`; what personal data looks like, in `watch.redact`.
"""

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.constants import ANSWER_KEY_QUOTE, SCRIPT_QUOTE
from while_pipeline.messages import decode_json
from while_pipeline.train.wording import plain, runs
from while_pipeline.watch.redact import Found, found_in

_NESTED = re.compile(r"\s*[\[{]")
_FICTION = {
    # RFC 2606 and RFC 6761: domains nobody can have.
    "email": re.compile(r"@(?:[\w-]+\.)*(?:example\.(?:com|net|org)|example|test|invalid|localhost)$", re.I),
    # North America: no area code is 555, and 555-0100 to 555-0199 are kept for fiction in every other.
    "phone": re.compile(
        r"(?:\+?1[ .-]?)?(?:\(?555\)?[ .-]?\d{3}[ .-]\d{4}|\(?\d{3}\)?[ .-]?555[ .-]?01\d\d)"
    ),
}
_PARQUET = b"PAR1"


class Hidden(NamedTuple):
    """What only the simulator knows of a rollout; texts under `ANSWER_KEY_QUOTE` characters tell nothing."""

    key: tuple[str, ...] = ()
    """Facts and effects of the answer key."""
    records: tuple[str, ...] = ()
    """What the world's records hold."""
    script: tuple[str, ...] = ()
    """The customer's lines, person and values."""
    grading: tuple[str, ...] = ()
    """Why the rollout got its reward, and the ids it is stored under: no conversation has them at all."""


def scan(content: str | bytes, own: str = "") -> list[Found]:
    """Personal data and secrets in a text or a file's bytes, each once, in the order they stand in.

    JSON, JSON lines and Parquet are read value by value, JSON inside a value too: an escape before a number
    would hide it. Addresses and numbers that nobody can have (reserved for examples and fiction) are none.

    Args:
        content: Plain text, JSON or JSON lines, UTF-8 where it is bytes; or a Parquet file's bytes.
        own: Texts of the business itself, its policy document and its tools: what stands there, the same from
            its first character to its last, is meant to be told.

    Raises:
        UnicodeDecodeError: the bytes are neither Parquet nor UTF-8.
    """
    return _found(_texts(content), own)


def personal_data_in(messages: Iterable[Mapping[str, Any]], own: str = "") -> list[Found]:
    """Personal data and secrets anywhere in messages in chat form; each once, `own` as in `scan`."""
    return _found((text for message in messages for text in strings(dict(message), keys=True)), own)


def disguised(found: Iterable[Found]) -> str:
    """What was found, told without telling it: its kind and its first two characters."""
    return ", ".join(f"{one.kind} {one.text[:2]}…" for one in found)


def told(messages: Sequence[Mapping[str, Any]], hidden: Hidden) -> str | None:
    """The first text of `hidden` that messages in chat form, the system message too, tell; None for none.

    Of key and records that is a quote of `ANSWER_KEY_QUOTE` characters, of the customer's script one of
    `SCRIPT_QUOTE`, by the agent before anybody else (see `unheard`); of grading a whole text by anybody (see
    `quoted`).
    """
    return (
        unheard(messages, (*hidden.key, *hidden.records))
        or unheard(messages, hidden.script, SCRIPT_QUOTE)
        or quoted(messages, hidden.grading)
    )


def unheard(
    messages: Iterable[Mapping[str, Any]], texts: Iterable[str], least: int = ANSWER_KEY_QUOTE
) -> str | None:
    """The first of `texts` that the agent quotes before that much of it stood in any other message.

    A quote is any run of whole words that has `least` characters, or all of a text that has fewer, down to
    `ANSWER_KEY_QUOTE`. Unicode form, letter case and white space do not matter. A word ends at white space:
    an id, an amount or an address is quoted whole or not at all; in a script without spaces every character
    is a word. Part of one word, other words for the same and other punctuation between words are no quote.

    Args:
        messages: Messages in chat form, the system message included; arguments are objects.
        texts: What only the simulator knows.
        least: Characters of a quote.
    """
    said = [(message["role"], plain(said_in(message))) for message in messages]
    agent = "\n".join(text for role, text in said if role == "assistant")
    wanted = [(quote, text) for text in texts for quote in _quotes(text, least) if quote in agent]
    for role, words in said:
        if role == "assistant":
            first = next((text for quote, text in wanted if quote in words), None)
            if first is not None:
                return first
        wanted = [(quote, text) for quote, text in wanted if quote not in words]
    return None


def quoted(messages: Iterable[Mapping[str, Any]], texts: Iterable[str]) -> str | None:
    """The first of `texts` that stands whole in any message, spelt as `unheard` spells it; None for none."""
    wanted = {text: plain(text) for text in texts if len(plain(text)) >= ANSWER_KEY_QUOTE}
    said = [plain(said_in(message)) for message in messages] if wanted else []
    return next((text for text, spelt in wanted.items() if any(spelt in one for one in said)), None)


def said_in(message: Mapping[str, Any]) -> str:
    """All texts of a message in chat form: its content, and the values of its calls' arguments.

    Of a content that is JSON also the values, for an escape would hide what was said.
    """
    content = message.get("content") or ""
    calls = message.get("tool_calls") or ()
    values = [value for call in calls for value in strings(call["function"]["arguments"])]
    return "\n".join([content, *strings(_decoded(content)), *values])


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


def _found(texts: Iterable[str], own: str) -> list[Found]:
    meant = _personal_data_of(own)
    return list(dict.fromkeys(one for text in texts for one in _personal_data(text) if one not in meant))


@lru_cache(maxsize=8)
def _personal_data_of(own: str) -> frozenset[Found]:
    return frozenset(one for text in _texts(own) for one in _personal_data(text))


@lru_cache(maxsize=16_384)
def _personal_data(text: str) -> tuple[Found, ...]:
    """In NFKC, so that full-width digits are digits; fiction left out."""
    return tuple(one for one in found_in(unicodedata.normalize("NFKC", text)) if not _is_fiction(one))


def _quotes(text: str, least: int) -> tuple[str, ...]:
    whole = plain(text)
    return () if len(whole) < ANSWER_KEY_QUOTE else runs(text, least) or (whole,)


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
    # Not splitlines: JSON strings may hold U+2028 and other line ends as they are.
    for line in content.split("\n"):
        yield from strings(line, keys=True)


def _decoded(text: str) -> Any:
    """The JSON object or list a text is; None when it is something else."""
    if not _NESTED.match(text):
        return None
    try:
        return decode_json(text)
    except ValueError:
        return None
