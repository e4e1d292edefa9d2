"""The template customer: a function of the script and the visible conversation.

Answers what is asked from what it knows, confirms, corrects, follows up, gives up. It never sees the
answer key or the world, so it cannot tell either.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from while_pipeline import slots
from while_pipeline.constants import PATIENCE
from while_pipeline.records import Message
from while_pipeline.simulate.script import Script
from while_pipeline.tools import words_of

Ending = Literal["satisfied", "transferred", "gone"]

_CONFIRM = re.compile(
    r"(shall|should|may|can) (i|we) (go ahead|proceed|do (it|that|this)|continue)|do you (confirm|agree|want me to)"
    r"|please confirm|can you confirm (that|this)|is (that|this) (right|correct|ok)|\(yes/no\)|to proceed\?",
    re.IGNORECASE,
)
_IDENTITY = re.compile(
    r"verify|identity|date of birth|your (full )?name|who you are|security (question|check)", re.IGNORECASE
)
_WHAT = re.compile(
    r"how (can|may) i help|what (exactly )?(do|would|can|should) (you|i)\b|what is (it|this) about|more detail",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(r"(not|n't|no|cannot|unable to) (be )?(find|found|locate|match|record)|no .{0,40}found", re.IGNORECASE)
_TRANSFERRED = re.compile(r"(transfer\w*|connect\w*|hand\w* (you )?over).{0,40}(human|colleague|agent|person)", re.IGNORECASE)


@dataclass(frozen=True)
class CustomerTurn:
    """What the customer does next: says something, or ends the conversation."""

    text: str | None
    ending: Ending | None = None


def respond(script: Script, messages: Sequence[Message]) -> CustomerTurn:
    """Give the customer's next turn.

    Args:
        script: What the customer knows and will say.
        messages: The visible conversation; its last message is the agent's.
    """
    said = [m.content or "" for m in messages if m.role == "user"]
    heard = messages[-1].content or ""
    if _TRANSFERRED.search(heard) and "?" not in heard:
        return CustomerTurn(None, "transferred")
    if "?" in heard:
        return _answer(script, said, heard)
    correction = _correction(script, said) if _NOT_FOUND.search(heard) else None
    if correction:
        return CustomerTurn(correction)
    following = next((line for line in script.follow_ups if line not in said), None)
    return CustomerTurn(following) if following else CustomerTurn(None, "satisfied")


def _answer(script: Script, said: list[str], heard: str) -> CustomerTurn:
    questions = " ".join(part for part in re.split(r"(?<=[.!?])\s+", heard) if part.endswith("?"))
    parts: list[str] = []
    if _NOT_FOUND.search(heard):
        parts += [_correction(script, said) or ""]
    if _IDENTITY.search(questions):
        parts += [f"My full name is {script.persona.full_name}, born {script.persona.date_of_birth}."]
    asked = [p for p in script.slots if re.search(r"\b" + r"[\s_-]".join(words_of(p)) + r"\b", questions, re.IGNORECASE)]
    values = {p: _current(script, said, p) for p in asked}
    if values and not any(parts):
        parts += ["My " + ", ".join(slots.say(p, v) for p, v in values.items()) + "."]
    if _CONFIRM.search(heard):
        parts += [script.confirmation]
    if not any(parts) and _WHAT.search(questions) and script.goal_line:
        parts += [script.goal_line]
    text = " ".join(part for part in parts if part)
    if not text:
        following = next((line for line in script.follow_ups if line not in said), None)
        text = following or "I do not have anything more to tell you about that."
    if said.count(text) >= PATIENCE - 1:
        return CustomerTurn(None, "gone")
    return CustomerTurn(text)


def _correction(script: Script, said: list[str]) -> str | None:
    """The right value, once, after a wrong one was not found."""
    if not script.corrections:
        return None
    line = "Sorry, I misread it. The " + ", ".join(slots.say(p, v) for p, v in script.corrections.items()) + "."
    return None if line in said else line


def _current(script: Script, said: list[str], parameter: str) -> object:
    """A corrected value stays corrected."""
    right = script.corrections.get(parameter)
    if right is not None and any(slots.say(parameter, right) in text for text in said):
        return right
    return script.slots[parameter]
