"""Where training rows come from; none of it needs the extra."""

from pathlib import Path
from typing import Any

import pytest

from tests.example import PROJECT
from tests.train.exports.days import DATE, check, published
from tests.train.exports.stored import rows_of
from tests.train.trl import tiny
from tests.train.trl.exported import DAY, export
from while_pipeline.errors import ProjectError
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.ids import content_id
from while_pipeline.snapshot import SnapshotError
from while_pipeline.train.trl.data import exported_rows, game_of, stored_rows
from while_pipeline.train.trl.examples import examples
from while_pipeline.train.trl.settings import CUTS, METHODS, Method

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


@pytest.mark.parametrize("method", METHODS)
def test_the_training_side_of_a_stored_cut_is_read_as_the_trainer_takes_it(
    tmp_path: Path, method: Method
) -> None:
    cut = CUTS[method]
    rows = rows_of(cut)
    found = stored_rows(published(tmp_path, {cut: rows}), DATE, method)
    assert len(found.rows) == sum(row["split"] == "train" for row in rows) < len(rows)
    assert examples(method, found.rows, found.source)
    assert (found.source, found.day) == (f"train.{cut} of {DAY}", DAY)


def test_messages_come_back_as_they_were(tmp_path: Path) -> None:
    rows = rows_of("sft")
    found = stored_rows(published(tmp_path, {"sft": rows}), DATE, "sft")
    assert {content_id(row["messages"], row["tools"]) for row in found.rows} == {
        content_id(row["messages"], row["tools"]) for row in rows if row["split"] == "train"
    }


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ([check("sft"), check("dpo", passed=False)], "publication refused dpo: no_sealed_task"),
        ([check("sft", passed=False, stops="cut")], "publication refused sft: no_sealed_task"),
        ([check("sft"), check("dpo", passed=False, stops="cut")], None),
        ([], "no gate has looked"),
    ],
)
def test_only_what_the_publication_gate_passed_is_trained_on(
    tmp_path: Path, checks: list[dict[str, Any]], said: str | None
) -> None:
    data = published(tmp_path, {"sft": rows_of("sft")}, checks)
    if said is None:
        assert stored_rows(data, DATE, "sft").rows
    else:
        with pytest.raises(ProjectError, match=said):
            stored_rows(data, DATE, "sft")


def test_a_day_without_rows_and_a_folder_without_days_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="the cut is empty"):
        stored_rows(published(tmp_path, {"sft": []}), DATE, "sft")
    with pytest.raises(SnapshotError):
        stored_rows(tmp_path / "elsewhere", DATE, "sft")


def test_a_game_is_the_days_scenarios_in_the_projects_worlds(tmp_path: Path) -> None:
    held = list(tiny.game().scenarios.values())
    game = game_of(PROJECT, published(tmp_path, {}), DATE, RulesJudge())
    assert game.scenarios == {one.scenario_id: one for one in held}
    assert (game.tools, game.document) == (PROJECT.tools, PROJECT.policy_document)
    assert game.worlds(held[0].world).diff() == {}
