"""What a model already answered: one SQLite file, so that no call is paid for twice.

What belongs here: the key of a request and the file of answers. What does not: asking (`endpoint`), or
anything about who asked: a request's key covers neither headers nor credentials, and the file holds
hashes and answers only.
"""

import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from while_pipeline.ids import content_id

FILE_NAME = "responses.sqlite"
"""The file's name inside the project's data folder."""

BUSY_TIMEOUT_S = 30.0
"""How long a write waits for another process's write, which takes well under a millisecond."""


def request_key(base_url: str, request: Mapping[str, Any], weights: str | None = None) -> str:
    """Identify a request by all that decides its answer: the server, the weights and the whole JSON body.

    Args:
        base_url: The server asked, without credentials.
        request: The JSON body: model, messages, tools, sampling settings, seed, response format.
        weights: Which weights answer under the model's name; None where nobody said.

    Raises:
        ValueError: the body holds NaN or infinity.
    """
    key = content_id(base_url, request)
    return key if weights is None else f"{content_id(weights)}/{key}"


class ResponseStore:
    """Answers by request key, in one SQLite file that many threads and processes may share.

    Every `put` is its own transaction in write-ahead mode: a process killed at any point leaves a sound
    file that holds every answer whose `put` returned. A power cut may lose the last few, never the file.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, made with its folder if absent.

        Raises:
            sqlite3.DatabaseError: the file exists and is not a SQLite database.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        # One connection behind a lock: a read or write takes microseconds, so threads need no more.
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS responses (key TEXT PRIMARY KEY, response TEXT NOT NULL)"
        )

    def get(self, key: str) -> str | None:
        """The stored answer's JSON text, or None when this request was never answered."""
        with self._lock:
            row = self._connection.execute("SELECT response FROM responses WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, response: str) -> None:
        """Keep an answer. The first one stays, so that every reader sees the same."""
        with self._lock:
            self._connection.execute("INSERT OR IGNORE INTO responses VALUES (?, ?)", (key, response))

    def forget(self, weights: str) -> None:
        """Drop what was answered under this name of weights: others may bear it next."""
        with self._lock:
            self._connection.execute("DELETE FROM responses WHERE key LIKE ?", (f"{content_id(weights)}/%",))

    def __len__(self) -> int:
        """Number of stored answers."""
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM responses").fetchone()[0])

    def close(self) -> None:
        """Close the file; the write-ahead log is folded into it when no other process has it open."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
