import json

import polars as pl

from tests.example import BASE, DAY, DOCUMENT, TOOLS, played, rollout_row, scenarios
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import grade_row
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.tables import grade as grade_tables
from while_pipeline.tables import prove, simulate, train
from while_pipeline.tables.base import frame
from while_pipeline.train.cuts import Cutter
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.fit import fit_sft
from while_pipeline.train.registry import weights_from
from while_pipeline.train.rows import (
    candidates_from,
    decisions_of,
    facts_by_rollout,
    policy_row,
    sealed_prompts,
)

SCENARIOS = scenarios(20)
PLAYED = played(20, samples=4)
GRADED = grade(PLAYED, TOOLS, DOCUMENT, RulesJudge())
ROLLOUTS = frame(simulate.Rollouts, DAY, [rollout_row(r) for r in PLAYED])
GRADES = frame(grade_tables.Grades, DAY, [grade_row(one, RulesJudge()) for one in GRADED])


def test_a_candidate_is_its_rollout_with_its_grade_in_the_rollouts_order() -> None:
    made = candidates_from(ROLLOUTS, GRADES.reverse())
    assert [c.rollout_id for c in made] == [r.rollout_id for r in PLAYED]
    for c, one in zip(made, GRADED, strict=True):
        assert (c.messages, c.sample, c.words) == (one.rollout.messages, one.rollout.sample, one.agent_words)
        assert (c.reward, c.passed) == (one.reward, one.passed)
        assert c.prompt == one.rollout.scenario.script.opening


def test_a_rollout_without_a_grade_is_a_candidate_without_a_verdict() -> None:
    made = candidates_from(ROLLOUTS, GRADES.head(3))
    assert len(made) == len(PLAYED)
    assert {(c.reward, c.passed) for c in made[3:]} == {(None, None)}


def test_sealed_prompts_are_found_by_their_task() -> None:
    held = frame(prove.HeldOut, DAY, [{"fresh": True, **scenario_row(s)} for s in SCENARIOS[:1]])
    assert sealed_prompts(held).copied(SCENARIOS[0].script.opening.upper()) == SCENARIOS[0].task_id
    assert sealed_prompts(held).copied(SCENARIOS[1].script.opening) is None


def test_the_answer_keys_facts_are_found_by_rollout() -> None:
    asked = {"arm": "structured", "batch": 0, "spot_id": None, "operator": None, "parent_id": None}
    rows = [{**asked, **scenario_row(s)} for s in SCENARIOS]
    scenarios = frame(simulate.Scenarios, DAY, rows)
    found = facts_by_rollout(ROLLOUTS, scenarios)
    assert found == {r.rollout_id: r.scenario.key.facts for r in PLAYED}
    assert any(found.values())


def _sft() -> pl.DataFrame:
    cut = Cutter(candidates_from(ROLLOUTS, GRADES), TOOLS, DOCUMENT.text, SealedPrompts({})).sft()
    return frame(train.Sft, DAY, cut.rows)


def test_decisions_are_those_of_the_rows_rollouts_and_no_others() -> None:
    training = _sft()
    by_id = {r.rollout_id: r for r in PLAYED}
    assert decisions_of(training, ROLLOUTS) == [
        d for rollout in training["rollout_id"] for d in by_id[rollout].decisions
    ]


def test_a_policy_is_a_row_that_reads_back_with_its_parent_data_and_figures() -> None:
    training = _sft()
    fit = fit_sft(BASE, decisions_of(training, ROLLOUTS))
    row = frame(train.Policies, DAY, [policy_row(BASE, fit, training)]).row(0, named=True)
    assert weights_from(row) == fit.weights
    assert (row["parent"], row["policy_version"]) == (BASE.version, fit.weights.version)
    assert (row["n_rows"], row["n_decisions"], row["kl"]) == (training.height, fit.n_decisions, fit.kl)
    assert row["loss_after"] < row["loss_before"]
    assert json.loads(row["settings"]) == {"penalty": 0.02}


def test_the_data_hash_is_of_the_rows_not_of_their_order() -> None:
    training = _sft()
    fit = fit_sft(BASE, decisions_of(training, ROLLOUTS))
    hashes = [policy_row(BASE, fit, rows)["data_hash"] for rows in (training, training.reverse())]
    assert hashes[0] == hashes[1]
    assert policy_row(BASE, fit, training.head(2))["data_hash"] != hashes[0]
