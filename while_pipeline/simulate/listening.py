"""How a customer understands an agent's message: what it wants to know, and what it says has happened.

Reading only; what to say to it is decided in `customer`. A message is read once, however many samples of a
scenario hear it.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from while_pipeline.patterns import Pattern
from while_pipeline.policy_document import sentences
from while_pipeline.tools import is_identifier, words_of

REMEMBERED = 16_384
"""Messages that are read once: the samples of a scenario hear the same ones, one after the other."""

_CONFIRM = Pattern(
    r"(shall|should|may|can) (i|we) (go ahead|proceed|do (it|that|this)|continue)"
    r"|do you (confirm|agree|want me to)|please confirm|(?<!\w )would you like (me|us) to|reply (with )?.?yes"
    r"|can you confirm (that|this)|is (that|this) (right|correct|ok)|\(yes/no\)|to proceed\?",
    signs="go ahead|proceed| i do | we do |continue|confirm|agree|want me to|you like|yes|is that|is this",
)
_IDENTITY = Pattern(
    r"verify|identity|date of birth|your (full )?name|who you are|security (question|check)",
    signs="verify|identity|date of birth|name|who you are|security",
)
_WHAT = Pattern(
    r"how (can|may) i help|what (exactly )?(do|would|can|should) (you|i)\b|what is (it|this) about"
    r"|more detail",
    signs="how can i|how may i|what |more detail",
)
_NOT_FOUND = Pattern(
    r"(not|n't|no|cannot|unable to) (be )?(find|found|locate|match|record)|no .{0,40}found",
    signs="find|found|locate|match|record",
)
_FAILED = Pattern(
    r"\b(could(?: not|n't)|(?:was|am|were)(?: not|n't) able|unable) \w|has not been done|(?:it|that) failed",
    signs="could|able|has not|failed",
)
_TRANSFERRED = Pattern(
    r"(transfer\w{0,9}+|connect\w{0,9}+|hand\w{0,9}+ (you )?over).{0,40}(human|colleague|agent|person)",
    signs="transfer|connect|hand",
)
_REQUEST = Pattern(
    r"(please|kindly) (provide|share|give|tell|send|enter|confirm|reply)|\breply (with )?.?yes"
    r"|\b(i|we)('ll| will)? (also )?need (your|the|to know)",
    signs="please|kindly|reply|need",
)
_CLOSING = Pattern(
    r"(anything|something) (else|more|further)|further (help|assistance|questions)",
    signs="anything|something|further",
)
_BETWEEN = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of the agent, as the customer takes it."""

    asks: str
    """The part that wants an answer, in lower case with single spaces; empty when nothing does."""
    transferred: bool
    not_found: bool
    failed: bool
    wants_identity: bool
    wants_yes: bool
    wants_goal: bool

    def names(self, parameter: str) -> bool:
        """Whether the question names a parameter; the `date` of a date of birth is another."""
        return any(_has(self.asks, name) for name in _names(parameter))


@lru_cache(maxsize=REMEMBERED)
def listen(text: str) -> Heard:
    """Read an agent's message."""
    asked = _asked(text)
    return Heard(
        asks=_BETWEEN.sub(" ", asked.lower()),
        transferred=bool(_TRANSFERRED.search(text)),
        not_found=bool(_NOT_FOUND.search(text)),
        failed=bool(_FAILED.search(text)),
        wants_identity=bool(asked and _IDENTITY.search(asked)),
        wants_yes=bool(asked and _CONFIRM.search(asked)),
        wants_goal=bool(asked and _WHAT.search(asked)),
    )


def _asked(text: str) -> str:
    """The part of a message that wants an answer; asking for anything else to do wants none."""
    parts: list[str] = []
    in_list = False
    for sentence in sentences(text):
        requests = bool(_REQUEST.search(sentence))
        if in_list or ((requests or sentence.endswith("?")) and not _CLOSING.search(sentence)):
            parts.append(sentence)
        in_list = in_list or (requests and ":" in sentence)
    return " ".join(parts)


@lru_cache(maxsize=4096)
def _names(parameter: str) -> tuple[str, ...]:
    """What an agent may call a parameter: a line id is also a line number."""
    words = words_of(parameter)
    named = [" ".join(words)]
    if is_identifier(parameter) and len(words) > 1:
        named.append(f"{' '.join(words[:-1])} number")
    return tuple(named)


def _has(text: str, name: str) -> bool:
    """Whether a name occurs as whole words, and not as part of a date of birth."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        whole = not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())
        if whole and not text.startswith(" of birth", end):
            return True
        start = text.find(name, end)
    return False
