"""Can stances be told apart by what is said? A word count, asked of texts it has not seen."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

RECALL = 0.5
"""Share of unseen texts to be put right; with ten stances chance is a tenth."""


def recognised(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Name the stances of which `RECALL` of the unseen texts are put right.

    Every other text trains, the rest are asked. A text is the set of its words and its pairs of neighbours;
    all digits are one sign, so that numbers tell nothing. Bernoulli naive Bayes with add-one smoothing, which
    counts what is not said too (Manning, Raghavan and Schütze 2008, Introduction to Information Retrieval,
    13.3). A stance with fewer than two texts is not recognised.
    """
    bags = {stance: [_words(text) for text in of] for stance, of in texts.items() if len(of) > 1}
    vocabulary = {
        word: i for i, word in enumerate(sorted({w for of in bags.values() for b in of for w in b}))
    }
    shares = [(_said(of[::2], vocabulary).sum(axis=0) + 1) / (len(of[::2]) + 2) for of in bags.values()]
    right = []
    for place, (stance, of) in enumerate(bags.items()):
        asked = _said(of[1::2], vocabulary)
        likely = np.stack([asked @ np.log(p) + (1 - asked) @ np.log(1 - p) for p in shares], axis=1)
        if np.mean(likely.argmax(axis=1) == place) >= RECALL:
            right.append(stance)
    return right


def _said(bags: Sequence[set[str]], vocabulary: Mapping[str, int]) -> NDArray[np.float64]:
    """Texts by words: 1 where a text has the word."""
    said = np.zeros((len(bags), len(vocabulary)))
    for row, bag in zip(said, bags, strict=True):
        row[[vocabulary[word] for word in bag]] = 1
    return said


def _words(text: str) -> set[str]:
    """Single words and pairs of neighbours."""
    single = re.findall(r"[a-z'#]+", re.sub(r"\d", "#", text.lower()))
    return {*single, *(f"{a} {b}" for a, b in pairwise(single))}
