"""Other people's projects, whole: airline and telecom of the tau benchmarks, a Python agent, an endpoint."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.endpoint_server import EndpointServer
from tests.orchestration.conftest import DAYS, EXAMPLE, SHARED, Pipeline, copy_of_example, make_project, names
from while_pipeline.tables import ALL, grade, prove, simulate, train, watch

pytestmark = pytest.mark.slow

DAY = DAYS[0]
TINY = {"budget": {"scenarios": 60, "k": 2}, "prove": {"tasks": 24, "k": 2}}
KEY = "sk-test-4f1c9a0e7b3d5826"
SEARCHED = (simulate.Scenarios, simulate.Search, simulate.Probes)

needs_benchmarks = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the tau benchmarks in ../shared/data"
)


def rows(pipeline: Pipeline, *tables: Any) -> dict[str, int]:
    return {table.__name__: pipeline.warehouse.read(table, DAY).height for table in tables}


# -- the tau benchmarks -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder, source = tmp_path_factory.mktemp("airline"), SHARED / "tau-bench"
    root = make_project(
        folder / "airline",
        tools=source / "airline.tools.openai.json",
        policy=source / "airline.wiki.md",
        settings=TINY,
        traffic={DAY: source / "gpt-4o-airline.json"},
    )
    pipeline = Pipeline(root, folder / "data")
    ran = pipeline.run(DAY)
    assert ran.errors == {}
    assert ran.stored.keys() == names(ALL)
    return pipeline


@needs_benchmarks
def test_the_airline_benchmark_runs_from_its_trajectories_to_a_decision(airline: Pipeline) -> None:
    assert rows(airline, watch.Conversations, watch.Rejects) == {"Conversations": 200, "Rejects": 0}
    assert airline.warehouse.read(prove.Promotion, DAY).height == 1
    spots = airline.warehouse.read(watch.WeakSpots, DAY)
    assert spots["n"].sum() == 200
    assert spots["failures"].sum() >= 116, "every trajectory with a reward below 1 counts as failed"


@needs_benchmarks
def test_the_airline_trajectories_give_the_published_pass_rates_in_sql(airline: Pipeline) -> None:
    found = airline.ask(
        """WITH tasks AS (
            SELECT task, count(*) AS n, count_if(reward = 1) AS c FROM watch.conversations GROUP BY task
        ), ways AS (
            SELECT k, c, n, CASE WHEN c < k THEN 0 ELSE
                list_product([(c - i)::DOUBLE / (n - i) FOR i IN range(k)]) END AS pass_hat
            FROM tasks, range(1, 5) AS samples(k)
        )
        SELECT k, round(avg(pass_hat), 3) FROM ways GROUP BY k ORDER BY k"""
    )
    assert found.rows() == [(1, 0.42), (2, 0.273), (3, 0.22), (4, 0.2)]


@needs_benchmarks
def test_the_telecom_benchmark_runs_without_any_traffic(tmp_path: Path) -> None:
    source = SHARED / "tau2-telecom"
    root = make_project(
        tmp_path / "tau2",
        tools=source / "tools.openai.json",
        policy=source / "main_policy.md",
        settings=TINY,
        traffic={},
    )
    pipeline = Pipeline(root, tmp_path / "data")
    ran = pipeline.run(DAY)
    assert ran.errors == {}
    assert ran.stored.keys() == names(ALL)
    assert pipeline.ask("FROM watch.map").is_empty()
    assert rows(pipeline, watch.Conversations, watch.WeakSpots, simulate.Scenarios, prove.Promotion) == {
        "Conversations": 0,
        "WeakSpots": 0,
        "Scenarios": 60,
        "Promotion": 1,
    }


# -- agents that are not fitted here ------------------------------------------------------------------------


def test_a_python_agent_is_played_graded_and_cut_but_not_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    agent = {"plays": "callable", "callable": "my_agent:reply"}
    root = copy_of_example(tmp_path / "own", agent=agent, **TINY)
    (root / "my_agent.py").write_text(
        "def reply(messages, tools):\n    return 'I am sorry, I could not find that. Goodbye.'\n"
    )
    pipeline = Pipeline(root, tmp_path / "data")
    ran = pipeline.run(DAY)
    assert ran.errors == {}
    assert ran.stored.keys() == names(ALL)
    assert rows(pipeline, simulate.Rollouts, grade.Grades, train.RewardModel) == {
        "Rollouts": 120,
        "Grades": 120,
        "RewardModel": 120,
    }
    assert_no_candidate(pipeline)


def test_an_agent_behind_an_endpoint_is_played_once_and_its_key_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with EndpointServer(lambda _: "I am sorry, I could not find that. Goodbye.") as server:
        endpoint = {"base_url": server.base_url, "model": "scripted", "api_key_env": "SCRIPTED_KEY"}
        agent = {"plays": "endpoint", "endpoint": endpoint}
        pipeline = Pipeline(copy_of_example(tmp_path / "hosted", agent=agent, **TINY), tmp_path / "data")
        ran = pipeline.run(DAY)
        assert ran.errors == {}
        assert ran.stored.keys() == names(ALL)
        assert {asked.authorization for asked in server.asked} == {f"Bearer {KEY}"}
        played, asked = pipeline.digests(DAY), len(server.asked)
        tokens = pipeline.warehouse.read(simulate.Rollouts, DAY).select(pl.col("input_tokens").min()).item()
        assert tokens >= 7
        again = pipeline.run(DAY, *SEARCHED, simulate.Rollouts, simulate.Steps)
        assert again.succeeded
        assert len(server.asked) == asked, "every answer was paid for once"
    assert pipeline.digests(DAY) == played
    assert_no_candidate(pipeline)
    holders = [file for file in tmp_path.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    assert not holders


def assert_no_candidate(pipeline: Pipeline) -> None:
    assert rows(pipeline, train.Policies, prove.Trials, prove.Looks, prove.Promotion) == {
        "Policies": 0,
        "Trials": 0,
        "Looks": 0,
        "Promotion": 0,
    }
    (verdict,) = pipeline.warehouse.read(prove.Delta, DAY).to_dicts()
    assert verdict["scope"] == "overall"
    assert verdict["verdict"] == "not_comparable"
    assert verdict["reason"]


def test_an_agent_that_never_answers_stops_the_run_with_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    agent = {"plays": "callable", "callable": "down_agent:reply"}
    root = copy_of_example(tmp_path / "down", agent=agent, **TINY)
    (root / "down_agent.py").write_text(
        "def reply(messages, tools):\n    raise RuntimeError('no weights loaded')\n"
    )
    pipeline = Pipeline(root, tmp_path / "data")
    ran = pipeline.run(DAY, watch.Agent, watch.WeakSpots, simulate.Axes, simulate.CoveragePlan, *SEARCHED)
    assert "no weights loaded" in ran.errors["simulate_scenarios"]
    assert pipeline.warehouse.read(simulate.Probes).is_empty()


# -- too little, or wrong -----------------------------------------------------------------------------------


def test_three_sealed_tasks_prove_nothing_and_the_verdict_says_how_many_would(
    worked: Pipeline, tmp_path: Path
) -> None:
    few = Pipeline(copy_of_example(tmp_path / "telecom", prove={"tasks": 3, "k": 3}), worked.data)
    ran = few.run(DAY, prove.HeldOut, prove.Trials, prove.Delta, prove.Looks, prove.Promotion)
    assert ran.errors == {}
    overall = few.warehouse.read(prove.Delta, DAY).row(0, named=True)
    assert (overall["scope"], overall["n_tasks"], overall["verdict"]) == ("overall", 3, "too_few")
    assert overall["tasks_needed"] >= 6
    (decision,) = few.warehouse.read(prove.Promotion, DAY).to_dicts()
    assert not decision["promoted"]
    assert "too_few" in decision["reason"]


def _misspelt_key(root: Path) -> None:
    (root / "while.yaml").write_text("name: telecom\nbudget: {scenarios: many}\n")


def _no_settings(root: Path) -> None:
    (root / "while.yaml").unlink()


def _no_policy(root: Path) -> None:
    (root / "policy.md").unlink()


def _empty_policy(root: Path) -> None:
    (root / "policy.md").write_text("\n")


def _broken_tools(root: Path) -> None:
    tools = json.loads((EXAMPLE / "tools.json").read_text())
    tools[0]["function"]["parameters"] = {"type": "objekt"}
    (root / "tools.json").write_text(json.dumps(tools))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_misspelt_key, ["while.yaml", "budget.scenarios", "'many'", "valid integer"]),
        (_no_settings, ["while.yaml", "does not exist", "WHILE_PROJECT"]),
        (_no_policy, ["while.yaml", "agent.policy", "'policy.md'", "does not exist"]),
        (_empty_policy, ["policy.md", "it is empty", "write the rules"]),
        (_broken_tools, ["tools.json", "parameters", "objekt"]),
    ],
)
def test_a_wrong_project_fails_its_run_with_one_message_and_writes_nothing(
    spoil: Callable[[Path], None], said: list[str], tmp_path: Path
) -> None:
    root = copy_of_example(tmp_path / "telecom")
    spoil(root)
    pipeline = Pipeline(root, tmp_path / "data")
    ran = pipeline.run(DAY)
    assert not ran.succeeded
    # What people decided needs no project to be kept.
    assert set(ran.stored) <= {"prove.decisions", "train.registered"}
    assert len(set(ran.errors.values())) == 1
    (message,) = set(ran.errors.values())
    assert all(part in message for part in said), message
    assert not [table for table in ALL if pipeline.warehouse.read(table).height]
