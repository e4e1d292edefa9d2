"""The endpoint over plain HTTP: errors, the key, who may call."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.example import BASE, DOCUMENT, PROJECT, TOOLS, scenarios
from tests.served import Served, serving
from while_pipeline.agents.endpoint import STORE_HEADER, EndpointPlayer, EndpointSettings
from while_pipeline.agents.protocol import Reply
from while_pipeline.agents.responses import FILE_NAME
from while_pipeline.serve.app import MAX_BODY
from while_pipeline.serve.request import MAX_TEXT, ChatRequest
from while_pipeline.simulate.drive import play

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


@pytest.mark.parametrize("host", ["LOCALHOST", "localhost:1", "127.8.9.1", "[::1]", "[::1]:80"])
def test_an_open_endpoint_answers_to_loopback_addresses(http: httpx.Client, host: str) -> None:
    assert http.get("/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.example", "[::", "[::2]", "::1", "[::1]x", "localhost:1:1", "a@localhost"],
)
def test_an_open_endpoint_answers_to_no_other_name(http: httpx.Client, host: str) -> None:
    """A web page whose name was pointed here reaches the socket, but calls it by its own name."""
    error = _error(http.get("/models", headers={"Host": host}), 403)
    assert error["code"] == "not_local"


def test_an_open_endpoint_does_not_answer_who_gives_it_no_name(served: Served) -> None:
    address = urlsplit(served.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as caller:
        caller.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert b" 403 " in caller.makefile("rb").readline()


def test_who_waits_for_an_answer_holds_up_nobody(
    served: Served, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short the request is: what is read of it may take long."""
    asked, go_on = threading.Event(), threading.Event()
    answer = served.policy.answer

    def slowly(request: ChatRequest) -> Reply:
        asked.set()
        assert go_on.wait(30)
        return answer(request)

    monkeypatch.setattr(served.policy, "answer", slowly)
    with ThreadPoolExecutor() as pool:
        answered = pool.submit(http.post, "/chat/completions", json=ASK)
        try:
            assert asked.wait(30)
            with httpx.Client(trust_env=False, timeout=10) as other:
                assert other.get(served.base_url.removesuffix("/v1") + "/health").status_code == 200
        finally:
            go_on.set()
        assert answered.result(30).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        "a" * 10_000,
        "{" * MAX_TEXT,
        'bill id is "\\ud800"',
        "bill id: " + "[" * 9_000,
        "amount is " + "9" * 5_000,
    ],
)
def test_no_message_of_a_customer_breaks_the_server(http: httpx.Client, content: str) -> None:
    content = f"I want to pay my bill. {content}"[:MAX_TEXT]
    asked = {**ASK, "messages": [{"role": "user", "content": content}], "tools": [t.openai() for t in TOOLS]}
    assert http.post("/chat/completions", json=asked).status_code == 200


# -- what becomes traffic -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "body", "kept"),
    [
        ({}, {}, True),
        ({}, {"store": False}, False),
        ({STORE_HEADER: "false"}, {}, False),
        ({STORE_HEADER: "false"}, {"store": True}, False),
        ({STORE_HEADER: "true"}, {"store": False}, False),
        ({STORE_HEADER: "true"}, {}, True),
    ],
)
def test_a_caller_keeps_a_conversation_out_of_the_traffic_in_the_body_or_in_a_header(
    served: Served, http: httpx.Client, headers: dict[str, str], body: dict[str, Any], kept: bool
) -> None:
    served.log.flush()
    before = served.log.state.written
    assert http.post("/chat/completions", json={**ASK, **body}, headers=headers).status_code == 200
    served.log.flush()
    assert served.log.state.written - before == kept


def test_a_header_that_says_neither_is_refused_by_name(http: httpx.Client) -> None:
    error = _error(http.post("/chat/completions", json=ASK, headers={STORE_HEADER: "no"}), 400)
    assert (error["param"], error["code"]) == (STORE_HEADER, "invalid_value")


@pytest.mark.parametrize("becomes_traffic", [False, True])
def test_what_the_pipeline_plays_is_no_traffic_unless_it_is_meant_to_be(
    tmp_path: Path, becomes_traffic: bool
) -> None:
    """A served policy that is proved hears the sealed tasks, which no customer ever said."""
    with serving(PROJECT, BASE, tmp_path / "traffic") as served:
        settings = EndpointSettings(base_url=served.base_url, model=BASE.version)
        player = EndpointPlayer(settings, tmp_path / FILE_NAME, becomes_traffic=becomes_traffic)
        played = list(
            play(scenarios(2), player, TOOLS, DOCUMENT, samples=range(1), seed=1, policy_version=BASE.version)
        )
        kept = served.traffic()
    assert all(rollout.lost is None for rollout in played)
    assert len(kept.conversations) == (2 if becomes_traffic else 0)


# -- who may ask --------------------------------------------------------------------------------------------


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
