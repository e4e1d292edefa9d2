"""Simulate: the plan of situations, the search for those that break the agent, and the rollouts."""

import shutil
import time
from dataclasses import fields
from itertools import combinations
from pathlib import Path

import dagster as dg
import duckdb
from pydantic import Field

from assets.cast import grid, night, policy_of, terms_of, worlds_of, writer_of
from assets.stored import PARTITIONS, Stored, key_of, store, store_files, table_assets
from resources.models import Models
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.constants import CELL_WEIGHTS, RL_CELL_WEIGHTS
from while_pipeline.ids import seed_of
from while_pipeline.records import Situation
from while_pipeline.settings import BudgetSettings
from while_pipeline.simulate.arms import Chooser
from while_pipeline.simulate.axes import AXES, is_held_out
from while_pipeline.simulate.cells import Spot
from while_pipeline.simulate.coverage import PLAYED, coverage_counts, coverage_table
from while_pipeline.simulate.covering import Pair, pairs
from while_pipeline.simulate.night import scenario_rows, search_rows
from while_pipeline.simulate.plan import axes_rows, plan, plan_rows
from while_pipeline.simulate.shards import Manifest, cut, figures, paths_by_table
from while_pipeline.simulate.workers import Site, cast_of, finish_shards, progress
from while_pipeline.tables import simulate, watch
from while_pipeline.tables.base import Table, frame, table_name
from while_pipeline.watch.map import spots_for


class Budget(dg.Config):
    """How much is played tonight; the project's settings where nothing is given."""

    scenarios: int | None = Field(
        default=None, ge=1, description="Scenarios to write and probe; empty: budget.scenarios of while.yaml."
    )
    k: int | None = Field(
        default=None, ge=1, description="Rollouts per scenario; empty: budget.k of while.yaml, or its mode's."
    )

    def over(self, settings: BudgetSettings) -> BudgetSettings:
        """The settings with what is given here replaced."""
        return settings.model_copy(update={k: v for k, v in self.model_dump().items() if v is not None})


@table_assets(simulate.Axes, deps=[watch.Agent])
def axes(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Six axes: tool, policy rule, stance, world state, tool condition, history."""
    day, loaded = context.partition_key, project.load()
    space = grid(loaded, day)
    rows = axes_rows(space, loaded.tools, loaded.policy_document)
    yield from store(
        day,
        warehouse,
        {simulate.Axes: frame(simulate.Axes, day, rows)},
        {"rules_beyond_grid": space.rules_beyond},
    )


def played_before(warehouse: Warehouse, day: str) -> dict[str, int]:
    """Scenarios per planned task that were written on the days before; none on the very first day."""
    counted = """
        SELECT task_id, count(*) FROM simulate.scenarios
        WHERE day < ? AND task_id IN (SELECT task_id FROM simulate.coverage_plan)
        GROUP BY task_id
    """
    try:
        return dict(warehouse.query(counted, [day]).iter_rows())
    except duckdb.CatalogException:
        return {}


@table_assets(simulate.CoveragePlan, deps=[simulate.Axes])
def coverage_plan(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource
) -> Stored:
    """Every pair of values that can meet is in some situation; what earlier days planned is kept.

    What they played least comes first.
    """
    day, loaded = context.partition_key, project.load()
    earlier = warehouse.read(simulate.CoveragePlan, before=day).sort(
        "day", "position", descending=[True, False]
    )
    distinct = earlier.select(AXES).unique(maintain_order=True)
    cells = [Situation(**row) for row in distinct.iter_rows(named=True)]
    kept, new, report = plan(grid(loaded, day), cells, loaded.settings.budget.strength)
    rows = plan_rows(kept, new, loaded.tools, played_before(warehouse, day))
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
    with warehouse.connect():
        planned, weak, agent = warehouse.read_day(day, simulate.CoveragePlan, watch.WeakSpots, watch.Agent)
        worlds = worlds_of(loaded, warehouse, day)
    plan_cells = [Situation(**{axis: row[axis] for axis in AXES}) for row in planned.iter_rows(named=True)]
    by_name = {tool.name: tool for tool in loaded.tools}
    spots = [
        Spot(**{field.name: row[field.name] for field in fields(Spot)})
        for row in spots_for(weak.iter_rows(named=True), by_name)
    ]
    seed = seed_of(loaded.settings.seed, "search", day)
    player = night(loaded, models, agent, worlds)
    weights = RL_CELL_WEIGHTS if budget.mode == "rl" else CELL_WEIGHTS
    found = player.search(
        Chooser(grid(loaded, day), plan_cells, spots, seed, weights),
        writer_of(loaded, worlds),
        budget=budget.scenarios,
        batch_size=budget.batch,
        phrasings=budget.spread.phrasings,
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
    """K attempts per scenario: the probe is the first, the rest is played here, shard by shard.

    Finished shards stay on disk until all are stored, so a night that was stopped goes on from there.
    """
    day, loaded = context.partition_key, project.load()
    budget = config.over(loaded.settings.budget)
    with warehouse.connect():
        written, probes, agent = warehouse.read_day(day, simulate.Scenarios, simulate.Probes, watch.Agent)
        worlds = worlds_of(loaded, warehouse, day)
    terms = terms_of(loaded, agent, budget.spread, worlds)
    most = written.height * terms.k
    player, processes, size = cast_of(models.agent(loaded, policy_of(agent)), most, budget.processes)
    site = Site(terms, player, Path(warehouse.database).parent / "shards" / day, worlds=worlds)
    manifests: list[Manifest] = []
    shards, started = list(cut(terms, written, probes, size)), time.monotonic()
    for manifest in finish_shards(site, shards, processes):
        manifests.append(manifest)
        context.log.info(progress(manifests, len(shards), time.monotonic() - started))
    files = paths_by_table(site.folder, manifests)
    slices: dict[type[Table], list[Path]] = {
        model: files.get(table_name(model), []) for model in (simulate.Rollouts, simulate.Steps)
    }
    yield from store_files(day, warehouse, slices, figures(slices[simulate.Rollouts]))
    shutil.rmtree(site.folder)


@table_assets(simulate.Coverage, deps=[simulate.CoveragePlan, simulate.Scenarios, simulate.Rollouts])
def coverage(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """What was planned, what was played, and what the conversations really show."""
    day = context.partition_key
    with warehouse.connect():
        planned = warehouse.read(simulate.CoveragePlan, day)
        played = warehouse.query(PLAYED, [day])
    table = coverage_table(grid(project.load(), day), planned, played)
    counts = coverage_counts(table)
    yield from store(
        day,
        warehouse,
        {simulate.Coverage: frame(simulate.Coverage, day, table.iter_rows(named=True))},
        {
            "pairs_planned": counts.planned,
            "pairs_played": counts.played,
            "pairs_realised": counts.realised,
            "fraction_realised": counts.fraction,
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
    space = grid(project.load(), context.partition_key)
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


MIN_SHOWN = 0.95
"""What an array ten times over shows of its pairs, however the agent misbehaves; less points at a value that
its tools, its rules or the detector do not let through."""


@dg.asset_check(
    asset=key_of(simulate.Coverage),
    partitions_def=PARTITIONS,
    description=f"Of the planned pairs that were played, at least {MIN_SHOWN:.0%} showed in a conversation.",
)
def what_was_played_was_shown(
    context: dg.AssetCheckExecutionContext, warehouse: Warehouse
) -> dg.AssetCheckResult:
    """A warning, not a gate: a small night has too few worlds for what an unlucky agent hides."""
    counts = coverage_counts(warehouse.read(simulate.Coverage, context.partition_key))
    return dg.AssetCheckResult(
        passed=counts.realised >= MIN_SHOWN * counts.played,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "pairs_planned": counts.planned,
            "pairs_played": counts.played,
            "pairs_realised": counts.realised,
            "fraction_of_planned": counts.fraction,
        },
    )


CHECKS = [every_pair_is_planned, no_sealed_task, few_are_lost, what_was_played_was_shown]
