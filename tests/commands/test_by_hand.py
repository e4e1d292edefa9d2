"""What the commands that write by hand leave: decisions that survive a kill, paths read where one stands."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resources.warehouse import Warehouse
from tests.endpoint_server import EndpointServer
from tests.policy_history import History, made, nights, nth, policy
from while_pipeline.agents.responses import FILE_NAME, ResponseStore, request_key
from while_pipeline.cli import main
from while_pipeline.tables import prove, train
from while_pipeline.train.elsewhere import files_hash
from while_pipeline.train.registry import REGISTRY

A, B, C = policy(1.0), policy(2.0), policy(3.0)
NIGHTS = nights((A, True), (B, True), (C, False))
"""B serves; A served before it, and C was refused."""


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """The stored nights, published."""
    from assets.prove import publish

    data = tmp_path / "data"
    monkeypatch.setenv("WHILE_DATA", str(data))
    monkeypatch.delenv("WHILE_PROJECT", raising=False)
    warehouse = Warehouse(database=str(data / "while.duckdb"))
    for number in range(3):
        warehouse.replace_slices(nth(number).isoformat(), stored(NIGHTS, number))
    # The registry shows what was proven, so it is there once there is a table of that.
    warehouse.replace_slice(prove.Delta, nth(0).isoformat(), made(prove.Delta, nth(0)))
    publish(warehouse)
    return warehouse


def stored(history: History, number: int) -> dict[Any, Any]:
    return {model: history.table(name).filter(day=nth(number)) for name, model in REGISTRY.items()}


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def serving() -> str:
    """What readers are told serves."""
    listed = json.loads(called("policies", "--format", "json").stdout)
    (version,) = [row["policy_version"] for row in listed if row["state"] == "promoted"]
    return str(version)


class Killed(BaseException):
    """Stands for a kill: nothing that follows in the command is done."""


def killed_before_publishing(*arguments: str) -> None:
    def die(_: Warehouse) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assets.prove.publish", die)
        with pytest.raises(Killed):
            called(*arguments)


# -- a command that dies ------------------------------------------------------------------------------------

PROMOTE = ("promote", C.version, "--reason", "support asks", "--force")
ROLLBACK = ("rollback", "--reason", "refunds twice")


def test_a_promotion_that_was_stored_and_not_published_is_completed_by_the_same_command(
    warehouse: Warehouse,
) -> None:
    killed_before_publishing(*PROMOTE)
    assert serving() == B.version
    again = called(*PROMOTE)
    assert (again.exit_code, f"{C.version} serves from {nth(3)} on" in again.stdout) == (0, True), (
        again.output
    )
    assert serving() == C.version
    assert warehouse.read(prove.Decisions)["policy_version"].to_list() == [C.version]


@pytest.mark.usefixtures("warehouse")
def test_once_it_is_published_the_same_promotion_is_refused() -> None:
    assert called(*PROMOTE).exit_code == 0
    again = called(*PROMOTE)
    assert (again.exit_code, "serves already" in again.stderr) == (2, True)


def test_a_rollback_that_died_and_is_called_again_goes_back_once(warehouse: Warehouse) -> None:
    killed_before_publishing(*ROLLBACK)
    assert called(*ROLLBACK).exit_code == 0
    assert serving() == A.version
    assert called(*ROLLBACK).exit_code == 0, "this one is meant"
    assert warehouse.read(prove.Decisions)["position"].to_list() == [0, 1]
    assert serving() != A.version


@pytest.mark.usefixtures("warehouse")
def test_any_command_by_hand_publishes_what_one_that_died_has_left() -> None:
    killed_before_publishing(*PROMOTE)
    assert called("withdraw", "--day", nth(5).isoformat()).exit_code == 2
    assert serving() == C.version


# -- paths --------------------------------------------------------------------------------------------------


@pytest.fixture
def url() -> Iterator[str]:
    with EndpointServer(lambda _: {"content": "hi"}, models=("tuned",)) as server:
        yield server.base_url


def candidate(url: str, *more: str) -> Result:
    return called("candidate", "--endpoint", url, "--model", "tuned", "--day", nth(5).isoformat(), *more)


def test_paths_are_read_where_the_command_is_called(
    warehouse: Warehouse, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "elsewhere"
    (here / "w").mkdir(parents=True)
    (here / "w" / "model.safetensors").write_bytes(b"weights")
    (here / "m.json").write_text("{}")
    monkeypatch.chdir(here)
    refused = candidate(url, "--manifest", "m.json")
    assert (refused.exit_code, f"{here}/m.json: " in refused.stderr) == (2, True), refused.output
    registered = candidate(url, "--checkpoint", "w")
    assert registered.exit_code == 0, registered.output
    (row,) = warehouse.read(train.Registered).to_dicts()
    assert (row["checkpoint"], row["weights_hash"]) == (str(here / "w"), files_hash(here / "w"))


# -- taking a registration back -----------------------------------------------------------------------------


@pytest.mark.parametrize("hashed", [True, False], ids=["with its checkpoint", "without"])
def test_what_a_withdrawn_model_answered_is_kept_only_where_its_weights_are_known(
    warehouse: Warehouse, url: str, tmp_path: Path, hashed: bool
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    more = ("--checkpoint", str(tmp_path / "model.safetensors")) if hashed else ()
    assert candidate(url, *more).exit_code == 0
    weights = json.loads(warehouse.read(train.Registered)["endpoint"].item())["weights"]
    theirs, others = request_key(url, {"seed": 1}, weights), request_key(url, {"seed": 1})
    with ResponseStore(Path(warehouse.database).parent / FILE_NAME) as answers:
        answers.put(theirs, "theirs")
        answers.put(others, "others'")
    assert called("withdraw", "--day", nth(5).isoformat()).exit_code == 0
    with ResponseStore(Path(warehouse.database).parent / FILE_NAME) as answers:
        assert (answers.get(theirs), answers.get(others)) == ("theirs" if hashed else None, "others'")
