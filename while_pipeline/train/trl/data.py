"""Where training rows come from: an exported folder, or a day's cut as it is stored.

What a trainer needs of the rows belongs to `examples`.
"""

import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from while_pipeline.errors import ProjectError
from while_pipeline.grade.judge import Judge
from while_pipeline.project import Project
from while_pipeline.simulate.recorded import Recorded
from while_pipeline.simulate.rows import scenarios_from
from while_pipeline.simulate.user_world import Worlds
from while_pipeline.tables import simulate, watch
from while_pipeline.train.elsewhere import read_manifest
from while_pipeline.train.published import read_cut, snapshot_of
from while_pipeline.train.trl.examples import Row
from while_pipeline.train.trl.game import Game
from while_pipeline.train.trl.settings import CUTS, Method

FORMAT = "trl"
MANIFEST = "manifest.json"

TWINS = {"sft_random": "sft"}
"""Cuts that another cut's method trains on: what its selection must beat."""


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
        ProjectError: the cut may not be trained on; see `read_cut`.
        SnapshotError: nothing has been published yet.
    """
    cut = read_cut(snapshot_of(data, day), day, CUTS[method])
    return TrainingRows([row for row in cut.rows if row["split"] == "train"], cut.source, cut.day)


def game_of(project: Project, data: Path, day: dt.date, judge: Judge) -> Game:
    """What a checkpoint plays in GRPO: the scenarios of a day, as that day played them.

    Raises:
        SnapshotError: nothing has been published yet.
    """
    of = snapshot_of(data, day)
    held = scenarios_from(of(simulate.Scenarios).sort("scenario_id"))
    world, recorded = project.settings.world, None
    if world.recorded:
        seen = of(watch.Steps).sort(pl.all()).select("tool", "arguments", "result")
        recorded = Recorded(seen.iter_rows(), project.tools)
    return Game(
        scenarios={scenario.scenario_id: scenario for scenario in held},
        tools=project.tools,
        document=project.policy_document,
        judge=judge,
        worlds=Worlds(project.tools, world.plays, project.root, recorded),
    )


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ProjectError(
            str(path), "file", path.name, "it does not exist; `while-pipeline export --format trl` writes it"
        )
    return path
