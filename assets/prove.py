"""Prove: sealed tasks, both policies' attempts at them, the paired difference, and the decision."""

from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from assets.cast import grid, policy_of, worlds_of, writer_of
from assets.stored import PARTITIONS, Stored, key_of, store, table_assets
from resources.models import Models
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.constants import MIN_CHANGED_TASKS, PLANNED_BASE
from while_pipeline.ids import seed_of
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.delta_files import data_uri, write_delta
from while_pipeline.prove.delta_report import Compared, answer, delta_markdown
from while_pipeline.prove.held_out import draw_held_out
from while_pipeline.prove.looks import looks_of, times_looked_at
from while_pipeline.prove.power import plan
from while_pipeline.prove.trials import Arm, about_trials, trial_rows
from while_pipeline.prove.verdict import Verdict, promotable
from while_pipeline.simulate.rows import scenario_row, scenarios_from
from while_pipeline.tables import prove, simulate, train, watch
from while_pipeline.tables.base import frame
from while_pipeline.tables.views import VIEWS
from while_pipeline.train.elsewhere import require_same_agent
from while_pipeline.train.registry import contender_of


@table_assets(prove.HeldOut, deps=[simulate.Axes])
def held_out(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Drawn from the fifth of the space that no training ever sees, by category; fresh ones first."""
    day, loaded = context.partition_key, project.load()
    with warehouse.connect():
        looked_at = times_looked_at(warehouse.read(prove.Looks, before=day))
        worlds = worlds_of(loaded, warehouse, day)
    tasks = draw_held_out(
        grid(loaded, day),
        writer_of(loaded, worlds),
        tasks=loaded.settings.prove.tasks,
        seed=loaded.settings.seed,
        day=day,
        looked_at=looked_at,
    )
    rows = [{"fresh": looked_at[task.task_id] == 0, **scenario_row(task)} for task in tasks]
    shows = plan(len(rows), k=loaded.settings.prove.k, base=PLANNED_BASE).sentence
    yield from store(day, warehouse, {prove.HeldOut: frame(prove.HeldOut, day, rows)}, {"can_show": shows})


@table_assets(prove.Trials, deps=[prove.HeldOut, train.Policies, train.Registered, watch.Agent])
def trials(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource, models: Models
) -> Stored:
    """Same worlds, same customers, same luck; only the policy differs.

    A model registered for the day stands in place of the one fitted on it.
    """
    day, loaded = context.partition_key, project.load()
    with warehouse.connect():
        agent, held = warehouse.read_day(day, watch.Agent, prove.HeldOut)
        contender = contender_of(*warehouse.read_day(day, train.Policies, train.Registered))
        worlds = worlds_of(loaded, warehouse, day)
    rows = []
    if contender is not None:
        serving = agent.row(0, named=True)
        require_same_agent(contender, serving)
        rows = trial_rows(
            scenarios_from(held),
            {
                "before": Arm(serving["policy_version"], models.agent(loaded, policy_of(agent))),
                "after": Arm(contender.version, models.agent(loaded, contender.policy)),
            },
            loaded.tools,
            loaded.policy_document,
            models.judge(loaded),
            k=loaded.settings.prove.k,
            seed=seed_of(loaded.settings.seed, "trials", day),
            worlds=worlds,
        )
    made = frame(prove.Trials, day, rows)
    rates = {
        f"pass_at_1_{arm}": rate
        for arm in ("before", "after")
        if (rate := made.filter(pl.col("arm") == arm)["passed"].mean()) is not None
    }
    yield from store(day, warehouse, {prove.Trials: made}, rates)


@table_assets(prove.Delta, prove.Looks, deps=[prove.Trials, prove.HeldOut])
def delta(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Better only when the interval excludes zero, the sign-flip test agrees and enough tasks changed."""
    day, settings = context.partition_key, project.load().settings.prove
    with warehouse.connect():
        played = warehouse.read(prove.Trials, day)
        earlier = times_looked_at(warehouse.read(prove.Looks, before=day))
    looked = looks_of(played, earlier, settings.level)
    looks = looked[0]["look"] if looked else 1
    report = paired_delta(
        played,
        level=settings.level,
        min_changed=MIN_CHANGED_TASKS,
        min_effect=settings.min_effect,
        looks=looks,
        guards=settings.must_not_regress,
    )
    made = {
        prove.Delta: frame(prove.Delta, day, report.iter_rows(named=True)),
        prove.Looks: frame(prove.Looks, day, looked),
    }
    about = about_trials(played, level=settings.level, min_effect=settings.min_effect, looks=looks)
    yield from store(day, warehouse, made, _said(day, warehouse, report, about))


def _said(day: str, warehouse: Warehouse, report: pl.DataFrame, about: Compared) -> dict[str, Any]:
    """Write the report beside the day's; its answer, text, picture and figures are the asset's metadata."""
    title = f"{day}: {about.after} against {about.before}"
    written = write_delta(Path(warehouse.database).parent / "reports", f"{day}.delta", title, report, about)
    overall = report.row(0, named=True)
    figures = ("before", "after", "difference", "low", "high", "noise")
    return {
        "answer": answer(report, about),
        "verdict": overall["verdict"],
        "reason": overall["reason"],
        **{name: overall[name] for name in figures if overall[name] is not None},
        "report": dg.MetadataValue.md(delta_markdown(title, report, about, data_uri(written.picture))),
        "report_file": dg.MetadataValue.path(written.text),
    }


@table_assets(prove.Promotion, deps=[prove.Delta, prove.Looks, train.Policies, train.Registered, watch.Agent])
def promotion(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """A promoted candidate serves from the next day on. After this the tables are published for readers."""
    day = context.partition_key
    rows = []
    with warehouse.connect():
        agent, report = warehouse.read_day(day, watch.Agent, prove.Delta)
        contender = contender_of(*warehouse.read_day(day, train.Policies, train.Registered))
        delta_id = warehouse.digest(prove.Delta, day)
        looks = warehouse.read(prove.Looks, day)
    if contender is not None:
        if strangers := set(looks["candidate"]) - {contender.version}:
            raise dg.Failure(
                f"the day's trials are of {', '.join(strangers)} and its candidate is {contender.version}: "
                "materialise prove/trials and what follows",
                allow_retries=False,
            )
        promoted, reason = promotable(report)
        serving = agent["policy_version"].item()
        rows = [
            {
                "candidate": contender.version,
                "serving": serving,
                "promoted": promoted,
                "reason": reason,
                "delta_id": delta_id,
            }
        ]
    said = rows[0]["reason"] if rows else "no candidate today"
    yield from store(day, warehouse, {prove.Promotion: frame(prove.Promotion, day, rows)}, {"decision": said})
    publish(warehouse)


def publish(warehouse: Warehouse) -> None:
    """Make what is stored readable beside the next run: views, then the snapshot."""
    warehouse.create_views(VIEWS)
    warehouse.publish()


@dg.failure_hook(required_resource_keys={"warehouse"})
def publish_after_failure(context: dg.HookContext) -> None:
    """Publish what a failed day did store: readers see the refused gate, not the day before."""
    publish(context.resources.warehouse)


@dg.asset_check(
    asset=key_of(prove.Delta),
    partitions_def=PARTITIONS,
    description="Neither the whole nor a category got worse, and no guarded rule is broken more often. "
    "A red mark means the candidate is not promoted.",
)
def nothing_got_worse(context: dg.AssetCheckExecutionContext, warehouse: Warehouse) -> dg.AssetCheckResult:
    """Too few tasks is not worse, and not better either: it says how many are needed."""
    rows = warehouse.read(prove.Delta, context.partition_key)
    worse = rows.filter(pl.col("verdict") == Verdict.WORSE)["scope"].to_list()
    return dg.AssetCheckResult(
        passed=not worse,
        description=f"got worse: {', '.join(worse)}" if worse else None,
        metadata={"worse": worse},
    )


CHECKS = [nothing_got_worse]
