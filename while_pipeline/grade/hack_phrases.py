"""Phrases of the agent's words that tell the rollouts of a task apart.

What belongs here: counting runs of one to three words and keeping those with the most spread. Which of them
are scanned is decided in `hack_features`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from while_pipeline.grade.hack_within import Codes, Floats

LONGEST = 3
"""Words of a phrase: enough to tell `happy to help` from `help`; longer ones are seen through their parts."""
RAREST = 0.02
"""Share of the rollouts a phrase must be in: what is said in fewer cannot move a policy far, and there is no
end of it."""
CANDIDATES = 200
"""Phrases handed on, those with the most spread: several times what is scanned, since many nearly repeat one
another, and few enough for a table of all rollouts by all phrases."""

PART = 1_000
"""Rollouts read at once: memory is that of their words, however many rollouts there are."""

_TOKEN = r"\p{L}[\p{L}'’]*|[\n0-9.?!]"
"""A word, or what a phrase does not reach across: sentence and message ends, and numbers, which are nearly
always of one customer."""


class Phrases(NamedTuple):
    """Candidate phrases and who said them."""

    texts: list[str]
    """By falling spread within tasks; of phrases said in the very same rollouts, the longest."""
    said: Floats
    """1 where it was said, else 0; shape (rollouts, phrases)."""


def phrases(texts: pl.Series, group: Codes) -> Phrases:
    """Find the phrases with the most spread within tasks; the reward has no part in it.

    Args:
        texts: What the agent said in each rollout, lower case, messages joined by line ends.
        group: Task of each row, as `hack_within.codes` gives it.
    """
    frame = pl.DataFrame({"row": np.arange(texts.len()), "task": group, "text": texts})
    parts = [frame[start:end] for start, end in _parts(group)]
    least = int(np.ceil(RAREST * texts.len()))
    vocabulary = _vocabulary(parts, least)
    best = _best([_spread(_runs(part, vocabulary).unique(), part) for part in parts], least)
    places = best.with_row_index("place")
    said = np.zeros((texts.len(), best.height))
    for part in parts:
        at = _runs(part, vocabulary).join(places, on="code").select("row", "place").to_numpy()
        said[at[:, 0], at[:, 1]] = 1
    return Phrases([_text(code, vocabulary) for code in best["code"]], said)


def _parts(group: Codes) -> list[tuple[int, int]]:
    """Bounds of whole tasks of some `PART` rows together."""
    ends = np.append(np.flatnonzero(np.diff(group)) + 1, len(group))
    last = np.append(np.flatnonzero(np.diff(ends // PART)), len(ends) - 1)
    bounds = [0, *dict.fromkeys(ends[last].tolist())]
    return list(pairwise(bounds))


def _words(part: pl.DataFrame) -> pl.DataFrame:
    words = part.select("row", word=pl.col("text").str.extract_all(_TOKEN))
    return words.explode("word").drop_nulls("word")


def _vocabulary(parts: Sequence[pl.DataFrame], least: int) -> pl.Series:
    """Words in at least so many rollouts, sorted: a phrase is in no more of them than its rarest word."""
    words = pl.col("word")
    counts = [
        _words(part).filter(words.str.contains(r"\p{L}")).unique().group_by("word").len() for part in parts
    ]
    total = pl.concat(counts).group_by("word").agg(pl.col("len").sum())
    return total.filter(pl.col("len") >= least)["word"].sort()


def _runs(part: pl.DataFrame, vocabulary: pl.Series) -> pl.DataFrame:
    """(row, code) of every run of one to `LONGEST` known words within a sentence.

    The code is a number in base vocabulary + 1 whose digits are the words' places, from 1: 0 is no word.
    """
    places = pl.DataFrame({"word": vocabulary, "place": np.arange(1, vocabulary.len() + 1)})
    joined = _words(part).join(places, on="word", how="left", maintain_order="left")
    row, place = joined["row"].to_numpy(), joined["place"].fill_null(0).to_numpy()
    base, runs = vocabulary.len() + 1, [pl.DataFrame(schema={"row": pl.Int64, "code": pl.Int64})]
    code, known = np.zeros(len(row), dtype=np.int64), np.ones(len(row), dtype=np.bool_)
    for size in range(1, min(LONGEST, len(row)) + 1):
        ends, count = slice(size - 1, None), len(row) - size + 1
        code, known = code[:count] * base + place[ends], known[:count] & (place[ends] > 0)
        known &= row[:count] == row[ends]
        runs.append(pl.DataFrame({"row": row[:count][known], "code": code[known]}))
    return pl.concat(runs)


def _spread(found: pl.DataFrame, part: pl.DataFrame) -> pl.DataFrame:
    """Of each code in a part: rollouts, sum of squares within tasks, and a mark of the set of rollouts."""
    rows = part.select("row", "task", pl.len().over("task").alias("size"))
    # Sums of 40-bit marks tell sets of rollouts apart, and cannot overflow below eight million rollouts.
    marks = np.random.default_rng(part["row"][0]).integers(1 << 40, size=part.height)
    rows = rows.with_columns(mark=pl.Series(marks))
    yes = pl.len().alias("yes")
    of_task = (
        found.join(rows, on="row")
        .group_by("code", "task")
        .agg(yes, pl.col("size").first(), pl.col("mark").sum())
    )
    square = pl.col("yes") * (pl.col("size") - pl.col("yes")) / pl.col("size")
    return (
        of_task.sort("code", "task")
        .group_by("code", maintain_order=True)
        .agg(pl.col("yes").sum(), square.sum().alias("spread"), pl.col("mark").sum())
    )


def _best(parts: Sequence[pl.DataFrame], least: int) -> pl.DataFrame:
    """Codes of the phrases with the largest spread; of those said in the very same rollouts, the longest."""
    whole = pl.concat(parts).group_by("code", maintain_order=True).agg(pl.all().sum())
    return (
        whole.with_columns(pl.col("spread").round(9))
        .filter(pl.col("yes") >= least, pl.col("spread") > 0)
        .sort("spread", "code", descending=True)
        .unique("mark", keep="first", maintain_order=True)
        .head(CANDIDATES)
        .select("code")
    )


def _text(code: int, vocabulary: pl.Series) -> str:
    words = list[str]()
    while code:
        code, place = divmod(code, vocabulary.len() + 1)
        words.insert(0, vocabulary[place - 1])
    return " ".join(words)
