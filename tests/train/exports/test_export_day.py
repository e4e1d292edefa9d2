"""All exports of a day: what is written, what is refused, and what becomes of an earlier one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.example import PROJECT
from tests.train.exports.days import DATE, check, published
from tests.train.exports.stored import ALL_CUTS, DAY, rows_of
from while_pipeline.train.elsewhere import read_manifest
from while_pipeline.train.exports.day import export_day, folder_of
from while_pipeline.train.names import FORMAT_NAMES, CutName, FormatName
from while_pipeline.train.published import Row, snapshot_of


def exported(data: Path, *formats: FormatName, project: Any = PROJECT) -> dict[tuple[str, str], Row]:
    rows = export_day(snapshot_of(data, DATE), DATE, formats, project, data)
    return {(row["cut"], row["format"]): row for row in rows}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return published(tmp_path, {cut: rows_of(cut) for cut in ALL_CUTS})


def test_each_cut_is_written_in_each_format_that_has_a_shape_for_it(data: Path) -> None:
    rows = exported(data, *FORMAT_NAMES)
    assert list(rows) == [
        ("sft", "trl"),
        ("sft", "openai"),
        ("sft_random", "trl"),
        ("sft_random", "openai"),
        ("dpo", "trl"),
        ("dpo", "openai"),
        ("grpo", "trl"),
        ("grpo", "verl"),
        ("grpo", "verifiers"),
        ("reward_model", "trl"),
    ]
    assert {row["refused"] for row in rows.values()} == {None}
    for row in rows.values():
        manifest = read_manifest(data / row["folder"] / "manifest.json")
        assert row["manifest_id"] == manifest.id
        assert row["n_train"] + row["n_valid"] == manifest.rows
        assert json.loads(row["files"]) == [file.model_dump(mode="json") for file in manifest.files]


def test_no_format_writes_nothing_and_one_named_twice_is_written_once(data: Path) -> None:
    assert exported(data) == {}
    assert not (data / "exports").exists()
    assert list(exported(data, "verl", "verl")) == [("grpo", "verl")]


def test_a_refused_cut_says_why_and_takes_its_earlier_export_along(data: Path) -> None:
    exported(data, "trl")
    again = published(data, {cut: rows_of(cut) for cut in ALL_CUTS}, [check(cut) for cut in ALL_CUTS[1:]])
    rows = exported(again, "trl")
    sft = rows["sft", "trl"]
    assert (sft["manifest_id"], sft["n_train"], sft["files"]) == (None, 0, "[]")
    assert "no gate has looked" in sft["refused"]
    assert not (data / sft["folder"]).exists()
    assert (data / rows["dpo", "trl"]["folder"] / "train.jsonl").exists()


def test_what_is_no_export_of_ours_is_left_alone(data: Path) -> None:
    kept = folder_of(data, DAY, "sft", "trl") / "notes.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    row = exported(data, "trl")["sft", "trl"]
    assert "the folder holds something else" in row["refused"]
    assert kept.read_text() == "mine"


def test_a_world_that_cannot_leave_is_refused(data: Path) -> None:
    world = PROJECT.settings.world.model_copy(update={"recorded": True})
    settings = PROJECT.settings.model_copy(update={"world": world})
    refused: CutName = "grpo"
    rows = exported(data, "verifiers", "verl", project=replace(PROJECT, settings=settings))
    assert "world.recorded" in rows[refused, "verifiers"]["refused"]
    assert rows[refused, "verl"]["refused"] is None
