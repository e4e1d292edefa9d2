"""Traffic files to conversations.

What belongs here: opening and unpacking files, splitting them into JSON objects, choosing the reader that
knows an object, days, and what becomes of what cannot be read. What an object means belongs to the readers
(`otlp` with `genai` and `threads`, `chat`, `tau_bench`).
"""

import datetime as dt
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from while_pipeline.messages import decode_json
from while_pipeline.records import EXCERPT, Conversation, Record, Reject
from while_pipeline.watch import chat, genai, otlp, tau_bench, threads

SUFFIXES = tuple(base + packed for base in (".json", ".jsonl") for packed in ("", ".gz", ".zst"))
"""Names of traffic files end in one of these."""

DIALECTS = (genai.DIALECT, chat.DIALECT, tau_bench.DIALECT)
"""What `dialect` may be, besides `auto`."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

_Dated = Callable[[int | None], str]


class Traffic(Record):
    """What was read: nothing is dropped without a reject or a conversation's `incomplete`."""

    conversations: tuple[Conversation, ...]
    rejects: tuple[Reject, ...]


def read_traffic(
    files: Sequence[Path], root: Path, day: str | None, zone: str = "UTC", dialect: str = "auto"
) -> Traffic:
    """Read files into conversations, in the order of the files' names.

    A conversation's day is that of its first event in `zone`, even when the folder is another day's. One that
    appears several times under its own id (a log line per request, an export repeated) is read once, at its
    longest.

    Args:
        files: Files to read, JSON or JSON lines, plain, gzip or zstd.
        root: Folder that the conversations' `source` is relative to.
        day: ISO date of the folder, for sources without a clock. Without it their conversations are rejected.
        zone: IANA name of the time zone that days are counted in.
        dialect: `auto`, or the one of `DIALECTS` that everything must be.

    Raises:
        ValueError: `dialect` is unknown.
        zoneinfo.ZoneInfoNotFoundError: `zone` is unknown.
    """
    if dialect != "auto" and dialect not in DIALECTS:
        raise ValueError(f"dialect {dialect!r} is not one of auto, {', '.join(DIALECTS)}")
    reader = _Reader(partial(_day, folder=day, zone=ZoneInfo(zone)), dialect)
    for path in sorted(files):
        reader.read(path, path.relative_to(root).as_posix())
    return reader.traffic()


def read_file(path: Path, day: str | None, zone: str = "UTC", dialect: str = "auto") -> Traffic:
    """Read one file; see `read_traffic`."""
    return read_traffic([path], path.parent, day, zone, dialect)


class _Reader:
    def __init__(self, dated: _Dated, dialect: str) -> None:
        self._dated = dated
        self._dialect = dialect
        self._spans: list[otlp.Span] = []
        self._conversations: list[Conversation] = []
        self._rejects: list[Reject] = []

    def read(self, path: Path, source: str) -> None:
        try:
            text = unpacked(path).decode("utf-8-sig", "replace")
        except (OSError, EOFError, ValueError, zlib.error) as error:
            self._reject(source, None, f"cannot be opened: {error}", "")
            return
        for line, value, excerpt in _values(text):
            self._record(value, source, line, excerpt)

    def traffic(self) -> Traffic:
        made, rejects = threads.conversations(self._spans, self._dated)
        return Traffic(
            conversations=tuple(_unique([*self._conversations, *made])),
            rejects=(*self._rejects, *rejects),
        )

    def _record(self, value: Any, source: str, line: int | None, excerpt: str) -> None:
        try:
            if isinstance(value, ValueError):
                raise value
            self._choose(value, source, line or 1)
        except (ValueError, RecursionError) as error:
            self._reject(source, line, str(error), excerpt or json.dumps(value, ensure_ascii=False))

    def _choose(self, record: Any, source: str, line: int) -> None:
        """Give a record to the reader that recognises it."""
        if not isinstance(record, dict):
            raise ValueError(f"a JSON {type(record).__name__} where an object was expected")
        if self._takes(genai.DIALECT) and otlp.recognises(record):
            spans, problems = otlp.spans(record, source, line)
            self._spans += spans
            for problem in problems:
                self._reject(source, line, problem, "")
        elif self._takes(genai.DIALECT) and otlp.recognises_flat(record):
            self._spans.append(otlp.flat_span(record, source, line))
        elif self._takes(tau_bench.DIALECT) and tau_bench.recognises(record):
            self._conversations.append(tau_bench.read(record, source, self._dated))
        elif self._takes(chat.DIALECT) and chat.recognises(record):
            self._conversations.append(chat.read(record, source, self._dated))
        else:
            keys = ", ".join(list(record)[:5]) or "none"
            raise ValueError(f"no reader knows a record with the keys {keys} (dialect {self._dialect})")

    def _takes(self, dialect: str) -> bool:
        return self._dialect in ("auto", dialect)

    def _reject(self, source: str, line: int | None, reason: str, excerpt: str) -> None:
        self._rejects.append(Reject(source=source, line=line, reason=reason, excerpt=excerpt[:EXCERPT]))


def _day(time_ns: int | None, folder: str | None, zone: ZoneInfo) -> str:
    if time_ns is None:
        if folder is None:
            raise ValueError("no clock in the record and no day for its folder")
        return folder
    try:
        return dt.datetime.fromtimestamp(time_ns // 10**9, zone).date().isoformat()
    except (OverflowError, OSError) as error:
        raise ValueError(f"{time_ns} ns is not a time") from error


def unpacked(path: Path) -> bytes:
    """Content of a file; the first bytes say whether it is packed, whatever its name.

    Raises:
        OSError: the name ends in none of `SUFFIXES`, or the file cannot be read.
        EOFError, ValueError, zlib.error: it is packed and broken.
    """
    if not path.name.endswith(SUFFIXES):
        raise OSError(f"the name ends in none of {', '.join(SUFFIXES)}")
    data = path.read_bytes()
    if data.startswith(_GZIP):
        return gzip.decompress(data)
    if data.startswith(_ZSTD):
        # Imported here because no other file needs it, and the engine must import fast.
        import pyarrow as pa

        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return bytes(stream.read())
    return data


def _values(text: str) -> Iterator[tuple[int | None, Any, str]]:
    """Split text into records: line or record number, value (or the error it gave), its first characters.

    One JSON document if it is one, else one per line. A file in which no line is a JSON object either is one
    error, not one per line.
    """
    if not text.strip():
        return
    try:
        document = decode_json(text)
    except ValueError as error:
        # Not splitlines: JSON strings may hold U+2028 and other line ends as they are.
        lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
        decoded = [(number, _decoded(line), line[:EXCERPT]) for number, line in lines]
        if not any(isinstance(value, Mapping) for _, value, _ in decoded):
            yield None, error, text[:EXCERPT]
            return
        yield from decoded
    else:
        items = document if isinstance(document, list) else [document]
        yield from ((number, item, "") for number, item in enumerate(items, start=1))


def _decoded(line: str) -> Any:
    try:
        return decode_json(line)
    except ValueError as error:
        return error


def _unique(read: Sequence[Conversation]) -> list[Conversation]:
    """One conversation per id: the longest of those that extend each other; others get their own name."""
    kept: dict[str, Conversation] = {}
    for new in read:
        name = new.conversation_id
        old = kept.get(name)
        if old is not None:
            short, long = sorted((old, new), key=lambda c: len(c.messages))
            if long.messages[: len(short.messages)] == short.messages:
                new = long.model_copy(update={"day": min(old.day, new.day)})
            else:
                name = f"{name}/{new.day}/{new.source}"
                new = new.model_copy(update={"conversation_id": name})
        kept[name] = new
    return list(kept.values())
