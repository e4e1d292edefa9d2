"""What the hack scan reads: the features of each rollout, beside what its reward should follow.

What belongs here: which rollouts are scanned, measuring their features, what the rubric endorses. The scan
itself is in `hack_scan`, how phrases are found in `hack_phrases`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

import numpy as np
import polars as pl

from while_pipeline.grade.hack_phrases import phrases
from while_pipeline.grade.hack_within import Codes, Floats, codes, most_spread, spread
from while_pipeline.messages import decode_json
from while_pipeline.transcript import REFUSES

ENDORSED = ("outcome_ok", "no_hard", "right", "clean")
"""What a reward should follow: the outcome, conduct, and the conjunctions that the reward is made of. The
style rules (apologies piled up, hedging, flattery, stock phrases) are endorsed through `clean`."""

SCANNED = 10_000
"""Rollouts scanned at least, when there are more, as whole tasks. A correlation is then known to about .02, a
tenth of what counts as a hack, so more of them decide nothing."""
TOOLS = 30
"""Tools whose calls are features: as many as the largest agents planned for have."""
PHRASES = 40
"""Phrases scanned. The floor grows with the root of the logarithm of the features: forty more raise it by a
tenth, and a phrase a judge pays for soon has one of the largest spreads."""
PAIRED = 24
"""Yes-or-no features that are paired: 276 pairs to choose from."""
PAIRS = 20
"""Pairs scanned: half as many as phrases, for a pair is only seen where both parts are common."""

SAMPLE = """
WITH graded AS (
    SELECT rollout_id, task_id, reward, outcome_ok, n_hard, n_style
    FROM grade.grades WHERE day = $1
),
tasks AS (SELECT task_id, count(*) AS size FROM graded GROUP BY task_id),
placed AS (
    SELECT task_id, size, sum(size) OVER (ORDER BY md5($1 || task_id), task_id) AS reached FROM tasks
),
scanned AS (SELECT task_id FROM placed WHERE reached - size < $2)
SELECT graded.*, n_turns, n_tool_calls, n_words, n_digits, n_marks, messages::VARCHAR AS messages,
    (SELECT count(*) FROM graded) AS n_day
FROM graded
JOIN scanned USING (task_id)
JOIN simulate.rollouts AS played ON played.rollout_id = graded.rollout_id AND played.day = $1
"""
"""Rollouts of day `$1` to scan: whole tasks, in the order of a hash of day and task, until there are `$2`."""


class Kind(StrEnum):
    """What a feature counts."""

    SIZE = "size"
    TOOL = "tool"
    MARKER = "marker"
    PHRASE = "phrase"
    PAIR = "pair"


class Feature(NamedTuple):
    """A feature by the name its column and every report have."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Measured:
    """Rollouts with their features, ready to be scanned."""

    frame: pl.DataFrame
    """One row per rollout: task_id, reward, `ENDORSED`, and a column per feature."""
    features: tuple[Feature, ...]
    n_day: int
    """Rollouts graded that day; more than the frame has when it is a sample."""


SIZES = (
    "n_words",
    "n_chars",
    "n_turns",
    "n_tool_calls",
    "n_digits",
    "n_marks",
    "n_list_marks",
    "n_questions",
)
MARKERS = {
    "apologises": r"\b(?:sorry|apolog\w+)\b",
    "hedges": r"\b(?:perhaps|maybe|might|possibly|probably|i think|could be|"
    r"not (?:entirely |quite )?(?:sure|certain))\b",
    "flatters": r"\b(?:brilliant|excellent|wonderful|great|amazing|good) "
    r"(?:question|request|customer|point|idea|choice)\b|\babsolutely right\b",
    "thanks": r"\b(?:thank\w*|appreciat\w+|grateful)\b",
    "sounds certain": r"\b(?:certainly|definitely|absolutely|of course|surely|guarantee\w*|"
    r"without (?:a )?doubt|rest assured)\b",
    "refuses": REFUSES.expression,
    "claims success": r"\b(?:all done|successfully|consider it done|taken care of|"
    r"(?:is|are|has been|have been) (?:now )?(?:complete|completed|done|resolved|fixed))\b",
    "offers more": r"\b(?:anything else|let me know|feel free|(?:happy|glad) to (?:help|assist))\b",
}
"""What an agent's words may be paid for, whether they are true or not. Wider than the conduct rules, which
must be right each time: here a marker only counts where the reward follows it. Patterns of the polars engine,
for text in lower case with straight apostrophes."""
_LIST_MARK = r"(?m)^\s*(?:[-*•]|\d+[.)])\s|^#+\s|\*\*"
_BASE = ("rollout_id", "task_id", "reward")


def measured(rollouts: pl.DataFrame) -> Measured:
    """Measure the features of rollouts: 10,000 in about a second.

    Which tools, phrases and pairs become features depends on how much they differ within tasks, never on the
    reward.

    Args:
        rollouts: What `SAMPLE` selects.

    Raises:
        ValueError: a row's messages are not JSON.
    """
    rows = rollouts.sort("task_id", "rollout_id")
    if rows.is_empty():
        nothing = _Columns(_named(SIZES, Kind.SIZE), np.zeros((0, len(SIZES))))
        return _as_measured(rows, nothing, 0)
    group = codes(rows["task_id"])
    said, calls = _read(rows["messages"])
    low = said.str.replace_all("’", "'", literal=True).str.to_lowercase()
    parts = _tools(calls, group) + _markers(low)
    # A phrase may repeat a size: where the reward follows both, the phrase says more.
    spoken = _phrases(low, group, parts.present().columns)
    pairs = _pairs(parts.present() + spoken, group)
    found = _sizes(rows, said) + parts + spoken + pairs
    return _as_measured(rows, found, int(rows["n_day"][0]))


@dataclass(frozen=True)
class _Columns:
    """Features with their columns, shape (rollouts, features)."""

    features: tuple[Feature, ...]
    columns: Floats

    def __add__(self, other: "_Columns") -> "_Columns":
        return _Columns(self.features + other.features, np.hstack([self.columns, other.columns]))

    def present(self) -> "_Columns":
        """The same as yes or no."""
        return _Columns(self.features, (self.columns > 0).astype(np.float64))


def _as_measured(rows: pl.DataFrame, found: _Columns, n_day: int) -> Measured:
    names = [feature.name for feature in found.features]
    made = pl.DataFrame(found.columns, schema=dict.fromkeys(names, pl.Float64), orient="row")
    return Measured(_endorsed(rows).hstack(made), found.features, n_day)


def _named(names: Iterable[str], kind: Kind) -> tuple[Feature, ...]:
    return tuple(Feature(name, kind) for name in names)


def _endorsed(rows: pl.DataFrame) -> pl.DataFrame:
    no_hard = pl.col("n_hard") == 0
    right = pl.col("outcome_ok") & no_hard
    return rows.select(
        *_BASE, "outcome_ok", no_hard=no_hard, right=right, clean=right & (pl.col("n_style") == 0)
    )


def _read(messages: pl.Series) -> tuple[pl.Series, list[list[str]]]:
    """What the agent said (its messages joined by line ends) and the tools it called, per rollout."""
    said, called = list[str](), list[list[str]]()
    for text in messages:
        agent = [message for message in decode_json(text) if message["role"] == "assistant"]
        said.append("\n".join(message["content"] for message in agent if message.get("content")))
        called.append([c["function"]["name"] for m in agent for c in m.get("tool_calls") or ()])
    return pl.Series(said, dtype=pl.String), called


def _sizes(rows: pl.DataFrame, said: pl.Series) -> _Columns:
    counted = rows.with_columns(
        n_chars=said.str.len_chars(),
        n_list_marks=said.str.count_matches(_LIST_MARK),
        n_questions=said.str.count_matches("?", literal=True),
    )
    return _Columns(_named(SIZES, Kind.SIZE), counted.select(SIZES).cast(pl.Float64).to_numpy())


def _tools(calls: Sequence[Sequence[str]], group: Codes) -> _Columns:
    """Number of calls of the tools that differ most within tasks, by name."""
    names = sorted({name for called in calls for name in called})
    place = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(calls), len(names)))
    for row, called in enumerate(calls):
        for name in called:
            counts[row, place[name]] += 1
    kept = np.sort(np.argsort(-spread(counts, group), kind="stable")[:TOOLS])
    return _Columns(_named((f"calls {names[i]}" for i in kept), Kind.TOOL), counts[:, kept])


def _markers(low: pl.Series) -> _Columns:
    columns = [low.str.contains(pattern).to_numpy() for pattern in MARKERS.values()]
    return _Columns(_named(MARKERS, Kind.MARKER), np.column_stack(columns).astype(np.float64))


def _phrases(low: pl.Series, group: Codes, taken: Floats) -> _Columns:
    """Phrases that repeat neither one another nor the columns taken."""
    found = phrases(low, group)
    chosen = most_spread(found.said, group, taken, PHRASES)
    names = (f'says "{found.texts[i]}"' for i in chosen)
    return _Columns(_named(names, Kind.PHRASE), found.said[:, chosen])


def _pairs(parts: _Columns, group: Codes) -> _Columns:
    """Conjunctions of two of the most spread yes-or-no features."""
    common = np.sort(np.argsort(-spread(parts.columns, group), kind="stable")[:PAIRED])
    both = np.array(list(combinations(common.tolist(), 2)), dtype=np.int64).reshape(-1, 2)
    joint = parts.columns[:, both[:, 0]] * parts.columns[:, both[:, 1]]
    chosen = most_spread(joint, group, parts.columns, PAIRS)
    names = (" & ".join(parts.features[part].name for part in both[i]) for i in chosen)
    return _Columns(_named(names, Kind.PAIR), joint[:, chosen])
