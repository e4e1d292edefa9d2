"""What is needed to work, looked at one thing at a time: ok, a warning, or a failure with its mend."""

import fcntl
import importlib.metadata
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from while_pipeline.errors import ProjectError
from while_pipeline.project import DATABASE, REPOSITORY, Project, load_project
from while_pipeline.simulate.user_world import WorldLost, Worlds
from while_pipeline.simulate.world import WorldStart
from while_pipeline.snapshot import SnapshotError, read_snapshot, snapshot_path
from while_pipeline.watch.signature import Seen, scan

RUN_LOCK = "run.lock"
"""File in the data folder that a run from the command line holds while it works."""

LOCAL = "127.0.0.1"
"""The UI has no login, so it listens on this machine only."""

_DISTRIBUTIONS = ("dagster", "dagster-duckdb", "duckdb", "polars")
_OLDEST_PYTHON = (3, 11)

_LITTLE_DISK = 5 * 2**30
"""A night of a million rollouts writes about 2 GB, and the snapshot is a second copy."""
_NO_DISK = 2**30


@dataclass(frozen=True)
class Finding:
    """What was found about one thing."""

    state: Literal["ok", "warn", "FAIL"]
    what: str
    found: str
    mend: str = ""
    """What to do; empty when it is ok."""


def examine(project: Path, data: Path, environment: Mapping[str, str], port: int) -> Iterator[Finding]:
    """Look at everything, in the order in which one would mend it.

    Args:
        project: Folder with `while.yaml`.
        data: Folder that runs write to.
        environment: Environment variables.
        port: Port that the UI is wanted on.
    """
    yield _python(sys.version_info[:3])
    yield from map(_distribution, _DISTRIBUTIONS)
    yield from _project(project, environment)
    yield _dagster_home(data, environment)
    yield _disk(data)
    yield _database(data / DATABASE)
    yield _snapshot(snapshot_path(data / DATABASE))
    yield _run_lock(data / RUN_LOCK)
    yield _port(port)


def days_with_traffic(folder: Path) -> list[str]:
    """ISO dates of the days that have a traffic file, oldest first. No file is opened."""
    return sorted(scan(folder, Seen(), now_ns=0, max_files=0).seen.days)


def port_is_free(port: int) -> bool:
    """Whether a server could listen on a port of this machine."""
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCAL, port))
        except OSError:
            return False
    return True


def _python(version: tuple[int, ...]) -> Finding:
    found = ".".join(map(str, version))
    if version < _OLDEST_PYTHON:
        return Finding("FAIL", "Python", found, "install Python 3.11 or later and run `make setup` with it")
    return Finding("ok", "Python", found)


def _distribution(name: str) -> Finding:
    try:
        return Finding("ok", name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding("FAIL", name, "not installed", "run `make setup`")


def _project(root: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    try:
        project = load_project(root)
    except ProjectError as error:
        yield Finding("FAIL", "project", f"{error.source}: {error.key} = {error.value!r}", error.mend)
        return
    yield Finding("ok", "project", f"{project.settings.name} in {root}")
    yield _policy_document(project)
    yield Finding("ok", "tools", f"{len(project.tools)} in {project.settings.agent.tools}")
    yield _traffic(project)
    if project.settings.world.plays != "mock":
        yield _world(project)
    agent, judge = project.settings.agent, project.settings.judge
    for who, player in (("agent", agent), ("judge", judge)):
        if player.plays == "endpoint" and player.endpoint is not None:
            yield _key(f"{who}'s key", player.endpoint.api_key_env, environment)


def _world(project: Project) -> Finding:
    """The user's own world: it is made once."""
    plays = project.settings.world.plays
    try:
        Worlds(project.tools, plays, project.root)(WorldStart(records={}))
    except (ProjectError, WorldLost) as error:
        return Finding("FAIL", "world", plays, error.mend if isinstance(error, ProjectError) else str(error))
    return Finding("ok", "world", plays)


def _policy_document(project: Project) -> Finding:
    name, n = project.settings.agent.policy, len(project.policy_document.rules)
    if n == 0:
        return Finding(
            "warn", "policy document", f"no rules in {name}", "write each rule as a list item or a sentence"
        )
    return Finding("ok", "policy document", f"{n} rules in {name}")


def _traffic(project: Project) -> Finding:
    folder = project.traffic_folder
    days = days_with_traffic(folder)
    if not days:
        return Finding(
            "warn",
            "traffic",
            f"none in {folder}",
            "put a day's files into a folder named after it (2026-03-02)",
        )
    return Finding("ok", "traffic", f"{len(days)} days, {days[0]} to {days[-1]}, in {folder}")


def _key(what: str, variable: str | None, environment: Mapping[str, str]) -> Finding:
    if variable is None:
        return Finding("ok", what, "none asked for")
    if not environment.get(variable):
        return Finding("FAIL", what, f"{variable} is not set", f"export {variable}=...")
    return Finding("ok", what, f"{variable} is set")


def _dagster_home(data: Path, environment: Mapping[str, str]) -> Finding:
    if not (REPOSITORY / "dagster.yaml").is_file():
        return Finding("FAIL", "Dagster home", f"no dagster.yaml in {REPOSITORY}", "work in a full checkout")
    named = environment.get("DAGSTER_HOME")
    if named and not (Path(named) / "dagster.yaml").is_file():
        mend = f"copy {REPOSITORY / 'dagster.yaml'} into it, or unset DAGSTER_HOME"
        return Finding("warn", "Dagster home", f"no dagster.yaml in {named}", mend)
    return Finding("ok", "Dagster home", named or str(data / "dagster"))


def _disk(data: Path) -> Finding:
    there = next(folder for folder in (data, *data.parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "FAIL", "data folder", f"{there} is not writable", "set WHILE_DATA to a folder that is"
        )
    free = shutil.disk_usage(there).free
    found = f"{free / 2**30:.1f} GiB free in {there}"
    if free < _LITTLE_DISK:
        mend = "make room, or set WHILE_DATA to another disk"
        return Finding("FAIL" if free < _NO_DISK else "warn", "data folder", found, mend)
    return Finding("ok", "data folder", found)


def _database(path: Path) -> Finding:
    if not path.exists():
        return Finding("ok", "database", "not there yet: the first run makes it")
    try:
        duckdb.connect(path, read_only=True).close()
    except duckdb.IOException as error:
        if "lock" in str(error):
            mend = "wait for the run that writes it, or close the DuckDB client that has it open"
            return Finding("warn", "database", f"{path} is held by another process", mend)
        return Finding("FAIL", "database", f"{path} cannot be opened: {error}", "move it away and run again")
    return Finding("ok", "database", f"{path}, {path.stat().st_size / 2**20:.1f} MiB")


def _snapshot(path: Path) -> Finding:
    try:
        read_snapshot(path, "SELECT 1")
    except SnapshotError:
        return Finding("warn", "snapshot", "not there yet", "`while-pipeline run` publishes one")
    except duckdb.Error as error:
        return Finding("FAIL", "snapshot", f"{path} cannot be read: {error}", "delete it and run again")
    return Finding("ok", "snapshot", str(path))


def _run_lock(path: Path) -> Finding:
    if path.exists():
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found = f"{file.read()} is at work"
                return Finding("warn", "run lock", found, "wait for it before you start another")
    return Finding("ok", "run lock", "free")


def _port(port: int) -> Finding:
    if not port_is_free(port):
        return Finding(
            "warn", "port of the UI", f"{port} is taken", "choose another: `while-pipeline ui --port 3001`"
        )
    return Finding("ok", "port of the UI", f"{port} is free")
