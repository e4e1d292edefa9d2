"""What a scenario's customer knows and will say: the opening and the lines kept for later.

How the customer uses them in the conversation belongs to `customer`; the sentences are in `wording` and
`phrasing`.
"""

import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from while_pipeline import slots
from while_pipeline.goals import Goal, goal_of
from while_pipeline.policy_document import PolicyRule, RuleKind
from while_pipeline.records import Record, Situation
from while_pipeline.simulate import phrasing, wording
from while_pipeline.simulate.texture import TEXTURES, Part, textured
from while_pipeline.simulate.values import Persona
from while_pipeline.tools import Tool, is_identifier


class Script(Record):
    """The customer's part."""

    opening: str
    goal_line: str
    """The request in plain words, for an agent that asks what is wanted; empty when there is none."""
    persona: Persona
    slots: dict[str, Any]
    """What the customer knows, by parameter."""
    corrections: dict[str, Any]
    """Right values given once something was not found."""
    follow_ups: tuple[str, ...]
    """Said one at a time when the agent has answered."""
    confirmation: str
    reaction: str = ""
    """Said once when the agent says that something did not work."""
    holds_back: bool = False
    """The opening leaves the goal out: it is told when asked for, or once the first answer is there."""
    answer: str = "My {slots}."
    """Around the values an agent asks for."""
    identity: str = "I am {full_name}, born {date_of_birth}."
    """How the persona's fields are told to an agent that asks who is there."""
    correction: str = "Sorry, I misread it: {slots}."
    form: int = 0
    """How values are said; see `slots.say`."""


HOLD_BACK = frozenset({"ambiguous", "exploratory"})
"""Stances that do not say at once what is to be done: one is vague, one has not decided."""
_AFTER = frozenset({
    "unsure", "retry", "mistaken", "boundary", "conflicting", "prior_failure", "prior_partial_action",
})  # fmt: skip
"""Values whose sentences speak of a request that has just been made."""
OFF_TOPIC_SHARE = 0.5
"""Of the customers without a request for a tool, those who ask about something else altogether."""

_IN_SENTENCE = re.compile(r"\b(?:my|the) \{", re.IGNORECASE)
_T = TypeVar("_T")


def write_script(
    cell: Situation,
    goals: Sequence[Tool],
    rule: PolicyRule | None,
    person: Persona,
    known: Mapping[str, Any],
    mistakes: Mapping[str, Any],
    rng: random.Random,
) -> Script:
    """Compose the customer's part for a situation.

    Args:
        cell: The situation; its stance and history choose sentences and manner.
        goals: Tools the customer's requests need, in order.
        rule: The policy rule in play, if any.
        person: Who writes.
        known: Right argument values by parameter.
        mistakes: Wrong values given first, by parameter.
        rng: Draws every wording, and nothing else: what is meant does not depend on it.
    """
    channel = _drawn(phrasing.CHANNELS, rng)
    manner = wording.MANNERS[cell.stance]
    wanted = [goal_of(goal) for goal in goals]
    asks = _asks(wanted, channel, rng)
    given = {**known, **mistakes}
    rule_line = _rule_line(rule, phrasing.RULE_LINES if goals else phrasing.RULE_OPENINGS, rng)
    general = "" if goals or rule_line else _drawn(phrasing.GENERAL_ASKS, rng)
    holds_back = cell.stance in HOLD_BACK and (bool(goals) or cell.stance == "ambiguous")
    if holds_back:
        topic = " and ".join(goal.topic for goal in wanted) if cell.stance == "exploratory" else ""
        now = [_drawn(phrasing.ABOUT, rng).format(topic=topic)] if topic else []
    else:
        topic = wanted[0].topic if wanted else ""
        off_topic = general and rng.random() < OFF_TOPIC_SHARE
        now = [_drawn(phrasing.DIGRESSIONS, rng)] if off_topic else asks or ([general] if general else [])
    told = {} if holds_back else _told_first(cell.stance, given)
    details = _details(told, rng)
    if channel == "voice":
        now = [_spoken(ask, rng) for ask in now]
    # A rule comes up after the first answer, as a second thought: known from the start, one that sends the
    # conversation to a human would leave nothing else to happen.
    last = [Part(details, "values"), Part("" if goals else rule_line, "rule")]
    stance_lines = wording.stance_lines(
        cell.stance, numbered=any(map(is_identifier, told)), changes=any(goal.writes for goal in goals)
    )
    markers = {
        "history": _drawn(wording.HISTORY_LINES[cell.history], rng),
        "stance": _drawn(stance_lines, rng),
    }
    aside = "" if cell.stance == "hurried" else _aside(goals, channel, bool(details), rng)
    body = _body(cell, now, markers, aside, rng)
    decided = [_drawn(phrasing.DECISIONS, rng)] if cell.stance == "exploratory" and goals else []
    answer = _drawn(manner.answers, rng)
    return Script(
        opening=_message(channel, body, last, topic, person, rng),
        goal_line=" ".join([*decided, *asks]) or general,
        persona=person,
        slots=given,
        corrections={name: known[name] for name in mistakes},
        follow_ups=_follow_ups(rule_line if goals else "", manner, bool(goals), rng),
        confirmation=_drawn(manner.confirmations, rng),
        reaction=_drawn(manner.reactions, rng),
        holds_back=holds_back,
        answer=answer,
        identity=_drawn(phrasing.IDENTITIES, rng),
        correction=_drawn(phrasing.CORRECTIONS, rng),
        form=_form(answer, rng),
    )


def _drawn(bank: Sequence[_T], rng: random.Random) -> _T:
    return bank[int(rng.random() * len(bank))]


# -- what is asked ----------------------------------------------------------------------------------------


def _asks(goals: Sequence[Goal], channel: str, rng: random.Random) -> list[str]:
    """One sentence per goal."""
    if not goals:
        return []
    wish = rng.random() < 0.5
    phrase = _drawn(goals[0].wishes if wish else goals[0].requests, rng)
    frames = phrasing.FRAMES[channel == "sms", wish]
    frame = _drawn(frames, rng)
    if " me " in phrase:  # "give me my bill for me"
        frame = frame.replace(" for me", "")
    tail = _drawn(phrasing.TAILS, rng) if phrase.count(" ") < phrasing.LONG_GOAL else ""
    first = frame.format(goal=phrase, tail=tail)
    rest = [_drawn(phrasing.SECOND_ASKS, rng).format(goal=_drawn(goal.wishes, rng)) for goal in goals[1:]]
    return [first[0].upper() + first[1:], *rest]


def _spoken(ask: str, rng: random.Random) -> str:
    """A sentence as it is spoken: it begins with a filler."""
    filler = _drawn(phrasing.FILLERS, rng)
    lower = filler and not ask.startswith(("I ", "I'"))
    return filler + (ask[0].lower() + ask[1:] if lower else ask)


def _aside(goals: Sequence[Tool], channel: str, detailed: bool, rng: random.Random) -> str:
    """What the customer says beside the point, one thing at most: of themselves, or why they ask."""
    if not detailed or rng.random() < phrasing.CIRCUMSTANCE_SHARE:
        return _drawn(phrasing.CIRCUMSTANCES, rng)
    return "" if channel == "sms" else _drawn(phrasing.REASONS[goals[0].kind], rng)


def _told_first(stance: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the opening already tells: the unsure leave out what the agent has to ask for."""
    names = [name for name in given if stance != "unsure" or not is_identifier(name)]
    return {name: given[name] for name in names[: phrasing.SAID_OUTRIGHT]}


def _details(told: Mapping[str, Any], rng: random.Random) -> str:
    if not told:
        return ""
    frame = _drawn(phrasing.DETAILS, rng)
    form = _form(frame, rng)
    said = ", ".join(slots.say(name, value, form) for name, value in told.items())
    return frame.format(slots=said)


def _form(frame: str, rng: random.Random) -> int:
    """How to say values in a frame: "my line" wants an "is", a list does not."""
    return _drawn(_forms(frame), rng)


@lru_cache(maxsize=256)
def _forms(frame: str) -> Sequence[int]:
    return slots.FORMS_IN_SENTENCE if _IN_SENTENCE.search(frame) else range(len(slots.FORMS))


# -- the rule in play -------------------------------------------------------------------------------------


def _rule_line(rule: PolicyRule | None, lines: Mapping[RuleKind, Sequence[str]], rng: random.Random) -> str:
    """A sentence that puts the rule in play; none where the rule's kind has no lines."""
    bank = lines.get(rule.kind) if rule else None
    return _drawn(bank, rng).format(trigger=rule.trigger) if rule and bank else ""


def _follow_ups(
    rule_line: str, manner: wording.Manner, may_drift: bool, rng: random.Random
) -> tuple[str, ...]:
    """What comes after the first answer: the rule, then the stance's own, or a digression now and then."""
    lines = [rule_line] if rule_line else []
    lines += [_drawn(manner.follow_ups, rng)] if manner.follow_ups else []
    if may_drift and not lines and rng.random() < phrasing.DIGRESSION_SHARE:
        lead = _drawn(phrasing.DIGRESSION_LEADS, rng)
        lines = [f"{lead} {_drawn(phrasing.DIGRESSIONS, rng)}".strip()]
    return tuple(lines)


# -- the message ------------------------------------------------------------------------------------------


def _body(
    cell: Situation, asks: Sequence[str], markers: Mapping[str, str], aside: str, rng: random.Random
) -> list[Part]:
    """Sentences around the request, in an order in which they make sense."""
    before: list[Part] = []
    after: list[Part] = []
    for axis, line in markers.items():
        (after if getattr(cell, axis) in _AFTER else before).append(Part(line, "marker"))
    (before if rng.random() < 0.5 else after).append(Part(aside))
    return [part for part in (*before, *map(Part, asks), *after) if part.text]


def _message(
    channel: str,
    body: Sequence[Part],
    last: Sequence[Part],
    topic: str,
    person: Persona,
    rng: random.Random,
) -> str:
    """The whole first message, in the form of its channel."""
    texture = _drawn(TEXTURES[channel], rng)
    greeting = Part(_drawn(phrasing.GREETINGS[channel], rng))
    farewell = Part(_drawn(phrasing.FAREWELLS[channel], rng))
    ending = [part for part in (*last, farewell) if part.text]
    if channel != "email":
        return textured([part for part in (greeting, *body, *ending) if part.text], texture, rng)
    subject = (topic[0].upper() + topic[1:]) if topic else "A question"
    paragraphs = [f"Subject: {subject}", greeting.text, textured(body, texture, rng)]
    paragraphs += [textured(ending, texture, rng)] if ending else []
    return "\n\n".join([*paragraphs, f"{_drawn(phrasing.SIGN_OFFS, rng)}\n{person.full_name}"])
