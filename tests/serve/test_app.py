"""The endpoint over plain HTTP: errors, the key, who may call."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.example import BASE, PROJECT
from tests.served import Served, serving
from while_pipeline.serve.app import MAX_BODY

USER = {"role": "user", "content": "Hello"}
ASK = {"model": PROJECT.settings.name, "messages": [USER]}
KEY = "sk-test-1234"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(PROJECT, BASE, tmp_path_factory.mktemp("traffic")) as running:
        yield running


@pytest.fixture(scope="module")
def http(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.base_url, trust_env=False, timeout=30) as client:
        yield client


def _error(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


def test_a_plain_request_is_answered(http: httpx.Client) -> None:
    answer = http.post("/chat/completions", json=ASK)
    assert answer.status_code == 200
    body = answer.json()
    assert body["object"] == "chat.completion"
    assert "usage" not in body
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert body["choices"][0]["message"]["content"]


def test_a_stream_is_events_with_an_end(http: httpx.Client) -> None:
    answer = http.post("/chat/completions", json={**ASK, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]


def test_a_stream_that_is_refused_is_an_ordinary_error(http: httpx.Client) -> None:
    error = _error(http.post("/chat/completions", json={**ASK, "messages": [], "stream": True}), 400)
    assert error["param"] == "messages"


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([{"role": "system", "content": "Be brief."}], "the conversation is empty"),
        ([USER, {"role": "assistant", "content": "Yes?"}], "of role assistant"),
        ([{"role": "assistant", "content": "Welcome."}], "no customer speaks"),
        ([USER, {"role": "system", "content": "Now."}], "of role system"),
    ],
)
def test_a_conversation_that_leaves_nothing_to_answer_is_refused(
    http: httpx.Client, messages: list[Any], says: str
) -> None:
    error = _error(http.post("/chat/completions", json={**ASK, "messages": messages}), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", "messages")
    assert says in error["message"]


def test_json_that_breaks_off_is_refused(http: httpx.Client) -> None:
    answer = http.post(
        "/chat/completions", content=b'{"model": "t', headers={"Content-Type": "application/json"}
    )
    assert "could not parse the JSON body" in _error(answer, 400)["message"]


def test_a_body_that_a_web_page_could_send_unasked_is_refused(http: httpx.Client) -> None:
    answer = http.post("/chat/completions", content=json.dumps(ASK), headers={"Content-Type": "text/plain"})
    assert "application/json" in _error(answer, 415)["message"]


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_refused(http: httpx.Client, announced: bool) -> None:
    body = json.dumps({**ASK, "user": "x" * MAX_BODY}).encode()
    content: Any = body if announced else iter([body[:100], body[100:]])
    answer = http.post("/chat/completions", content=content, headers={"Content-Type": "application/json"})
    assert _error(answer, 413)["code"] == "request_too_large"
    assert http.post("/chat/completions", json=ASK).status_code == 200


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/chat/completions", 405),
    ("POST", "/models", 405),
    ("POST", "/completions", 404),
    ("GET", "/", 404),
])  # fmt: skip
def test_what_is_not_there_says_so(http: httpx.Client, method: str, path: str, status: int) -> None:
    error = _error(http.request(method, path), status)
    assert (error["code"], error["type"]) == ("unknown_url", "invalid_request_error")


def test_an_open_endpoint_answers_to_local_names_only(http: httpx.Client) -> None:
    """A web page whose name was pointed here reaches the socket, but calls it by its own name."""
    assert http.get("/models", headers={"Host": "localhost:1"}).status_code == 200
    error = _error(http.get("/models", headers={"Host": "evil.example"}), 403)
    assert error["code"] == "not_local"


def test_health_says_which_policy_and_how_the_traffic_goes(served: Served, http: httpx.Client) -> None:
    url = served.base_url.removesuffix("/v1") + "/health"
    before = http.get(url).json()["traffic"]
    assert http.post("/chat/completions", json=ASK).status_code == 200
    served.log.flush()
    told = http.get(url).json()
    assert (told["status"], told["policy"]) == ("ok", BASE.version)
    assert told["traffic"]["written"] > before["written"]
    assert told["traffic"]["lost"] == 0


def test_with_a_key_only_who_knows_it_is_answered(tmp_path: Path) -> None:
    with serving(PROJECT, BASE, tmp_path, key=KEY) as served:
        health = served.base_url.removesuffix("/v1") + "/health"
        with httpx.Client(base_url=served.base_url, trust_env=False) as http:
            for given in ({}, {"Authorization": KEY}, {"Authorization": "Bearer sk-test-123"}):
                error = _error(http.post("/chat/completions", json=ASK, headers=given), 401)
                assert error["code"] == "invalid_api_key"
                assert KEY not in error["message"]
            assert http.get(health).status_code == 200
            right = {"Authorization": f"Bearer {KEY}", "Host": "agent.example"}
            assert http.post("/chat/completions", json=ASK, headers=right).status_code == 200
        assert len(served.traffic().conversations) == 1
