"""The commands on policies: what they print, and what they refuse before anything is written."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from resources.warehouse import Warehouse
from tests.example import PROJECT
from tests.policy_history import BASE, ENDPOINT, History, made, nights, nth, policy
from while_pipeline.cli import main
from while_pipeline.doctor import RUN_LOCK
from while_pipeline.runs import run_lock
from while_pipeline.tables import prove
from while_pipeline.tables.views import VIEWS
from while_pipeline.train.decide import promotion_row
from while_pipeline.train.registry import REGISTRY

A, B = policy(1.0), policy(2.0)
BY_HAND = [
    ("promote", "p-1", "--reason", "asked for"),
    ("rollback", "--reason", "refunds twice"),
    ("candidate", "--endpoint", "http://127.0.0.1:1/v1", "--model", "tuned"),
    ("withdraw", "--day", "2026-03-02"),
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHILE_DATA", str(tmp_path))
    monkeypatch.delenv("WHILE_PROJECT", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The snapshot of two nights, the second one's candidate promoted by force."""
    history: History = nights((A, True), (B, False))
    row = promotion_row(
        history.registry(), PROJECT, B.version, reason="support asks", decided_by="Ada", force=True
    )
    history.by_hand(nth(2), row)
    history.register(nth(3), name="night 7")
    proof = {"kind": "overall", "before": 0.5, "after": 0.7, "difference": 0.2, "low": 0.1, "high": 0.3}
    warehouse = Warehouse(database=str(tmp_path_factory.mktemp("stored") / "while.duckdb"))
    for number in range(4):
        day = nth(number)
        slices = {model: history.table(name).filter(day=day) for name, model in REGISTRY.items()}
        warehouse.replace_slices(day.isoformat(), slices)
    warehouse.replace_slice(prove.Delta, nth(0).isoformat(), made(prove.Delta, nth(0), proof))
    warehouse.create_views({name: VIEWS[name] for name in ("train.serving", "train.registry")})
    return warehouse.publish()


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_the_registry_is_a_table_with_every_version_and_where_it_stands(data: Path, stored: Path) -> None:
    shutil.copy(stored, data)
    listed = json.loads(called("policies", "--format", "json").stdout)
    assert {row["policy_version"]: row["state"] for row in listed} == {
        BASE.version: "retired",
        A.version: "retired",
        B.version: "promoted",
        ENDPOINT.version: "candidate",
    }
    shown = " ".join(called("policies").stdout.split())
    for cell in (A.version, "0.500", "0.700", "+0.200", "Ada, forced", "night 7", "candidate"):
        assert cell in shown


def test_without_a_snapshot_there_is_a_message(data: Path) -> None:
    result = called("policies")
    assert (result.exit_code, "while-pipeline run" in result.stderr) == (1, True)


@pytest.mark.parametrize("arguments", BY_HAND, ids=lambda arguments: arguments[0])
def test_a_run_at_work_is_to_be_waited_for(data: Path, arguments: tuple[str, ...]) -> None:
    with run_lock(data / RUN_LOCK, "promote"):
        result = called(*arguments)
    assert result.exit_code == 1
    assert f"`while-pipeline promote` (process {os.getpid()}) is at work: wait for it" in result.stderr


@pytest.mark.parametrize("arguments", BY_HAND, ids=lambda arguments: arguments[0])
def test_a_mistake_in_the_project_is_one_message(
    data: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    (data / "while.yaml").write_text("name: NO CAPITALS\n")
    monkeypatch.setenv("WHILE_PROJECT", str(data))
    result = called(*arguments)
    assert (result.exit_code, "while.yaml: name = 'NO CAPITALS'" in result.stderr) == (2, True)
    assert not (data / "while.duckdb").exists()


@pytest.mark.parametrize("arguments", [("promote", "p-1"), ("rollback",)], ids=lambda arguments: arguments[0])
def test_a_decision_needs_a_reason(data: Path, arguments: tuple[str, ...]) -> None:
    result = called(*arguments)
    assert (result.exit_code, "--reason" in result.stderr) == (2, True)


@pytest.mark.parametrize("name", ["promote", "rollback", "candidate", "withdraw", "policies"])
def test_every_command_explains_itself(name: str) -> None:
    assert called(name, "--help").exit_code == 0
