"""Runs started from the command line: how one is started, the lock they hold, what a dead one left behind."""

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import dagster as dg

from while_pipeline.progress import Progress, terminal
from while_pipeline.project import DATA_VARIABLE, PROJECT_VARIABLE, REPOSITORY

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


@contextmanager
def dagster_surroundings(root: Path, data: Path) -> Iterator[None]:
    """Work in the repository with the environment Dagster needs: folders in dagster.yaml are relative."""
    os.environ |= {
        "DAGSTER_HOME": str(REPOSITORY),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        PROJECT_VARIABLE: str(root),
        DATA_VARIABLE: str(data),
    }
    with contextlib.chdir(REPOSITORY):
        yield


def run_day(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    day: str,
    tags: Mapping[str, str],
    assets: Sequence[dg.AssetKey] | None = None,
) -> bool:
    """Run a day's job in this process and show its progress; whether it succeeded.

    Args:
        job: The daily job.
        instance: Where Dagster keeps the run.
        day: ISO day.
        tags: Of the run.
        assets: Only these, with their checks; None is all of the day.
    """
    run_id = str(uuid.uuid4())
    with terminal() as out:
        click.echo(f"{day}  run {run_id}", file=out)
        instance.add_event_listener(run_id, Progress(out).show)
        result = job.execute_in_process(
            # Dagster's own console log says every event; what a person needs is said by Progress.
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=instance,
            partition_key=day,
            raise_on_error=False,
            run_id=run_id,
            asset_selection=assets,
            # Whoever sits here sees the failure: the daemon need not try again behind their back.
            tags={**tags, "dagster/max_retries": "0"},
        )
    return result.success


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
