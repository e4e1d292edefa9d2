"""Watch: the agent that serves the day, its real traffic, and the map of where it fails."""

import datetime as dt

import dagster as dg

from assets.registry import registry_of
from assets.stored import Stored, store, table_assets
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.tables import prove, watch
from while_pipeline.tables.base import frame
from while_pipeline.watch.agent import agent_row
from while_pipeline.watch.intake import read_day
from while_pipeline.watch.map import situation_rows, weak_spot_rows, window

traffic = dg.AssetSpec(
    "traffic",
    group_name="watch",
    kinds={"opentelemetry"},
    owners=["team:while-pipeline"],
    description="The customer's side: files of real conversations, one folder per day; only read.",
)
project_folder = dg.AssetSpec(
    "project",
    group_name="watch",
    kinds={"yaml"},
    owners=["team:while-pipeline"],
    description="The user's project: while.yaml, the policy document and the tools; only read.",
)


@table_assets(watch.Agent, deps=[project_folder, prove.Decisions])
def agent(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """The policy promoted last before the day serves it, unless people decided otherwise for the day.

    Nothing that is decided later reaches back, so that re-runs give the same tables.
    """
    day = context.partition_key
    policy = registry_of(warehouse, day).serving(dt.date.fromisoformat(day))
    row = agent_row(project.load(), policy)
    yield from store(
        day,
        warehouse,
        {watch.Agent: frame(watch.Agent, day, [row])},
        {"policy_version": row["policy_version"]},
    )


@table_assets(watch.Conversations, watch.Steps, watch.Rejects, deps=[traffic, project_folder])
def conversations(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource
) -> Stored:
    """Read from the day's folder whatever the dialect, redacted before anything is stored."""
    day = context.partition_key
    read = read_day(project.load(), day)
    for note in read.notes:
        context.log.warning(note)
    yield from store(
        day,
        warehouse,
        {
            watch.Conversations: frame(watch.Conversations, day, read.conversations),
            watch.Steps: frame(watch.Steps, day, read.steps),
            watch.Rejects: frame(watch.Rejects, day, read.rejects),
        },
        {"rejected": len(read.rejects), "files": read.files},
    )


@table_assets(watch.Situations, deps=[watch.Conversations, watch.Agent])
def situations(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """The same detectors and conduct rules as for rollouts, so that traffic and simulation compare."""
    day, loaded = context.partition_key, project.load()
    tools = {tool.name: tool for tool in loaded.tools}
    rows = situation_rows(warehouse.read(watch.Conversations, day), tools, loaded.policy_document)
    failed = sum(row["failed"] is True for row in rows)
    yield from store(
        day, warehouse, {watch.Situations: frame(watch.Situations, day, rows)}, {"failed": failed}
    )


@table_assets(watch.WeakSpots, deps=[watch.Situations])
def weak_spots(context: dg.AssetExecutionContext, warehouse: Warehouse) -> Stored:
    """Over the last seven days; what failed there decides where the night looks."""
    day = context.partition_key
    since, before = window(day)
    rows = weak_spot_rows(warehouse.read(watch.Situations, since=since, before=before), day)
    yield from store(day, warehouse, {watch.WeakSpots: frame(watch.WeakSpots, day, rows)})
