"""The surface of a written message: case, marks, slips of the fingers. It never costs the meaning.

What is said stands in `wording` and `phrasing`. Values are copied by people and keep their form.
"""

import random
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

Texture = Literal["plain", "lower", "bare", "typos", "casual"]

TEXTURES: dict[str, tuple[Texture, ...]] = {
    "chat": ("plain",) * 9 + ("lower",) * 2 + ("typos",) * 3 + ("casual",) * 2,
    "email": ("plain",) * 9 + ("typos",) * 2,
    "sms": ("plain", "lower", "lower", "lower", "bare", "bare", "bare", "casual", "casual", "typos"),
    "voice": ("plain", "plain", "lower"),
}
"""How messages of a channel look; each as often as it stands here."""

MIN_TYPO_LETTERS = 5
"""Shorter words are other words once a letter is gone."""
ENDING = 2
"""Letters at the end of a word that no slip touches."""
TYPOS = 2
"""Sentences tried per message: one slip in each at most."""


class Part(NamedTuple):
    """A sentence of a message, and what may happen to it."""

    text: str
    kind: Literal["free", "marker", "rule", "values"] = "free"
    """`marker`: recognised by its words, so no typos. `rule`: keeps its marks too. `values`: left alone."""


def textured(parts: Sequence[Part], texture: Texture, rng: random.Random) -> str:
    """The parts as one message. Without marks each part has a line to itself, so that it stays a sentence."""
    texts = [part.text for part in parts]
    match texture:
        case "lower":
            texts = [_lowered(part) for part in parts]
        case "bare" if not any(part.kind == "rule" for part in parts):
            return "\n".join(_stripped(part) for part in parts)
        case "casual":
            texts = [_casual(part) for part in parts]
        case "typos":
            for i in sorted({int(rng.random() * len(parts)) for _ in range(TYPOS)}):
                if parts[i].kind == "free":
                    texts[i] = _with_typo(texts[i], rng)
    return " ".join(texts)


def _lowered(part: Part) -> str:
    return part.text[:1].lower() + part.text[1:] if part.kind == "values" else part.text.lower()


def _stripped(part: Part) -> str:
    if part.kind == "values":
        return _lowered(part).rstrip(".")
    return part.text.rstrip(".!?").replace(",", "").replace("'", "").lower()


_CASUAL = {
    "please": "pls",
    "you": "u",
    "thanks": "thx",
    "because": "bc",
    "i am": "im",
    "thank you": "thx",
    "your": "ur",
}
_CASUAL_WORDS = re.compile(rf"\b({'|'.join(sorted(_CASUAL, key=len, reverse=True))})\b")


def _casual(part: Part) -> str:
    low = _lowered(part)
    return _CASUAL_WORDS.sub(lambda m: _CASUAL[m.group()], low) if part.kind == "free" else low


def _with_typo(text: str, rng: random.Random) -> str:
    """The text with two letters swapped, one missing or one doubled in a word, if the one drawn is long.

    The last two letters stay as they are: a slip in an ending is rare, and "roamnig" is hard to read.
    """
    words = text.split(" ")
    at = int(rng.random() * len(words))
    word = words[at]
    if len(word) < MIN_TYPO_LETTERS or not word.isalpha():
        return text
    i = 1 + int(rng.random() * (len(word) - ENDING - 2))
    slip = int(rng.random() * 3)
    words[at] = (
        word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        if slip == 0
        else word[:i] + word[i + 1 :]
        if slip == 1
        else word[:i] + word[i] + word[i:]
    )
    return " ".join(words)
