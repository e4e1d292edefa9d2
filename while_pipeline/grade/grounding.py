"""Whether a value in a tool call was known, in whatever form people and tools write it."""

import datetime as dt
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from while_pipeline.lazy import lazy
from while_pipeline.records import Step
from while_pipeline.transcript import Transcript


class Known:
    """What was known before a call. Plain forms are made only for what the text as it is does not hold."""

    def __init__(self, t: Transcript, step: Step) -> None:
        self._t, self._step = t, step
        self._heard = t.lowered_before(step.turn)

    def heard(self, low: str) -> bool:
        """Whether a lower-case text was said by customer or tools as it is."""
        return any(low in text for text in self._heard)

    def heard_number(self, form: str) -> bool:
        """Whether a number was said by customer or tools in this form."""
        return any(form in text and _is_number_in(form, text) for text in self._heard)

    @lazy
    def plain(self) -> str:
        """What customer and tools said."""
        return plain("\n".join(self._heard))

    @lazy
    def stated(self) -> str:
        """The same, and what the agent said: a number or date worked out in the open is no invention."""
        own = " ".join(text for i, text in self._t.agent_texts if i < self._step.turn)
        return f"{self.plain} {plain(own)}"

    @lazy
    def ruled(self) -> frozenset[str]:
        """Numbers of two digits and more in the policy document; smaller ones number its rules."""
        return _numbers_in(self._t.document.text)

    @lazy
    def entries(self) -> set[int]:
        """Lengths of the lists that the call holds: how many people or things it is for."""
        given = (self._step.call.arguments or {}).values()
        return {len(value) for value in given if isinstance(value, list) and len(value) > 1}


@lru_cache(maxsize=64)
def _numbers_in(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"(?<![\w.])\d{2,}(?:\.\d+)?(?!\w)", text))


def grounded(value: Any, known: Known, identifies: bool) -> bool:
    """Whether a value was known; an id must have been heard, and no and nothing need no source.

    Amounts of one list are known when what they add up to is: a payment may be split, or be one for several.
    """
    if isinstance(value, dict | list):
        unknown = [item for item in leaves(value) if not grounded(item, known, identifies)]
        return bool(value) and (not unknown or (not identifies and _adds_up(value, unknown, known)))
    if isinstance(value, bool) or value is None or value == 0:
        return True
    if isinstance(value, int | float):
        forms = [str(int(value))] if value == int(value) else [str(value), f"{value:.2f}"]
        forms += [_NUMBER_WORDS[int(value)]] if value in range(len(_NUMBER_WORDS)) else []
        if any(map(known.heard_number, forms)):
            return True
        stated = known.plain if identifies else known.stated
        if any(_is_number_in(form, stated) for form in forms):
            return True
        return not identifies and any(form in known.ruled for form in forms)
    if known.heard(value.lower()) or plain(value) in known.plain:
        return True
    return any(plain(date) in known.stated for date in _dates(value))


def _adds_up(value: Any, unknown: list[Any], known: Known) -> bool:
    """Whether the unknown are amounts whose total is known, as it is or shared among a list's entries."""
    if not all(map(_is_number, unknown)):
        return False
    total = sum(filter(_is_number, leaves(value)))
    return any(grounded(round(total / n, 2), known, identifies=False) for n in {1, *known.entries})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_number_in(form: str, text: str) -> bool:
    """Whether a number stands in a text by itself: `5` is not in `A5`, `0.5` or `57`."""
    return re.search(rf"(?<![\w.]){re.escape(form)}(?!\d)", text) is not None


_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def plain(text: str) -> str:
    """Text in lower case, `one_way` as `one way`, `1,200` as `1200`."""
    return re.sub(r"[\s_-]+", " ", re.sub(r"(?<=\d),(?=\d{3})", "", text.lower())).strip()


def _dates(value: str) -> list[str]:
    """An ISO date as it is and as people write it; nothing for any other text."""
    try:
        date = dt.date.fromisoformat(value)
    except ValueError:
        return []
    month, day = f"{date:%B}", date.day
    days = [f"{day}{ending}" for ending in ("", "st", "nd", "rd", "th", "st of", "nd of", "rd of", "th of")]
    said = [f"{one} {name}" for one in days for name in (month, month[:3])]
    return [value, *said, f"{month} {day}", f"{month[:3]} {day}", f"{date.month}/{day}", f"{date:%m/%d}"]


def leaves(value: Any) -> Iterator[Any]:
    """The single values inside a JSON value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value
