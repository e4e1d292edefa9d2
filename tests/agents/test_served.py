from typing import Any

import pytest

from tests.endpoint_server import EndpointServer
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.protocol import AgentError
from while_pipeline.agents.served import ServedModel, served_models
from while_pipeline.errors import ProjectError

KEY = "sk-test-71c0aa52"


def settings(base_url: str, **more: Any) -> EndpointSettings:
    return EndpointSettings(base_url=base_url, model="tuned", max_retries=0, **more)


def test_a_server_lists_its_models() -> None:
    with EndpointServer(lambda _: "hello", models=("tuned", "base")) as server:
        assert served_models(settings(server.base_url)) == (
            ServedModel(name="tuned", parent=None),
            ServedModel(name="base", parent=None),
        )


def test_the_parent_of_an_adapter_is_told_where_the_server_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = '{"object": "list", "data": [{"id": "tuned", "object": "model", "parent": "qwen3"}]}'
    with EndpointServer(lambda _: "hello") as server:
        monkeypatch.setattr(server, "models", lambda: adapter)
        assert served_models(settings(server.base_url)) == (ServedModel(name="tuned", parent="qwen3"),)


def test_a_server_without_a_list_has_none() -> None:
    with EndpointServer(lambda _: "hello") as server:
        assert served_models(settings(f"{server.base_url}/elsewhere")) is None


@pytest.mark.parametrize("body", ["<html>", "{}", "[]", '{"data": "none"}', '{"data": [{"id": null}]}'])
def test_an_answer_that_is_no_list_of_models_is_named(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    with EndpointServer(lambda _: "hello") as server:
        monkeypatch.setattr(server, "models", lambda: body)
        with pytest.raises(AgentError, match=f"{server.base_url}: what it gives"):
            served_models(settings(server.base_url))


def test_a_server_that_is_not_there_is_named() -> None:
    with EndpointServer(lambda _: "hello") as server:
        gone = server.base_url
    with pytest.raises(AgentError, match=gone):
        served_models(settings(gone, timeout_s=2.0))


def test_a_key_that_is_asked_for_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERVED_KEY", raising=False)
    with pytest.raises(ProjectError, match="SERVED_KEY"):
        served_models(settings("http://127.0.0.1:1/v1", api_key_env="SERVED_KEY"))
    monkeypatch.setenv("SERVED_KEY", KEY)
    with pytest.raises(AgentError) as error:
        served_models(settings("http://127.0.0.1:1/v1", api_key_env="SERVED_KEY", timeout_s=2.0))
    assert KEY not in str(error.value)
