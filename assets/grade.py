"""Grade: conduct, outcome, verdict and reward of every rollout; and whether the judge can be trusted."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
import polars as pl

from assets.cast import worlds_of
from assets.stored import PARTITIONS, Stored, key_of, store, store_parts, table_assets
from resources.models import Models
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.constants import RULE_CONTROLS, TRUST_CONTROLS
from while_pipeline.grade.batches import scenario_batches
from while_pipeline.grade.controls import play_controls
from while_pipeline.grade.examination import examine
from while_pipeline.grade.gold import Gold
from while_pipeline.grade.grader import conduct as conduct_of
from while_pipeline.grade.grader import grade as grade_rollouts
from while_pipeline.grade.hack_features import ENDORSED, SAMPLE, SCANNED, measured
from while_pipeline.grade.hack_regime import refusal
from while_pipeline.grade.hack_rows import hack_figures, hack_rows
from while_pipeline.grade.hack_scan import hack_scan as scan
from while_pipeline.grade.judge import Judge
from while_pipeline.grade.people import HumanGold, human_gold
from while_pipeline.grade.rows import (
    GRADED,
    conduct_rows,
    evenly_sampled,
    findings_by_rollout,
    grade_figures,
    grade_row,
)
from while_pipeline.grade.rule_quality import quality_rows
from while_pipeline.grade.rule_quality import rule_quality as measure_rules
from while_pipeline.grade.trust import Gate, judge_gate
from while_pipeline.ids import seed_of
from while_pipeline.project import Project
from while_pipeline.prove.pass_at import pass_table
from while_pipeline.prove.variance import variance_components
from while_pipeline.simulate.rows import rollouts_from, scenarios_from
from while_pipeline.tables import grade, simulate
from while_pipeline.tables.base import frame


def batches_of(warehouse: Warehouse, day: str) -> Iterator[list[str]]:
    """Scenarios of a day, in batches, in the order of their rollouts."""
    counted = """
        SELECT scenario_id, count(*) FROM simulate.rollouts WHERE day = ?
        GROUP BY scenario_id ORDER BY min(rowid)
    """
    yield from scenario_batches(warehouse.query(counted, [day]).iter_rows())


def read_batch(warehouse: Warehouse, day: str, scenarios: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rollouts and scenarios of a batch."""
    with warehouse.connect():
        rollouts = warehouse.read_of(simulate.Rollouts, day, "scenario_id", scenarios)
        return rollouts, warehouse.read_of(simulate.Scenarios, day, "scenario_id", scenarios)


@table_assets(grade.Conduct, deps=[simulate.Rollouts, simulate.Steps])
def conduct(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Deterministic rules, each with its severity and the evidence."""
    day, loaded = context.partition_key, project.load()
    parts = (conduct_part(warehouse, loaded, day, batch) for batch in batches_of(warehouse, day))
    yield from store_parts(day, warehouse, grade.Conduct, parts)


def conduct_part(warehouse: Warehouse, project: Project, day: str, batch: Sequence[str]) -> pl.DataFrame:
    """Rows of `grade.conduct` of a batch of scenarios."""
    played = rollouts_from(*read_batch(warehouse, day, batch))
    found = conduct_of(played, project.tools, project.policy_document)
    return frame(grade.Conduct, day, conduct_rows(found))


@table_assets(grade.Grades, deps=[grade.Conduct, simulate.Rollouts, simulate.Scenarios])
def grades(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource, models: Models
) -> Stored:
    """1 for a clean verdict on a right outcome, half when spoilt only in style, else 0; unknown stays so."""
    day, loaded = context.partition_key, project.load()
    judge = models.judge(loaded)
    parts = (grades_part(warehouse, loaded, judge, day, batch) for batch in batches_of(warehouse, day))

    def figures() -> dict[str, Any]:
        rubric = {"rubric": dg.MetadataValue.md(loaded.rubric.text)} if judge.rubric else {}
        return {**grade_figures(warehouse.query(GRADED, [day])), "judge": judge.identity, **rubric}

    yield from store_parts(day, warehouse, grade.Grades, parts, figures)


def grades_part(
    warehouse: Warehouse, project: Project, judge: Judge, day: str, batch: Sequence[str]
) -> pl.DataFrame:
    """Rows of `grade.grades` of a batch of scenarios. While the judge is asked, the database is closed."""
    with warehouse.connect():
        rollouts, scenarios = read_batch(warehouse, day, batch)
        found = warehouse.read_of(grade.Conduct, day, "rollout_id", rollouts["rollout_id"].to_list())
    played, known = rollouts_from(rollouts, scenarios), findings_by_rollout(found)
    graded = grade_rollouts(played, project.tools, project.policy_document, judge, known)
    return frame(grade.Grades, day, [grade_row(one, judge) for one in graded])


@table_assets(
    grade.JudgeTrust,
    grade.JudgeProbes,
    grade.DefectRecall,
    deps=[grade.Grades, simulate.Scenarios, simulate.Rollouts],
)
def judge_trust(
    context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource, models: Models
) -> Stored:
    """The planted-defect policy plays the same scenarios: its planted defects are the gold labels.

    People's labels (`judge.gold`) are a second source. Probes edit what the judge refused, and ask again.
    """
    day, loaded = context.partition_key, project.load()
    judge, tools, document = models.judge(loaded), loaded.tools, loaded.policy_document
    with warehouse.connect():
        held = scenarios_from(warehouse.read(simulate.Scenarios, day))
        worlds = worlds_of(loaded, warehouse, day)
        human = labelled_by_people(warehouse, loaded.gold, day, judge) if loaded.gold else None
    seed = seed_of(loaded.settings.seed, "controls", day)
    controls = play_controls(held, tools, document, count=TRUST_CONTROLS, seed=seed, worlds=worlds)
    required = loaded.settings.judge.require_human
    found = examine(judge, controls, tools, document, human=human, require_human=required)
    yield from store(
        day,
        warehouse,
        {
            grade.JudgeTrust: frame(grade.JudgeTrust, day, found.trust),
            grade.JudgeProbes: frame(grade.JudgeProbes, day, [row._asdict() for row in found.probes]),
            grade.DefectRecall: frame(grade.DefectRecall, day, [row._asdict() for row in found.recalls]),
        },
        {"verdict": found.gate.reason},
    )


def labelled_by_people(warehouse: Warehouse, gold: Gold, day: str, judge: Judge) -> HumanGold:
    """What people say of the rollouts up to a day that this judge graded; only those they name are read."""
    graded = warehouse.query(
        """SELECT g.rollout_id, g.scenario_id, r.sample, g.task_id, g.judge, g.verdict, r.n_words AS length
        FROM grade.grades AS g JOIN simulate.rollouts AS r USING (day, rollout_id)
        WHERE g.day <= ? AND (g.rollout_id IN (SELECT unnest(?::VARCHAR[]))
            OR g.scenario_id IN (SELECT unnest(?::VARCHAR[])))
        ORDER BY g.day, g.rollout_id""",
        [day, gold.rollout_ids, gold.scenario_ids],
    )
    return human_gold(gold, graded, judge.identity)


@table_assets(grade.RuleQuality, deps=[simulate.Scenarios])
def rule_quality(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """The planted-defect policy plays the day's scenarios; no judge is asked."""
    day, loaded = context.partition_key, project.load()
    tools, document = loaded.tools, loaded.policy_document
    with warehouse.connect():
        held = scenarios_from(warehouse.read(simulate.Scenarios, day))
        worlds = worlds_of(loaded, warehouse, day)
    seed = seed_of(loaded.settings.seed, "rule controls", day)
    controls = play_controls(held, tools, document, count=RULE_CONTROLS, seed=seed, worlds=worlds)
    scores = measure_rules(controls.labelled, tools, document)
    made = frame(grade.RuleQuality, day, quality_rows(scores))
    figures = {"false_alarms": made["n_false"].sum(), "lowest_recall": made["recall"].min()}
    yield from store(day, warehouse, {grade.RuleQuality: made}, figures)


@table_assets(grade.HackScan, deps=[grade.Grades, simulate.Rollouts])
def hack_scan(context: dg.AssetExecutionContext, warehouse: Warehouse, project: ProjectResource) -> Stored:
    """Whether the reward follows something it should not, within tasks, beyond what the rubric endorses.

    A large day is sampled: whole tasks, in the order of a hash, until there are enough rollouts to tell.
    """
    day = context.partition_key
    rollouts = measured(warehouse.query(SAMPLE, [day, SCANNED]))
    found = scan(
        rollouts.frame,
        [feature.name for feature in rollouts.features],
        ENDORSED,
        seed=seed_of(project.load().settings.seed, "hack scan", day),
    )
    made = frame(grade.HackScan, day, hack_rows(found, rollouts))
    figures = {"conclusion": found.reason, **hack_figures(made)}
    yield from store(day, warehouse, {grade.HackScan: made}, figures)


@table_assets(grade.PassAt, deps=[grade.Grades, simulate.Rollouts])
def pass_at(context: dg.AssetExecutionContext, warehouse: Warehouse) -> Stored:
    """Unbiased per task, then the mean over tasks with an interval over tasks."""
    day = context.partition_key
    graded = evenly_sampled(warehouse.query(GRADED, [day]))
    samples = graded.group_by("task_id").len()["len"].to_list()
    rates = pass_table(graded.select("task_id", "category", "passed"), range(1, min(samples, default=1) + 1))
    made = frame(grade.PassAt, day, rates.iter_rows(named=True))
    overall = made.filter(pl.col("scope") == "overall", pl.col("metric") == "pass@", pl.col("k") == 1)
    parts = variance_components(graded["passed"], graded["task_id"])
    rate = overall.select(pass_at_1="value").drop_nulls().to_dicts()
    figures = {**(rate[0] if rate else {}), "variance": parts.sentence if parts else "No verdict."}
    yield from store(day, warehouse, {grade.PassAt: made}, figures)


def gate_of_judge(warehouse: Warehouse, day: str) -> Gate:
    """Whether the rewards of a day may be trained on, by what is stored."""
    with warehouse.connect():
        rows = warehouse.read(grade.JudgeTrust, day)
        if rows.is_empty():
            return Gate(False, f"grade.judge_trust has no row for {day}; materialise it first")
        judges = warehouse.query(
            "SELECT DISTINCT judge FROM grade.grades WHERE day = ? ORDER BY judge", [day]
        )
    return judge_gate(rows.iter_rows(named=True), judges["judge"])


@dg.asset_check(
    asset=key_of(grade.JudgeTrust),
    partitions_def=PARTITIONS,
    blocking=True,
    description=(
        "The judge agrees with the planted defects, and with people's labels where there are enough: lower "
        "95 % Wilson bound at least .80, kappa at least .60, at most 10 % skipped, no preference for length, "
        "no probe that turns a tenth of its verdicts. Below that its rewards would train noise."
    ),
)
def judge_is_trusted(context: dg.AssetCheckExecutionContext, warehouse: Warehouse) -> dg.AssetCheckResult:
    """Decided on all tasks together, over every source of labels; the figures are of planted defects."""
    gate = gate_of_judge(warehouse, context.partition_key)
    rows = warehouse.read(grade.JudgeTrust, context.partition_key)
    planted = rows.filter(source="seeded", half="all").select(
        "n", "n_tasks", "agreement", "low", "kappa", "ac1"
    )
    known = {name: value for row in planted.to_dicts() for name, value in row.items() if value is not None}
    return dg.AssetCheckResult(
        passed=gate.open, description=gate.reason, metadata={"reason": gate.reason, **known}
    )


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
    refused = refusal(rows)
    said = {"reason": rows["reason"][0], "advice": rows["advice"][0]} if rows.height else {"reason": refused}
    return dg.AssetCheckResult(
        passed=refused is None, description=refused, metadata={**said, **hack_figures(rows)}
    )


CHECKS = [judge_is_trusted, reward_is_not_hacked]
