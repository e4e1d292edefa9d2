"""A run that is killed leaves nothing half written and nothing locked."""

import pytest

from tests.orchestration.conftest import DAYS, Resumed, Telecom

pytestmark = pytest.mark.slow


def test_a_run_killed_while_playing_leaves_whole_tables_and_no_half_ones(resumed: Resumed) -> None:
    assert "STEP_START" in resumed.killed_in
    assert "STEP_SUCCESS" not in resumed.killed_in, "killed too late to test anything"
    assert resumed.left["watch.conversations"] > 0
    assert resumed.left["simulate.scenarios"] > 0
    assert resumed.left["simulate.rollouts"] == resumed.left["simulate.steps"] == 0
    assert resumed.left["grade.grades"] == 0


def test_it_completes_when_run_again_and_waits_for_nothing_the_dead_run_held(resumed: Resumed) -> None:
    assert resumed.code == 0, resumed.checkout.output
    assert "was left over by a process that died" in resumed.checkout.output
    assert "waits for another run" not in resumed.checkout.output


def test_it_ends_with_the_tables_of_an_undisturbed_run(resumed: Resumed, telecom: Telecom) -> None:
    assert resumed.checkout.pipeline.digests(DAYS[0]) == telecom.digests[DAYS[0]]
