"""A night's rollouts in shards: pieces that any process can play, each left on disk as Parquet.

What belongs here: cutting a night, playing a shard, and its files. What does not: how an episode goes
(`rollout`, `drive`), who plays which shard (`workers`), and how shards get into the database (the warehouse).
"""

import hashlib
import io
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from while_pipeline.agents.protocol import Agent, AsyncAgent
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.ids import content_id
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Record
from while_pipeline.simulate.axes import AXES
from while_pipeline.simulate.night import Night
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.rows import Row, rollouts_from, scenarios_from
from while_pipeline.simulate.user_world import WorldFactory
from while_pipeline.tables import simulate
from while_pipeline.tables.base import Table, frame, table_name
from while_pipeline.tools import Tool

SHARD = 4_000
"""Rollouts per shard: some seconds of play and 20 MB of memory. A table is checked once a shard, which at
half the size would cost a tenth of the whole."""

Frames = Mapping[type[Table], pl.DataFrame]


class Terms(Record):
    """All that decides a night's rollouts, but the scenarios, the code, and chance in a served agent."""

    day: str
    """ISO date of the rows."""
    tools: tuple[dict[str, Any], ...]
    """Fields of each `Tool`, in the project's order."""
    policy_document: str
    """The document's whole text."""
    policy_version: str
    """Whoever plays."""
    seed: int
    """The night's."""
    k: int
    """Rollouts per scenario at most."""
    first: int
    """Rollouts every scenario gets, 1 .. k; the others only where these both pass and fail by the rules."""
    worlds: str = "mock"
    """Identity of what makes the worlds."""


@dataclass(frozen=True)
class Shard:
    """Whole groups to play."""

    key: str
    """Content hash of all that decides the rows, the code included."""
    scenarios: pl.DataFrame
    """Rows of `simulate.scenarios`."""
    probes: pl.DataFrame
    """Rows of `simulate.probes`: sample 0 of those scenarios that were probed."""


class ShardFile(Record):
    """One table's rows of a shard."""

    table: str
    name: str
    """File name in the shards' folder."""
    sha256: str
    rows: int


class Manifest(Record):
    """What a finished shard left."""

    key: str
    files: tuple[ShardFile, ...]


@cache
def code_version() -> str:
    """Content hash of this package's source: a release number stays the same between two edits."""
    package = Path(__file__).parents[1]
    return content_id(
        [[str(p.relative_to(package)), p.read_text("utf-8")] for p in sorted(package.rglob("*.py"))]
    )


def cut(terms: Terms, scenarios: pl.DataFrame, probes: pl.DataFrame, size: int = SHARD) -> Iterator[Shard]:
    """Cut a night into shards of about `size` rollouts, whole groups each, in the order of `scenarios`.

    Args:
        terms: What is played for.
        scenarios: Rows of `simulate.scenarios`.
        probes: Rows of `simulate.probes`; a scenario without one is played from sample 0 on.
        size: Rollouts per shard; one group at least.
    """
    for part in scenarios.iter_slices(max(1, size // terms.k)):
        probed = probes.join(part, on="scenario_id", how="semi", maintain_order="left")
        content = (terms.model_dump(mode="json"), part.write_json(), probed.write_json())
        yield Shard(content_id("shard", code_version(), *content), part, probed)


class Player:
    """Plays shards. Made once per process."""

    def __init__(self, terms: Terms, agent: Agent | AsyncAgent, worlds: WorldFactory | None = None) -> None:
        """Play `terms` with `agent` in `worlds`, the mock world by default."""
        self._terms = terms
        self._tools = tuple(Tool(**fields) for fields in terms.tools)
        self._document = read_policy_document(terms.policy_document)
        self._night = Night(
            agent,
            self._tools,
            self._document,
            policy_version=terms.policy_version,
            seed=terms.seed,
            worlds=worlds,
        )

    def play(self, shard: Shard) -> list[Rollout]:
        """Rollouts of a shard, probes included, by scenario and sample.

        Raises:
            AgentDown: see `drive.play`.
        """
        terms, scenarios = self._terms, scenarios_from(shard.scenarios)
        rollouts = rollouts_from(shard.probes, shard.scenarios)
        probed = {rollout.scenario.scenario_id for rollout in rollouts}
        begun = [s for s in scenarios if s.scenario_id in probed]
        others = [s for s in scenarios if s.scenario_id not in probed]
        rollouts += self._night.play(begun, range(1, terms.first))
        rollouts += self._night.play(others, range(terms.first))
        if terms.first < terms.k:
            unsettled = self._unsettled(rollouts)
            more = [s for s in scenarios if s.scenario_id in unsettled]
            rollouts += self._night.play(more, range(terms.first, terms.k))
        place = {scenario.scenario_id: i for i, scenario in enumerate(scenarios)}
        return sorted(rollouts, key=lambda r: (place[r.scenario.scenario_id], r.sample))

    def _unsettled(self, rollouts: Sequence[Rollout]) -> set[str]:
        """Scenarios with a pass and a failure; a lost rollout is neither."""
        said = defaultdict[str, set[bool | None]](set)
        for graded in grade(rollouts, self._tools, self._document, RulesJudge()):
            said[graded.rollout.scenario.scenario_id].add(graded.passed)
        return {scenario for scenario, found in said.items() if {True, False} <= found}

    def frames(self, rollouts: Iterable[Rollout]) -> dict[type[Table], pl.DataFrame]:
        """Rows of `simulate.rollouts` and `simulate.steps`, validated."""
        rows: list[Row] = []
        steps: list[Row] = []
        for row, made in self._night.rows(rollouts):
            rows.append(row)
            steps += made
        return {
            simulate.Rollouts: frame(simulate.Rollouts, self._terms.day, rows),
            simulate.Steps: frame(simulate.Steps, self._terms.day, steps),
        }


def rollout_tables(player: Player, shard: Shard) -> Frames:
    """Tables of a shard: rollouts and steps."""
    return player.frames(player.play(shard))


# -- files ------------------------------------------------------------------------------------------------


def write_shard(folder: Path, key: str, frames: Frames) -> Manifest:
    """Write a shard's tables as Parquet, then its manifest: a shard is finished when that is there.

    Each file is written aside and renamed, so that whoever finds one finds it whole.
    """
    files: list[ShardFile] = []
    for model, made in frames.items():
        parquet = io.BytesIO()
        made.write_parquet(parquet)
        data, table = parquet.getvalue(), table_name(model)
        name = f"{key}.{table}.parquet"
        _put(folder / name, data)
        files.append(
            ShardFile(table=table, name=name, sha256=hashlib.sha256(data).hexdigest(), rows=made.height)
        )
    manifest = Manifest(key=key, files=tuple(files))
    _put(folder / f"{key}.json", manifest.model_dump_json().encode())
    return manifest


def finished_shard(folder: Path, key: str) -> Manifest | None:
    """The manifest of a finished shard; None when there is none, or a file is not what it says."""
    try:
        manifest = Manifest.model_validate_json((folder / f"{key}.json").read_bytes())
        digests = [hashlib.sha256((folder / file.name).read_bytes()).hexdigest() for file in manifest.files]
    except (OSError, ValidationError):
        return None
    return manifest if digests == [file.sha256 for file in manifest.files] else None


def paths_by_table(folder: Path, manifests: Iterable[Manifest]) -> dict[str, list[Path]]:
    """Parquet files by table name, in the order of the manifests."""
    paths = defaultdict[str, list[Path]](list)
    for manifest in manifests:
        for file in manifest.files:
            paths[file.table].append(folder / file.name)
    return dict(paths)


def figures(rollouts: Sequence[Path]) -> dict[str, float]:
    """What a night comes to: rollouts lost, share of planned axis values that the traces show, tokens.

    Args:
        rollouts: Files of `simulate.rollouts`; read a part at a time.
    """
    if not rollouts:
        return {"lost": 0, "axes_realised": 0.0, "tokens": 0}
    axes = pl.col("realised").str.json_decode(pl.List(pl.String)).list.len()
    return (
        pl.scan_parquet(list(rollouts), glob=False)
        .select(
            lost=pl.col("lost").count(),
            axes_realised=axes.mean() / len(AXES),
            tokens=(pl.col("input_tokens") + pl.col("output_tokens")).sum(),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )


def _put(path: Path, data: bytes) -> None:
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    os.replace(aside, path)
