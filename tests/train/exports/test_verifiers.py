"""The package for `verifiers`: what is in it, and that it plays and grades as the project does."""

import asyncio
import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint_server import EndpointServer
from tests.example import PROJECT
from tests.train.exports.stored import SCENARIOS, cut_of, lines, rows_of
from tests.train.trl import tiny
from while_pipeline.errors import ProjectError
from while_pipeline.grade.grader import Graded
from while_pipeline.messages import messages_json, to_openai
from while_pipeline.project import Project
from while_pipeline.settings import WorldSettings
from while_pipeline.train.exports.export import export
from while_pipeline.train.exports.verifiers import require_own_world

MODULE = "while_tasks_2026_03_02"


def test_the_package_holds_the_scenarios_and_what_they_share(tmp_path: Path) -> None:
    folder = export(cut_of("grpo"), "verifiers", tmp_path / "out").folder
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["name"] == "while-tasks-2026-03-02"
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [MODULE]
    assert json.loads((folder / MODULE / "tools.json").read_text()) == tiny.OFFERED
    assert (folder / MODULE / "policy.md").read_text() == tiny.DOCUMENT.text
    found = [row for side in ("train", "valid") for row in lines(folder / MODULE / f"{side}.jsonl")]
    assert {row["scenario"]["scenario_id"] for row in found} == {
        row["scenario_id"] for row in rows_of("grpo")
    }
    assert sorted(row["n_passed"] for row in found) == [1, 3]


@pytest.mark.parametrize(
    ("world", "said"), [({"plays": "worlds:Mine"}, "world.plays"), ({"recorded": True}, "world.recorded")]
)
def test_a_world_that_cannot_leave_is_refused(world: dict[str, Any], said: str) -> None:
    settings = PROJECT.settings.model_copy(update={"world": WorldSettings.model_construct(**world)})
    with pytest.raises(ProjectError, match=said):
        require_own_world(Project(**{**vars(PROJECT), "settings": settings}))


def test_the_projects_own_world_may_leave() -> None:
    require_own_world(PROJECT)


# -- played by the library itself ------------------------------------------------------------------------


@pytest.fixture
def vf() -> Any:
    reason = "needs `verifiers`, which wants another openai: an environment of its own"
    return pytest.importorskip("verifiers.v1", reason=reason)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of every scenario, importable."""
    rows = [
        {
            **rows_of("grpo")[0],
            "scenario_id": name,
            "task_id": one.task_id,
            "passed": passed,
            "split": "train",
        }
        for name, one in SCENARIOS.items()
        for passed in (True, False)
    ]
    monkeypatch.syspath_prepend(export(cut_of("grpo", rows), "verifiers", tmp_path / "out").folder)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return "while-tasks-2026-03-02"


def said_again(one: Graded) -> Any:
    """A model that gives the turns of a rollout in their order."""
    turns = [to_openai(m) for m in one.rollout.messages if m.role == "assistant"]

    def script(request: Mapping[str, Any]) -> dict[str, Any]:
        return turns[sum(message["role"] == "assistant" for message in request["messages"])]

    return script


def played(vf: Any, package: str, scenario: str, base_url: str, **agent: Any) -> Any:
    """The trace of one episode."""
    told = {"taskset": {"id": package}, "agent": {"runtime": {"type": "subprocess"}, **agent}}
    env = vf.load_environment(vf.resolve_env_config(told))
    (task,) = [task for task in env.taskset if task.key == scenario]
    client = vf.EvalClientConfig(base_url=base_url, api_key_var="NO_SUCH_KEY")

    async def episode() -> Any:
        async with env.serving():
            return await env.run_episode(task, vf.ModelContext(model="scripted", client=client))

    (trace,) = asyncio.run(episode()).traces
    return trace


def test_a_rollout_goes_and_is_graded_as_in_the_project(
    vf: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_SUCH_KEY", "unused")
    first = {one.passed: one for one in tiny.graded()}
    assert set(first) == {True, False}
    for one in first.values():
        with EndpointServer(said_again(one)) as server:
            trace = played(vf, package, one.rollout.scenario.scenario_id, server.base_url)
        assert trace.ok, trace.errors
        assert trace.reward == one.reward
        assert trace.info["played"]["messages"] == messages_json(one.rollout.messages)
        assert trace.info["played"]["diff"] == one.rollout.played.diff


def test_a_line_end_inside_a_text_ends_no_row(
    vf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = cut_of("grpo")
    for row in cut.scenarios.values():
        row["prompt"] = "one\u2028two\u2029three\u0085"
    monkeypatch.syspath_prepend(export(cut, "verifiers", tmp_path / "out").folder)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    taskset = {"id": "while-tasks-2026-03-02"}
    env = vf.load_environment(vf.resolve_env_config({"taskset": taskset}))
    assert {task.data.prompt for task in env.taskset} == {"one\u2028two\u2029three\u0085"}


def test_the_model_sees_policy_document_opening_and_tools_and_no_answer_key(
    vf: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_SUCH_KEY", "unused")
    one = tiny.graded()[0]
    with EndpointServer(said_again(one)) as server:
        played(vf, package, one.rollout.scenario.scenario_id, server.base_url)
    first = server.asked[0].body
    assert [(m["role"], m["content"]) for m in first["messages"]] == [
        ("system", tiny.DOCUMENT.text),
        ("user", one.rollout.messages[0].content),
    ]
    assert first["tools"] == tiny.OFFERED


def test_a_limit_on_turns_ends_the_episode_where_it_stands(
    vf: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_SUCH_KEY", "unused")
    one = max(tiny.graded(), key=lambda graded: len(graded.rollout.messages))
    with EndpointServer(said_again(one)) as server:
        trace = played(vf, package, one.rollout.scenario.scenario_id, server.base_url, max_turns=1)
    assert len(server.asked) == 1
    assert trace.info["played"]["ended"] == "max_turns"
    assert trace.reward < 1
