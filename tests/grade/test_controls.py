from dataclasses import replace
from functools import cache

import pytest

from tests.example import DOCUMENT, TOOLS, scenarios
from while_pipeline.constants import TRUST_CONTROLS
from while_pipeline.grade.controls import LABELS, Controls, control_labels, gold_of, play_controls
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.outcome import Outcome
from while_pipeline.grade.trust import judge_trust

SCENARIOS = scenarios(260, seed=11)


@cache
def controls(scenarios: int, count: int = TRUST_CONTROLS, seed: int = 1) -> Controls:
    return play_controls(SCENARIOS[:scenarios], TOOLS, DOCUMENT, count=count, seed=seed)


@pytest.fixture(scope="module")
def graded() -> list[Graded]:
    return grade(controls(260).labelled, TOOLS, DOCUMENT, RulesJudge())


@pytest.mark.parametrize("count", [1, 239, 260])
def test_few_scenarios_are_played_often_and_many_are_sampled(count: int) -> None:
    made = controls(count).labelled
    assert TRUST_CONTROLS <= len(made) < TRUST_CONTROLS + TRUST_CONTROLS / 20
    assert len({one.rollout_id for one in made}) == len(made)
    assert len({one.scenario.task_id for one in made}) <= count


def test_a_sample_is_spread_over_all_scenarios_not_the_first() -> None:
    played = {one.scenario.task_id for one in controls(260).labelled}
    assert {SCENARIOS[i].task_id for i in (0, 65, 130, 195)} <= played


def test_every_scenario_played_has_one_spare_sample_that_is_none_of_the_labelled() -> None:
    made = controls(60)
    labelled, spare = ([(r.scenario.scenario_id, r.sample) for r in part] for part in made)
    assert len(spare) == len({scenario for scenario, _ in spare})
    assert {scenario for scenario, _ in spare} == {scenario for scenario, _ in labelled}
    assert not set(spare) & set(labelled)


def test_no_scenario_no_control_and_no_label_but_the_columns_are_there() -> None:
    assert play_controls([], TOOLS, DOCUMENT, count=20, seed=1) == ([], [])
    made = control_labels([])
    assert made.height == 0
    assert dict(made.schema) == LABELS


def test_the_same_seed_gives_the_same_controls_and_another_seed_others() -> None:
    one, same, other = (
        play_controls(SCENARIOS[:10], TOOLS, DOCUMENT, count=20, seed=seed) for seed in (1, 1, 2)
    )
    assert len(one.labelled) == 20
    assert one == same
    assert one != other


def test_a_control_is_clean_without_a_planted_defect_and_with_the_right_outcome(graded: list[Graded]) -> None:
    made = control_labels(graded)
    assert made.height == len(graded)
    for label, one in zip(made.iter_rows(named=True), graded, strict=True):
        assert label["gold"] is (not one.rollout.seeded and one.outcome.ok)
    unplanted = [one for one in graded if not one.rollout.seeded]
    failed = [one for one in unplanted if not one.outcome.ok]
    assert len(failed) < len(unplanted) / 4


def test_a_control_of_which_nobody_knows_what_it_did_is_no_label(graded: list[Graded]) -> None:
    unknown = Outcome(ok=None, reason="the world does not tell")
    planted = next(one for one in graded if one.rollout.seeded)
    sound = next(one for one in graded if not one.rollout.seeded)
    lost = replace(planted.rollout, played=replace(planted.rollout.played, lost="no answer"))
    assert gold_of(sound.rollout, unknown) is None
    assert gold_of(planted.rollout, unknown) is False
    assert gold_of(lost, unknown) is None
    assert control_labels([replace(sound, outcome=unknown), replace(planted, rollout=lost)]).height == 0
    assert control_labels([replace(planted, outcome=unknown)])["gold"].to_list() == [False]


def test_both_gold_labels_are_common_enough_to_measure_a_judge(graded: list[Graded]) -> None:
    made = control_labels(graded)
    assert 0.2 < made["gold"].sum() / made.height < 0.8


def test_the_rules_are_a_judge_to_be_trusted(graded: list[Graded]) -> None:
    overall = judge_trust(control_labels(graded), source="seeded")[0]
    assert overall.trusted
    assert overall.agreement is not None
    assert overall.agreement > 0.95


@pytest.mark.parametrize("always", [True, False])
def test_a_judge_that_always_says_the_same_is_not_trusted(graded: list[Graded], always: bool) -> None:
    deaf = [replace(one, verdict=one.verdict.model_copy(update={"clean": always})) for one in graded]
    assert not judge_trust(control_labels(deaf), source="seeded")[0].trusted
