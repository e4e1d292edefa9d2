"""Keeping sealed prompts out of training: exact copies after normalising, and near copies by 8-gram cover."""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import groupby, repeat

from while_pipeline.constants import NEAR_COPY_COVER
from while_pipeline.train.wording import plain, words

GRAM = 8
"""Words per shingle: eight in a row by chance is rare in customers' sentences."""
_ROUNDING = 1e-9
"""Of .80 in binary: 4 shared of 5 are enough."""
_COMMON = -1
"""In place of a position: several sealed prompts have this 8-gram."""

Gram = tuple[str, ...]


class SealedPrompts:
    """An index of sealed prompts. A look-up compares only with those that could be copied.

    Of a prompt's n 8-grams a near copy shares all but .2 n, so it has one at least of any .2 n + 1 of them.
    The rarest of those are looked up, and what sealed prompts have in common, greetings say, is not. This
    prefix filter (Chaudhuri, Ganti and Kaushik 2006, "A primitive operator for similarity joins") is exact.

    The 8-grams that a sealed prompt has in common with others are its core. Prompts that begin alike and end
    in a customer's own words have the same core, which is compared once for all of them.
    """

    def __init__(self, prompts: Mapping[str, str]) -> None:
        """Index `prompts` by task id."""
        self.tasks = frozenset(prompts)
        self._exact: dict[str, str] = {}
        self._numbers: dict[Gram, int] = {}
        self._holder = array("i")
        """By number of an 8-gram, the position of the one prompt that has it, or `_COMMON`."""
        self._named: list[str] = []
        """Tasks by position: those whose prompts have 8-grams."""
        self._cores = _Cores()
        self._core_of: list[frozenset[int]] = []
        """Core by position."""
        of_prompts: list[array[int]] = []
        for task, prompt in sorted(prompts.items()):
            said = words(prompt)
            self._exact.setdefault(_key(said, prompt), task)
            grams = self._numbered(said, len(self._named))
            if grams:
                of_prompts.append(array("I", grams))
                self._named.append(task)
        for position, numbers in enumerate(of_prompts):
            core = frozenset(number for number in numbers if self._holder[number] == _COMMON)
            self._core_of.append(self._cores.add(core, position))

    def _numbered(self, said: list[str], position: int) -> set[int]:
        """Numbers of the 8-grams of the prompt at `position`, which may hold those that are new."""
        known = len(self._numbers)
        grams = {self._numbers.setdefault(gram, len(self._numbers)) for gram in _grams(said)}
        self._holder.extend(repeat(position, len(self._numbers) - known))
        for number in grams:
            if number < known:
                self._holder[number] = _COMMON
        return grams

    def copied(self, prompt: str) -> str | None:
        """The sealed task whose prompt this one copies, or None.

        An exact copy has the same words, or no words at all and the same text. A near copy has at least 80 %
        (inclusive) of its 8-grams in one sealed prompt; prompts shorter than eight words can only be exact
        copies. Of several the first by id is named, lest a set that all begins alike be compared whole.
        """
        said = words(prompt)
        exact = self._exact.get(_key(said, prompt))
        return self._near(said) if exact is None else exact

    def _near(self, said: list[str]) -> str | None:
        windows = max(len(said) - GRAM + 1, 0)
        spare = windows - _needed(windows)
        known, unknown = set[int](), set[Gram]()
        for gram in _grams(said):
            number = self._numbers.get(gram)
            if number is not None:
                known.add(number)
                continue
            unknown.add(gram)
            if len(unknown) > spare:
                return None
        if not known:
            return None
        shared = _needed(len(known) + len(unknown))
        common = {number for number in known if self._holder[number] == _COMMON}
        own = Counter(self._holder[number] for number in known - common)
        near = [at for at, n in own.items() if n + len(common & self._core_of[at]) >= shared]
        near += self._cores.first(common, shared)
        return self._named[min(near)] if near else None


class _Cores:
    """Sets of 8-grams, each once, with the first prompt that has it."""

    def __init__(self) -> None:
        self._numbers: dict[frozenset[int], int] = {}
        self._cores: list[tuple[frozenset[int], int]] = []
        self._with: dict[int, list[int]] = defaultdict(list)
        """Positions in `_cores` by 8-gram."""

    def add(self, core: frozenset[int], position: int) -> frozenset[int]:
        """The core of the prompt at `position`, as it is kept; positions rise."""
        number = self._numbers.setdefault(core, len(self._cores))
        if number == len(self._cores):
            self._cores.append((core, position))
            for gram in core:
                self._with[gram].append(number)
        return self._cores[number][0]

    def first(self, grams: set[int], shared: int) -> list[int]:
        """Position of the first prompt whose core has `shared` of `grams`; empty when none has."""
        # What no sealed prompt has is the rarest of all, then what only one has.
        lists = sorted((self._with[gram] for gram in grams), key=len)
        for number, _ in groupby(merge(*lists[: max(len(grams) - shared + 1, 0)])):
            core, position = self._cores[number]
            if len(grams & core) >= shared:
                return [position]
        return []


def _key(said: list[str], prompt: str) -> str:
    """What exact copies have in common."""
    return " ".join(said) or plain(prompt)


def _grams(said: list[str]) -> Iterator[Gram]:
    return zip(*(said[i:] for i in range(GRAM)), strict=False)


def _needed(grams: int) -> int:
    """How many of so many 8-grams a near copy shares."""
    return math.ceil(NEAR_COPY_COVER * grams - _ROUNDING)
