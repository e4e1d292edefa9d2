"""What a run says while it is at work: Dagster's events as lines for a person.

What belongs here: which event is worth a line, and how it reads. Starting runs belongs to `cli`.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    import dagster as dg


@contextlib.contextmanager
def terminal() -> Iterator[IO[str]]:
    """Standard output as it is now: during a run Dagster redirects it into the run's log files."""
    try:
        copy = os.dup(sys.stdout.fileno())
    except OSError:
        # Not a real file, as under a test runner: nothing redirects that.
        yield sys.stdout
        return
    with open(copy, "w", encoding=sys.stdout.encoding, buffering=1) as out:
        yield out


class Progress:
    """Says a run's events: a line per step that stored something, and what warns, waits or fails.

    On a terminal, the step at work and its last log message stand on a line that the next one replaces.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._rows: dict[str, list[str]] = {}
        self._passed = 0

    def show(self, entry: "dg.EventLogEntry") -> None:
        """Say one entry of the event log, when a person needs it."""
        from dagster import DagsterEventType as Type

        event, step = entry.dagster_event, entry.step_key or ""
        if event is None:
            # "Dependencies" are said of every step behind one that failed, and there may be fifty.
            if int(entry.level) >= logging.INFO and not entry.user_message.startswith(
                "Dependencies for step"
            ):
                say = self._line if int(entry.level) >= logging.WARNING else self._passing
                say(f"  {step}: {entry.user_message}")
        elif event.event_type == Type.STEP_START:
            self._passing(f"  {step} ...")
        elif event.event_type == Type.ENGINE_EVENT and "blocked by limit" in (event.message or ""):
            # Steps of this very run wait for each other too, and are told so at once; "still" comes after
            # five minutes, and then the slot is another run's.
            say = self._line if "still" in (event.message or "") else self._passing
            say(f"  {step} waits for another run: {event.message}")
        elif event.event_type == Type.ASSET_MATERIALIZATION:
            made = event.materialization
            if (n := made.metadata.get("dagster/partition_row_count")) is not None:
                self._rows.setdefault(step, []).append(f"{made.asset_key.path[-1]} {n.value:,}")
        elif event.event_type == Type.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            if check.passed:
                self._passed += 1
            else:
                asset = check.asset_key.to_user_string()
                why = check.description or "did not pass"
                self._line(f"  {check.severity.value} {check.check_name} of {asset}: {why}")
        elif event.event_type == Type.STEP_SUCCESS and step in self._rows:
            seconds = event.step_success_data.duration_ms / 1000
            self._line(f"  {step:<28} {seconds:>7.1f} s  rows: {', '.join(self._rows.pop(step))}")
        elif event.event_type == Type.RUN_SUCCESS:
            self._line(f"  {self._passed} checks passed")
        elif event.event_type == Type.STEP_FAILURE:
            self._line(f"  {step} FAILED: {_why(event)}")
        elif event.event_type == Type.RUN_FAILURE:
            self._line(f"  {event.message}")

    def _line(self, text: str) -> None:
        click.echo(("\r\x1b[2K" if self._out.isatty() else "") + text, file=self._out)

    def _passing(self, text: str) -> None:
        if self._out.isatty():
            width = os.get_terminal_size(self._out.fileno()).columns
            click.echo("\r\x1b[2K" + text.replace("\n", " ")[: width - 1], file=self._out, nl=False)


def _why(event: "dg.DagsterEvent") -> str:
    """The message of a step's failure: what the step raised, not how Dagster wraps it."""
    failure = event.step_failure_data
    if failure.user_failure_data and failure.user_failure_data.description:
        return failure.user_failure_data.description
    error = failure.error and (failure.error.cause or failure.error)
    return error.message.strip() if error else event.message or "no reason was given"
