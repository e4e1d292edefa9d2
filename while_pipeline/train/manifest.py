"""The manifest of a published cut: what the files are, what they were made of, and by what.

What belongs here: counting and hashing. Writing the files belongs to `exports`, telling people to `card`.
"""

import hashlib
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import get_args

import polars as pl

from while_pipeline.ids import content_id
from while_pipeline.records import Record
from while_pipeline.train.curriculum import Split

MADE_WITH = ("while-pipeline", "polars", "pyarrow", "orjson")
"""Packages whose release may change the bytes of a file."""


class ExportedFile(Record):
    """One file of an export."""

    name: str
    """Path within the export's folder."""
    split: Split | None
    """Side of the split its rows are on; None for a file that holds no rows."""
    rows: int
    bytes: int
    sha256: str


class SplitCount(Record):
    """How much of a cut is on one side of the split."""

    split: Split
    rows: int
    tasks: int


class Version(Record):
    """Release of something that wrote the files."""

    name: str
    version: str


class Manifest(Record):
    """What one export of one cut is. Equal content has an equal id, wherever and whenever it was made."""

    id: str
    """Hash of all that follows."""
    cut: str
    format: str
    day: str
    """ISO date of the rollouts."""
    rows: int
    tasks: int
    splits: tuple[SplitCount, ...]
    """`train` and `valid`, both, with zeros where a side is empty."""
    policy_version: str
    """Policy that played the rollouts."""
    judge: str
    """Identity of the judge that graded them."""
    checks: tuple[str, ...]
    """Checks of the publication gate that the cut passed."""
    files: tuple[ExportedFile, ...]
    """In the order of their names."""
    versions: tuple[Version, ...]


def make_manifest(
    cut: str,
    form: str,
    day: str,
    rows: pl.DataFrame,
    files: Iterable[ExportedFile],
    *,
    policy_version: str,
    judge: str,
    checks: Iterable[str],
) -> Manifest:
    """Describe an export.

    Args:
        cut: Name of the cut.
        form: Format of the files.
        day: ISO date of the rollouts.
        rows: Rows of the cut's table that were exported; `task_id` and `split` are read.
        files: The files that were written.
        policy_version: Policy that played the rollouts.
        judge: Identity of the judge.
        checks: Names of the checks in `train.publication` that the cut passed.

    Raises:
        ValueError: the files that hold rows do not hold as many as each side of the split has.
    """
    splits = split_counts(rows)
    named = tuple(sorted(files, key=lambda file: file.name))
    for side in splits:
        held = sum(file.rows for file in named if file.split == side.split)
        if held != side.rows:
            raise ValueError(
                f"make_manifest: the {side.split} files of {cut} hold {held} rows, the cut has {side.rows}"
            )
    content = {
        "cut": cut,
        "format": form,
        "day": day,
        "rows": rows.height,
        "tasks": rows["task_id"].n_unique(),
        "splits": splits,
        "policy_version": policy_version,
        "judge": judge,
        "checks": tuple(sorted(checks)),
        "files": named,
        "versions": _versions(),
    }
    unnamed = Manifest.model_validate({"id": "", **content})
    return unnamed.model_copy(update={"id": content_id("manifest", unnamed.model_dump(mode="json"))})


def split_counts(rows: pl.DataFrame) -> tuple[SplitCount, ...]:
    """Rows and tasks on each side of the split, zeros where there are none."""
    sides: Sequence[Split] = get_args(Split)
    parts = [(side, rows.filter(pl.col("split") == side)) for side in sides]
    return tuple(
        SplitCount(split=side, rows=part.height, tasks=part["task_id"].n_unique()) for side, part in parts
    )


def exported_file(name: str, content: bytes, split: Split | None = None, rows: int = 0) -> ExportedFile:
    """Describe a file by what is to stand in it."""
    digest = hashlib.sha256(content).hexdigest()
    return ExportedFile(name=name, split=split, rows=rows, bytes=len(content), sha256=digest)


def _versions() -> tuple[Version, ...]:
    python = Version(name="python", version=platform.python_version())
    return (python, *(Version(name=name, version=version(name)) for name in MADE_WITH))
