"""Keeping sealed prompts out of training: exact copies after normalising, and near copies by 8-gram cover."""

import re
from collections.abc import Mapping

from while_pipeline.constants import NEAR_COPY_COVER

GRAM = 8
"""Words per shingle: eight in a row by chance is rare in customers' sentences."""


class SealedPrompts:
    """An index of sealed prompts; a look-up costs the prompt's own length, not the number of sealed ones."""

    def __init__(self, prompts: Mapping[str, str]) -> None:
        """Index `prompts` by task id."""
        self._exact: dict[str, str] = {}
        self._grams: dict[str, set[str]] = {}
        for task, prompt in sorted(prompts.items()):
            words = _words(prompt)
            self._exact.setdefault(" ".join(words), task)
            for gram in _grams(words):
                self._grams.setdefault(gram, set()).add(task)

    def copied(self, prompt: str) -> str | None:
        """The sealed task whose prompt this one copies, or None.

        A near copy has at least 80 % (inclusive) of its 8-grams in one sealed prompt; prompts shorter than
        eight words can only be exact copies.
        """
        words = _words(prompt)
        exact = self._exact.get(" ".join(words))
        if exact is not None:
            return exact
        grams = _grams(words)
        hits: dict[str, int] = {}
        for gram in grams:
            for task in self._grams.get(gram, ()):
                hits[task] = hits.get(task, 0) + 1
        close = [(n, task) for task, n in hits.items() if n >= NEAR_COPY_COVER * len(grams)]
        return min(close, key=lambda pair: (-pair[0], pair[1]))[1] if close else None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _grams(words: list[str]) -> list[str]:
    return sorted({" ".join(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1)})
