"""Train: the cuts, why the rest was dropped, the publication gate, and the next policy."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import dagster as dg
import polars as pl

from assets.grade import gate_of_judge
from assets.stored import PARTITIONS, Stored, key_of, store, table_assets
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.grade.hack_regime import refusal as hack_refusal
from while_pipeline.project import Project
from while_pipeline.tables import grade, prove, simulate, train, watch
from while_pipeline.tables.base import Table, frame
from while_pipeline.train import published
from while_pipeline.train.cuts import Cut, Cutter
from while_pipeline.train.cuts import why_dropped as fates
from while_pipeline.train.exports.day import export_day
from while_pipeline.train.fit import NothingToFit
from while_pipeline.train.fit_rows import Lesson, head_rows, learn, policy_figures, policy_row
from while_pipeline.train.policy_report import heads_markdown
from while_pipeline.train.publication import Gate, Stops, refusal, rows_hash
from while_pipeline.train.rows import (
    candidates_from,
    dropped_by_cut,
    graded_by_rollout,
    hidden_by_rollout,
    own_texts,
    sealed_prompts,
)
from while_pipeline.train.set_checks import check_cut

CUTS: dict[str, type[Table]] = {name: kind.table for name, kind in published.CUTS.items()}
SOURCES = [simulate.Rollouts, simulate.Scenarios, grade.Grades, prove.HeldOut]
"""What every cut is made of."""


def require_trust(warehouse: Warehouse, day: str) -> None:
    """Hold the gate a second time: a blocking check only blocks inside its own run."""
    gate = gate_of_judge(warehouse, day)
    if not gate.open:
        raise dg.Failure(f"the judge is not trusted: {gate.reason}", allow_retries=False)


def require_clean_reward(warehouse: Warehouse, day: str) -> None:
    """Hold the hack gate a second time."""
    refused = hack_refusal(warehouse.read(grade.HackScan, day))
    if refused is not None:
        raise dg.Failure(refused, allow_retries=False)


def require_publication(warehouse: Warehouse, day: str) -> None:
    """Hold the publication gate a second time."""
    refused = refusal(warehouse.read(train.Publication, day))
    if refused is not None:
        raise dg.Failure(refused, allow_retries=False)


def cutter(warehouse: Warehouse, project: Project, day: str) -> Cutter:
    """The cutter of a day's rollouts."""
    agent, rollouts, scenarios, grades, held_out = warehouse.read_day(day, watch.Agent, *SOURCES)
    candidates = candidates_from(rollouts, grades, scenarios)
    return Cutter(candidates, project.tools, agent["policy_document"].item(), sealed_prompts(held_out))


def kept(cut: Cut) -> dict[str, int]:
    """Figures of a cut for its metadata."""
    return {"kept_rollouts": sum(gate == "kept" for gate, _ in cut.fate.values()), "rollouts": len(cut.fate)}


def store_cut(
    day: str,
    warehouse: Warehouse,
    project: ProjectResource,
    model: type[Table],
    make: Callable[[Cutter], Cut],
) -> Stored:
    """Make one cut of a day, if the judge may be trusted, and store it."""
    require_trust(warehouse, day)
    cut = make(cutter(warehouse, project.load(), day))
    yield from store(day, warehouse, {model: frame(model, day, cut.rows)}, kept(cut))


@table_assets(train.Sft, deps=[*SOURCES, watch.Agent, grade.JudgeTrust])
def sft(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """One row per scenario that was solved, picks spread over behaviours."""
    yield from store_cut(context.partition_key, warehouse, project, train.Sft, Cutter.sft)


@table_assets(train.SftRandom, deps=[*SOURCES, watch.Agent, grade.JudgeTrust])
def sft_random(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """The SFT cut's scenarios, each with a rollout drawn by hash."""
    yield from store_cut(context.partition_key, warehouse, project, train.SftRandom, Cutter.sft_random)


@table_assets(train.Dpo, deps=[*SOURCES, watch.Agent, grade.JudgeTrust])
def dpo(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """A pass against a failure of the same scenario, cut where they part."""
    yield from store_cut(context.partition_key, warehouse, project, train.Dpo, Cutter.dpo)


@table_assets(train.Grpo, deps=[*SOURCES, watch.Agent, grade.JudgeTrust, grade.HackScan, grade.PassAt])
def grpo(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Whole groups that pass sometimes: 20 to 80 %."""
    require_clean_reward(warehouse, context.partition_key)
    yield from store_cut(context.partition_key, warehouse, project, train.Grpo, Cutter.grpo)


@table_assets(train.RewardModel, deps=[*SOURCES, watch.Agent, grade.JudgeTrust])
def reward_model(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Every graded rollout with its reward."""
    yield from store_cut(context.partition_key, warehouse, project, train.RewardModel, Cutter.reward_model)


@table_assets(train.WhyDropped, deps=[*SOURCES, watch.Agent, *CUTS.values()])
def why_dropped(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """The first gate that dropped each rollout from each cut."""
    day = context.partition_key
    made = cutter(warehouse, project.load(), day)
    rows = fates([made.sft(), made.sft_random(), made.dpo(), made.grpo(), made.reward_model()])
    yield from store(day, warehouse, {train.WhyDropped: frame(train.WhyDropped, day, rows)})


@table_assets(
    train.Publication, deps=[*SOURCES, *CUTS.values(), train.WhyDropped, grade.HackScan, watch.Agent]
)
def publication(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Recomputed from the cuts' own rows; a verdict is about the rows that were there."""
    day, loaded = context.partition_key, project.load()
    gate = gate_of_cuts(warehouse, loaded, day)
    checks = [
        {**vars(check), "rows_hash": seen}
        for cut, rows in zip(CUTS, warehouse.read_day(day, *CUTS.values()), strict=True)
        for seen in (rows_hash(rows),)
        for check in check_cut(cut, rows.iter_rows(named=True), gate)
    ]
    yield from store(day, warehouse, {train.Publication: frame(train.Publication, day, checks)})


def gate_of_cuts(warehouse: Warehouse, project: Project, day: str) -> Gate:
    """What the cuts of a day are held against."""
    rollouts, scenarios, grades, held_out, agent, why, hack = warehouse.read_day(
        day, *SOURCES, watch.Agent, train.WhyDropped, grade.HackScan
    )
    judged, hacked = gate_of_judge(warehouse, day), hack_refusal(hack)
    return Gate(
        split_seed=project.settings.seed,
        sealed=sealed_prompts(held_out),
        hidden=hidden_by_rollout(rollouts, grades, scenarios),
        graded=graded_by_rollout(grades),
        own=own_texts(agent["policy_document"].item(), project.tools),
        dropped=dropped_by_cut(why),
        trusted=judged.open,
        trust_reason=judged.reason,
        hacked=hacked is not None,
        hack_reason=hacked or str(hack["reason"].first()),
    )


@table_assets(
    train.Exports,
    deps=[*CUTS.values(), train.Publication, watch.Agent, simulate.Scenarios, grade.Grades],
)
def exports(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Files under `data/exports/DAY/CUT-FORMAT`, in the formats that `train.exports` names."""
    day, loaded = context.partition_key, project.load()
    data = Path(warehouse.database).parent
    with warehouse.connect():
        rows = list(
            export_day(
                lambda model: warehouse.read(model, day),
                dt.date.fromisoformat(day),
                loaded.settings.train.exports,
                loaded,
                data,
            )
        )
    # After the refused cuts' earlier files are gone.
    require_publication(warehouse, day)
    for row in rows:
        if row["refused"]:
            context.log.warning(f"{row['folder']} was not written: {row['refused']}")
    figures = {"folder": dg.MetadataValue.path(str(data / "exports" / day))}
    yield from store(day, warehouse, {train.Exports: frame(train.Exports, day, rows)}, figures)


@table_assets(
    train.Policies,
    train.PolicyHeads,
    deps=[
        train.Sft,
        train.Dpo,
        train.Grpo,
        train.Publication,
        grade.HackScan,
        watch.Agent,
        simulate.Rollouts,
    ],
)
def policies(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """The candidate: the serving policy fitted to the published cut that `train.method` names."""
    day, loaded = context.partition_key, project.load()
    settings = loaded.settings.train
    require_publication(warehouse, day)
    if settings.method == "grpo":
        require_clean_reward(warehouse, day)
    with warehouse.connect():
        rows, rollouts, checks, today = warehouse.read_day(
            day, CUTS[settings.method], simulate.Rollouts, train.Publication, watch.Agent
        )
        agents = pl.concat([warehouse.read(watch.Agent, before=day), today])
    lesson = Lesson(agents, rows, rollouts, loaded.tools, held_back=refusal(checks, settings.method, rows))
    made, heads, figures = [], [], dict[str, Any]()
    try:
        learnt = learn(lesson, settings)
    except NothingToFit as reason:
        context.log.warning(f"there is no candidate today: {reason}")
        figures = {"no_candidate": str(reason)}
    else:
        made, heads = [policy_row(learnt)], head_rows(learnt)
        figures = {**policy_figures(learnt), "heads": dg.MetadataValue.md(heads_markdown(learnt.moves))}
    frames = {
        train.Policies: frame(train.Policies, day, made),
        train.PolicyHeads: frame(train.PolicyHeads, day, heads),
    }
    yield from store(day, warehouse, frames, figures)


@dg.asset_check(
    asset=key_of(train.WhyDropped),
    partitions_def=PARTITIONS,
    blocking=True,
    description="Every rollout of the day is accounted for exactly once per cut; what is kept is in the cut.",
)
def every_rollout_is_accounted_for(
    context: dg.AssetCheckExecutionContext, warehouse: Warehouse
) -> dg.AssetCheckResult:
    """Counted in SQL over the stored tables."""
    day = context.partition_key
    counted = warehouse.query(
        """SELECT cut, count(*) AS n, count(*) FILTER (gate = 'kept') AS kept FROM train.why_dropped
        WHERE day = ? GROUP BY cut ORDER BY cut""",
        [day],
    )
    heights = [rows.height for rows in warehouse.read_day(day, *CUTS.values(), simulate.Rollouts)]
    *per_cut, played = heights
    in_cut = dict(zip(CUTS, per_cut, strict=True))
    in_cut["dpo"] *= 2  # a pair is two rollouts
    wrong = [cut for cut, n, n_kept in counted.iter_rows() if n != played or n_kept != in_cut[cut]]
    complete = counted.height == len(CUTS) or played == 0
    return dg.AssetCheckResult(passed=complete and not wrong, metadata={"rollouts": played, "wrong": wrong})


@dg.asset_check(
    asset=key_of(train.Publication),
    partitions_def=PARTITIONS,
    blocking=True,
    description=(
        "No check that holds back the day refused a cut: nothing trains on one that leaks or cannot be "
        "trusted. A cut that is only of no use (empty, labels of one side) is held back alone."
    ),
)
def cuts_may_be_published(
    context: dg.AssetCheckExecutionContext, warehouse: Warehouse
) -> dg.AssetCheckResult:
    """The refusals are in train.publication with examples."""
    checks = warehouse.read(train.Publication, context.partition_key)
    said = {
        stops: [
            f"{cut}: {check}: {detail}"
            for cut, check, detail in checks.filter(~pl.col("passed"), pl.col("stops") == stops)
            .select("cut", "check", "detail")
            .iter_rows()
        ]
        for stops in get_args(Stops)
    }
    return dg.AssetCheckResult(
        passed=refusal(checks) is None,
        metadata={"refused": said["day"], "held_back": said["cut"], "worth_a_look": said["nothing"]},
    )


CHECKS = [every_rollout_is_accounted_for, cuts_may_be_published]
