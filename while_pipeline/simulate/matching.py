"""Text that a regular expression matches, drawn at random: short, readable, the same in every process.

Built on the tree of Python's own parser. What the expression means for a schema is checked by whoever asks:
look-arounds and anchors in the middle draw nothing and may leave a text that does not match.
"""

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from re import _parser  # type: ignore[attr-defined]  # isort: skip  # no public door to the parse tree

REPEATS = 8
"""Most repeats of what may repeat without end: longer texts say no more."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_ANY = _LETTERS + _LETTERS.upper() + _DIGITS + " -_.,:;/!?@#%&()+='\""
_CATEGORIES = {
    f"CATEGORY_{name}": "".join(re.findall(sign, _ANY))
    for name, sign in {
        "DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w",
        "NOT_WORD": r"\W",
    }.items()
}  # fmt: skip


def matching_text(pattern: str, rng: random.Random) -> str | None:
    """Draw a text that `pattern` describes from its first to its last sign; None when it cannot be read."""
    tree = _parsed(pattern)
    if tree is None:
        return None
    return _drawn(tree, rng, {})


@lru_cache(maxsize=1024)
def _parsed(pattern: str) -> Any:
    try:
        return _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):  # a dialect of another language
        return None


def _drawn(tree: Any, rng: random.Random, groups: dict[int, str]) -> str:
    return "".join(_one(str(code), given, rng, groups) for code, given in tree)


def _one(code: str, given: Any, rng: random.Random, groups: dict[int, str]) -> str:
    match code:
        case "LITERAL":
            return chr(given)
        case "NOT_LITERAL":
            return rng.choice(_ANY.replace(chr(given), ""))
        case "ANY":
            return rng.choice(_LETTERS + _DIGITS)
        case "IN":
            signs = _signs(given)
            return rng.choice([sign for sign in signs if sign.isalnum()] or signs)
        case "BRANCH":
            return _drawn(rng.choice(given[1]), rng, groups)
        case "SUBPATTERN":
            groups[given[0]] = text = _drawn(given[-1], rng, groups)
            return text
        case "ATOMIC_GROUP":
            return _drawn(given, rng, groups)
        case "GROUPREF":
            return groups.get(given, "")
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, part = given
            times = rng.randint(low, max(low, min(high, low + REPEATS)))
            return "".join(_drawn(part, rng, groups) for _ in range(times))
        case _:
            return ""


def _signs(members: Sequence[tuple[Any, Any]]) -> str:
    """The signs of a character class; of a negated one, those of `_ANY` it leaves."""
    signs = ""
    for code, given in members:
        match str(code):
            case "LITERAL":
                signs += chr(given)
            case "RANGE":
                signs += "".join(map(chr, range(given[0], given[1] + 1)))
            case "CATEGORY":
                signs += _CATEGORIES[str(given)]
            case _:
                continue
    if str(members[0][0]) == "NEGATE":
        return "".join(sign for sign in _ANY if sign not in signs) or "\N{MIDDLE DOT}"
    return signs
