import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.example import EXAMPLE
from while_pipeline.doctor import (
    RUN_LOCK,
    Finding,
    days_with_traffic,
    examine,
    port_is_free,
)
from while_pipeline.runs import run_lock


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "telecom"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def findings(project: Path, data: Path, port: int = 0, **environment: str) -> dict[str, Finding]:
    # Port 0 is any free one.
    return {found.what: found for found in examine(project, data, environment, port)}


def endpoint_agent(project: Path) -> None:
    (project / "while.yaml").write_text(
        "name: telecom\nagent: {plays: endpoint, endpoint: "
        "{base_url: 'http://127.0.0.1:9/v1', model: m, api_key_env: THE_KEY}}\n"
    )


def test_a_fresh_checkout_has_no_failure_and_is_told_to_run(project: Path, data: Path) -> None:
    found = findings(project, data)
    assert {finding.state for finding in found.values()} <= {"ok", "warn"}
    assert found["snapshot"].state == "warn"
    assert "while-pipeline run" in found["snapshot"].mend


def test_versions_settings_policy_document_tools_and_traffic_are_named(project: Path, data: Path) -> None:
    found = findings(project, data)
    assert found["Python"].found == ".".join(map(str, sys.version_info[:3]))
    assert found["duckdb"].found == duckdb.__version__
    assert found["tools"].found == "12 in tools.json"
    assert found["policy document"].found == "14 rules in policy.md"
    assert "2026-03-02 to 2026-03-03" in found["traffic"].found


def test_whatever_is_not_ok_comes_with_a_mend(project: Path, data: Path, taken_port: int) -> None:
    endpoint_agent(project)
    shutil.rmtree(project / "traffic")
    found = findings(project, data, taken_port, DAGSTER_HOME="/elsewhere")
    not_ok = [finding for finding in found.values() if finding.state != "ok"]
    assert {finding.what for finding in not_ok} >= {
        "agent's key",
        "traffic",
        "Dagster home",
        "snapshot",
        "port of the UI",
    }
    assert all(finding.mend for finding in not_ok)


def test_dagsters_home_is_the_one_that_is_set_else_the_data_folders(
    project: Path, data: Path, tmp_path: Path
) -> None:
    assert findings(project, data)["Dagster home"].found == str(data / "dagster")
    assert "copy" in findings(project, data, DAGSTER_HOME=str(tmp_path))["Dagster home"].mend
    (tmp_path / "dagster.yaml").touch()
    found = findings(project, data, DAGSTER_HOME=str(tmp_path))["Dagster home"]
    assert (found.state, found.found) == ("ok", str(tmp_path))


def test_a_mistake_in_the_settings_fails_with_the_key_and_the_mend(project: Path, data: Path) -> None:
    (project / "while.yaml").write_text("name: telecom\nbudget: {k: 0}\n")
    found = findings(project, data)["project"]
    assert found.state == "FAIL"
    assert "budget.k" in found.found
    assert found.mend


def test_a_key_must_be_there_when_the_agent_plays_through_an_endpoint(project: Path, data: Path) -> None:
    endpoint_agent(project)
    assert findings(project, data)["agent's key"].state == "FAIL"
    found = findings(project, data, THE_KEY="hunter2")["agent's key"]
    assert found.state == "ok"
    assert "hunter2" not in found.found


def test_a_database_that_another_process_holds_is_a_warning(project: Path, data: Path) -> None:
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); input()"
    command = [sys.executable, "-c", code, str(data / "while.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert findings(project, data)["database"].state == "warn"
        holder.communicate("\n")
    assert findings(project, data)["database"].state == "ok"


def test_a_snapshot_that_is_no_database_fails(project: Path, data: Path) -> None:
    (data / "while.snapshot.duckdb").write_text(
        "not a database, but long enough to look like a file of one" * 99
    )
    assert findings(project, data)["snapshot"].state == "FAIL"


def test_looking_changes_nothing(project: Path, data: Path) -> None:
    findings(project, data)
    assert list(data.iterdir()) == []


def test_a_run_at_work_is_a_warning_that_names_its_process(project: Path, data: Path) -> None:
    with run_lock(data / RUN_LOCK, "run"):
        found = findings(project, data)["run lock"]
    assert (found.state, str(os.getpid()) in found.found) == ("warn", True)
    assert findings(project, data)["run lock"].state == "ok"


def test_a_taken_port_is_not_free_and_a_closed_one_is(taken_port: int) -> None:
    assert not port_is_free(taken_port)
    assert port_is_free(0)


def test_a_day_has_traffic_when_its_folder_has_a_traffic_file(tmp_path: Path) -> None:
    for name in ("2026-03-03/a.jsonl", "2026-03-02/a.jsonl", "2026-03-04/notes.txt", "inbox/a.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert days_with_traffic(tmp_path) == ["2026-03-02", "2026-03-03"]
    assert days_with_traffic(tmp_path / "absent") == []


def test_a_world_of_the_users_own_is_made_once(project: Path, data: Path) -> None:
    settings = project / "while.yaml"
    settings.write_text(settings.read_text() + "\nworld: nowhere:World\n")
    found = findings(project, data)["world"]
    assert found.state == "FAIL"
    assert "nowhere" in found.mend
    assert "world" not in findings(Path(EXAMPLE), data)
