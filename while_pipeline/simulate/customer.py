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
from while_pipeline.policy_document import sentences
from while_pipeline.records import Message
from while_pipeline.simulate.script import Script
from while_pipeline.tools import words_of

Ending = Literal["satisfied", "transferred", "gone"]

_CONFIRM = re.compile(
    r"(shall|should|may|can) (i|we) (go ahead|proceed|do (it|that|this)|continue)"
    r"|do you (confirm|agree|want me to)|please confirm|(?<!\w )would you like (me|us) to|reply (with )?.?yes"
    r"|can you confirm (that|this)|is (that|this) (right|correct|ok)|\(yes/no\)|to proceed\?",
    re.IGNORECASE,
)
_IDENTITY = re.compile(
    r"verify|identity|date of birth|your (full )?name|who you are|security (question|check)", re.IGNORECASE
)
_WHAT = re.compile(
    r"how (can|may) i help|what (exactly )?(do|would|can|should) (you|i)\b|what is (it|this) about"
    r"|more detail",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(
    r"(not|n't|no|cannot|unable to) (be )?(find|found|locate|match|record)|no .{0,40}found", re.IGNORECASE
)
_TRANSFERRED = re.compile(
    r"(transfer\w*|connect\w*|hand\w* (you )?over).{0,40}(human|colleague|agent|person)", re.IGNORECASE
)
_REQUEST = re.compile(
    r"(please|kindly) (provide|share|give|tell|send|enter|confirm|reply)|\breply (with )?.?yes"
    r"|\b(i|we)('ll| will)? (also )?need (your|the|to know)",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(anything|something) (else|more|further)|further (help|assistance|questions)", re.IGNORECASE
)

NOTHING_MORE = "I do not have anything more to tell you about that."


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
    asked = _asked(heard)
    if _TRANSFERRED.search(heard) and not asked:
        return CustomerTurn(None, "transferred")
    following = next((line for line in script.follow_ups if line not in said), None)
    text = _answer(script, said, heard, asked) or following or (NOTHING_MORE if asked else None)
    if text is None:
        return CustomerTurn(None, "satisfied")
    # A yes answers many questions, so only the same question again tries the customer's patience.
    same_question = sum(m.role == "assistant" and m.content == heard for m in messages[:-1])
    times = same_question if text == script.confirmation else said.count(text)
    return CustomerTurn(None, "gone") if times >= PATIENCE - 1 else CustomerTurn(text)


def _asked(heard: str) -> str:
    """The part of a message that wants an answer; asking for anything else to do wants none."""
    parts: list[str] = []
    in_list = False
    for sentence in sentences(heard):
        requests = bool(_REQUEST.search(sentence))
        if in_list or ((requests or sentence.endswith("?")) and not _CLOSING.search(sentence)):
            parts.append(sentence)
        in_list = in_list or (requests and ":" in sentence)
    return " ".join(parts)


def _answer(script: Script, said: Sequence[str], heard: str, asked: str) -> str:
    """What the customer can say to the agent's message; empty when that is nothing."""
    correction = _correction(script, said) if _NOT_FOUND.search(heard) else ""
    parts = [correction]
    if _IDENTITY.search(asked):
        parts.append(f"I am {script.persona.full_name}, born {script.persona.date_of_birth}.")
    values = {p: _current(script, said, p) for p in script.slots if _asks_for(p, asked)}
    if values and not correction:
        parts.append("My " + ", ".join(slots.say(p, v) for p, v in values.items()) + ".")
    if _CONFIRM.search(asked):
        parts.append(script.confirmation)
    if not any(parts) and _WHAT.search(asked):
        parts.append(script.goal_line)
    return " ".join(part for part in parts if part)


def _asks_for(parameter: str, asked: str) -> bool:
    """Whether a parameter is named; the `date` of a date of birth is another."""
    words = r"[\s_-]".join(map(re.escape, words_of(parameter)))
    return bool(re.search(rf"\b{words}\b(?! of birth)", asked, re.IGNORECASE))


def _correction(script: Script, said: Sequence[str]) -> str:
    """The right value, once, after a wrong one was not found."""
    if not script.corrections:
        return ""
    line = f"Sorry, I misread it. The {', '.join(slots.say(p, v) for p, v in script.corrections.items())}."
    return "" if any(line in text for text in said) else line


def _current(script: Script, said: Sequence[str], parameter: str) -> object:
    """A corrected value stays corrected."""
    right = script.corrections.get(parameter)
    if right is not None and any(slots.say(parameter, right) in text for text in said):
        return right
    return script.slots[parameter]
