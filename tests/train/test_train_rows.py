import polars as pl

from tests.example import DAY, DOCUMENT, SEED, TOOLS, played, rollout_row, scenarios
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import grade_row
from while_pipeline.ids import canonical_json
from while_pipeline.simulate.axes import is_held_out
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.tables import grade as grade_tables
from while_pipeline.tables import prove, simulate, train
from while_pipeline.tables.base import frame
from while_pipeline.train.cuts import Cutter, training_message
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.privileged import personal_data_in, said_in
from while_pipeline.train.publication import Gate
from while_pipeline.train.rows import (
    candidates_from,
    dropped_by_cut,
    graded_by_rollout,
    hidden_by_rollout,
    own_texts,
    sealed_prompts,
)
from while_pipeline.train.set_checks import check_cut

SCENARIOS = scenarios(20)
ASKED = {"arm": "structured", "batch": 0, "spot_id": None, "operator": None, "parent_id": None}
PLANNED = frame(simulate.Scenarios, DAY, [{**ASKED, **scenario_row(s)} for s in SCENARIOS])
PLAYED = played(20, samples=4)
GRADED = grade(PLAYED, TOOLS, DOCUMENT, RulesJudge())
ROLLOUTS = frame(simulate.Rollouts, DAY, [rollout_row(r) for r in PLAYED])
GRADES = frame(grade_tables.Grades, DAY, [grade_row(one, RulesJudge()) for one in GRADED])


def test_a_candidate_is_its_rollout_with_its_grade_in_the_rollouts_order() -> None:
    made = candidates_from(ROLLOUTS, GRADES.reverse(), PLANNED)
    assert [c.rollout_id for c in made] == [r.rollout_id for r in PLAYED]
    for c, one in zip(made, GRADED, strict=True):
        assert (c.messages, c.sample) == (one.rollout.messages, one.rollout.sample)
        assert c.tool_condition == one.rollout.scenario.situation.tool_condition
        assert (c.reward, c.passed) == (one.reward, one.passed)
        assert c.prompt == one.rollout.scenario.script.opening


def test_a_rollout_without_a_grade_is_a_candidate_without_a_verdict() -> None:
    made = candidates_from(ROLLOUTS, GRADES.head(3), PLANNED)
    assert len(made) == len(PLAYED)
    assert {(c.reward, c.passed) for c in made[3:]} == {(None, None)}


def test_sealed_prompts_are_found_by_their_task() -> None:
    held = frame(prove.HeldOut, DAY, [{"fresh": True, **scenario_row(s)} for s in SCENARIOS[:1]])
    assert sealed_prompts(held).copied(SCENARIOS[0].script.opening.upper()) == SCENARIOS[0].task_id
    assert sealed_prompts(held).copied(SCENARIOS[1].script.opening) is None


def test_what_only_the_simulator_knows_is_found_by_rollout() -> None:
    found = hidden_by_rollout(ROLLOUTS, GRADES, PLANNED)
    assert found.keys() == {r.rollout_id for r in PLAYED}
    reasons = {row["rollout_id"]: row["reason"] for row in GRADES.iter_rows(named=True)}
    for r in PLAYED:
        hidden, scenario = found[r.rollout_id], r.scenario
        assert set(scenario.key.facts) <= set(hidden.key)
        assert {scenario.script.goal_line, *scenario.script.follow_ups} - {""} <= set(hidden.script)
        assert scenario.script.persona.full_name in hidden.script
        names = {record_id for records in scenario.world.records.values() for record_id in records}
        assert names <= set(hidden.records), "records are known to the world alone until a tool tells"
        assert {r.rollout_id, scenario.scenario_id, scenario.task_id, reasons[r.rollout_id]} <= set(
            hidden.grading
        )
    assert any(one.key for one in found.values())


def test_the_reasons_of_a_judges_criteria_are_hidden_too() -> None:
    criteria = canonical_json([{"name": "polite", "kind": "hard", "score": 0, "reason": "it never greets"}])
    judged = GRADES.with_columns(criteria=pl.lit(criteria))
    found = hidden_by_rollout(ROLLOUTS, judged, PLANNED)
    assert all("it never greets" in one.grading for one in found.values())
    ungraded = hidden_by_rollout(ROLLOUTS, judged.clear(), PLANNED)
    assert not any("it never greets" in one.grading for one in ungraded.values())


def test_no_rollout_of_the_base_policy_tells_what_only_the_simulator_knows() -> None:
    cutter = Cutter(candidates_from(ROLLOUTS, GRADES, PLANNED), TOOLS, DOCUMENT.text, SealedPrompts({}))
    gates = {gate for gate, _ in cutter.reward_model().fate.values()}
    assert gates == {"kept"}


def test_the_customers_addresses_are_fiction_or_they_would_be_personal_data() -> None:
    told = [m for r in PLAYED for m in map(training_message, r.messages)]
    assert any("@example.org" in said_in(m) or "555-01" in said_in(m) for m in told)
    assert personal_data_in(told) == []


def test_what_was_measured_is_found_by_rollout() -> None:
    found = graded_by_rollout(GRADES)
    for one in GRADED:
        measured = (one.rollout.scenario.scenario_id, one.reward, one.passed)
        assert found[one.rollout.rollout_id] == measured


def test_what_dropped_the_rollouts_of_each_cut_is_told_widest_first() -> None:
    gates = {"sft": ["kept", "b", "a", "a"], "dpo": ["kept"], "grpo": ["d", "c"]}
    rows = [
        {"rollout_id": f"r{n}", "cut": cut, "gate": gate, "detail": ""}
        for cut, of_cut in gates.items()
        for n, gate in enumerate(of_cut)
    ]
    assert dropped_by_cut(frame(train.WhyDropped, DAY, rows)) == {"grpo": "1 c, 1 d", "sft": "2 a, 1 b"}


def test_the_businesss_own_texts_are_its_policy_document_and_its_tools() -> None:
    own = own_texts(DOCUMENT.text, TOOLS)
    assert DOCUMENT.text in own
    assert all(tool.description in own for tool in TOOLS)


def test_the_cuts_of_a_played_night_pass_the_gate_they_were_made_for() -> None:
    candidates = candidates_from(ROLLOUTS, GRADES, PLANNED)
    sealed = SealedPrompts({"another task": "Nobody of this night asked this."})
    open_tasks = {c.task_id for c in candidates if not is_held_out(c.task_id, SEED)}
    cutter = Cutter([c for c in candidates if c.task_id in open_tasks], TOOLS, DOCUMENT.text, sealed)
    gate = Gate(
        split_seed=SEED,
        sealed=sealed,
        hidden=hidden_by_rollout(ROLLOUTS, GRADES, PLANNED),
        graded=graded_by_rollout(GRADES),
        own=own_texts(DOCUMENT.text, TOOLS),
        dropped={},
        trusted=True,
        trust_reason="",
        hacked=False,
        hack_reason="",
    )
    for cut in (cutter.sft(), cutter.sft_random(), cutter.dpo(), cutter.grpo(), cutter.reward_model()):
        assert cut.rows
        assert [c for c in check_cut(cut.name, cut.rows, gate) if not c.passed] == []
