"""Figures as people and tools write them: what a text says, and what a number is compared by.

What belongs here: reading numbers out of text. What does not: which of them an agent may use (`grounding`).
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from while_pipeline.patterns import REMEMBERED

_FIGURE = re.compile(r"(?<![a-zA-Z0-9_])(?<![0-9][.,])\.?[0-9]+(?:[.,'\u2019][0-9]+)*")
_SPACED = re.compile(
    r"(?<![a-zA-Z0-9_.,])[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})+(?![0-9])(?:[.,][0-9]{1,2}(?![0-9]))?"
)
_MINUS = re.compile(r"(?:^|[^a-zA-Z0-9])-\Z")
_SEPARATOR = re.compile(r"[.,'\u2019]")
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@lru_cache(maxsize=REMEMBERED)
def figures(text: str) -> frozenset[str]:
    """Every number that a text may mean, as `figure` writes it; numbers written as words are not read.

    Thousands may be grouped by commas, dots, apostrophes or spaces, in threes or as in 1,00,000; decimals
    follow a dot or a comma. `1.200` may be either, `20.75` is never 20, `A5` is no number, and `[1,200]` or
    `1 200` may be two.
    """
    found: set[str] = set()
    for match in _FIGURE.finditer(text):
        token, start, end = match.group(), match.start(), match.end()
        readings = set(_readings(token))
        found |= readings
        if _MINUS.search(text[max(start - 2, 0) : start]):
            found |= {f"-{reading}" for reading in readings}
        if "," in token and (text[start - 1 : start] in ("[", ",") or text[end : end + 1] == "]"):
            found.update(map(figure, token.split(",")))
    for match in _SPACED.finditer(text):
        found.update(_readings(re.sub(r"\s", "", match.group())))
    return frozenset(found)


def figure(number: str | float) -> str:
    """A number without the zeros that end its decimals: 20.0, `20.00` and 20 are `20`."""
    whole, _, decimals = str(number).partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole or 0}.{decimals}" if decimals else whole


def _readings(token: str) -> Iterator[str]:
    """What digits with separators between them may mean."""
    parts, signs = _SEPARATOR.split(token), _SEPARATOR.findall(token)
    *before, last = parts
    if not signs:
        yield token
        return
    if len(set(signs)) == 1:
        grouped = _is_grouped(parts, signs[0])
        if grouped:
            yield "".join(parts)
        if len(parts) == 2 and signs[0] in ".," and not (grouped and signs[0] == ","):
            yield figure(f"{before[0]}.{last}")
        elif not grouped:
            yield from parts
    elif signs[-1] in ".," and signs.count(signs[-1]) == 1 and _is_grouped(before, signs[0]):
        yield figure("".join(before) + "." + last)
    else:
        yield from map(figure, token.split(","))


def _is_grouped(parts: Sequence[str], sign: str) -> bool:
    """Whether digits stand in groups of thousands, or after commas also of hundreds above the thousands."""
    first, *middle, last = parts
    if not 1 <= len(first) <= 3 or first.startswith("0") or len(last) != 3:
        return False
    return {len(part) for part in middle} <= {3} or (
        sign == "," and len(first) <= 2 and {len(part) for part in middle} == {2}
    )
