"""A night that is stopped between two shards goes on where it was, and gives what an unbroken one gives."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from resources.models import Models
from tests.orchestration.conftest import DAYS, Pipeline, copy_of_example
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import Weights
from while_pipeline.agents.protocol import Reply
from while_pipeline.project import Project
from while_pipeline.records import Message
from while_pipeline.simulate import workers
from while_pipeline.tables import simulate, watch
from while_pipeline.tools import Tool

pytestmark = pytest.mark.slow

WATCHED = (watch.Agent, watch.Conversations, watch.Steps, watch.Rejects, watch.Situations, watch.WeakSpots)
PROBED = (simulate.Axes, simulate.CoveragePlan, simulate.Scenarios, simulate.Search, simulate.Probes)
PLAYED = (simulate.Rollouts, simulate.Steps)

turns: list[int] = []
"""Seeds of the turns that were asked for."""


class Stopping:
    """The embedded agent behind a machine that stops at its 150th turn."""

    def __init__(self, weights: Weights) -> None:
        self.inner = EmbeddedAgent(weights)

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        turns.append(seed)
        if len(turns) == 150:
            raise MemoryError("the machine stopped")
        return self.inner.respond(messages, tools, seed)


class StoppingModels(Models):
    """Plays with `Stopping`."""

    def agent(self, project: Project, weights: Weights | None) -> Stopping:
        assert weights is not None
        return Stopping(weights)


def turns_played(rollouts: pl.DataFrame) -> int:
    """Assistant turns of all rollouts but the probes, which were played before."""
    return int(rollouts.filter(pl.col("sample") > 0)["n_turns"].sum())


def test_a_night_that_stopped_plays_only_what_no_finished_shard_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(
        copy_of_example(tmp_path / "telecom", budget={"scenarios": 40, "k": 3}), tmp_path / "data"
    )
    assert pipeline.run(DAYS[0], *WATCHED, *PROBED, *PLAYED).errors == {}
    unbroken = pipeline.digests(DAYS[0])
    monkeypatch.setattr(workers, "SERVED_SHARD", 24)
    stopping = pipeline.with_models(StoppingModels(data=str(tmp_path / "data")))
    broken = stopping.run(DAYS[0], *PLAYED)
    assert "the machine stopped" in broken.errors["simulate_rollouts"]
    folder = tmp_path / "data" / "shards" / DAYS[0]
    kept = turns_played(pl.read_parquet(folder / "*.rollouts.parquet"))
    assert 0 < kept < 149
    assert pipeline.digests(DAYS[0]) == unbroken, "nothing of a night is stored before all of it is"
    assert stopping.run(DAYS[0], *PLAYED).errors == {}
    assert len(turns) - 150 == turns_played(pipeline.warehouse.read(simulate.Rollouts, DAYS[0])) - kept
    assert pipeline.digests(DAYS[0]) == unbroken
    assert not folder.exists()
