"""Where training rows come from: an exported folder, or a day's cut as it is stored.

What belongs here: reading, with everything refused that the publication gate refused. What a trainer needs of
the rows belongs to `examples`.
"""

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from while_pipeline.errors import ProjectError
from while_pipeline.grade.judge import Judge
from while_pipeline.project import DATABASE, Project
from while_pipeline.simulate.recorded import Recorded
from while_pipeline.simulate.rows import scenarios_from
from while_pipeline.simulate.user_world import Worlds
from while_pipeline.snapshot import read_snapshot, snapshot_path
from while_pipeline.tables import simulate, train, watch
from while_pipeline.tables.base import Table, table_name
from while_pipeline.train.elsewhere import read_manifest
from while_pipeline.train.publication import refusal
from while_pipeline.train.trl.examples import Row
from while_pipeline.train.trl.game import Game
from while_pipeline.train.trl.settings import CUTS, Method

FORMAT = "trl"
MANIFEST = "manifest.json"

TABLES: dict[Method, type[Table]] = {
    "sft": train.Sft,
    "dpo": train.Dpo,
    "grpo": train.Grpo,
    "reward": train.RewardModel,
}
TWINS = {"sft_random": "sft"}
"""Cuts that another cut's method trains on: what its selection must beat."""

_JSON = ("messages", "tools", "prompt", "chosen", "rejected")


@dataclass(frozen=True)
class TrainingRows:
    """Rows of the training side of a cut."""

    rows: list[Row]
    """Messages and tools decoded."""
    source: str
    day: str
    """ISO date of their rollouts."""


def exported_rows(folder: Path, method: Method) -> TrainingRows:
    """Read an export of the `trl` format.

    Raises:
        ProjectError: it is none, of another cut or format, or a file is not the one the manifest describes.
    """
    manifest = read_manifest(_there(folder / MANIFEST))
    wrong = {
        "format": (manifest.format, FORMAT),
        "cut": (TWINS.get(manifest.cut, manifest.cut), CUTS[method]),
    }
    for key, (found, wanted) in wrong.items():
        if found != wanted:
            raise ProjectError(
                str(folder / MANIFEST), key, found, f"`{method}` trains on {wanted}: export that one"
            )
    rows: list[Row] = []
    for file in manifest.files:
        if file.split == "train":
            text = _there(folder / file.name).read_bytes()
            if hashlib.sha256(text).hexdigest() != file.sha256:
                raise ProjectError(
                    str(folder / file.name),
                    "sha256",
                    file.sha256,
                    "the file was changed since; export it anew",
                )
            rows += [json.loads(line) for line in text.splitlines() if line.strip()]
    return TrainingRows(rows, str(folder), manifest.day)


def stored_rows(data: Path, day: dt.date, method: Method) -> TrainingRows:
    """Read the training side of a day's cut from the published snapshot.

    Raises:
        ProjectError: the publication gate refused the cut.
        SnapshotError: nothing has been published yet.
    """
    source = f"{table_name(TABLES[method])} of {day}"
    refused = refusal(_of(data, train.Publication, day), CUTS[method])
    if refused is not None:
        raise ProjectError(source, "publication", CUTS[method], refused)
    found = _of(data, TABLES[method], day)
    if found.is_empty():
        raise ProjectError(
            source, "rows", 0, f"the day has none; `while-pipeline run --day {day}` makes them"
        )
    rows = [decoded(row) for row in found.filter(pl.col("split") == "train").iter_rows(named=True)]
    return TrainingRows(rows, source, day.isoformat())


def game_of(project: Project, data: Path, day: dt.date, judge: Judge) -> Game:
    """What a checkpoint plays in GRPO: the scenarios of a day, as that day played them.

    Raises:
        SnapshotError: nothing has been published yet.
    """
    held = scenarios_from(_of(data, simulate.Scenarios, day))
    world, recorded = project.settings.world, None
    if world.recorded:
        seen = _of(data, watch.Steps, day).select("tool", "arguments", "result")
        recorded = Recorded(seen.iter_rows(), project.tools)
    return Game(
        scenarios={scenario.scenario_id: scenario for scenario in held},
        tools=project.tools,
        document=project.policy_document,
        judge=judge,
        worlds=Worlds(project.tools, world.plays, project.root, recorded),
    )


def _of(data: Path, model: type[Table], day: dt.date) -> pl.DataFrame:
    # A date's own text cannot be anything else than a date.
    sql = f"SELECT * FROM {table_name(model)} WHERE day = DATE '{day.isoformat()}' ORDER BY ALL"
    return read_snapshot(snapshot_path(data / DATABASE), sql)


def decoded(row: dict[str, Any]) -> Row:
    """A row of a cut with its messages and tools read from JSON."""
    return {name: json.loads(value) if name in _JSON else value for name, value in row.items()}


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ProjectError(
            str(path), "file", path.name, "it does not exist; `while-pipeline export --format trl` writes it"
        )
    return path
