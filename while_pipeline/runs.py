"""Runs started from the command line: how one is started, the lock they hold, what a dead one left behind.

What belongs here too: where Dagster keeps its state.
"""

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import dagster as dg

from while_pipeline.errors import ProjectError
from while_pipeline.progress import Progress, terminal
from while_pipeline.project import DATA_VARIABLE, PROJECT_VARIABLE, REPOSITORY

HOME_VARIABLE = "DAGSTER_HOME"

CLI_TAG = "while/cli"
"""Run tag: started from the command line, under the run lock it names; dead once nobody holds that."""


@contextmanager
def run_lock(path: Path, command: str) -> Iterator[None]:
    """Hold the lock of what writes from the command line; the system drops it when the process dies.

    Args:
        path: The lock.
        command: Who holds it, for those who must wait.

    Raises:
        click.ClickException: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            # Empty for the moment between taking the lock and saying who has it.
            who = file.read() or "Another command"
            raise click.ClickException(f"{who} is at work: wait for it or stop it.") from error
        file.truncate(0)
        file.write(f"`while-pipeline {command}` (process {os.getpid()})")
        file.flush()
        yield


@contextmanager
def dagster_surroundings(root: Path, data: Path) -> Iterator[Path]:
    """Set the environment that Dagster and its processes need, and give the folder of its state.

    That is the one `DAGSTER_HOME` names, with whatever dagster.yaml is there; else `dagster` in the data
    folder, so that the history, the days done and the pool of a data folder are its own.

    Raises:
        ProjectError: `DAGSTER_HOME` names no folder, or not by its whole path.
    """
    named = os.environ.get(HOME_VARIABLE)
    if named and not (Path(named).is_absolute() and Path(named).is_dir()):
        mend = "name a folder that is there by its whole path, or unset it: then it lies in the data folder"
        raise ProjectError("environment", HOME_VARIABLE, named, mend)
    home = Path(named) if named else _home_in(data)
    own = {
        HOME_VARIABLE: str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        PROJECT_VARIABLE: str(root),
        DATA_VARIABLE: str(data),
    }
    before = {name: os.environ.get(name) for name in own}
    os.environ |= own
    try:
        yield home
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _home_in(data: Path) -> Path:
    """Dagster's folder in a data folder, with this repository's settings."""
    home = data / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    # Aside and renamed: another process may be reading it.
    fresh = home / f"dagster.yaml.{os.getpid()}"
    shutil.copyfile(REPOSITORY / "dagster.yaml", fresh)
    os.replace(fresh, home / "dagster.yaml")
    return home


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
