"""Grade: conduct, outcome, verdict and reward of every rollout; and whether the judge can be trusted."""

import dagster as dg
import polars as pl

from assets.cast import worlds_of
from assets.stored import PARTITIONS, Stored, key_of, store, table_assets
from resources.models import Models
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.grade.conduct import findings
from while_pipeline.grade.controls import control_labels
from while_pipeline.grade.grader import grade as grade_rollouts
from while_pipeline.grade.grader import transcript_of
from while_pipeline.grade.hack_scan import hack_scan as scan
from while_pipeline.grade.rows import (
    ENDORSED,
    FEATURES,
    conduct_rows,
    evenly_sampled,
    findings_by_rollout,
    grade_row,
    hack_rows,
    scanned,
)
from while_pipeline.grade.trust import defect_recall
from while_pipeline.grade.trust import judge_trust as trust
from while_pipeline.ids import seed_of
from while_pipeline.prove.pass_at import pass_table
from while_pipeline.simulate.rows import rollouts_from, scenarios_from
from while_pipeline.tables import grade, simulate
from while_pipeline.tables.base import frame


@table_assets(grade.Conduct, deps=[simulate.Rollouts, simulate.Steps])
def conduct(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Deterministic rules, each with its severity and the evidence."""
    day, loaded = context.partition_key, project.load()
    by_name = {tool.name: tool for tool in loaded.tools}
    played = rollouts_from(*warehouse.read_day(day, simulate.Rollouts, simulate.Scenarios))
    found = {r.rollout_id: findings(transcript_of(r, by_name, loaded.policy_document)) for r in played}
    yield from store(day, warehouse, {grade.Conduct: frame(grade.Conduct, day, conduct_rows(found))})


@table_assets(grade.Grades, deps=[grade.Conduct, simulate.Rollouts, simulate.Scenarios])
def grades(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource, models: Models
) -> Stored:
    """1 for a clean verdict on a right outcome, half when spoilt only in style, else 0; unknown stays so."""
    day, loaded = context.partition_key, project.load()
    rollouts, scenarios, found = warehouse.read_day(day, simulate.Rollouts, simulate.Scenarios, grade.Conduct)
    played, known = rollouts_from(rollouts, scenarios), findings_by_rollout(found)
    judge = models.judge(loaded)
    graded = grade_rollouts(played, loaded.tools, loaded.policy_document, judge, known)
    made = frame(grade.Grades, day, [grade_row(one, judge) for one in graded])
    yield from store(
        day,
        warehouse,
        {grade.Grades: made},
        {
            "passed": made["passed"].mean() or 0.0,
            "no_verdict": made["verdict"].null_count(),
            "judge": judge.identity,
        },
    )


@table_assets(grade.JudgeTrust, grade.RuleQuality, deps=[grade.Grades, simulate.Scenarios])
def judge_trust(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource, models: Models
) -> Stored:
    """The planted-defect policy plays the same scenarios: its planted defects are the gold labels."""
    day, loaded = context.partition_key, project.load()
    judge = models.judge(loaded)
    with warehouse.connect():
        held = scenarios_from(warehouse.read(simulate.Scenarios, day))
        worlds = worlds_of(loaded, warehouse, day)
    seed = seed_of(loaded.settings.seed, "controls", day)
    labels = control_labels(held, loaded.tools, loaded.policy_document, judge, seed=seed, worlds=worlds)
    rows = [{"judge": judge.identity, **row._asdict()} for row in trust(labels, source="seeded")]
    recalls = [row._asdict() for row in defect_recall(labels)]
    yield from store(
        day,
        warehouse,
        {
            grade.JudgeTrust: frame(grade.JudgeTrust, day, rows),
            grade.RuleQuality: frame(grade.RuleQuality, day, recalls),
        },
        {"verdict": rows[0]["reason"]},
    )


@table_assets(grade.HackScan, deps=[grade.Grades, simulate.Rollouts])
def hack_scan(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Whether the reward follows something it should not, within tasks, beyond what the rubric endorses."""
    day = context.partition_key
    found = scan(
        scanned(*warehouse.read_day(day, grade.Grades, simulate.Rollouts)),
        FEATURES,
        ENDORSED,
        seed=seed_of(project.load().settings.seed, "hack scan", day),
    )
    made = frame(grade.HackScan, day, hack_rows(found))
    yield from store(day, warehouse, {grade.HackScan: made}, {"conclusion": found.reason})


@table_assets(grade.PassAt, deps=[grade.Grades, simulate.Rollouts])
def pass_at(context: dg.AssetExecutionContext, warehouse: Warehouse) -> Stored:
    """Unbiased per task, then the mean over tasks with an interval over tasks."""
    day = context.partition_key
    graded = evenly_sampled(*warehouse.read_day(day, grade.Grades, simulate.Rollouts))
    samples = graded.group_by("task_id").len()["len"].to_list()
    rates = pass_table(graded.select("task_id", "category", "passed"), range(1, min(samples, default=1) + 1))
    made = frame(grade.PassAt, day, rates.iter_rows(named=True))
    overall = made.filter(pl.col("scope") == "overall", pl.col("metric") == "pass@", pl.col("k") == 1)
    yield from store(day, warehouse, {grade.PassAt: made}, {"pass_at_1": overall["value"].sum()})


@dg.asset_check(
    asset=key_of(grade.JudgeTrust),
    partitions_def=PARTITIONS,
    blocking=True,
    description=(
        "The judge agrees with the planted defects: lower 95 % Wilson bound at least .80, kappa at least "
        ".60, at most 10 % skipped, no preference for length. Below that its rewards would train noise."
    ),
)
def judge_is_trusted(context: dg.AssetCheckExecutionContext, warehouse: Warehouse) -> dg.AssetCheckResult:
    """Decided on all tasks together."""
    row = (
        warehouse.read(grade.JudgeTrust, context.partition_key)
        .filter(pl.col("half") == "all")
        .row(0, named=True)
    )
    figures = {name: row[name] for name in ("n", "agreement", "low", "kappa", "ac1") if row[name] is not None}
    return dg.AssetCheckResult(passed=row["trusted"], metadata={"reason": row["reason"], **figures})


@dg.asset_check(
    asset=key_of(grade.HackScan),
    partitions_def=PARTITIONS,
    blocking=True,
    description=(
        "No feature explains the reward within tasks beyond outcome and conduct (the 95 % point of the "
        "largest correlation over shuffles): a policy trained on such a reward would learn the feature."
    ),
)
def reward_is_not_hacked(context: dg.AssetCheckExecutionContext, warehouse: Warehouse) -> dg.AssetCheckResult:
    """A reward that never varies cannot be measured; then there is no gradient to mislead either."""
    rows = warehouse.read(grade.HackScan, context.partition_key)
    reason = rows["reason"].first() if rows.height else "nothing was graded"
    return dg.AssetCheckResult(passed=rows["hacked"].any() is not True, metadata={"reason": str(reason)})


CHECKS = [judge_is_trusted, reward_is_not_hacked]
