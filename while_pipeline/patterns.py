"""Patterns of words that are looked for in every message, and so must cost next to nothing where absent.

What belongs here: how a pattern is searched. What does not: the patterns, which stand where they are used.
"""

import re
from functools import lru_cache

REMEMBERED = 2048
"""Texts per pattern whose result is kept: the samples of a scenario say the same things."""


class Pattern:
    """A regular expression that ignores case, behind a cheap test.

    A text without any of the `signs` cannot match. Looking for fixed words is ten times as fast as a pattern
    that ignores case, and most texts hold none.
    """

    def __init__(self, expression: str, *, signs: str) -> None:
        """Compile.

        Args:
            expression: The regular expression.
            signs: Lower-case texts separated by `|`; every match holds one of them.
        """
        self.expression, self.signs = expression, tuple(signs.split("|"))
        self._regex = re.compile(expression, re.IGNORECASE)
        self.search = lru_cache(maxsize=REMEMBERED)(self._search)

    def _search(self, text: str) -> re.Match[str] | None:
        return self._regex.search(text) if self._may_match(text) else None

    def findall(self, text: str) -> list[str]:
        """All matches, as `re.findall` gives them."""
        return self._regex.findall(text) if self._may_match(text) else []

    def _may_match(self, text: str) -> bool:
        low = lowered(text)
        return any(sign in low for sign in self.signs)


@lru_cache(maxsize=REMEMBERED)
def lowered(text: str) -> str:
    """Text in lower case."""
    return text.lower()
