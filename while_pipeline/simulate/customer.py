"""The template customer: a function of the script and the visible conversation.

Answers what is asked from what it knows, confirms, corrects, follows up, gives up. It never sees the
answer key or the world, so it cannot tell either. How an agent's message is understood is in `listening`,
what no customer may say, and whose doing an ending was, in `customer_checks`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from while_pipeline import slots
from while_pipeline.constants import PATIENCE
from while_pipeline.records import Message
from while_pipeline.simulate.listening import Heard, listen
from while_pipeline.simulate.script import Script

Ending = Literal["satisfied", "transferred", "gone"]

NOTHING_MORE = "I do not have anything more to tell you about that."


@dataclass(frozen=True, slots=True)
class CustomerTurn:
    """What the customer does next: says something, or ends the conversation."""

    text: str | None
    ending: Ending | None = None


_SATISFIED, _TRANSFERRED, _GONE = (CustomerTurn(None, end) for end in ("satisfied", "transferred", "gone"))


def respond(script: Script, messages: Sequence[Message]) -> CustomerTurn:
    """Give the customer's next turn.

    Args:
        script: What the customer knows and will say.
        messages: The visible conversation; its last message is the agent's.
    """
    content = messages[-1].content or ""
    heard = listen(content)
    if heard.transferred and not heard.asks:
        return _TRANSFERRED
    said = [m.content or "" for m in messages if m.role == "user"]
    text = _answer(script, said, heard) or _next_line(script, said, heard)
    text = text or (NOTHING_MORE if heard.asks else "")
    if not text:
        return _SATISFIED
    # A yes answers many questions, so only the same question again tries the customer's patience.
    if text == script.confirmation:
        times = sum(m.content == content and m.role == "assistant" for m in messages) - 1
    else:
        times = said.count(text)
    return _GONE if times >= PATIENCE - 1 else CustomerTurn(text)


def _next_line(script: Script, said: Sequence[str], heard: Heard) -> str:
    """What the customer says of its own accord.

    That it is a pity, once, if something did not work; the goal held back so far; the follow-ups in turn.
    """
    if heard.failed and script.reaction not in ("", *said):
        return script.reaction
    if script.holds_back and not _told(script.goal_line, said) and not _told(script.confirmation, said):
        return script.goal_line
    return next((line for line in script.follow_ups if line not in said), "")


def _told(line: str, said: Sequence[str]) -> bool:
    return any(line in text for text in said)


def _answer(script: Script, said: Sequence[str], heard: Heard) -> str:
    """What the customer can say to the agent's message; empty when that is nothing."""
    corrected, correction = False, ""
    if script.corrections:
        line = _correction(script)
        corrected = _told(line, said)
        correction = line if heard.not_found and not corrected else ""
    if not heard.asks:
        return correction
    parts = [correction] if correction else []
    if heard.wants_identity:
        parts.append(script.identity.format_map(script.persona.__dict__))
    if not correction:
        known = script.slots | script.corrections if corrected else script.slots
        asked = [slots.say(p, known[p], script.form) for p in known if heard.names(p)]
        if asked:
            parts.append(_sentence(script.answer.format(slots=", ".join(asked))))
    if heard.wants_yes:
        parts.append(script.confirmation)
    if not parts and heard.wants_goal:
        parts.append(script.goal_line)
    return " ".join(parts)


def _correction(script: Script) -> str:
    """The right values after wrong ones were not found; said once."""
    right = ", ".join(slots.say(p, v, script.form) for p, v in script.corrections.items())
    return script.correction.format(slots=right)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
