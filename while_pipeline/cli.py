"""The command line, `while-pipeline`: run days, read what came of them, open the UI.

What belongs here: options, messages, exit codes, and starting Dagster in this process or as a child. What a
run does belongs to `assets`; what is said of it, to `report`. Anything heavy is imported by the command that
needs it, so that `--help` is quick.

Exit codes: 0 done, 1 it went wrong, 2 the question or the project is wrong.
"""

import contextlib
import csv
import datetime as dt
import json
import logging
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from while_pipeline.errors import ProjectError

if TYPE_CHECKING:
    import dagster as dg

    from while_pipeline.project import Project
    from while_pipeline.report import Report

_DAY = click.DateTime(["%Y-%m-%d"])
_FORMATS = ("table", "csv", "json")

STOP_SECONDS = 75.0
"""Dagster itself gives its services 60 s to stop, and looks every 5 s whether it should."""


class _WrongInputError(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what is wrong with the user's project is one message, not a traceback."""
        try:
            return super().invoke(ctx)
        except ProjectError as error:
            raise _WrongInputError(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="while-pipeline")
def main() -> None:
    """Turns the failures of a customer-service agent into a better model, every night.

    WHILE_PROJECT names the folder with while.yaml (default: the telecom example), WHILE_DATA the folder that
    everything is written to (default: data).
    """


# -- run ----------------------------------------------------------------------------------------------------


@main.command()
@click.option("--day", type=_DAY, help="One day, such as 2026-03-02.")
@click.option("--days", metavar="A:B", help="All days from A to B, in order.")
def run(day: dt.datetime | None, days: str | None) -> None:
    """Run days from their traffic to the decision on tomorrow's policy.

    Without options: the last day that has traffic, or today when there is none.
    """
    if day and days:
        raise click.UsageError("--day and --days exclude each other.")
    from while_pipeline.doctor import RUN_LOCK
    from while_pipeline.project import data_root, load_project, project_root
    from while_pipeline.runs import CLI_TAG, reap_dead_runs, run_lock

    root, data = project_root(), data_root()
    project = load_project(root)
    asked = day_range(days) if days else [_iso(day) or _default_day(project)]
    lock = data / RUN_LOCK
    with run_lock(lock), _dagster_surroundings(root, data):
        import dagster as dg

        from while_pipeline.automation import SIGNATURE_TAG
        from while_pipeline.definitions import build_definitions
        from while_pipeline.watch.signature import traffic_signature

        job = build_definitions(root, data).resolve_job_def("daily")
        _refuse_strange_days(job, asked)
        with dg.DagsterInstance.get() as instance:
            for run_id in reap_dead_runs(instance, lock):
                click.echo(f"Run {run_id} was left over by a process that died: marked as failed.", err=True)
            for one in asked:
                signature = traffic_signature(project.traffic_folder, one)
                if not _run_day(job, instance, one, {SIGNATURE_TAG: signature, CLI_TAG: str(lock)}):
                    raise SystemExit(1)
    click.echo(f"Report: {_write_report(data, asked[-1]).path}  (`while-pipeline report` prints it)")


def day_range(text: str) -> list[str]:
    """ISO dates from A to B of a text `A:B`, both ends included, in order.

    Raises:
        click.BadParameter: a date is none, or B lies before A.
    """
    first, _, last = text.partition(":")
    try:
        start, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: write a range like 2026-03-02:2026-03-08.") from error
    if end < start:
        raise click.BadParameter(f"{text!r}: the last day lies before the first.")
    return [(start + dt.timedelta(days=n)).isoformat() for n in range((end - start).days + 1)]


@contextlib.contextmanager
def _dagster_surroundings(root: Path, data: Path) -> Iterator[None]:
    """Work in the repository with the environment Dagster needs: folders in dagster.yaml are relative."""
    from while_pipeline.project import DATA_VARIABLE, PROJECT_VARIABLE, REPOSITORY

    os.environ |= {
        "DAGSTER_HOME": str(REPOSITORY),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        PROJECT_VARIABLE: str(root),
        DATA_VARIABLE: str(data),
    }
    with contextlib.chdir(REPOSITORY):
        yield


def _iso(day: dt.datetime | None) -> str | None:
    return day.date().isoformat() if day else None


def _default_day(project: "Project") -> str:
    from while_pipeline.doctor import days_with_traffic

    today = dt.datetime.now(ZoneInfo(project.settings.traffic.timezone)).date().isoformat()
    return max(days_with_traffic(project.traffic_folder), default=today)


def _refuse_strange_days(job: "dg.JobDefinition", days: list[str]) -> None:
    known = job.partitions_def
    for day in days:
        if known and not known.has_partition_key(day):
            span = f"{known.get_first_partition_key()} to {known.get_last_partition_key()}"
            raise _WrongInputError(f"{day} is no day of this project: they go from {span}.")


def _run_day(job: "dg.JobDefinition", instance: "dg.DagsterInstance", day: str, tags: dict[str, str]) -> bool:
    run_id = str(uuid.uuid4())
    with _terminal() as out:
        click.echo(f"{day}  run {run_id}", file=out)
        instance.add_event_listener(run_id, Progress(out).show)
        result = job.execute_in_process(
            # Dagster's own console log says every event; what a person needs is said by Progress.
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=instance,
            partition_key=day,
            raise_on_error=False,
            run_id=run_id,
            # Whoever sits here sees the failure: the daemon need not try again behind their back.
            tags={**tags, "dagster/max_retries": "0"},
        )
    return result.success


@contextlib.contextmanager
def _terminal() -> Iterator[IO[str]]:
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


# -- reading ------------------------------------------------------------------------------------------------


@main.command()
@click.option("--day", type=_DAY, help="The day to report on; the last one by default.")
def report(day: dt.datetime | None) -> None:
    """Print a day's report, and write it to data/reports/DAY.md."""
    from while_pipeline.project import data_root
    from while_pipeline.report import console, render

    render(_write_report(data_root(), _iso(day)), console())


def _write_report(data: Path, day: str | None) -> "Report":
    """Write a day's report as Markdown into the data folder and return it."""
    from while_pipeline.report import summary, to_markdown
    from while_pipeline.snapshot import SnapshotError

    try:
        found = summary(data, day)
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error
    found.path.parent.mkdir(parents=True, exist_ok=True)
    found.path.write_text(to_markdown(found), encoding="utf-8")
    return found


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def measure(files: tuple[Path, ...]) -> None:
    """Print pass@k and pass^k of graded attempts in FILES: tau-bench results, chat logs with rewards."""
    from while_pipeline.measure import measure as measured
    from while_pipeline.measure import to_text

    found = measured(files)
    click.echo(to_text(found))
    if found.rates.is_empty():
        raise _WrongInputError("Nothing to measure: a conversation needs a task id and a reward in [0, 1].")


@main.command()
@click.argument("query")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(min=1), help="Rows to print.")
@click.option("--format", "form", default="table", show_default=True, type=click.Choice(_FORMATS))
def sql(query: str, limit: int, form: str) -> None:
    """Answer one SELECT, SHOW or DESCRIBE from the published snapshot.

    Try: while-pipeline sql "FROM watch.map"
    """
    import duckdb

    from while_pipeline.project import DATABASE, data_root
    from while_pipeline.report import console, grid
    from while_pipeline.snapshot import SnapshotError, read_snapshot, snapshot_path

    try:
        found = read_snapshot(snapshot_path(data_root() / DATABASE), query)
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error
    except duckdb.Error as error:
        raise _WrongInputError(str(error)) from error
    rows = found.head(limit)
    if form == "json":
        click.echo(json.dumps(rows.to_dicts(), ensure_ascii=False, default=_jsonable))
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([rows.columns, *([_plain(value, "") for value in row] for row in rows.rows())])
    else:
        cells = [[_plain(value, "NULL") for value in row] for row in rows.rows()]
        console().print(grid(rows.columns, cells))
    if found.height > limit:
        click.echo(f"{limit} of {found.height} rows; --limit prints more.", err=True)


def _plain(value: Any, null: str) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_jsonable)
    return null if value is None else str(value)


def _jsonable(value: object) -> object:
    """A number for a decimal (sums of integers come as such), text for dates and all else."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


# -- the machine --------------------------------------------------------------------------------------------


@main.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535))
def ui(port: int) -> None:
    """Open the Dagster UI on this machine, until Ctrl-C."""
    from while_pipeline.doctor import LOCAL, port_is_free
    from while_pipeline.project import data_root, project_root

    if not port_is_free(port):
        raise _WrongInputError(f"Port {port} is taken. Choose another: while-pipeline ui --port {port + 1}")
    command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", LOCAL, "-p", str(port)]
    click.echo(f"The UI comes up at http://{LOCAL}:{port} in half a minute. Ctrl-C stops it.")
    with _dagster_surroundings(project_root(), data_root()):
        raise SystemExit(_serve(command))


def _serve(command: list[str]) -> int:
    """Run a server until it ends or a signal stops this process; leave no process of it behind.

    A server started with `&` from a script inherits "ignore SIGINT", and Dagster then ignores SIGTERM too.
    With a handler here, the child starts with the default. It gets a process group of its own, for Ctrl-C
    reaches the whole group and Dagster's services must be stopped by their parent.
    """
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.default_int_handler)
    child = subprocess.Popen(command, start_new_session=True)
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        # A second Ctrl-C means at once.
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            child.wait(STOP_SECONDS)
        return 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


@main.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535))
def doctor(port: int) -> None:
    """Look at settings, tools, keys, disk and versions, and say what to mend."""
    from while_pipeline.doctor import examine
    from while_pipeline.project import data_root, project_root

    failed = False
    for found in examine(project_root(), data_root(), os.environ, port):
        failed |= found.state == "FAIL"
        click.echo(f"{found.state:<5} {found.what:<16} {found.found}")
        if found.mend:
            click.echo(f"{'':<22} {found.mend}")
    raise SystemExit(1 if failed else 0)
