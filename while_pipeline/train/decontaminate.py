"""Keeping sealed prompts out of training: exact copies after normalising, and near copies by 8-gram cover."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from heapq import merge

from while_pipeline.constants import NEAR_COPY_COVER

GRAM = 8
"""Words per shingle: eight in a row by chance is rare in customers' sentences."""
_ROUNDING = 1e-9
"""Of .80 in binary: 4 shared of 5 are enough."""

Gram = tuple[str, ...]


class SealedPrompts:
    """An index of sealed prompts. A look-up compares only with those that could be copied.

    Of a prompt's n 8-grams a near copy shares all but .2 n, so it has one at least of any .2 n + 1 of them.
    The rarest of those are looked up, and what sealed prompts have in common, greetings say, is not. This
    prefix filter (Chaudhuri, Ganti and Kaushik 2006, "A primitive operator for similarity joins") is exact.
    """

    def __init__(self, prompts: Mapping[str, str]) -> None:
        """Index `prompts` by task id."""
        self.tasks = frozenset(prompts)
        self._exact: dict[str, str] = {}
        self._grams: list[tuple[frozenset[Gram], str]] = []
        self._with: dict[Gram, list[int]] = defaultdict(list)
        """Positions in `_grams` by 8-gram."""
        seen: set[frozenset[Gram]] = set()
        for task, prompt in sorted(prompts.items()):
            words = _words(prompt)
            self._exact.setdefault(" ".join(words), task)
            grams = _grams(words)
            # Equal sets are copied alike: the first task stands for all.
            if grams not in seen:
                seen.add(grams)
                for gram in grams:
                    self._with[gram].append(len(self._grams))
                self._grams.append((grams, task))

    def copied(self, prompt: str) -> str | None:
        """The sealed task whose prompt this one copies, or None.

        A near copy has at least 80 % (inclusive) of its 8-grams in one sealed prompt; prompts shorter than
        eight words can only be exact copies. Of several the first by id is named, lest a set that all begins
        alike be compared whole.
        """
        words = _words(prompt)
        exact = self._exact.get(" ".join(words))
        if exact is not None:
            return exact
        grams = _grams(words)
        shared = math.ceil(NEAR_COPY_COVER * len(grams) - _ROUNDING)
        known = [found for gram in grams if (found := self._with.get(gram))]
        if len(known) < max(shared, 1):
            return None
        known.sort(key=len)
        # What no sealed prompt has is the rarest of all.
        probes = known[: len(known) - shared + 1]
        for position in merge(*probes):
            of, task = self._grams[position]
            if len(grams & of) >= shared:
                return task
        return None


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _grams(words: list[str]) -> frozenset[Gram]:
    return frozenset(zip(*(words[i:] for i in range(GRAM)), strict=False))
