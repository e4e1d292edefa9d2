"""Whole rollouts in a world of the user's own."""

import sys
from types import ModuleType
from typing import Any

import pytest

from tests.example import BASE, DOCUMENT, EXAMPLE, TOOLS, ordinary
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.recorded import Recorded
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.simulate.user_world import Worlds

CELLS = [ordinary(tool.name) for tool in TOOLS if tool.kind.value in ("read", "cancel", "update")]


class Blind:
    """A user's world in which everything exists, and that cannot say what was done."""

    def reset(self, seed: int) -> None:
        self.done: dict[str, Any] = {}

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        if not tool.startswith(("get", "check")):
            self.done[tool] = True
        return {"ok": True, "record": {"status": "fine"}}


class Desk(Blind):
    """The same, and it can."""

    def diff(self) -> dict[str, Any]:
        return self.done


class Broken(Desk):
    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        if not tool.startswith(("get", "check")):
            raise ConnectionError("the desk is closed")
        return super().call(tool, arguments)


@pytest.fixture(autouse=True)
def _my_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_desk")
    vars(module).update(Desk=Desk, Blind=Blind, Broken=Broken)
    monkeypatch.setitem(sys.modules, "my_desk", module)


def _played(name: str) -> list[Rollout]:
    worlds = Worlds(TOOLS, f"my_desk:{name}", EXAMPLE)
    writer = ScenarioWriter(TOOLS, DOCUMENT, worlds=Worlds(TOOLS, "my_desk:Desk", EXAMPLE))
    scenarios = [writer.write(cell, 3) for cell in CELLS]
    rollouts = play(
        scenarios,
        EmbeddedAgent(BASE),
        TOOLS,
        DOCUMENT,
        samples=range(6),
        seed=1,
        policy_version="p",
        worlds=worlds,
    )
    return list(rollouts)


def _graded(rollouts: list[Rollout]) -> list[Graded]:
    return grade(rollouts, TOOLS, DOCUMENT, RulesJudge())


def test_effects_are_what_the_users_diff_says_in_the_key_and_in_the_rollout() -> None:
    graded = _graded(_played("Desk"))
    writes = [g for g in graded if g.rollout.scenario.key.effects]
    assert any(g.outcome.ok for g in writes)
    assert all(g.rollout.played.diff == g.rollout.scenario.key.effects for g in graded if g.outcome.ok)
    undone = [g for g in writes if g.rollout.played.diff == {}]
    assert undone
    assert not any(g.outcome.ok for g in undone)


def test_in_a_world_that_does_not_tell_a_good_outcome_is_unknown_and_a_bad_one_is_bad() -> None:
    graded = _graded(_played("Blind"))
    assert {g.outcome.ok for g in graded} <= {None, False}
    unknown = [g for g in graded if g.outcome.ok is None]
    assert unknown
    assert {(g.reward, g.passed) for g in unknown} == {(None, None)}
    assert all("does not tell" in g.reason for g in unknown)


def test_a_world_that_fails_loses_the_rollout_with_its_error_and_blames_nobody_else() -> None:
    rollouts = _played("Broken")
    lost = [r for r in rollouts if r.lost]
    assert lost
    assert {r.lost for r in lost} == {"world: my_desk:Broken.call raised ConnectionError: the desk is closed"}
    assert any(r.lost is None for r in rollouts)
    assert {g.reward for g in _graded(lost)} == {None}


def test_a_recorded_answer_lends_the_mock_world_its_fields() -> None:
    answer = '{"bill": {"bill_id": "BILL-1", "colour": "violet"}}'
    recorded = Recorded([("get_bill", '{"bill_id": "BILL-1"}', answer)], TOOLS)
    (rollout,) = play(
        [ScenarioWriter(TOOLS, DOCUMENT).write(ordinary("get_bill"), 3)],
        EmbeddedAgent(BASE),
        TOOLS,
        DOCUMENT,
        samples=range(1),
        seed=1,
        policy_version="p",
        worlds=Worlds(TOOLS, recorded=recorded),
    )
    assert any("violet" in (m.content or "") for m in rollout.messages if m.role == "tool")
    assert Worlds(TOOLS, recorded=recorded).identity != Worlds(TOOLS).identity
