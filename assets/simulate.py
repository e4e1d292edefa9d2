"""Simulate: the plan of situations, the search for those that break the agent, and the rollouts."""

import json
from itertools import chain, combinations

import dagster as dg
import polars as pl
from pydantic import Field

from assets.stored import PARTITIONS, Stored, key_of, store, table_assets
from resources.models import Models
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.agents.policy import Weights
from while_pipeline.ids import seed_of
from while_pipeline.project import Project
from while_pipeline.records import Situation
from while_pipeline.settings import BudgetSettings
from while_pipeline.simulate.arms import Chooser, Spot
from while_pipeline.simulate.axes import AXES, Grid, grid_of, is_held_out
from while_pipeline.simulate.covering import Pair, pairs
from while_pipeline.simulate.night import Night, scenario_rows, search_rows
from while_pipeline.simulate.plan import axes_rows, plan, plan_rows
from while_pipeline.simulate.rows import rollouts_from, scenarios_from
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.tables import simulate, watch
from while_pipeline.tables.base import frame
from while_pipeline.train.registry import weights_from
from while_pipeline.watch.map import spots_for

PROGRESS = 1_000
"""Rollouts between two lines of progress in the log."""


class Budget(dg.Config):
    """How much is played tonight; the project's settings where nothing is given."""

    scenarios: int | None = Field(
        default=None, ge=1, description="Scenarios to write and probe; empty: budget.scenarios of while.yaml."
    )
    k: int | None = Field(
        default=None, ge=1, description="Rollouts per scenario; empty: budget.k of while.yaml."
    )

    def over(self, settings: BudgetSettings) -> BudgetSettings:
        """The settings with what is given here replaced."""
        return settings.model_copy(update={k: v for k, v in self.model_dump().items() if v is not None})


def grid(project: Project) -> Grid:
    """The project's situation space."""
    return grid_of(project.tools, project.policy_document, project.settings.seed)


def night(project: Project, models: Models, agent: pl.DataFrame) -> Night:
    """The night of the agent that `watch.agent` recorded."""
    row = agent.row(0, named=True)
    weights: Weights | None = weights_from(row) if row["weights"] else None
    return Night(
        models.agent(project, weights),
        project.tools,
        project.policy_document,
        policy_version=row["policy_version"],
        seed=seed_of(project.settings.seed, row["day"].isoformat()),
    )


@table_assets(simulate.Axes, deps=[watch.Agent])
def axes(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Six axes: tool, policy rule, stance, world state, tool condition, history."""
    day, loaded = context.partition_key, project.load()
    space = grid(loaded)
    rows = axes_rows(space, loaded.tools, loaded.policy_document)
    yield from store(
        day,
        warehouse,
        {simulate.Axes: frame(simulate.Axes, day, rows)},
        {"rules_beyond_grid": space.rules_beyond},
    )


@table_assets(simulate.CoveragePlan, deps=[simulate.Axes])
def coverage_plan(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource
) -> Stored:
    """Every pair of values that can meet is in some situation; what earlier days planned is kept."""
    day, loaded = context.partition_key, project.load()
    earlier = warehouse.read_last(simulate.CoveragePlan, before=day)
    cells = [Situation(**{axis: row[axis] for axis in AXES}) for row in earlier.iter_rows(named=True)]
    kept, new, report = plan(grid(loaded), cells)
    rows = plan_rows(kept, new, loaded.tools)
    yield from store(
        day,
        warehouse,
        {simulate.CoveragePlan: frame(simulate.CoveragePlan, day, rows)},
        {
            "pairs_planned": report.pairs_planned,
            "pairs_covered": report.pairs_covered,
            "fraction": report.fraction,
            "new_situations": len(new),
        },
    )


@table_assets(
    simulate.Scenarios,
    simulate.Search,
    simulate.Probes,
    deps=[simulate.CoveragePlan, watch.WeakSpots, watch.Agent],
)
def scenarios(
    context: dg.AssetExecutionContext,
    config: Budget,
    warehouse: Warehouse,
    project: ProjectResource,
    models: Models,
) -> Stored:
    """Five arms search: the covering array, the weak spots, the open space, rare behaviour, and failures."""
    day, loaded = context.partition_key, project.load()
    budget = config.over(loaded.settings.budget)
    planned, weak, agent = warehouse.read_day(day, simulate.CoveragePlan, watch.WeakSpots, watch.Agent)
    plan_cells = [Situation(**{axis: row[axis] for axis in AXES}) for row in planned.iter_rows(named=True)]
    by_name = {tool.name: tool for tool in loaded.tools}
    spots = [
        Spot(**{name: row[name] for name in ("spot_id", "tool", "tool_condition", "stance", "share")})
        for row in spots_for(weak.iter_rows(named=True), by_name)
    ]
    seed = seed_of(loaded.settings.seed, "search", day)
    player = night(loaded, models, agent)
    found = player.search(
        Chooser(grid(loaded), plan_cells, spots, seed),
        ScenarioWriter(loaded.tools, loaded.policy_document),
        budget=budget.scenarios,
        batch_size=budget.batch,
    )
    probes = [row for row, _ in player.rows(p.rollout for p in found.probed)]
    yield from store(
        day,
        warehouse,
        {
            simulate.Scenarios: frame(simulate.Scenarios, day, scenario_rows(found)),
            simulate.Search: frame(simulate.Search, day, search_rows(found)),
            simulate.Probes: frame(simulate.Probes, day, probes),
        },
        {"stopped": found.stopped, "signatures": len({p.signature for p in found.probed})},
    )


@table_assets(simulate.Rollouts, simulate.Steps, deps=[simulate.Scenarios, simulate.Probes, watch.Agent])
def rollouts(
    context: dg.AssetExecutionContext,
    config: Budget,
    warehouse: Warehouse,
    project: ProjectResource,
    models: Models,
) -> Stored:
    """K attempts per scenario: the probe is the first, the rest is played here."""
    day, loaded = context.partition_key, project.load()
    k = config.over(loaded.settings.budget).k
    written, probes, agent = warehouse.read_day(day, simulate.Scenarios, simulate.Probes, watch.Agent)
    held, probed = scenarios_from(written), rollouts_from(probes, written)
    player = night(loaded, models, agent)
    rows, steps = [], []
    for i, (row, made) in enumerate(player.rows(chain(probed, player.play(held, range(1, k))))):
        rows.append(row)
        steps += made
        if (i + 1) % PROGRESS == 0:
            context.log.info(f"{i + 1} of {len(held) * k} rollouts")
    made_rows = frame(simulate.Rollouts, day, rows)
    shown = sum(len(json.loads(row["realised"])) for row in rows)
    yield from store(
        day,
        warehouse,
        {simulate.Rollouts: made_rows, simulate.Steps: frame(simulate.Steps, day, steps)},
        {
            "lost": made_rows["lost"].count(),
            "axes_realised": shown / max(1, len(AXES) * made_rows.height),
            "tokens": sum(row["input_tokens"] + row["output_tokens"] for row in rows),
        },
    )


@dg.asset_check(
    asset=key_of(simulate.CoveragePlan),
    partitions_def=PARTITIONS,
    blocking=True,
    description="Every pair of axis values that can meet stands in some planned situation, counted in SQL.",
)
def every_pair_is_planned(
    context: dg.AssetCheckExecutionContext, warehouse: Warehouse, project: ProjectResource
) -> dg.AssetCheckResult:
    """An independent count: no code is shared with what made the plan."""
    space = grid(project.load())
    can_meet = set(pairs(space.axes, space.allowed_pair))
    missing: list[str] = []
    with warehouse.connect():
        for first, second in combinations(AXES, 2):
            found = warehouse.query(
                f"""SELECT a.value AS first, b.value AS second
                FROM simulate.axes a, simulate.axes b
                WHERE a.day = ? AND b.day = a.day AND a.axis = ? AND b.axis = ?
                AND NOT EXISTS (FROM simulate.coverage_plan p
                    WHERE p.day = a.day AND p.{first} = a.value AND p.{second} = b.value)""",
                [context.partition_key, first, second],
            )
            missing += [str(p) for a, b in found.iter_rows() if (p := Pair(first, a, second, b)) in can_meet]
    return dg.AssetCheckResult(
        passed=not missing, metadata={"missing": len(missing), "examples": missing[:5]}
    )


@dg.asset_check(
    asset=key_of(simulate.Rollouts),
    partitions_def=PARTITIONS,
    blocking=True,
    description="No rollout is of a sealed task: what is meant for evaluation must never be trained on.",
)
def no_sealed_task(
    context: dg.AssetCheckExecutionContext, warehouse: Warehouse, project: ProjectResource
) -> dg.AssetCheckResult:
    """The split is recomputed from the task ids."""
    seed = project.load().settings.seed
    tasks = warehouse.read(simulate.Rollouts, context.partition_key)["task_id"].unique(maintain_order=True)
    sealed = [task for task in tasks if is_held_out(task, seed)]
    return dg.AssetCheckResult(passed=not sealed, metadata={"tasks": len(tasks), "sealed": len(sealed)})


MAX_LOST = 0.05
"""More lost rollouts than this and the night says more about the infrastructure than about the agent."""


@dg.asset_check(
    asset=key_of(simulate.Rollouts),
    partitions_def=PARTITIONS,
    description=f"At most {MAX_LOST:.0%} of the rollouts were lost to infrastructure.",
)
def few_are_lost(context: dg.AssetCheckExecutionContext, warehouse: Warehouse) -> dg.AssetCheckResult:
    """Lost rollouts are counted with their reason and never graded."""
    played = warehouse.read(simulate.Rollouts, context.partition_key)
    lost = played["lost"].drop_nulls()
    share = len(lost) / max(1, played.height)
    return dg.AssetCheckResult(
        passed=share <= MAX_LOST, metadata={"lost": len(lost), "reasons": lost.unique().to_list()[:5]}
    )


CHECKS = [every_pair_is_planned, no_sealed_task, few_are_lost]
