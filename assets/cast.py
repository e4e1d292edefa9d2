"""What a day's steps play with: the situation space, the worlds, the scenario writer and the agent.

No asset belongs here, and nothing that writes.
"""

import datetime as dt

import polars as pl

from resources.models import Models
from resources.warehouse import Warehouse
from while_pipeline.ids import seed_of
from while_pipeline.project import Project
from while_pipeline.settings import Spread
from while_pipeline.simulate.axes import Grid, grid_of
from while_pipeline.simulate.night import Night
from while_pipeline.simulate.recorded import Recorded
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.simulate.shards import Terms
from while_pipeline.simulate.user_world import Worlds
from while_pipeline.tables import watch
from while_pipeline.train.registry import Policy, policy_from


def grid(project: Project, day: str) -> Grid:
    """The project's situation space; rules that do not all fit into it take turns by the day."""
    turn = dt.date.fromisoformat(day).toordinal()
    return grid_of(project.tools, project.policy_document, project.settings.seed, turn)


def policy_of(agent: pl.DataFrame) -> Policy | None:
    """What the agent plays that `watch.agent` recorded; None where the settings say who plays."""
    return policy_from(agent.row(0, named=True))


def worlds_of(project: Project, warehouse: Warehouse, day: str) -> Worlds:
    """What makes the project's worlds; recorded answers are those of the day's own traffic."""
    settings = project.settings.world
    recorded = None
    if settings.recorded:
        seen = warehouse.read(watch.Steps, day).select("tool", "arguments", "result")
        recorded = Recorded(seen.iter_rows(), project.tools)
    return Worlds(project.tools, settings.plays, project.root, recorded)


def terms_of(project: Project, agent: pl.DataFrame, spread: Spread, worlds: Worlds) -> Terms:
    """What decides the rollouts of the agent that `watch.agent` recorded."""
    row = agent.row(0, named=True)
    day = row["day"].isoformat()
    return Terms(
        day=day,
        tools=tuple(tool.model_dump() for tool in project.tools),
        policy_document=project.policy_document.text,
        policy_version=row["policy_version"],
        seed=seed_of(project.settings.seed, day),
        k=spread.k,
        first=spread.first,
        worlds=worlds.identity,
    )


def night(project: Project, models: Models, agent: pl.DataFrame, worlds: Worlds) -> Night:
    """The night of the agent that `watch.agent` recorded."""
    row = agent.row(0, named=True)
    return Night(
        models.agent(project, policy_of(agent)),
        project.tools,
        project.policy_document,
        policy_version=row["policy_version"],
        seed=seed_of(project.settings.seed, row["day"].isoformat()),
        worlds=worlds,
    )


def writer_of(project: Project, worlds: Worlds) -> ScenarioWriter:
    """Writes the project's scenarios."""
    return ScenarioWriter(project.tools, project.policy_document, project.settings.world, worlds)
