"""An export's folder: it appears and goes whole or not at all, and never in the place of something else."""

import fcntl
import glob
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from while_pipeline.errors import ProjectError
from while_pipeline.train.curriculum import Split
from while_pipeline.train.elsewhere import read_manifest

MANIFEST, CARD = "manifest.json", "README.md"


class Content(NamedTuple):
    """A file to be written."""

    name: str
    """Path within the folder, with `/`."""
    content: bytes
    split: Split | None = None
    """Side of the split its rows are on; None for a file that holds no rows."""
    rows: int = 0


def require_free(folder: Path, cut: str, form: str, day: str) -> None:
    """See that a folder may be written: it is not there, is empty, or holds an earlier export of the same.

    Raises:
        ProjectError: it holds something else, which would be lost.
    """
    if folder.exists():
        with _alone_at(folder.resolve()):
            _require_ours(folder, cut, form, day)


def _require_ours(folder: Path, cut: str, form: str, day: str) -> None:
    if not folder.is_dir():
        raise ProjectError(str(folder), "out", folder.name, "it is a file: name another folder")
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    if not there:
        return
    if MANIFEST not in there:
        raise _something_else(folder, sorted(there)[0])
    manifest = read_manifest(folder / MANIFEST)
    if (manifest.cut, manifest.format, manifest.day) != (cut, form, day):
        raise _something_else(folder, f"{manifest.cut} of {manifest.day}, format {manifest.format}")
    if strange := there - {file.name for file in manifest.files} - {MANIFEST, CARD}:
        raise _something_else(folder, sorted(strange)[0])


def write_folder(folder: Path, contents: Iterable[Content]) -> None:
    """Write files beside the folder, then move them into its place.

    A reader sees the folder with all its files or without any; an earlier export goes only when the new one
    is whole. A kill in the instant between the two leaves the place empty and the new files beside it; the
    next export clears them away.

    Raises:
        ProjectError: the place cannot be written to.
    """
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone_at(folder):
            made = _beside(folder)
            for content in contents:
                path = made / content.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.content)
            _put(made, folder)
    except OSError as error:
        raise ProjectError(str(folder), "out", folder.name, f"it cannot be written: {error}") from error


def discard(folder: Path, cut: str, form: str, day: str) -> None:
    """Remove an earlier export of a cut; anything else is left alone."""
    folder = folder.resolve()
    if folder.exists():
        with suppress(ProjectError), _alone_at(folder):
            _require_ours(folder, cut, form, day)
            os.replace(folder, _beside(folder))


@contextmanager
def _alone_at(folder: Path) -> Iterator[None]:
    """One writer beside a folder at a time; what one left there, killed or not, is removed."""
    place = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        for left in folder.parent.glob(f".{glob.escape(folder.name)}.*"):
            shutil.rmtree(left, ignore_errors=True)
        os.close(place)


def _beside(folder: Path) -> Path:
    made = Path(mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    # A folder of mkdtemp is for its owner's eyes alone; an export is as readable as any other file.
    made.chmod(0o755)
    return made


def _put(made: Path, folder: Path) -> None:
    earlier = _beside(folder) if folder.exists() else None
    if earlier is not None:
        os.replace(folder, earlier)
    try:
        os.replace(made, folder)
    except OSError:
        if earlier is not None:
            os.replace(earlier, folder)
        raise


def _something_else(folder: Path, what: str) -> ProjectError:
    return ProjectError(str(folder), "out", what, "the folder holds something else: name another")
