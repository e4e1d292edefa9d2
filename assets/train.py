"""Train: the four cuts, why the rest was dropped, the publication gate, and the next policy."""

from collections.abc import Callable

import dagster as dg
import polars as pl

from assets.grade import gate_of_judge
from assets.stored import PARTITIONS, Stored, key_of, store, table_assets
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.grade.hack_regime import refusal
from while_pipeline.project import Project
from while_pipeline.tables import grade, prove, simulate, train, watch
from while_pipeline.tables.base import Table, frame
from while_pipeline.train.cuts import Cut, Cutter
from while_pipeline.train.cuts import why_dropped as fates
from while_pipeline.train.fit import fit_sft
from while_pipeline.train.publication import Gate, check_cut
from while_pipeline.train.registry import weights_from
from while_pipeline.train.rows import (
    candidates_from,
    decisions_of,
    facts_by_rollout,
    policy_row,
    sealed_prompts,
)

CUTS: dict[str, type[Table]] = {
    "sft": train.Sft,
    "dpo": train.Dpo,
    "grpo": train.Grpo,
    "reward_model": train.RewardModel,
}
SOURCES = [simulate.Rollouts, grade.Grades, prove.HeldOut]
"""What every cut is made of."""


def require_trust(warehouse: Warehouse, day: str) -> None:
    """Hold the gate a second time: a blocking check only blocks inside its own run."""
    gate = gate_of_judge(warehouse, day)
    if not gate.open:
        raise dg.Failure(f"the judge is not trusted: {gate.reason}", allow_retries=False)


def require_clean_reward(warehouse: Warehouse, day: str) -> None:
    """Hold the hack gate a second time."""
    refused = refusal(warehouse.read(grade.HackScan, day))
    if refused is not None:
        raise dg.Failure(refused, allow_retries=False)


def cutter(warehouse: Warehouse, project: Project, day: str) -> Cutter:
    """The cutter of a day's rollouts."""
    agent, rollouts, grades, held_out = warehouse.read_day(day, watch.Agent, *SOURCES)
    document = agent["policy_document"].item()
    return Cutter(candidates_from(rollouts, grades), project.tools, document, sealed_prompts(held_out))


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
    rows = fates([made.sft(), made.dpo(), made.grpo(), made.reward_model()])
    yield from store(day, warehouse, {train.WhyDropped: frame(train.WhyDropped, day, rows)})


@table_assets(train.Publication, deps=[*CUTS.values(), train.WhyDropped, grade.HackScan, prove.HeldOut])
def publication(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Recomputed from the cuts' own rows, so that a row put there by other means is caught too."""
    day = context.partition_key
    rollouts, scenarios, held_out, hack = warehouse.read_day(
        day, simulate.Rollouts, simulate.Scenarios, prove.HeldOut, grade.HackScan
    )
    judged, hacked = gate_of_judge(warehouse, day), refusal(hack)
    gate = Gate(
        split_seed=project.load().settings.seed,
        sealed=sealed_prompts(held_out),
        facts=facts_by_rollout(rollouts, scenarios),
        trusted=judged.open,
        trust_reason=judged.reason,
        hacked=hacked is not None,
        hack_reason=hacked or str(hack["reason"].first()),
    )
    checks = [
        vars(check)
        for cut, rows in zip(CUTS, warehouse.read_day(day, *CUTS.values()), strict=True)
        for check in check_cut(cut, rows.iter_rows(named=True), gate)
    ]
    yield from store(day, warehouse, {train.Publication: frame(train.Publication, day, checks)})


@table_assets(train.Policies, deps=[train.Sft, train.Publication, watch.Agent, simulate.Rollouts])
def policies(context: dg.AssetExecutionContext, warehouse: Warehouse) -> Stored:
    """The candidate: the serving policy fitted to the published SFT cut."""
    day = context.partition_key
    checks, agents, training, rollouts = warehouse.read_day(
        day, train.Publication, watch.Agent, train.Sft, simulate.Rollouts
    )
    refused = checks.filter(~pl.col("passed"))
    if refused.height:
        row = refused.row(0, named=True)
        raise dg.Failure(
            f"publication refused {row['cut']}: {row['check']}: {row['detail']}", allow_retries=False
        )
    agent = agents.row(0, named=True)
    rows = []
    if agent["weights"] is None:
        context.log.warning(f"a {agent['plays']} agent is not fitted here: the cuts are for its own trainer")
    elif training.is_empty():
        context.log.warning("the SFT cut is empty: there is no candidate today")
    else:
        parent = weights_from(agent)
        fitted = fit_sft(parent, decisions_of(training, rollouts))
        rows = [policy_row(parent, fitted, training)]
    made = frame(train.Policies, day, rows)
    figures = {name: made[name][0] for name in ("loss_before", "loss_after", "kl", "n_rows")} if rows else {}
    yield from store(day, warehouse, {train.Policies: made}, figures)


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
    description="Every check of every cut passed: nothing trains on a cut that leaks or cannot be trusted.",
)
def cuts_may_be_published(
    context: dg.AssetCheckExecutionContext, warehouse: Warehouse
) -> dg.AssetCheckResult:
    """The refusals are in train.publication with an example each."""
    refused = warehouse.read(train.Publication, context.partition_key).filter(~pl.col("passed"))
    said = [
        f"{cut}: {check}: {detail}"
        for cut, check, detail in refused.select("cut", "check", "detail").iter_rows()
    ]
    return dg.AssetCheckResult(passed=not said, metadata={"refused": said})


CHECKS = [every_rollout_is_accounted_for, cuts_may_be_published]
