"""How texts are compared: Unicode form, letter case and white space aside, by words and by runs of them.

Scripts that put no spaces between words have each character as a word. Nothing here knows what the texts are
of.
"""

import re
import unicodedata
from functools import lru_cache

# Thai and Lao, Burmese, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+|[{_UNSPACED}]")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
"""The same words, found in half the time: most texts are ASCII."""
_VALUE = re.compile(rf"[^\W_{_UNSPACED}](?:[^\s{_UNSPACED}]*[^\W_{_UNSPACED}])?|[{_UNSPACED}]")
"""What stands between white space, punctuation inside it kept: a word, an id, an amount, an address."""
_REMEMBERED = 16_384
"""A day says its few thousand sentences in every cut again."""


def words(text: str) -> list[str]:
    """The words of a text, letters and digits alone, letter case folded and in NFKC."""
    folded = _folded(text)
    return (_ASCII_WORD if folded.isascii() else _WORD).findall(folded)


@lru_cache(_REMEMBERED)
def plain(text: str) -> str:
    """A text in NFKC, letter case folded, every stretch of white space one space."""
    return " ".join(_folded(text).split())


@lru_cache(_REMEMBERED)
def runs(text: str, least: int) -> tuple[str, ...]:
    """The shortest runs of whole words of a text that have `least` characters, as `plain` writes them.

    Whoever repeats that much of the text, from the first character of a word to the last of another, repeats
    one of these. A word ends at white space, so an id or an amount is whole or not there. Empty where the
    text is shorter.
    """
    whole = plain(text)
    spans = [found.span() for found in _VALUE.finditer(whole)]
    ends = [end for _, end in spans]
    made: dict[str, None] = {}
    at = 0
    for start, _ in spans:
        while at < len(ends) and ends[at] - start < least:
            at += 1
        if at == len(ends):
            break
        made[whole[start : ends[at]]] = None
    return tuple(made)


def _folded(text: str) -> str:
    """NFKC before and after, for folding can undo it: U+01F0 becomes two characters."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
