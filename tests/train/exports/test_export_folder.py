"""The folder of an export: whole or absent, described by its manifest, never in another's place."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.train.exports.stored import DAY, cut_of, rows_of
from while_pipeline.errors import ProjectError
from while_pipeline.train.elsewhere import read_manifest
from while_pipeline.train.exports import folder as folders
from while_pipeline.train.exports.export import FormatName, export
from while_pipeline.train.names import CutName
from while_pipeline.train.trl.data import exported_rows
from while_pipeline.train.trl.examples import examples
from while_pipeline.train.trl.settings import CUTS, METHODS, Method


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("cut", "form"),
    [("sft", "trl"), ("sft", "openai"), ("dpo", "openai"), ("grpo", "verl"), ("reward_model", "trl")],
)
def test_the_manifest_and_the_card_describe_the_files(tmp_path: Path, cut: CutName, form: FormatName) -> None:
    found = export(cut_of(cut), form, tmp_path / "new" / "out")
    assert read_manifest(found.folder / "manifest.json") == found.manifest
    assert (found.manifest.cut, found.manifest.format, found.manifest.day) == (cut, form, DAY)
    assert (found.manifest.policy_version, found.manifest.judge) == ("p1", "j1")
    assert names(found.folder) == {file.name for file in found.manifest.files} | {
        "manifest.json",
        "README.md",
    }
    for file in found.manifest.files:
        content = (found.folder / file.name).read_bytes()
        assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert found.manifest.id in (found.folder / "README.md").read_text()
    assert names(tmp_path / "new") == {"out"}


@pytest.mark.parametrize("method", METHODS)
def test_the_trl_backend_reads_the_training_side_back(tmp_path: Path, method: Method) -> None:
    cut = next(one for one in ("sft", "dpo", "grpo", "reward_model") if one == CUTS[method])
    found = export(cut_of(cut), "trl", tmp_path / "out")
    rows = exported_rows(found.folder, method)
    assert len(rows.rows) == next(side.rows for side in found.manifest.splits if side.split == "train")
    assert examples(method, rows.rows, rows.source)


def test_the_same_cut_gives_the_same_bytes(tmp_path: Path) -> None:
    for cut, form in (("sft", "trl"), ("grpo", "verl")):
        one, other = (export(cut_of(cut), form, tmp_path / f"{form}{n}").folder for n in range(2))
        for name in names(one):
            assert (one / name).read_bytes() == (other / name).read_bytes()


def test_an_earlier_export_of_the_same_is_replaced_whole(tmp_path: Path) -> None:
    export(cut_of("sft"), "trl", tmp_path / "out")
    rows = [row | {"split": "train"} for row in rows_of("sft")[1:]]
    export(cut_of("sft", rows), "trl", tmp_path / "out")
    assert names(tmp_path / "out") == {"train.jsonl", "manifest.json", "README.md"}
    assert names(tmp_path) == {"out"}


@pytest.mark.parametrize("what", ["other file", "other cut", "other format", "added file", "a file"])
def test_a_place_that_holds_something_else_is_left_alone(tmp_path: Path, what: str) -> None:
    out = tmp_path / "out"
    if what == "a file":
        out.write_text("mine")
    elif what == "other file":
        out.mkdir()
        (out / "notes.txt").write_text("mine")
    else:
        cut, form = (
            "sft_random" if what == "other cut" else "sft",
            "openai" if what == "other format" else "trl",
        )
        export(cut_of(cut), form, out)
        if what == "added file":
            (out / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ProjectError, match=r"something else|it is a file"):
        export(cut_of("sft"), "trl", out)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_disk_that_refuses_leaves_nothing_and_keeps_the_earlier_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = export(cut_of("sft"), "trl", tmp_path / "out")
    replace, seen = os.replace, []

    def full(source: Path, target: Path) -> None:
        seen.append(target)
        if len(seen) == 2:  # the earlier export has been moved away, the new one is about to take its place
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(folders.os, "replace", full)
    with pytest.raises(ProjectError, match="cannot be written"):
        export(cut_of("sft", [r | {"split": "train"} for r in rows_of("sft")]), "trl", tmp_path / "out")
    assert read_manifest(tmp_path / "out" / "manifest.json") == first.manifest
    assert names(tmp_path) == {"out"}


def test_what_a_killed_export_left_beside_its_place_is_cleared_away(tmp_path: Path) -> None:
    for left in (".out.k1", ".out.k2", ".other.k3"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "train.jsonl").write_text("{}")
    export(cut_of("sft"), "trl", tmp_path / "out")
    assert names(tmp_path) == {"out", ".other.k3"}


def test_two_writers_take_turns(tmp_path: Path) -> None:
    cuts = [cut_of("sft"), cut_of("sft", [row | {"split": "train"} for row in rows_of("sft")])]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda at: export(cuts[at % 2], "trl", tmp_path / "out").manifest, range(40)))
    assert read_manifest(tmp_path / "out" / "manifest.json") in made
    assert names(tmp_path) == {"out"}


@pytest.mark.parametrize(
    ("cut", "form", "known"),
    [
        ("sft", "verl", "trl, openai"),
        ("sft", "verifiers", "trl, openai"),
        ("grpo", "openai", "trl, verl, verifiers"),
        ("reward_model", "openai", "trl"),
    ],
)
def test_a_cut_that_the_format_has_no_shape_for_is_refused_with_those_that_have(
    tmp_path: Path, cut: CutName, form: FormatName, known: str
) -> None:
    with pytest.raises(ProjectError, match=f"no shape for this cut; take {known}$"):
        export(cut_of(cut), form, tmp_path / "out")


def test_rows_that_are_all_kept_aside_are_refused(tmp_path: Path) -> None:
    rows = [row | {"split": "valid"} for row in rows_of("sft")]
    with pytest.raises(ProjectError, match="none is left to train on"):
        export(cut_of("sft", rows), "trl", tmp_path / "out")


@pytest.mark.parametrize("form", ["trl", "openai"])
def test_personal_data_in_the_bytes_is_refused_without_telling_it(tmp_path: Path, form: FormatName) -> None:
    rows = rows_of("sft")
    call = next(m for m in rows[1]["messages"] if m.get("tool_calls"))["tool_calls"][0]
    call["function"]["arguments"] = {"to": "ann.lee@gmail.com"}
    with pytest.raises(ProjectError, match=r"train\.jsonl: content = 'email an…': personal data") as caught:
        export(cut_of("sft", rows), form, tmp_path / "out")
    assert "gmail" not in str(caught.value)
    assert not (tmp_path / "out").exists()
