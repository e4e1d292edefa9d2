"""Files of graded attempts: what somebody else played and graded, read row by row.

What belongs here: from a file to attempts, with everything that could not be used named, counted and placed.
Nothing is guessed: a row that cannot be placed is left out, a value that cannot be used is no verdict. What
the attempts show belongs to `delta`.
"""

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from while_pipeline.ids import canonical_json
from while_pipeline.measure import WHOLE_REWARD
from while_pipeline.watch.read import unpacked

TASK = ("task_id", "task")
SAMPLE = ("sample", "trial", "rollout_id", "rollout")
REWARD = ("reward", "score")
MESSAGES = ("messages", "traj")

_CUT_OFF = frozenset({"length", "max_tokens", "max_turns"})
"""Reasons to finish that are a limit's and not the agent's."""

ATTEMPTS = pl.Schema(
    {
        "task_id": pl.String(),
        "sample": pl.String(),
        "category": pl.String(),
        "passed": pl.Boolean(),
        "judge": pl.String(),
        "customer": pl.String(),
        "scenario_id": pl.String(),
        "findings": pl.String(),
        "answered": pl.Boolean(),
        "truncated": pl.Boolean(),
    }
)
"""Columns of `GradedFile.attempts`, as `delta.paired_delta` takes them; all but the first two may be null."""


class GradedFileError(ValueError):
    """A file whose rows contradict each other or say nothing; the message names file and line."""


@dataclass(frozen=True)
class Exclusion:
    """Rows that could not be used, or not wholly, for one reason."""

    reason: str
    """What is wrong, and what became of the row."""
    count: int
    example: str
    """`file:line` of the first one."""


@dataclass(frozen=True)
class GradedFile:
    """The attempts of one file."""

    path: Path
    attempts: pl.DataFrame
    """`ATTEMPTS`, in file order."""
    exclusions: tuple[Exclusion, ...]
    """In the order of their first rows."""
    n_records: int
    """Records in the file, readable or not."""
    numbered: bool
    """Whether the rows name their samples; else they are numbered per task in file order."""
    n_partial: int
    """Rewards strictly between 0 and a pass: they count as not passed."""


class _Unplaced(Exception):
    """The row cannot be an attempt at a task."""


def read_graded(path: Path) -> GradedFile:
    """Read a file of graded attempts: JSON lines or a JSON array, plain, gzip or zstd.

    A row is an object; keys are looked for in it, then in its `metadata`.

    - `task_id` or `task`: text or a whole number. Without one the row is left out.
    - `sample`, `trial`, `rollout_id` or `rollout`: text or a whole number that is there once per task. When
      no row has one, rows are numbered per task in file order; when only some have, the others are left out.
    - `passed`: true or false, 1 or 0; without it `reward` or `score`: a number in [0, 1], a pass from
      `WHOLE_REWARD` on.
      Anything else (NaN, infinity, text, true where a number belongs, a number out of range, nothing) is no
      verdict: the attempt stays and counts as unknown.
    - `category`, `judge`, `customer`, `scenario_id`: text, optional.
    - `findings`: a list of rule ids, or of objects with `rule`, or the JSON text of one, optional.
    - `answered`, `truncated`: true or false; else from the messages (`messages`, `traj`): whether the last of
      them that is not the customer's is the agent's own words, and from `finish_reason` or `ended`.

    Raises:
        GradedFileError: the file cannot be opened, holds no attempt, has an attempt twice, or a task in two
            categories.
    """
    try:
        text = unpacked(path).decode("utf-8-sig", "replace")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise GradedFileError(f"{path.name} cannot be opened: {error}") from error
    reader = _Reader(path.name)
    records = list(_records(text))
    for line, record in records:
        reader.take(line, record)
    attempts, numbered = reader.attempts()
    return GradedFile(path, attempts, reader.exclusions(), len(records), numbered, reader.n_partial)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._found: dict[str, list[int]] = {}
        self._rows: list[tuple[int, dict[str, Any]]] = []
        self.n_partial = 0

    def take(self, line: int, record: Any) -> None:
        try:
            self._rows.append((line, self._row(line, record)))
        except _Unplaced as error:
            self._exclude(f"{error}: left out", line)

    def attempts(self) -> tuple[pl.DataFrame, bool]:
        """The rows that are attempts, and whether they name their samples.

        Raises:
            GradedFileError: there is none, one is there twice, or a task is in two categories.
        """
        numbered = any(row["sample"] is not None for _, row in self._rows)
        kept: list[tuple[int, dict[str, Any]]] = []
        counts: dict[str, int] = {}
        for line, row in self._rows:
            if numbered and row["sample"] is None:
                self._exclude(
                    f"no {', '.join(SAMPLE[:-1])} or {SAMPLE[-1]}, which other rows have: left out", line
                )
                continue
            if not numbered:
                counts[row["task_id"]] = number = counts.get(row["task_id"], -1) + 1
                row = {**row, "sample": str(number)}
            kept.append((line, row))
        if not kept:
            raise GradedFileError(f"{self._name} holds no attempt at a task.{self._said()}")
        self._refuse_twice(kept)
        self._refuse_two_categories(kept)
        return pl.DataFrame([row for _, row in kept], schema=ATTEMPTS), numbered

    def exclusions(self) -> tuple[Exclusion, ...]:
        by_place = sorted(self._found.items(), key=lambda found: (found[1][0], found[0]))
        return tuple(Exclusion(reason, len(lines), f"{self._name}:{lines[0]}") for reason, lines in by_place)

    def _row(self, line: int, record: Any) -> dict[str, Any]:
        if isinstance(record, ValueError):
            raise _Unplaced(f"no JSON ({record})")
        if not isinstance(record, dict):
            raise _Unplaced(f"a JSON {_kind(record)} where an object was expected")
        metadata = record.get("metadata")
        known = {**(metadata if isinstance(metadata, dict) else {}), **record}
        task = _name(_first(known, TASK), TASK)
        if task is None:
            raise _Unplaced(f"no {' or '.join(TASK)}{_elsewhere(record)}")
        messages = _first(known, MESSAGES)
        return {
            "task_id": task,
            "sample": _name(_first(known, SAMPLE), SAMPLE),
            "category": _text(known.get("category")),
            "passed": self._passed(line, known),
            "judge": _text(known.get("judge")),
            "customer": _text(known.get("customer")),
            "scenario_id": _text(known.get("scenario_id")),
            "findings": self._findings(line, known.get("findings")),
            "answered": _flag(known.get("answered"), _answered(messages)),
            "truncated": _flag(known.get("truncated"), _truncated(known)),
        }

    def _passed(self, line: int, known: Mapping[str, Any]) -> bool | None:
        """What the first of `passed` and the rewards that is not null says; None with the reason counted."""
        name = next((key for key in ("passed", *REWARD) if known.get(key) is not None), None)
        if name is None:
            null = [key for key in ("passed", *REWARD) if key in known]
            reason = f"{null[0]} is null" if null else f"neither passed nor {' nor '.join(REWARD)}"
        else:
            value = known[name]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if name == "passed" and (isinstance(value, bool) or (number and value in (0, 1))):
                return bool(value)
            if name != "passed" and number and 0 <= value <= 1:
                self.n_partial += 0 < value < WHOLE_REWARD
                return bool(value >= WHOLE_REWARD)
            expected = "true or false" if name == "passed" else "a number in [0, 1]"
            reason = f"{name} is {_shown(value)}, expected {expected}"
        self._exclude(f"{reason}: kept as an attempt without a verdict", line)
        return None

    def _findings(self, line: int, value: Any) -> str | None:
        if value is None:
            return None
        listed = _decoded(value) if isinstance(value, str) else value
        rules = (
            [one.get("rule") if isinstance(one, dict) else one for one in listed]
            if isinstance(listed, list)
            else [None]
        )
        if not all(isinstance(rule, str) for rule in rules):
            self._exclude("findings is no list of rule ids: unknown for this attempt", line)
            return None
        return canonical_json(sorted(set(rules)))

    def _exclude(self, reason: str, line: int) -> None:
        self._found.setdefault(reason, []).append(line)

    def _said(self) -> str:
        return "".join(f" {one.count} x {one.reason} (first: {one.example})." for one in self.exclusions())

    def _refuse_twice(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        first: dict[tuple[str, str], int] = {}
        twice = []
        for line, row in rows:
            known = first.setdefault((row["task_id"], row["sample"]), line)
            if known != line:
                twice.append((known, line, row))
        if twice:
            known, line, row = twice[0]
            raise GradedFileError(
                f"{self._name}:{line}: sample {row['sample']} of task {row['task_id']} is in line {known} "
                f"too; {len(twice)} rows repeat an attempt, and which of them counts nobody can say"
            )

    def _refuse_two_categories(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        first: dict[str, str | None] = {}
        for line, row in rows:
            if (known := first.setdefault(row["task_id"], row["category"])) != row["category"]:
                raise GradedFileError(
                    f"{self._name}:{line}: task {row['task_id']} is in category {row['category']}, "
                    f"and in {known} before"
                )


def _records(text: str) -> Iterator[tuple[int, Any]]:
    """Number and value, or the error it gave, of each record: the items of an array, else the lines.

    NaN and infinity, which JSON does not have but writers produce, are read: they must be named as values.
    """
    whole = _decoded(text)
    if isinstance(whole, list):
        yield from enumerate(whole, start=1)
        return
    # Not splitlines: JSON strings may hold U+2028 and other line ends as they are.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if isinstance(whole, dict):
        yield lines[0][0], whole
        return
    yield from ((number, _decoded(line)) for number, line in lines)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        return ValueError("nested too deeply")
    except ValueError as error:
        return error


def _elsewhere(record: Mapping[str, Any]) -> str:
    """Where the attempts may be, when a record is no attempt but holds a list of objects."""
    for name, value in record.items():
        if name not in MESSAGES and isinstance(value, list) and value and isinstance(value[0], dict):
            return f" (if the attempts are in {name!r}, let the file be that list)"
    return ""


def _first(known: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((known[name] for name in names if known.get(name) is not None), None)


def _name(value: Any, names: Sequence[str]) -> str | None:
    """An identity as text; whole numbers are common ones.

    Raises:
        _Unplaced: it is neither.
    """
    if value is None or value == "":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        what = "a number that is not whole" if isinstance(value, float) else _shown(value)
        raise _Unplaced(f"{names[0]} is {what}, expected text or a whole number")
    return _text(value)


def _text(value: Any) -> str | None:
    """Text or a whole number as text; lone surrogates, which JSON may hold and no table can, become `?`."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value).encode("utf-8", "replace").decode()


def _flag(value: Any, otherwise: bool | None) -> bool | None:
    return value if isinstance(value, bool) else otherwise


def _answered(messages: Any) -> bool | None:
    """Whether the agent had the last word before the customer left; None without messages."""
    said = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    last = next((one for one in reversed(said) if one.get("role") != "user"), None)
    if last is None:
        return None if not said else False
    return last.get("role") == "assistant" and bool(last.get("content")) and not last.get("tool_calls")


def _truncated(known: Mapping[str, Any]) -> bool | None:
    reasons = [known[name] for name in ("finish_reason", "ended") if isinstance(known.get(name), str)]
    return any(reason in _CUT_OFF for reason in reasons) if reasons else None


def _shown(value: Any) -> str:
    """What a value is, without the value where there may be thousands of different ones."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return "below 0" if value < 0 else "above 1" if value > 1 else "a number"
    return "null" if value is None else f"a JSON {_kind(value)}"


def _kind(value: Any) -> str:
    return {str: "string", list: "array", dict: "object", bool: "boolean", type(None): "null"}.get(
        type(value), "number"
    )
