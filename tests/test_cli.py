import datetime as dt
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import dagster as dg
import duckdb
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from tests.example import SHARED
from while_pipeline.cli import day_range, main
from while_pipeline.doctor import RUN_LOCK
from while_pipeline.progress import Progress
from while_pipeline.project import REPOSITORY
from while_pipeline.runs import run_lock

AIRLINE = SHARED / "tau-bench" / "gpt-4o-airline.json"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHILE_DATA", str(tmp_path))
    monkeypatch.delenv("WHILE_PROJECT", raising=False)
    return tmp_path


@pytest.fixture
def snapshot(data: Path) -> Path:
    with closing(duckdb.connect(data / "while.snapshot.duckdb")) as connection:
        connection.execute("CREATE SCHEMA watch")
        connection.execute("CREATE TABLE watch.calls (day DATE, tool VARCHAR, n HUGEINT, seen INTEGER[])")
        connection.execute("INSERT INTO watch.calls VALUES ('2026-03-02', 'refund, all', 7, [1, 2])")
        connection.execute("INSERT INTO watch.calls VALUES ('2026-03-03', NULL, 1, [])")
    return data


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


# -- days ---------------------------------------------------------------------------------------------------


@given(st.dates(max_value=dt.date(9000, 1, 1)), st.integers(0, 40))
def test_a_range_of_days_holds_both_ends_and_every_day_between(first: dt.date, more: int) -> None:
    days = day_range(f"{first}:{first + dt.timedelta(days=more)}")
    assert days[0] == str(first)
    assert len(days) == more + 1
    assert days == sorted(set(days))


@pytest.mark.parametrize(
    "text", ["2026-03-02", "2026-03-02:", ":2026-03-02", "today:tomorrow", "2026-02-30:2026-03-01"]
)
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2026-03-02:2026-03-08"):
        day_range(text)


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="before the first"):
        day_range("2026-03-03:2026-03-02")


# -- messages and exit codes --------------------------------------------------------------------------------


def test_help_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys\nfrom while_pipeline.cli import main\n"
        "main(['--help'], standalone_mode=False)\nprint(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {"dagster", "polars", "duckdb", "numpy", "pydantic", "rich"} & loaded


@pytest.mark.parametrize("command", ["run", "report", "measure", "compare", "plan", "sql", "ui", "doctor"])
def test_every_command_explains_itself(command: str) -> None:
    assert called(command, "--help").exit_code == 0


@pytest.mark.parametrize("arguments", [("run",), ("run", "--day", "2026-03-02")])
def test_a_mistake_in_the_project_is_one_message_without_a_traceback(
    data: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    (data / "while.yaml").write_text("name: NO CAPITALS\n")
    monkeypatch.setenv("WHILE_PROJECT", str(data))
    result = called(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "while.yaml: name = 'NO CAPITALS'" in result.stderr
    assert "Traceback" not in result.stderr


def test_one_day_and_a_range_exclude_each_other(data: Path) -> None:
    result = called("run", "--day", "2026-03-02", "--days", "2026-03-02:2026-03-03")
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)


def test_a_second_run_says_who_is_at_work(data: Path) -> None:
    with run_lock(data / RUN_LOCK, "run"):
        result = called("run", "--day", "2026-03-02")
    assert result.exit_code == 1
    assert f"process {os.getpid()}" in result.stderr


def test_a_report_before_any_run_says_how_to_get_one(data: Path) -> None:
    result = called("report")
    assert result.exit_code == 1
    assert "while-pipeline run" in result.stderr


def test_a_report_is_printed_and_written_for_the_day_asked_for(snapshot: Path) -> None:
    result = called("report", "--day", "2026-03-02")
    assert result.exit_code == 0
    assert "No traffic: the map is empty." in result.stdout
    written = (snapshot / "reports" / "2026-03-02.md").read_text()
    assert written.startswith("# Report of 2026-03-02\n")


def test_a_report_without_a_day_is_of_the_last_one(snapshot: Path) -> None:
    assert called("report").exit_code == 0
    assert [path.name for path in (snapshot / "reports").iterdir()] == ["2026-03-03.md"]


def test_the_doctor_fails_when_something_must_be_mended(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called("doctor").exit_code == 0
    monkeypatch.setenv("WHILE_PROJECT", str(data))
    result = called("doctor")
    assert result.exit_code == 1
    assert "FAIL  project" in result.stdout


def test_a_taken_port_is_said_before_anything_is_started() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        result = called("ui", "--port", str(port))
    assert result.exit_code == 2
    assert f"--port {port + 1}" in result.stderr


# -- measure ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not AIRLINE.exists(), reason="the tau-bench results are not beside the repository")
def test_measure_prints_a_line_per_metric() -> None:
    result = called("measure", str(AIRLINE))
    assert result.exit_code == 0
    for metric, value in (("pass@4", "0.720"), ("pass^1", "0.420"), ("pass^4", "0.200")):
        assert f"{metric}       {value}" in result.stdout


def test_measure_of_nothing_readable_names_the_record_and_exits_2(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"neither": "traffic"}')
    result = called("measure", str(path))
    assert result.exit_code == 2
    assert "a.json:1: no reader knows" in result.stdout
    assert "Nothing to measure" in result.stderr


# -- compare ------------------------------------------------------------------------------------------------


def graded(path: Path, passes: int, *, tasks: int = 20, findings: list[str] | None = None) -> str:
    """A file of tasks with four attempts each, the first `passes` of which pass."""
    rows = [
        {"task_id": f"t{task}", "sample": n, "passed": n < passes, "findings": findings or []}
        for task in range(tasks)
        for n in range(4)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.mark.parametrize(
    ("after", "code", "said"), [(3, 0, "is better"), (2, 0, "No difference"), (1, 1, "is worse")]
)
def test_compare_answers_first_and_by_its_exit_code(tmp_path: Path, after: int, code: int, said: str) -> None:
    result = called("compare", graded(tmp_path / "a.jsonl", 2), graded(tmp_path / "b.jsonl", after))
    assert result.exit_code == code
    title, _, answer = result.stdout.splitlines()[:3]
    assert title == "# b.jsonl against a.jsonl"
    assert said in answer


def test_compare_of_what_cannot_be_compared_exits_2_with_its_cause(tmp_path: Path) -> None:
    result = called("compare", graded(tmp_path / "a.jsonl", 2), graded(tmp_path / "b.jsonl", 2, tasks=21))
    assert result.exit_code == 2
    assert "cannot be compared: other tasks: 0 only before, 1 only after" in result.stdout


def test_compare_of_a_file_that_cannot_be_used_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text("{broken")
    result = called("compare", graded(tmp_path / "a.jsonl", 2), str(tmp_path / "b.jsonl"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "b.jsonl holds no attempt at a task. 1 x no JSON" in result.stderr


def test_compare_holds_guards_takes_options_and_writes_the_report_with_its_picture(tmp_path: Path) -> None:
    a = graded(tmp_path / "a.jsonl", 2)
    again = [graded(tmp_path / f"again{n}.jsonl", 2, findings=[f"slow {n}"]) for n in (1, 2)]
    b = graded(tmp_path / "b.jsonl", 4, findings=["leak"])
    reruns = ("--rerun", again[0], "--rerun", again[1])
    options = ("--guard", "leak", *reruns, "--level", "0.9", "--min-effect", "0.1")
    result = called("compare", a, b, *options, "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "Not to be promoted: `leak` got more frequent" in result.stdout
    assert "90% of such comparisons" in result.stdout
    assert "3 whole runs of a.jsonl" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["compare.md", "compare.png"]
    assert str(tmp_path / "out" / "compare.md") in result.stderr


def test_compare_exits_2_when_a_guard_or_category_cannot_be_compared_or_out_cannot_be_written(
    tmp_path: Path,
) -> None:
    a, b = graded(tmp_path / "a.jsonl", 2), graded(tmp_path / "b.jsonl", 4, findings=["leak"])
    unsaid = [json.loads(line) for line in Path(b).read_text().splitlines()]
    for row in unsaid[:40]:
        del row["findings"]
    Path(b).write_text("\n".join(map(json.dumps, unsaid)))
    result = called("compare", a, b, "--guard", "leak")
    assert result.exit_code == 2
    assert "the guard against `leak` cannot be compared" in result.stdout
    result = called("compare", a, a, "--out", f"{a}/below")
    assert (result.exit_code, "cannot be written to" in result.stderr) == (2, True)


# -- sql ----------------------------------------------------------------------------------------------------


def test_sql_answers_as_json_with_numbers_as_numbers(snapshot: Path) -> None:
    result = called("sql", "FROM watch.calls ORDER BY day", "--format", "json")
    assert json.loads(result.stdout) == [
        {"day": "2026-03-02", "tool": "refund, all", "n": 7, "seen": [1, 2]},
        {"day": "2026-03-03", "tool": None, "n": 1, "seen": []},
    ]


def test_sql_answers_as_csv(snapshot: Path) -> None:
    result = called("sql", "FROM watch.calls ORDER BY day", "--format", "csv")
    assert result.stdout.splitlines() == [
        "day,tool,n,seen",
        '2026-03-02,"refund, all",7,"[1, 2]"',
        "2026-03-03,,1,[]",
    ]


def test_sql_says_what_the_limit_left_out_and_not_on_standard_output(snapshot: Path) -> None:
    result = called("sql", "FROM watch.calls ORDER BY day", "--limit", "1")
    assert "refund" in result.stdout
    assert "NULL" not in result.stdout
    assert result.stderr == "1 of 2 rows; --limit prints more.\n"


def test_a_mistake_in_the_query_is_one_message(snapshot: Path) -> None:
    result = called("sql", "SELECT nothing FROM watch.calls")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing" in result.stderr


def test_sql_only_reads(snapshot: Path) -> None:
    result = called("sql", "DROP TABLE watch.calls")
    assert (result.exit_code, "read-only" in result.stderr) == (1, True)


# -- what a run says ----------------------------------------------------------------------------------------


def said(error: Exception | None = None, *, check_passes: bool = True) -> list[str]:
    """Lines that a run of two assets and a blocking check gives."""

    @dg.asset
    def sft(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        context.log.info("under way")
        context.log.warning("three rows are odd")
        if error:
            raise error
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": 1234})

    @dg.asset_check(asset="sft", blocking=True)
    def declared() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=check_passes, description="two columns are missing")

    @dg.asset(deps=[sft])
    def policies() -> None: ...

    out = io.StringIO()
    job = dg.Definitions(
        assets=[sft, policies], asset_checks=[declared], jobs=[dg.define_asset_job("daily")]
    ).resolve_job_def("daily")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_event_listener("0" * 32, Progress(out).show)
        job.execute_in_process(instance=instance, run_id="0" * 32, raise_on_error=False)
    return out.getvalue().splitlines()


def test_a_run_says_warnings_and_a_line_per_stored_step_with_its_rows() -> None:
    warned, stored, checked = said()
    assert warned == "  sft: three rows are odd"
    assert stored.startswith("  sft ")
    assert stored.endswith(" s  rows: sft 1,234")
    assert checked == "  1 checks passed"


@pytest.mark.parametrize("error", [ValueError("it broke"), dg.Failure("it broke")])
def test_a_failed_step_is_named_with_what_it_raised(error: Exception) -> None:
    _, failed, last = said(error)
    assert failed.startswith("  sft FAILED: ")
    assert failed.endswith("it broke")
    assert "Steps failed: ['sft']" in last


def test_a_blocking_check_is_named_with_its_description() -> None:
    lines = said(check_passes=False)
    assert "  ERROR declared of sft: two columns are missing" in lines


# -- the UI -------------------------------------------------------------------------------------------------


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM], ids=lambda name: name.name)
def server(
    request: pytest.FixtureRequest, tmp_path: Path, free_port: int
) -> Iterator[tuple[subprocess.Popen[bytes], int, signal.Signals]]:
    """The UI started as `while-pipeline ui &` in a script starts it: with SIGINT ignored."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from while_pipeline.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "ui", "--port", str(free_port)]
    environment = {**os.environ, "WHILE_DATA": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        yield process, free_port, request.param
        if process.poll() is None:
            process.kill()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    parents = living()
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def living() -> dict[int, int]:
    """Parent of every process that has not ended."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state not in "ZX":
                parents[int(entry.name)] = int(parent)
    return parents


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for left-over processes in /proc")
def test_a_signal_stops_the_ui_and_every_process_it_started(
    server: tuple[subprocess.Popen[bytes], int, signal.Signals],
) -> None:
    process, port, name = server
    deadline = time.monotonic() + 180
    while not answers(port):
        assert process.poll() is None, "the UI ended by itself"
        assert time.monotonic() < deadline, "the UI did not come up"
        time.sleep(1)
    started = family(process.pid)
    assert len(started) > 3
    process.send_signal(name)
    assert process.wait(timeout=120) == 0
    assert not started & living().keys()


# -- plan ---------------------------------------------------------------------------------------------------


def test_plan_says_what_the_tasks_at_hand_can_show_by_our_rule_and_by_the_published_formula() -> None:
    said = called("plan", "--tasks", "40", "--base", "0.6").stdout
    assert "40 held-out tasks with 4 samples each show a gain of 15.5 points" in said
    assert "By the published formula 40 tasks show 14.5 points; 5 points need 367 tasks." in said
    unlike = called("plan", "--tasks", "40", "--varying", "0.2").stdout
    # (1.96 + .8416)² (.04 + 2 · .24 / 4) / .05²
    assert "5 points need 503 tasks" in unlike


def test_plan_refuses_a_gain_beyond_all() -> None:
    result = called("plan", "--base", "0.98")
    assert (result.exit_code, "is no pass rate" in result.stderr) == (2, True)
