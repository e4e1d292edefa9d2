"""What was served, as traffic: one OTLP/JSON line per answered request in the folder of its day.

What belongs here: which day a request belongs to, batches, and whole lines on disk whatever happens. What
does not: the line itself (`watch.export`). Personal data stays in the lines and is redacted when they are
read, as with any agent's traffic.
"""

import datetime as dt
import fcntl
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

from while_pipeline.ids import content_id
from while_pipeline.messages import messages_json
from while_pipeline.records import Message
from while_pipeline.watch.export import TrafficExporter

FLUSH_S = 0.5
"""Seconds a line waits for others: what a killed process loses, and a write costs the same for one line."""
MAX_WAITING = 10_000
"""Requests held while the disk refuses; the oldest are given up beyond it, at 20 kB each 200 MB."""
REMEMBERED_CONVERSATIONS = 100_000
"""Conversations whose first day is known, so that one that goes on past midnight stays in one folder."""


class Answered(NamedTuple):
    """One answered request."""

    response_id: str
    history: tuple[Message, ...]
    answer: Message
    times: tuple[int, int]
    """Unix nanoseconds at which the request came and was answered."""
    conversation_id: str | None


class TrafficState(NamedTuple):
    """How the writing goes."""

    written: int
    waiting: int
    lost: int
    """Given up because the disk refused for too long."""
    error: str | None
    """Why the last batch could not be written; None when it could."""


class TrafficLog:
    """Appends answered requests to `FOLDER/DAY/served-VERSION.jsonl`, in batches, from a thread of its own.

    Use it as a context manager: what waits is written on the way out, whatever ends the process but a kill.
    """

    def __init__(
        self, folder: Path, agent_name: str, version: str, zone: str, policy_document: str = ""
    ) -> None:
        """Write below `folder`.

        Args:
            folder: The traffic folder; made if absent.
            agent_name: Name of the agent in the spans.
            version: Of the policy that answers.
            zone: IANA name of the time zone that days are counted in.
            policy_document: A system message that is just this is left out of the spans: the project has it,
                and repeated in every span it would be most of the traffic.

        Raises:
            OSError: nothing can be written there.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{folder} cannot be written to")
        self.folder, self.file_name = folder, f"served-{version}.jsonl"
        self._exporter = TrafficExporter(agent_name, version)
        self._zone = ZoneInfo(zone)
        self._document = Message(role="system", content=policy_document)
        self._began: OrderedDict[str, dt.date] = OrderedDict()
        self._waiting: list[Answered] = []
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._written = self._lost = 0
        self._error: str | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_now_and_then, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        self.flush()

    @property
    def state(self) -> TrafficState:
        """How the writing goes."""
        with self._lock:
            return TrafficState(self._written, len(self._waiting), self._lost, self._error)

    def add(self, answered: Answered) -> None:
        """Take one answered request; it is on disk within `FLUSH_S`."""
        with self._lock:
            self._waiting.append(answered)

    def flush(self) -> None:
        """Write all that waits. What cannot be written waits on, and `state` says why."""
        with self._writing:
            with self._lock:
                batch, self._waiting = self._waiting, []
            by_day: dict[str, list[Answered]] = {}
            for answered in batch:
                by_day.setdefault(self._day(answered), []).append(answered)
            for day, answers in by_day.items():
                self._write(day, answers)

    def _write_now_and_then(self) -> None:
        while not self._closing.wait(FLUSH_S):
            self.flush()

    def _write(self, day: str, answers: Sequence[Answered]) -> None:
        lines = []
        for answered in answers:
            lines.append(self._line(answered))
            time.sleep(0)  # lets a waiting answer go first: Python itself makes it wait 5 ms
        try:
            append_lines(self.folder / day / self.file_name, lines)
        except OSError as error:
            with self._lock:
                self._error = str(error)
                held = [*answers, *self._waiting]
                self._lost += max(0, len(held) - MAX_WAITING)
                self._waiting = held[-MAX_WAITING:]
            return
        with self._lock:
            self._written += len(lines)
            self._error = None

    def _line(self, answered: Answered) -> str:
        known = answered.history[:1] == (self._document,)
        return self._exporter.request(
            answered.response_id,
            answered.history[1:] if known else answered.history,
            answered.answer,
            answered.times,
            answered.conversation_id,
        )

    def _day(self, answered: Answered) -> str:
        """The day the conversation began, if this process saw it begin today or the day before."""
        today = dt.datetime.fromtimestamp(answered.times[0] // 10**9, self._zone).date()
        if answered.conversation_id is not None:
            before = after = content_id("id", answered.conversation_id)
        else:
            said = [m for m in answered.history if m.role != "system"]
            spoken = max((i for i, m in enumerate(said) if m.role == "assistant"), default=-1)
            before = _conversation_so_far(said[: spoken + 1])
            after = _conversation_so_far([*said, answered.answer])
        began = self._began.get(before, today)
        # An id that an application uses for ever is another conversation every other day.
        day = began if today - began <= dt.timedelta(days=1) else today
        self._began[after] = day
        self._began.move_to_end(after)
        while len(self._began) > REMEMBERED_CONVERSATIONS:
            self._began.popitem(last=False)
        return day.isoformat()


def _conversation_so_far(messages: Sequence[Message]) -> str:
    return content_id(messages_json(messages))


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Append whole lines to a file, all of them or none; several processes may do so at once.

    A file that ends within a line, because a process was killed while it wrote, gets a line end first: the
    torn line is then one reject when the file is read, and takes no other with it.

    Raises:
        OSError: the file cannot be written; it is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            data = b"\n" + data
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
