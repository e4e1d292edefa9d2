import hashlib
import json
from typing import Any

import polars as pl
import pytest
import yaml

from while_pipeline.train.card import dataset_card
from while_pipeline.train.curriculum import Split
from while_pipeline.train.manifest import ExportedFile, Manifest, exported_file, make_manifest, split_counts

ROWS = pl.DataFrame(
    {
        "task_id": ["a", "a", "b", "c"],
        "split": ["train", "train", "train", "valid"],
        "messages": ["1", "2", "3", "4"],
    }
)


@pytest.fixture
def files() -> list[ExportedFile]:
    made = []
    sides: list[tuple[str, Split]] = [("valid.jsonl", "valid"), ("train.jsonl", "train")]
    for name, split in sides:
        lines = ROWS.filter(pl.col("split") == split)["messages"]
        made.append(exported_file(name, "".join(f"{line}\n" for line in lines).encode(), split, len(lines)))
    return [*made, exported_file("tools.json", b"[]")]


def manifest_of(files: list[ExportedFile], rows: pl.DataFrame = ROWS, **fields: Any) -> Manifest:
    given = {"policy_version": "p1", "judge": "j1", "checks": ["tools_equal", "no_sealed_task"], **fields}
    return make_manifest("sft", "trl", "2026-03-02", rows, files, **given)


def header_of(card: str) -> dict[str, Any]:
    _, header, _ = card.split("---\n", 2)
    read: dict[str, Any] = yaml.safe_load(header)
    return read


def test_a_file_is_measured_by_its_content() -> None:
    content = bytes(range(256)) * 9_000
    found = exported_file("rows", content, "train", 5)
    assert (found.bytes, found.rows, found.split) == (len(content), 5, "train")
    assert found.sha256 == hashlib.sha256(content).hexdigest()


def test_a_manifest_counts_rows_and_tasks_on_both_sides(files: list[ExportedFile]) -> None:
    made = manifest_of(files)
    assert (made.rows, made.tasks) == (4, 3)
    assert [(s.split, s.rows, s.tasks) for s in made.splits] == [("train", 3, 2), ("valid", 1, 1)]
    assert [file.name for file in made.files] == ["tools.json", "train.jsonl", "valid.jsonl"]
    assert {one.name for one in made.versions} >= {"python", "while-pipeline", "polars"}
    assert Manifest.model_validate_json(made.model_dump_json()) == made


def test_an_empty_side_is_counted_as_empty() -> None:
    assert [(s.rows, s.tasks) for s in split_counts(ROWS.clear())] == [(0, 0), (0, 0)]


def test_files_that_do_not_hold_the_rows_of_the_cut_are_refused(files: list[ExportedFile]) -> None:
    with pytest.raises(ValueError, match="valid files of sft hold 0 rows, the cut has 1"):
        manifest_of(files[1:])
    with pytest.raises(ValueError, match="train files of sft hold 3 rows, the cut has 2"):
        manifest_of(files, ROWS[1:])


def test_equal_content_has_an_equal_id_and_any_other_content_another(files: list[ExportedFile]) -> None:
    made = manifest_of(files)
    assert manifest_of(files[::-1], checks=["no_sealed_task", "tools_equal"]) == made
    other_bytes = [files[0].model_copy(update={"sha256": "0" * 64}), *files[1:]]
    others = [
        manifest_of(other_bytes),
        manifest_of(files, policy_version="p2"),
        manifest_of(files, judge="j2"),
        manifest_of(files, checks=[]),
        manifest_of(files, ROWS.with_columns(task_id=pl.Series(["a", "x", "b", "c"]))),
    ]
    assert len({made.id, *(other.id for other in others)}) == 1 + len(others)


def test_a_card_lets_the_hub_find_each_side_under_its_own_name_for_it(files: list[ExportedFile]) -> None:
    header = header_of(dataset_card(manifest_of(files)))
    (config,) = header["configs"]
    assert config["data_files"] == [
        {"split": "train", "path": ["train.jsonl"]},
        {"split": "validation", "path": ["valid.jsonl"]},
    ]
    assert header["size_categories"] == ["n<1K"]
    assert {"sft", "trl"} <= set(header["tags"])


def test_every_figure_of_a_card_is_the_manifests(files: list[ExportedFile]) -> None:
    made = manifest_of(files)
    card = dataset_card(made)
    assert "4 rows of 3 tasks" in card
    assert "| train | 3 | 2 |" in card
    for file in made.files:
        assert (
            f"| `{file.name}` | {file.split or ''} | {file.rows:,} | {file.bytes:,} | `{file.sha256}` |"
            in card
        )
    for said in ("`p1`", "`j1`", made.id, "no sealed task, tools equal", "2026-03-02"):
        assert said in card


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        (0, "n<1K"),
        (999, "n<1K"),
        (1_000, "1K<n<10K"),
        (99_999, "10K<n<100K"),
        (10**6, "1M<n<10M"),
        (10**7, "10M<n<100M"),
    ],
)
def test_the_size_of_a_card_is_one_of_the_hubs(files: list[ExportedFile], rows: int, size: str) -> None:
    made = manifest_of(files).model_copy(update={"rows": rows})
    assert header_of(dataset_card(made))["size_categories"] == [size]


@pytest.mark.parametrize("cut", ["sft", "sft_random", "dpo", "grpo", "reward_model"])
def test_every_cut_has_a_card_even_an_empty_one(cut: str) -> None:
    made = make_manifest(cut, "trl", "2026-03-02", ROWS.clear(), [], policy_version="p", judge="j", checks=[])
    card = dataset_card(made)
    assert "0 rows of 0 tasks" in card
    assert "configs" not in header_of(card)
    assert json.loads(made.model_dump_json())["cut"] == cut
