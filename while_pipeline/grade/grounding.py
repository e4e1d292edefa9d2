"""Whether a value in a tool call was known, in whatever form people and tools write it."""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from while_pipeline.grade.figures import WORDS, figure, figures
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

    def named(self, low: str) -> bool:
        """Whether a lower-case text was said by customer or tools, and not as a part of a longer name."""
        if not any(map(str.isalnum, low)):
            return False
        for text in self._heard:
            if low in text and _stands_alone(low, text):
                return True
        return _stands_alone(plain(low), self.plain)

    def said(self, forms: frozenset[str]) -> bool:
        """Whether a number was said by anybody, the agent too, or stands in the rules."""
        texts = [text for i, text in self._t.agent_texts if i < self._step.turn]
        return (
            _say(forms, self._heard)
            or _say(forms, texts)
            or not forms.isdisjoint(self.ruled)
            or any(form in WORDS and _stands_alone(form, self.stated) for form in forms)
        )

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
        return _long_figures(self._t.document.text)

    @lazy
    def entries(self) -> set[int]:
        """Lengths of the lists that the call holds: how many people or things it is for."""
        given = (self._step.call.arguments or {}).values()
        return {len(value) for value in given if isinstance(value, list) and len(value) > 1}


def _say(forms: frozenset[str], texts: Sequence[str]) -> bool:
    """Whether texts say a number; where one holds a form as it is, most are never read."""
    return any(form in text and form in figures(text) for text in texts for form in forms) or any(
        not forms.isdisjoint(figures(text)) for text in texts
    )


@lru_cache(maxsize=64)
def _long_figures(text: str) -> frozenset[str]:
    return frozenset(one for one in figures(text) if len(one.partition(".")[0]) > 1)


def grounded(value: Any, known: Known, identifies: bool) -> bool:
    """Whether a value was known; an id must have been heard, and no and nothing need no source.

    Amounts of one list are known when what they add up to is: a payment may be split, or be one for several.
    """
    if identifies and isinstance(value, str):
        return known.named(value.strip().lower())
    if isinstance(value, dict | list):
        unknown = [item for item in leaves(value) if not grounded(item, known, identifies)]
        return bool(value) and (not unknown or (not identifies and _adds_up(value, unknown, known)))
    if isinstance(value, bool) or value is None or value == 0:
        return True
    if identifies:
        return any(map(known.named, forms_of(value)))
    if _is_number(value) or _NUMERAL.fullmatch(value):
        return known.said(forms_of(value))
    if known.heard(value.lower()) or plain(value) in known.plain:
        return True
    return any(_stands_alone(plain(date), known.stated) for date in _dates(value))


def forms_of(number: str | float) -> frozenset[str]:
    """A number as `figures` reads it, to the cent too, and as a word where it has one."""
    if isinstance(number, str):
        return frozenset({figure(number)})
    whole = number == int(number)
    forms = {str(int(number))} if whole else {figure(number), figure(f"{number:.2f}")}
    return frozenset(forms | ({WORDS[int(number)]} if number in range(len(WORDS)) else set()))


_NUMERAL = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def _adds_up(value: Any, unknown: list[Any], known: Known) -> bool:
    """Whether the unknown are amounts whose total is known, as it is or shared among a list's entries."""
    if not all(map(_is_number, unknown)):
        return False
    total = sum(filter(_is_number, leaves(value)))
    return any(grounded(round(total / n, 2), known, identifies=False) for n in {1, *known.entries})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _stands_alone(form: str, text: str) -> bool:
    """Whether a form is in a text as a name or number of its own: `b-1` is not in `b-12`, nor 75 in 20.75."""
    at = text.find(form)
    while at >= 0:
        end = at + len(form)
        apart = text[at - 1 : at] not in _RUNS and text[end : end + 1] not in _RUNS
        if apart or not (_RUNS_IN.match(text, max(at - 2, 0), at + 1) or _RUNS_ON.match(text, end - 1)):
            return True
        at = text.find(form, at + 1)
    return False


# Letters of English only: other writings leave no space between a word and an id.
_RUNS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.")
_RUNS_IN = re.compile(r".?[a-z0-9]{2}\Z|[0-9]\.[0-9]", re.DOTALL)
_RUNS_ON = re.compile(r"[a-z0-9]{2}|[0-9]\.[0-9]")


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
    said += [f"{name} {one}" for one in days[:5] for name in (month, month[:3])]
    return [value, *said, f"{date.month}/{day}", f"{date:%m/%d}"]


def leaves(value: Any) -> Iterator[Any]:
    """The single values inside a JSON value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value
