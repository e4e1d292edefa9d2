"""Which days of a traffic folder changed, told from names, sizes and times; only what changed is hashed.

What belongs here: which files and folders count as traffic, when a file is at rest, and the signature of a
day's content. What does not: what the files mean (`read`) and who runs when (`automation`).
"""

import datetime as dt
import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from while_pipeline.ids import content_id
from while_pipeline.records import Record
from while_pipeline.watch.read import SUFFIXES

NO_TRAFFIC = "none"
"""The signature of a day without a file of traffic."""

SETTLE_SECONDS = 5.0
"""A file written this recently may still grow. Exporters flush every one to five seconds."""

MAX_FILES = 1000
"""Files hashed in one look: opening one takes a millisecond on a network disk, and a tick gets a minute."""

MAX_BYTES = 2 * 2**30
"""Bytes after which a look hashes no further file: 20 s on a disk that reads 100 MB/s."""

REMEMBERED_DAYS = 7
"""Newest days whose files are remembered one by one.

Older days keep one line each, or the cursor of a year of hourly files would be a megabyte in every tick.
"""

_UNFINISHED = (".tmp", ".part")
_UNREADABLE = "unreadable"


class SeenFile(Record):
    """A file as it was at the last look."""

    size: int
    """Bytes."""
    mtime_ns: int
    """Time of the last change, in ns since 1970."""
    sha256: str | None = None
    """Hex digest of the content; None while the file waits to be hashed."""


class SeenDay(Record):
    """A day as it was at the last look."""

    listing: str
    """Hash of its files' names, sizes and times."""
    signature: str | None
    """Signature of its content; None while a file of the day waits."""
    files: dict[str, SeenFile]
    """By file name; empty for an old day that was hashed whole."""


class Seen(Record):
    """What earlier looks found: a cursor. Its JSON is what a sensor keeps between ticks."""

    days: dict[str, SeenDay] = Field(default_factory=dict)


class Scan(Record):
    """What one look at a traffic folder found."""

    seen: Seen
    """To be handed to the next look."""
    signatures: dict[str, str]
    """Signature of each day whose files are all at rest and hashed, oldest day first."""
    held: dict[str, str]
    """Each other day, with why it waits for the next look."""
    ignored: dict[str, str]
    """Each name, relative to the folder, that can never be traffic, with why."""


class _NotYet(Exception):
    """A file must wait for the next look."""


def scan(
    folder: Path,
    seen: Seen,
    now_ns: int,
    settle_seconds: float = SETTLE_SECONDS,
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
) -> Scan:
    """Look at a traffic folder and hash the files whose size or time differ from `seen`.

    A day without files is in no field of the result, and neither is one whose files went away: a customer who
    deletes traffic once it was worked through asks for nothing. A folder that does not exist has no days.

    Args:
        folder: Folder with one subfolder per day (`2026-03-02/*.jsonl`).
        seen: What the last look found.
        now_ns: The present, in ns since 1970.
        settle_seconds: A file whose time is nearer than this to `now_ns` counts as still being written.
        max_files: Files to hash at most.
        max_bytes: Bytes after which no further file is hashed; one file is, whatever its size.
    """
    days, ignored = _days(folder)
    look = _Look(now_ns, settle_seconds, max_files, max_bytes)
    newest = set(sorted(days)[-REMEMBERED_DAYS:])
    found: dict[str, SeenDay] = {}
    held: dict[str, str] = {}
    for day in sorted(days):
        listing, strange = _listing(folder, day)
        ignored |= strange
        if listing:
            found[day], why = look.at_day(folder / day, listing, seen.days.get(day))
            if why:
                held[day] = why
            elif day not in newest:
                found[day] = found[day].model_copy(update={"files": {}})
    signatures = {day: known.signature for day, known in found.items() if known.signature}
    return Scan(seen=Seen(days=found), signatures=signatures, held=held, ignored=ignored)


def traffic_files(folder: Path, day: str) -> list[Path]:
    """Files of one day that count as traffic, by name. Empty when the day has no folder."""
    return [folder / day / name for name in _listing(folder, day)[0]]


def traffic_signature(folder: Path, day: str) -> str:
    """Signature of a day's content as it is now, equal to that of `scan`; `NO_TRAFFIC` without files.

    Reads all files of the day. One that cannot be read counts as such: the day is signed all the same.
    """
    digests = {}
    for path in traffic_files(folder, day):
        try:
            digests[path.name] = _sha256(path)[0]
        except OSError:
            digests[path.name] = _UNREADABLE
    return _signature(digests) if digests else NO_TRAFFIC


def last_change_ns(folder: Path, day: str) -> int:
    """When a day's traffic last changed by its times, in ns since 1970.

    The folder's own time counts too: it tells of a file that was moved in with an old time, or taken away.

    Raises:
        FileNotFoundError: the day has no folder.
    """
    files, _ = _listing(folder, day)
    return max([(folder / day).stat().st_mtime_ns, *(file.mtime_ns for file in files.values())])


class _Look:
    """One look: its clock, and how much may still be hashed."""

    def __init__(self, now_ns: int, settle_seconds: float, max_files: int, max_bytes: int) -> None:
        self._now_ns = now_ns
        self._settle_seconds = settle_seconds
        self._files_left = max_files
        self._bytes_left = max_bytes

    def at_day(
        self, folder: Path, listing: Mapping[str, SeenFile], old: SeenDay | None
    ) -> tuple[SeenDay, str | None]:
        """The day as it is now, and why it must wait (None when it need not)."""
        fingerprint = content_id([[name, file.size, file.mtime_ns] for name, file in listing.items()])
        if old and old.signature and old.listing == fingerprint:
            return old, None
        files = dict(listing)
        digests: dict[str, str] = {}
        reasons: list[str] = []
        for name, file in listing.items():
            try:
                digests[name] = self._digest(folder / name, file, old.files.get(name) if old else None)
                files[name] = file.model_copy(update={"sha256": digests[name]})
            except _NotYet as reason:
                reasons.append(f"{name} {reason}")
        signature = None if reasons else _signature(digests)
        return SeenDay(listing=fingerprint, signature=signature, files=files), reasons[0] if reasons else None

    def _digest(self, path: Path, file: SeenFile, old: SeenFile | None) -> str:
        if old and old.sha256 and (old.size, old.mtime_ns) == (file.size, file.mtime_ns):
            return old.sha256
        # Both ways: a file from a machine whose clock is ahead must not wait until the clocks agree.
        if abs(self._now_ns - file.mtime_ns) < self._settle_seconds * 1e9:
            raise _NotYet(f"was written less than {self._settle_seconds:g} s ago")
        if old and old.size != file.size:
            raise _NotYet("changed its size since the last look")
        if self._files_left <= 0 or self._bytes_left <= 0:
            raise _NotYet("waits its turn: enough was read in this look")
        self._files_left -= 1
        self._bytes_left -= file.size
        try:
            digest, size, mtime_ns = _sha256(path)
        except OSError as error:
            raise _NotYet(f"cannot be read: {error.strerror}") from error
        if (size, mtime_ns) != (file.size, file.mtime_ns):
            raise _NotYet("changed while it was read")
        return digest


def _days(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Names of the day folders, and what else lies beside them with the reason it is ignored."""
    days: list[str] = []
    ignored: dict[str, str] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if _passed_over(path.name):
            continue
        if not path.is_dir():
            ignored[_shown(path.name)] = "a file; traffic goes into a folder named after its day (2026-03-02)"
        elif not _is_day(path.name):
            ignored[_shown(path.name)] = "not a day; name the folder like 2026-03-02"
        else:
            days.append(path.name)
    return days, dict(sorted(ignored.items()))


def _listing(folder: Path, day: str) -> tuple[dict[str, SeenFile], dict[str, str]]:
    """Traffic files of a day by name, not hashed, and what else lies there with the reason it is ignored."""
    files: dict[str, SeenFile] = {}
    ignored: dict[str, str] = {}
    try:
        paths = sorted((folder / day).iterdir())
    except FileNotFoundError:
        return files, ignored
    except OSError as error:
        return files, {day: f"cannot be opened: {error.strerror}"}
    for path in paths:
        if _passed_over(path.name):
            continue
        try:
            status = path.stat()
        except OSError:
            # Gone since it was listed, or a link to nothing.
            continue
        name = _shown(f"{day}/{path.name}")
        if not stat.S_ISREG(status.st_mode):
            ignored[name] = "not a file; files lie directly in their day's folder"
        elif not path.name.endswith(SUFFIXES):
            ignored[name] = f"the name ends in none of {', '.join(SUFFIXES)}"
        elif path.name != _shown(path.name):
            ignored[name] = "the name is not UTF-8; rename the file"
        else:
            files[path.name] = SeenFile(size=status.st_size, mtime_ns=status.st_mtime_ns)
    return files, ignored


def _passed_over(name: str) -> bool:
    """Whether a name is hidden or marks a file that its writer renames when it is whole."""
    return name.startswith(".") or name.endswith(_UNFINISHED)


def _is_day(name: str) -> bool:
    try:
        # Back and forth: 20260302 and 2026-W10-1 are ISO dates too, but no partition's key.
        return dt.date.fromisoformat(name).isoformat() == name
    except ValueError:
        return False


def _shown(name: str) -> str:
    """A file's name as JSON and a terminal can take it."""
    return name.encode("utf-8", "backslashreplace").decode()


def _sha256(path: Path) -> tuple[str, int, int]:
    """Digest of a file's content, with the size and time (ns) it had once it was read."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    status = path.stat()
    return digest, status.st_size, status.st_mtime_ns


def _signature(digests: Mapping[str, str]) -> str:
    """Signature of a day: content id over its files' names and digests, in the order of the names."""
    return content_id(sorted(digests.items()))
