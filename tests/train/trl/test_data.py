"""Where training rows come from; none of it needs the extra."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from resources.warehouse import Warehouse
from tests.example import PROJECT
from tests.train.trl import tiny
from tests.train.trl.exported import DAY, export
from while_pipeline.errors import ProjectError
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.project import DATABASE
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.snapshot import SnapshotError
from while_pipeline.tables import simulate, train
from while_pipeline.tables.base import Table, frame, polars_schema
from while_pipeline.train.trl.data import TABLES, exported_rows, game_of, stored_rows
from while_pipeline.train.trl.examples import examples
from while_pipeline.train.trl.settings import CUTS, METHODS, Method

DATE = dt.date.fromisoformat(DAY)


# -- an export ----------------------------------------------------------------------------------------------


def test_the_training_side_of_an_export_is_read(tmp_path: Path) -> None:
    rows = tiny.sft_rows()
    found = exported_rows(export(tmp_path, "sft", rows, valid=1), "sft")
    assert found.rows == rows[:-1]
    assert (found.source, found.day) == (str(tmp_path), DAY)


def test_the_random_twin_of_the_sft_cut_is_trained_on_as_that_is(tmp_path: Path) -> None:
    assert len(exported_rows(export(tmp_path, "sft_random", tiny.sft_rows()), "sft").rows) == 4


@pytest.mark.parametrize(
    ("cut", "form", "method", "said"),
    [
        ("dpo", "trl", "sft", "cut = 'dpo': `sft` trains on sft"),
        ("sft", "trl", "reward", "`reward` trains on reward_model"),
        ("sft_random", "trl", "grpo", "`grpo` trains on grpo"),
        ("sft", "openai", "sft", "format = 'openai'"),
    ],
)
def test_another_cut_or_format_is_refused(
    tmp_path: Path, cut: str, form: str, method: Method, said: str
) -> None:
    folder = export(tmp_path, cut, tiny.sft_rows(), form=form)
    with pytest.raises(ProjectError, match=said):
        exported_rows(folder, method)


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = export(tmp_path, "sft", tiny.sft_rows())
    path = folder / "train.jsonl"
    path.write_text(path.read_text().replace("brief", "verbose"))
    with pytest.raises(ProjectError, match="the file was changed"):
        exported_rows(folder, "sft")


@pytest.mark.parametrize("name", ["manifest.json", "train.jsonl"])
def test_a_folder_without_its_files_is_refused(tmp_path: Path, name: str) -> None:
    folder = export(tmp_path, "sft", tiny.sft_rows())
    (folder / name).unlink()
    with pytest.raises(ProjectError, match=f"{name}.*does not exist"):
        exported_rows(folder, "sft")


# -- a stored day -------------------------------------------------------------------------------------------

COMMON: dict[str, Any] = {
    "scenario_id": "s",
    "task_id": "t",
    "pass_rate": 0.5,
    "stage": "train",
    "split": "train",
}


def row_of(model: type[Table], at: int, **values: Any) -> dict[str, Any]:
    """A row of a cut's table; columns that are not named get what fits their type."""
    made: dict[str, Any] = {}
    for name, kind in polars_schema(model).items():
        if name != "day":
            plain = {"String": f"{name} {at}", "Boolean": at % 2 == 0, "Int64": at}.get(str(kind), 0.5)
            made[name] = values.get(name, COMMON.get(name, plain))
            if isinstance(made[name], list):
                made[name] = canonical_json(made[name])
    return made


def published(tmp_path: Path, frames: dict[type[Table], list[dict[str, Any]]]) -> Path:
    """A data folder whose snapshot holds those rows."""
    warehouse = Warehouse(database=str(tmp_path / DATABASE))
    empty: dict[type[Table], list[dict[str, Any]]] = {train.Publication: []}
    warehouse.replace_slices(DAY, {m: frame(m, DAY, rows) for m, rows in (empty | frames).items()})
    warehouse.publish()
    return tmp_path


def stored(method: Method) -> list[dict[str, Any]]:
    rows = {"sft": tiny.sft_rows, "dpo": tiny.dpo_rows, "grpo": tiny.grpo_rows, "reward": tiny.reward_rows}
    return [
        row_of(TABLES[method], at, **{"scenario_id": f"s{at}", **row}, split="valid" if at == 1 else "train")
        for at, row in enumerate(rows[method]())
    ]


@pytest.mark.parametrize("method", METHODS)
def test_the_training_side_of_a_stored_cut_is_read_as_the_trainer_takes_it(
    tmp_path: Path, method: Method
) -> None:
    rows = stored(method)
    found = stored_rows(published(tmp_path, {TABLES[method]: rows}), DATE, method)
    assert len(found.rows) == len(rows) - 1
    assert examples(method, found.rows, found.source)
    assert found.source == f"train.{CUTS[method]} of {DAY}"


def test_messages_come_back_as_they_were(tmp_path: Path) -> None:
    found = stored_rows(published(tmp_path, {train.Sft: stored("sft")}), DATE, "sft")
    kept = [row for at, row in enumerate(tiny.sft_rows()) if at != 1]
    assert [content_id(row["messages"], row["tools"]) for row in found.rows] == [
        content_id(row["messages"], row["tools"]) for row in kept
    ]


@pytest.mark.parametrize(
    ("stops", "cut", "holds"), [("day", "dpo", True), ("cut", "sft", True), ("cut", "dpo", False)]
)
def test_what_the_publication_gate_refused_is_not_trained_on(
    tmp_path: Path, stops: str, cut: str, holds: bool
) -> None:
    check = {
        "cut": cut,
        "check": "no_sealed_task",
        "passed": False,
        "stops": stops,
        "n_rows": 3,
        "n_refused": 1,
        "detail": "for example r1: sealed",
        "examples": "[]",
    }
    data = published(tmp_path, {train.Sft: stored("sft"), train.Publication: [check]})
    if holds:
        with pytest.raises(ProjectError, match=f"publication refused {cut}: no_sealed_task"):
            stored_rows(data, DATE, "sft")
    else:
        assert stored_rows(data, DATE, "sft").rows


def test_a_day_without_rows_and_a_folder_without_days_are_named(tmp_path: Path) -> None:
    data = published(tmp_path, {train.Sft: []})
    with pytest.raises(ProjectError, match=f"the day has none; `while-pipeline run --day {DAY}`"):
        stored_rows(data, DATE, "sft")
    with pytest.raises(SnapshotError):
        stored_rows(tmp_path / "elsewhere", DATE, "sft")


def test_a_game_is_the_days_scenarios_in_the_projects_worlds(tmp_path: Path) -> None:
    held = list(tiny.game().scenarios.values())
    rows = [
        row_of(simulate.Scenarios, at, **json.loads(json.dumps(scenario_row(one))), arm="structured")
        for at, one in enumerate(held)
    ]
    game = game_of(PROJECT, published(tmp_path, {simulate.Scenarios: rows}), DATE, RulesJudge())
    assert game.scenarios == {one.scenario_id: one for one in held}
    assert (game.tools, game.document) == (PROJECT.tools, PROJECT.policy_document)
    assert game.worlds(held[0].world).diff() == {}
