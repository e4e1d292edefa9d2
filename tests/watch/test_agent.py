import json
from dataclasses import replace
from typing import Any

import pytest

from tests.example import BASE, DAY, PROJECT
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.policy import Weights
from while_pipeline.project import Project
from while_pipeline.settings import AgentSettings
from while_pipeline.tables import watch
from while_pipeline.tables.base import frame
from while_pipeline.tools import parse_tools
from while_pipeline.train.registry import policy_from
from while_pipeline.watch.agent import agent_row, agent_version

SECRET = "sk-very-secret-value-0123456789"
ENDPOINT = {"base_url": "http://localhost:1/v1", "model": "qwen3", "api_key_env": "AGENT_TEST_KEY"}


def _playing(**agent: Any) -> Project:
    settings = PROJECT.settings.model_copy(update={"agent": AgentSettings.model_validate(agent)})
    return replace(PROJECT, settings=settings)


def _row(project: Project = PROJECT, weights: Weights = BASE) -> dict[str, Any]:
    row = agent_row(project, weights)
    assert frame(watch.Agent, DAY, [row]).height == 1
    return row


def test_the_embedded_agent_is_its_weights() -> None:
    row = _row()
    assert (row["plays"], row["model"], row["policy_version"]) == ("embedded", "embedded", BASE.version)
    assert Weights(weights=json.loads(row["weights"])) == BASE


def test_while_nothing_is_promoted_the_settings_say_who_plays() -> None:
    assert agent_row(PROJECT, None) == _row(PROJECT, BASE)
    for own in ({"plays": "endpoint", "endpoint": ENDPOINT}, {"plays": "callable", "callable": "a:b"}):
        row = agent_row(_playing(**own), None)
        assert (row["plays"], policy_from(row)) == (own["plays"], None)
        assert agent_version(_playing(**own), None) == row["policy_version"]


def test_an_endpoint_is_its_model_and_has_no_weights() -> None:
    row = _row(_playing(plays="endpoint", endpoint=ENDPOINT))
    assert (row["plays"], row["model"], row["weights"]) == ("endpoint", "qwen3", None)
    assert row["policy_version"].startswith("m-")


def test_a_callable_is_its_name_and_has_no_weights() -> None:
    row = _row(_playing(plays="callable", callable="shop.agent:answer"))
    assert (row["plays"], row["model"], row["weights"]) == ("callable", "shop.agent:answer", None)
    assert row["policy_version"].startswith("c-")


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"base_url": "http://localhost:2/v1"}, {"temperature": 0.1}]
)
def test_another_endpoint_is_another_policy_version(change: dict[str, Any]) -> None:
    first, other = (_row(_playing(plays="endpoint", endpoint={**ENDPOINT, **c})) for c in ({}, change))
    assert first["policy_version"] != other["policy_version"]


@pytest.mark.parametrize("change", [{"api_key_env": "OTHER_KEY"}, {"concurrency": 3}, {"timeout_s": 7.0}])
def test_how_an_endpoint_is_reached_does_not_make_it_another_policy(change: dict[str, Any]) -> None:
    first, other = (_row(_playing(plays="endpoint", endpoint={**ENDPOINT, **c})) for c in ({}, change))
    assert first["policy_version"] == other["policy_version"]


@pytest.mark.parametrize("own", [{}, {"plays": "callable", "callable": "a:b"}], ids=["embedded", "callable"])
def test_a_promoted_model_plays_whatever_the_settings_say(own: dict[str, Any]) -> None:
    promoted = EndpointSettings.model_validate({**ENDPOINT, "model": "tuned"})
    row = agent_row(_playing(**own), promoted)
    assert frame(watch.Agent, DAY, [row]).height == 1
    assert (row["plays"], row["model"], row["policy_version"]) == ("endpoint", "tuned", promoted.version)
    assert policy_from(row) == promoted
    assert _row(_playing(**own))["endpoint"] is None


def test_weights_count_only_where_the_embedded_policy_plays() -> None:
    other = Weights(weights={**BASE.weights, "tool": {"match": {"bias": 9.0}, "neighbour": {"bias": 0.0}}})
    playing = _playing(plays="endpoint", endpoint=ENDPOINT)
    assert _row(playing, BASE) == _row(playing, other)
    assert _row(PROJECT, BASE)["policy_version"] != _row(PROJECT, other)["policy_version"]


def test_no_key_is_in_any_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_TEST_KEY", SECRET)
    for agent in ({"plays": "embedded"}, {"plays": "endpoint"}, {"plays": "callable", "callable": "a:b"}):
        assert SECRET not in json.dumps(_row(_playing(endpoint=ENDPOINT, **agent)))


def test_documents_and_tools_are_kept_whole_and_hashed_by_content() -> None:
    row = _row()
    assert row["policy_document"] == (PROJECT.root / "policy.md").read_text(encoding="utf-8")
    assert row["n_rules"] == len(PROJECT.policy_document.rules)
    assert parse_tools(json.loads(row["tools"]), "row") == PROJECT.tools
    assert row["n_tools"] == len(PROJECT.tools)
    fewer = _row(replace(PROJECT, tools=PROJECT.tools[:-1]))
    assert fewer["tools_hash"] != row["tools_hash"]
    assert fewer["policy_document_hash"] == row["policy_document_hash"]
