"""Labels that people gave: a CSV, read strictly.

The file's columns are a key (`rollout_id`, or `scenario_id` and `sample`), `label`, and `annotator` where
several people labelled. What they say of a judge's verdicts belongs to `people`.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from while_pipeline.errors import ProjectError

CLEAN = ("pass", "passed", "true", "yes", "1", "clean")
"""What a label may be, in any case, for a rollout that is right and well done."""
DEFECTIVE = ("fail", "failed", "false", "no", "0", "defective")
"""And for one that is not."""

_VALUES = dict.fromkeys(CLEAN, True) | dict.fromkeys(DEFECTIVE, False)
_KEYS = (("rollout_id",), ("scenario_id", "sample"))
_ANNOTATOR = "annotator"

Key = tuple[str, ...]
"""(rollout id,) or (scenario id, sample), as texts."""


class HumanLabel(NamedTuple):
    """One row of the file."""

    line: int
    key: Key
    annotator: str
    """Empty where the file does not say who."""
    clean: bool


class Gold(NamedTuple):
    """A file of labels, whole."""

    source: str
    """The file, as errors name it."""
    columns: tuple[str, ...]
    """Columns of the key."""
    labels: tuple[HumanLabel, ...]
    """At least one; no annotator labels a rollout twice."""

    @property
    def rollout_ids(self) -> list[str]:
        """Rollouts named by their id."""
        return self._first("rollout_id")

    @property
    def scenario_ids(self) -> list[str]:
        """Scenarios named by the key."""
        return self._first("scenario_id")

    def _first(self, column: str) -> list[str]:
        named = dict.fromkeys(label.key[0] for label in self.labels)
        return list(named) if self.columns[0] == column else []


def read_gold(path: Path) -> Gold:
    """Read a file of labels.

    Args:
        path: CSV in UTF-8 with a header. Blank lines are skipped, spaces around a value too.

    Raises:
        ProjectError: naming the file, the line, the field, its value and the mend: no such file, not UTF-8,
            no CSV; no labels; a column that is missing or unknown, or two keys; a row of another width, an
            empty field, a value that is no label; two different labels of one rollout by one annotator.
    """
    source = str(path)
    rows = _rows(path)
    _, header = next(rows, (1, []))
    columns = tuple(name.strip() for name in header)
    key = _key_of(source, columns)
    seen: dict[tuple[Key, str], HumanLabel] = {}
    for line, row in rows:
        label = _label(source, line, columns, key, [value.strip() for value in row])
        before = seen.setdefault((label.key, label.annotator), label)
        if before.clean is not label.clean:
            who = label.annotator or "nobody by name"
            raise ProjectError(
                source,
                f"line {line}, {', '.join(key)}",
                " ".join(label.key),
                f"{who} labelled it otherwise on line {before.line}; keep one of the two, or say in a column "
                f"`{_ANNOTATOR}` who gave which",
            )
    if not seen:
        raise ProjectError(source, "file", path.name, "it holds no labels; write a row for each, or unset it")
    return Gold(source, key, tuple(seen.values()))


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of every row that is not blank."""
    source = str(path)
    try:
        # Spreadsheets put a byte order mark before UTF-8.
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for row in reader:
                if any(value.strip() for value in row):
                    yield reader.line_num, row
    except FileNotFoundError as error:
        raise ProjectError(
            source, "file", path.name, "it does not exist; mend or unset judge.gold"
        ) from error
    except OSError as error:
        raise ProjectError(source, "file", path.name, f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProjectError(source, "file", path.name, "it is not UTF-8 text; save it as CSV UTF-8") from error
    except csv.Error as error:
        raise ProjectError(source, f"line {reader.line_num}", path.name, f"it is not CSV: {error}") from error


def _key_of(source: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Columns of the key, of a header that is as it should be."""
    if not columns:
        raise ProjectError(source, "file", "", "it is empty; write a header and one row a label, or unset it")
    wanted = "`rollout_id` (or `scenario_id` and `sample`), `label` and, where several label, `annotator`"
    keys = [key for key in _KEYS if set(key) <= set(columns)]
    known = {"label", _ANNOTATOR, *(name for key in _KEYS for name in key)}
    wrong = [name for name in columns if name not in known]
    twice = [name for name, times in Counter(columns).items() if times > 1]
    if wrong or twice:
        raise ProjectError(
            source, "line 1, column", (wrong or twice)[0], f"the columns are {wanted}, separated by commas"
        )
    if "label" not in columns or not keys:
        raise ProjectError(source, "line 1, columns", ", ".join(columns), f"a column is missing: {wanted}")
    if len(set(columns) - {"label", _ANNOTATOR}) > len(keys[0]):
        raise ProjectError(
            source, "line 1, columns", ", ".join(columns), "name each rollout one way; `rollout_id` is enough"
        )
    return keys[0]


def _label(
    source: str, line: int, columns: Sequence[str], key: Sequence[str], values: Sequence[str]
) -> HumanLabel:
    if len(values) != len(columns):
        raise ProjectError(
            source,
            f"line {line}",
            ",".join(values),
            f"it has {len(values)} fields, the header {len(columns)}",
        )
    row = dict(zip(columns, values, strict=True))
    for name, value in row.items():
        if not value:
            raise ProjectError(
                source, f"line {line}, {name}", value, "it is empty; fill it in or drop the row"
            )
    if row["label"].lower() not in _VALUES:
        raise ProjectError(
            source,
            f"line {line}, label",
            row["label"],
            f"write one of {', '.join(CLEAN)} or one of {', '.join(DEFECTIVE)}",
        )
    if "sample" in key and not (row["sample"].isascii() and row["sample"].isdigit()):
        raise ProjectError(source, f"line {line}, sample", row["sample"], "write a whole number from 0 on")
    named = tuple(str(int(row[name])) if name == "sample" else row[name] for name in key)
    return HumanLabel(line, named, row.get(_ANNOTATOR, ""), _VALUES[row["label"].lower()])
