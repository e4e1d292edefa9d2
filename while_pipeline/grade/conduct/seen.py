"""What a conduct rule yields: where it saw something, and what. How rules look is in the modules beside."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from while_pipeline.messages import arguments_text, json_text
from while_pipeline.patterns import Pattern
from while_pipeline.records import Step
from while_pipeline.transcript import Transcript, own_words

LONGEST = 80
"""Characters of evidence that are quoted: enough to recognise it, the span gives the whole."""


class Seen(NamedTuple):
    """One thing seen; the fields are those of a `Finding`."""

    message_index: int
    evidence: str
    step: int | None = None
    start: int | None = None
    end: int | None = None


Found = Iterator[Seen]
Rule = Callable[[Transcript], Found]
"""A conduct rule; its id is the function's name."""


def matched(index: int, match: re.Match[str]) -> Seen:
    """A place in a message's text."""
    return Seen(index, match.group()[:LONGEST], None, match.start(), match.end())


def claimed(t: Transcript, index: int, text: str, pattern: Pattern) -> Seen | None:
    """The first match of a pattern in a message of the agent, where it speaks for itself.

    What stands in quotation marks does not, nor what it says somebody said in the customer's own words.
    """
    match = pattern.search(own_words(text))
    if match is None or t.repeats_customer(index, match):
        return None
    return Seen(index, text[match.start() : match.end()][:LONGEST], None, match.start(), match.end())


def said(index: int, text: str, about: str = "") -> Seen:
    """A message's whole text, told to be `about` something."""
    return Seen(index, f"{about}{text[:LONGEST]}", None, 0, len(text))


def called(step: Step, evidence: str, argument: str | None = None, value: Any = None) -> Seen:
    """A call, or one argument of it with its name and value."""
    text = arguments_text(step.call)
    part = text if argument is None else json_text({argument: value})[1:-1]
    start = text.find(part)
    if start < 0:  # beside an integer beyond 64 bits, 1e16 is written in another way
        start, part = 0, text
    return Seen(step.turn, evidence, step.position, start, start + len(part))


def matches(t: Transcript, pattern: Pattern) -> Found:
    """The first match of a pattern in each message of the agent."""
    for i, text in t.agent_texts:
        match = pattern.search(text)
        if match:
            yield matched(i, match)
