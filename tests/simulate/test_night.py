import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.example import BASE, DAY, DOCUMENT, GRID, ROOT, SEED, TOOLS, WRITER, planned
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.ids import canonical_json
from while_pipeline.simulate.arms import Chooser
from while_pipeline.simulate.axes import AXES, is_held_out
from while_pipeline.simulate.cells import Spot
from while_pipeline.simulate.mutate import OPERATORS
from while_pipeline.simulate.night import Night, scenario_rows, search_rows
from while_pipeline.simulate.search import ARMS, SearchResult
from while_pipeline.tables import simulate
from while_pipeline.tables.base import frame


def _night(seed: int = 5) -> Night:
    return Night(EmbeddedAgent(BASE), TOOLS, DOCUMENT, policy_version=BASE.version, seed=seed)


@cache
def _found(seed: int = 5, budget: int = 60) -> SearchResult:
    spots = [Spot("spot", "pay_bill", "timeout", "hurried", 1.0, n=4, failures=3)]
    chooser = Chooser(GRID, planned(), spots, seed)
    return _night(seed).search(chooser, WRITER, budget=budget, batch_size=20)


def test_probes_are_sample_zero_of_their_scenarios_as_playing_them_gives() -> None:
    probed = _found().probed
    assert len(probed) == 60
    assert [p.rollout.sample for p in probed] == [0] * 60
    assert [p.rollout for p in probed] == list(_night().play([p.scenario for p in probed], range(1)))


def test_a_group_is_its_probe_and_the_rest_played_later() -> None:
    probed = _found().probed[:10]
    scenarios = [p.scenario for p in probed]
    rest = list(_night().play(scenarios, range(1, 3)))
    whole = list(_night().play(scenarios, range(3)))
    together = [p.rollout for p in probed] + rest
    assert {r.rollout_id: r for r in together} == {r.rollout_id: r for r in whole}


def test_what_failed_is_what_the_rules_fail() -> None:
    probed = _found().probed
    graded = grade((p.rollout for p in probed), TOOLS, DOCUMENT, RulesJudge())
    assert [p.failed for p in probed] == [one.passed is False for one in graded]
    assert 0 < sum(p.failed for p in probed) < len(probed)


def test_probes_and_their_rows_say_the_same_of_signature_and_realised_axes() -> None:
    probed = _found().probed
    rows = [row for row, _ in _night().rows(p.rollout for p in probed)]
    assert [row["signature"] for row in rows] == [p.signature for p in probed]
    assert [row["realised"] for row in rows] == [canonical_json(list(p.realised)) for p in probed]
    assert {axis for p in probed for axis in p.realised} == set(AXES)


def test_every_arm_writes_once_there_is_something_to_follow_and_no_task_is_sealed() -> None:
    probed = _found().probed
    assert {p.scenario.arm for p in probed} == set(ARMS)
    assert not any(is_held_out(p.scenario.task_id, SEED) for p in probed)
    assert {p.choice.spot_id for p in probed if p.scenario.arm == "llm_guided"} == {"spot", None}
    assert {p.choice.spot_id for p in probed if p.scenario.arm != "llm_guided"} == {None}


def test_mutants_name_their_operator_and_a_parent_that_failed() -> None:
    probed = _found().probed
    rows = {row["scenario_id"]: row for row in scenario_rows(_found())}
    failed = {p.scenario.scenario_id for p in probed if p.failed}
    for row in rows.values():
        mutant = row["arm"] == "failure_mutation"
        assert (row["operator"] is not None) is mutant is (row["parent_id"] is not None)
        if mutant:
            parent = rows[row["parent_id"]]
            assert row["operator"] in OPERATORS
            assert row["parent_id"] in failed
            assert row["task_id"] == parent["task_id"]
            assert row["answer_key"] == parent["answer_key"]
            assert row["script"] != parent["script"]


def test_phrasings_of_a_choice_are_scenarios_of_one_task_and_world() -> None:
    chooser = Chooser(GRID, planned(), [], 5)
    found = _night().search(chooser, WRITER, budget=12, batch_size=12, phrasings=3)
    structured = [p.scenario for p in found.probed if p.scenario.arm == "structured"]
    assert len({s.task_id for s in structured[:3]}) == 1
    assert len({s.script.opening for s in structured[:3]}) == 3
    assert len({s.world.model_dump_json() for s in structured[:3]}) == 1


def test_all_rows_are_what_their_tables_want() -> None:
    found = _found()
    rollouts, steps = [], []
    for row, made in _night().rows(p.rollout for p in found.probed):
        rollouts.append(row)
        steps += made
        assert row["n_tool_calls"] == len(made)
    assert frame(simulate.Scenarios, DAY, scenario_rows(found)).height == 60
    assert frame(simulate.Probes, DAY, rollouts).height == 60
    assert frame(simulate.Steps, DAY, steps).height == len(steps) > 30
    log = frame(simulate.Search, DAY, search_rows(found))
    assert log["rows"].sum() == 60
    assert log.height == len(ARMS) * (log["batch"].max() + 1)  # type: ignore[operator]


def test_another_seed_searches_elsewhere() -> None:
    ids = {p.scenario.scenario_id for p in _found().probed}
    assert not ids & {p.scenario.scenario_id for p in _found(6, budget=10).probed}


def _digest() -> str:
    found = _found()
    rows = [row for row, _ in _night().rows(p.rollout for p in found.probed)]
    return hashlib.sha256(
        canonical_json([scenario_rows(found), search_rows(found), rows, found.stopped]).encode()
    ).hexdigest()


def test_another_process_with_another_hash_seed_makes_the_same_rows() -> None:
    code = f"import runpy; print(runpy.run_path({str(Path(__file__))!r})['_digest']())"
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == _digest()
