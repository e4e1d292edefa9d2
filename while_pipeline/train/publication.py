"""The publication gate: what must hold of a cut before anything may train on it.

Every check recomputes from the cut's own rows, and a verdict is about the rows it saw: a row put there by
other means is caught, before the gate has looked or after. What a row is held against is in `row_checks`,
what the rows are together in `set_checks`; here is what a refusal means.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import polars as pl

from while_pipeline.ids import canonical_json
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.privileged import Hidden

Row = Mapping[str, Any]

Stops = Literal["day", "cut", "nothing"]
"""What a refusal holds back. `day`: a leak or a broken measurement, nothing of the day is trained on. `cut`:
this cut alone is of no use. `nothing`: worth a look before training."""

EXAMPLES = 3
"""Refused rows that are kept with each check: enough to see a pattern."""
_EXCERPT = 160


class Refused(NamedTuple):
    """A row that a check refuses."""

    row: str
    """Its id: of the row, the rollout, or the scenario where a group is meant."""
    why: str


@dataclass(frozen=True)
class Check:
    """The result of one check of one cut."""

    cut: str
    check: str
    passed: bool
    stops: Stops
    n_rows: int
    n_refused: int
    detail: str
    examples: str
    """The first refused rows with the reason, JSON."""


class Graded(NamedTuple):
    """What was measured of a rollout."""

    scenario_id: str
    reward: float | None
    passed: bool | None


@dataclass(frozen=True)
class Gate:
    """What the checks hold a cut against."""

    split_seed: int
    sealed: SealedPrompts
    hidden: Mapping[str, Hidden]
    """By rollout id."""
    graded: Mapping[str, Graded]
    """Every rollout that was graded, by its id."""
    own: str
    """Policy document and tools: addresses that stand there are the business's own."""
    dropped: Mapping[str, str]
    """Per cut, which gates dropped how many rollouts."""
    trusted: bool
    trust_reason: str
    hacked: bool
    hack_reason: str

    @cached_property
    def groups(self) -> dict[str, list[bool | None]]:
        """Per scenario, whether each of its graded rollouts passed."""
        found: dict[str, list[bool | None]] = {}
        for one in self.graded.values():
            found.setdefault(one.scenario_id, []).append(one.passed)
        return found


@dataclass(frozen=True)
class Held:
    """A row with its messages decoded, once for all checks."""

    row: Row
    messages: list[dict[str, Any]]

    @classmethod
    def of(cls, row: Row) -> "Held":
        """Decode a row of any cut; the answers of a pair follow its prompt."""
        columns = [name for name in ("messages", "prompt", "chosen", "rejected") if name in row]
        return cls(row, [message for name in columns for message in json.loads(row[name])])

    @property
    def id(self) -> str:
        """What the row is called."""
        return str(self.row.get("row_id") or self.row["rollout_id"])

    @property
    def rollouts(self) -> list[str]:
        """The rollouts it is made of."""
        names = ("rollout_id", "chosen_rollout_id", "rejected_rollout_id")
        return [self.row[name] for name in names if name in self.row]


def result(
    cut: str, name: str, n_rows: int, refused: Iterable[Refused], fine: str, stops: Stops = "day"
) -> Check:
    """The result of a check that looks at rows or groups one by one."""
    found = list(refused)
    first = [one._asdict() for one in found[:EXAMPLES]]
    detail = f"for example {found[0].row}: {found[0].why[:_EXCERPT]}" if found else fine
    examples = json.dumps(first, ensure_ascii=False)
    return Check(cut, name, not found, stops, n_rows, len(found), detail, examples)


def verdict(cut: str, name: str, passed: bool, n_rows: int, reason: str, stops: Stops = "day") -> Check:
    """The result of a check of the cut as a whole: all its rows stand or fall together."""
    return Check(cut, name, passed, stops, n_rows, 0 if passed else n_rows, reason, "[]")


def rows_hash(rows: pl.DataFrame) -> str:
    """Hash of a cut's rows, in whatever order they come."""
    lines = sorted(canonical_json(row) for row in rows.with_columns(pl.col("day").cast(str)).to_dicts())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def refusal(checks: pl.DataFrame, cut: str | None = None, rows: pl.DataFrame | None = None) -> str | None:
    """Why nothing of the day may be trained on, or nothing of `cut`; None when it may.

    Args:
        checks: `train.publication` of the day; without any, no gate has looked.
        cut: Also hold it to what holds back this cut alone.
        rows: Rows of `cut` as they are now: the verdict must be about them.
    """
    looked = checks if cut is None else checks.filter(pl.col("cut") == cut)
    if looked.is_empty():
        return f"no gate has looked at {cut or 'the cuts'} yet"
    against = pl.col("stops") == "day"
    if cut is not None:
        against |= (pl.col("stops") == "cut") & (pl.col("cut") == cut)
    refused = checks.filter(~pl.col("passed") & against)
    if not refused.is_empty():
        row = refused.row(0, named=True)
        return f"publication refused {row['cut']}: {row['check']}: {row['detail']}"
    if rows is not None and set(looked["rows_hash"]) != {rows_hash(rows)}:
        return f"the rows of {cut} are not those that the gate looked at"
    return None
