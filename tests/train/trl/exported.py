"""Exports as `while-pipeline export --format trl` leaves them. No assertion belongs here."""

import json
from pathlib import Path

import polars as pl

from while_pipeline.train.curriculum import Split
from while_pipeline.train.manifest import exported_file, make_manifest
from while_pipeline.train.trl.examples import Row

DAY = "2026-03-02"
SIDES: tuple[Split, ...] = ("train", "valid")


def export(folder: Path, cut: str, rows: list[Row], *, form: str = "trl", valid: int = 0) -> Path:
    """Write rows, the last `valid` of them as the validation side, with their manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    train = rows[: len(rows) - valid]
    files = []
    for side, held in zip(SIDES, (train, rows[len(train) :]), strict=True):
        content = "".join(json.dumps(row) + "\n" for row in held).encode()
        (folder / f"{side}.jsonl").write_bytes(content)
        files.append(exported_file(f"{side}.jsonl", content, side, len(held)))
    table = pl.DataFrame(
        {
            "task_id": [f"t{i}" for i in range(len(rows))],
            "split": ["train"] * len(train) + ["valid"] * valid,
        }
    )
    manifest = make_manifest(
        cut, form, DAY, table, files, policy_version="p", judge="j", checks=("no_sealed_task",)
    )
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    return folder
