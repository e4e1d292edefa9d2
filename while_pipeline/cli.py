"""The command line, `while-pipeline`: run days, read what came of them, open the UI.

What belongs here: options, messages, exit codes, and starting Dagster in this process or as a child. What a
run does belongs to `assets`; what is said of it, to `report`. Anything heavy is imported by the command that
needs it, so that `--help` is quick.

Exit codes: 0 done, 1 it went wrong, 2 the question or the project is wrong. `compare` answers by its code, as
`diff` does: 0 nothing got worse, 1 something did, 2 the two cannot be compared.
"""

import contextlib
import csv
import datetime as dt
import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from while_pipeline.commands.candidate import candidate
from while_pipeline.commands.export import export
from while_pipeline.commands.plan import plan
from while_pipeline.commands.policies import policies
from while_pipeline.commands.promote import promote
from while_pipeline.commands.rollback import rollback
from while_pipeline.commands.serve import serve
from while_pipeline.commands.train import train
from while_pipeline.commands.withdraw import withdraw
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
    from while_pipeline.runs import CLI_TAG, dagster_surroundings, reap_dead_runs, run_day, run_lock

    root, data = project_root(), data_root()
    project = load_project(root)
    asked = day_range(days) if days else [_iso(day) or _default_day(project)]
    lock = data / RUN_LOCK
    with run_lock(lock, "run"), dagster_surroundings(root, data):
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
                if not run_day(job, instance, one, {SIGNATURE_TAG: signature, CLI_TAG: str(lock)}):
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


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@main.command()
@click.argument("a", type=_FILE)
@click.argument("b", type=_FILE)
@click.option(
    "--level",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    help="Confidence level of the intervals.",
)
@click.option(
    "--min-effect",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1, max_open=True),
    help="Smallest difference of pass rates worth calling better or worse.",
)
@click.option(
    "--guard", "guards", multiple=True, metavar="RULE", help="A finding that must not come more often."
)
@click.option(
    "--rerun", "reruns", multiple=True, type=_FILE, help="Another whole run of A: measures the noise."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write compare.md and compare.png there.",
)
def compare(
    a: Path,
    b: Path,
    level: float,
    min_effect: float,
    guards: tuple[str, ...],
    reruns: tuple[Path, ...],
    out: Path | None,
) -> None:
    """Say whether the graded attempts in B are better than those in A, on the same tasks.

    A and B hold one attempt per line (JSON lines, or a JSON array): `task_id` or `task`; `sample`, `trial`,
    `rollout_id` or `rollout`; `passed` as true or false, or `reward` or `score` in [0, 1], where a pass is 1
    but for rounding (from 0.999999 on). Optional: `category`, `judge`, `customer`, `scenario_id`, `findings`,
    `finish_reason`, `messages`. tau-bench results and chat logs with rewards are read as they are.

    Nothing is dropped silently: the report names and counts every row that could not be used. It is Markdown.

    Exit code: 0 nothing is worse in B; 1 the total, a category or a guard is worse; 2 one of these cannot be
    compared, or a file cannot be used.
    """
    from while_pipeline.prove.compare import compare_files
    from while_pipeline.prove.delta_files import write_delta
    from while_pipeline.prove.delta_report import delta_markdown
    from while_pipeline.prove.graded_files import GradedFileError
    from while_pipeline.prove.verdict import Verdict

    try:
        found = compare_files(a, b, level=level, min_effect=min_effect, guards=guards, reruns=reruns)
    except GradedFileError as error:
        raise _WrongInputError(str(error)) from error
    title = f"{found.about.after} against {found.about.before}"
    click.echo(delta_markdown(title, found.delta, found.about), nl=False)
    if out:
        try:
            written = write_delta(out, "compare", title, found.delta, found.about)
        except OSError as error:
            raise _WrongInputError(f"--out {out} cannot be written to: {error}") from error
        click.echo(f"Written: {written.text} and {written.picture}", err=True)
    verdicts = set(found.delta["verdict"])
    raise SystemExit(2 if Verdict.NOT_COMPARABLE in verdicts else 1 if Verdict.WORSE in verdicts else 0)


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
    from while_pipeline.project import REPOSITORY, data_root, project_root
    from while_pipeline.runs import dagster_surroundings

    if not port_is_free(port):
        raise _WrongInputError(f"Port {port} is taken. Choose another: while-pipeline ui --port {port + 1}")
    workspace = str(REPOSITORY / "workspace.yaml")
    command = [sys.executable, "-m", "dagster", "dev", "-w", workspace, "-h", LOCAL, "-p", str(port)]
    click.echo(f"The UI comes up at http://{LOCAL}:{port} in half a minute. Ctrl-C stops it.")
    with dagster_surroundings(project_root(), data_root()) as home:
        raise SystemExit(_serve(command, home))


def _serve(command: list[str], folder: Path) -> int:
    """Run a server in a folder until it ends or a signal stops this process; leave no process of it behind.

    A server started with `&` from a script inherits "ignore SIGINT", and Dagster then ignores SIGTERM too.
    With a handler here, the child starts with the default. It gets a process group of its own, for Ctrl-C
    reaches the whole group and Dagster's services must be stopped by their parent.
    """
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.default_int_handler)
    child = subprocess.Popen(command, cwd=folder, start_new_session=True)
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


main.add_command(serve)
main.add_command(candidate)
main.add_command(plan)
main.add_command(policies)
main.add_command(promote)
main.add_command(rollback)
main.add_command(withdraw)
main.add_command(train)
main.add_command(export)
