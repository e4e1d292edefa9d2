"""Runs started from the command line: the lock they hold, and what a dead one left behind."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import dagster as dg

CLI_TAG = "while/cli"
"""Run tag: started from the command line, under the run lock it names; dead once nobody holds that."""


@contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Hold the lock of runs from the command line; the system drops it when the process dies.

    Raises:
        click.ClickException: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise click.ClickException(
                f"Another `while-pipeline run` is at work (process {file.read()}): wait for it or stop it."
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def reap_dead_runs(instance: dg.DagsterInstance, lock: Path) -> list[str]:
    """Report unfinished runs under a lock as failed and free their pool slots; return their ids.

    Only for whoever holds the lock: then their processes are dead. Without this their slot in the pool
    "warehouse" stays taken, and every later run waits for it.
    """
    unfinished = [
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ]
    dead = instance.get_runs(dg.RunsFilter(tags={CLI_TAG: str(lock)}, statuses=unfinished))
    for left in dead:
        instance.report_run_failed(left, "The process that ran it died.")
        instance.event_log_storage.free_concurrency_slots_for_run(left.run_id)
    return [left.run_id for left in dead]
