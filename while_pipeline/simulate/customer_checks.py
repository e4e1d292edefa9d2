"""What no customer may say, whoever plays it, and whose doing an ending was.

Pure functions of texts. What the template customer says is decided in `customer`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from while_pipeline.constants import ANSWER_KEY_QUOTE, PATIENCE
from while_pipeline.messages import result_status
from while_pipeline.records import Message
from while_pipeline.simulate.script import Script

Blame = Literal["nobody", "agent", "customer", "world", "infrastructure"]

_PLAYS_AGENT = re.compile(
    r"\bhow (?:can|may) i (?:help|assist)"
    r"|\bi(?: can|'ll| will| am happy to|'d be happy to) (?:help|assist) you\b"
    r"|\blet me (?:check|pull|look (?:that|this|it|into|up))"
    r"|\bi (?:am|'m) (?:checking|looking (?:it|that|this|into|up))"
    r"|\bi(?: have|'ve) (?:now |just )?(?:updated|processed|cancelled|looked up|checked|verified|located)\b"
    r"|\byour (?:request|account|order|line|bill|reservation) (?:has been|was|is now)\b"
    r"|\bthank you for (?:contacting|reaching|your patience)|\banything else i can\b|\bas an ai\b"
    r"|\bi(?: am|'m| will|'ll) (?:transferring|transfer|connecting|connect) you\b",
    re.IGNORECASE,
)
_WORLDS_FAULTS = frozenset({"timeout", "malformed", "rate_limited", "permission_denied", "unavailable"})
"""Statuses no call of the agent can bring about: a wrong argument is the agent's own doing."""
_STATED = r"\b(?:is|was|are|now|status:?|reads|says|shows) (?:now |already )?"


@lru_cache(maxsize=4096)
def plays_agent(text: str) -> bool:
    """Whether a customer's text is the agent's part: it offers help, looks things up, reports what it did."""
    return bool(_PLAYS_AGENT.search(text))


def leaks(text: str, key_texts: Iterable[str]) -> bool:
    """Whether a customer's text tells something of the answer key.

    An identifier counts wherever it stands as a word of its own; a phrase of `ANSWER_KEY_QUOTE` characters or
    more wherever it is quoted; a plain word ("active") only where it is stated ("is active"), since everybody
    uses it.

    Args:
        text: What the customer says.
        key_texts: Facts and effects of the key that the customer was not given.
    """
    return any(_tells(text, fact) for fact in key_texts)


def _tells(text: str, fact: str) -> bool:
    if not fact or fact.lower() not in text.lower():
        return False
    if len(fact) >= ANSWER_KEY_QUOTE:
        return True
    stated = "" if any(c.isdigit() for c in fact) else _STATED
    return bool(re.search(rf"{stated}(?<![\w-]){re.escape(fact)}(?![\w-])", text, re.IGNORECASE))


def blame(ended: str, script: Script, messages: Sequence[Message]) -> Blame:
    """Whose doing it is that a conversation did not come to a good end.

    Args:
        ended: How it ended: `satisfied`, `transferred`, `gone`, `max_turns` or `lost`.
        script: The customer's part.
        messages: The conversation, without its system message.

    Returns:
        `infrastructure` for a lost one. `customer` where the customer played the agent, called itself
        satisfied without having said what it came for, or left before its patience was tried. `world` where
        the turns ran out on a tool that still failed. `agent` for every other one that ended without the
        customer's consent, and `nobody` for the rest.
    """
    if ended == "lost":
        return "infrastructure"
    said = [m.content or "" for m in messages if m.role == "user"]
    if any(map(plays_agent, said)):
        return "customer"
    if ended == "satisfied":
        silent = script.holds_back and not any(
            line and line in text for text in said for line in (script.goal_line, script.confirmation)
        )
        return "customer" if silent else "nobody"
    if ended == "gone":
        return "agent" if _patience_tried(messages) else "customer"
    if ended == "max_turns":
        last = messages[-1]
        failed = last.role == "tool" and result_status(last.content or "") in _WORLDS_FAULTS
        return "world" if failed else "agent"
    return "nobody"


def _patience_tried(messages: Sequence[Message]) -> bool:
    """Whether one side had to say the same thing again and again."""
    texts = Counter((m.role, m.content) for m in messages if m.role in ("user", "assistant") and m.content)
    return max(texts.values(), default=0) >= PATIENCE - 1
