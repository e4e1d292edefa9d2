"""The store of paid answers."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.endpoint_server import Answer, EndpointServer
from while_pipeline.agents.endpoint import Endpoint, EndpointAgent, EndpointSettings
from while_pipeline.agents.responses import FILE_NAME, ResponseStore, request_key
from while_pipeline.records import Message

REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "get_order"}}],
    "temperature": 0.5,
    "max_tokens": 10,
    "seed": 1,
    "response_format": {"type": "json_object"},
}


async def fifty_calls(base_url: str, path: Path) -> list[str | None]:
    settings = EndpointSettings(base_url=base_url, model="m", concurrency=4, max_retries=0, timeout_s=20)
    question = [Message(role="user", content="hi")]
    with ResponseStore(path) as store:
        async with Endpoint(settings, store) as endpoint:
            agent = EndpointAgent(endpoint)
            replies = await asyncio.gather(*(agent.respond(question, [], seed) for seed in range(50)))
    return [reply.message.content for reply in replies]


FIFTY_CALLS = """
import asyncio, pathlib, runpy, sys
asyncio.run(runpy.run_path(sys.argv[1])["fifty_calls"](sys.argv[2], pathlib.Path(sys.argv[3])))
"""


def test_an_answer_is_given_back_as_it_was_put_and_an_unknown_request_has_none(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "data" / FILE_NAME) as store:
        store.put("k", '{"a": "é"}')
        assert store.get("k") == '{"a": "é"}'
        assert store.get("other") is None
        assert len(store) == 1


def test_the_first_answer_stays_so_that_every_reader_sees_the_same(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / FILE_NAME) as store:
        store.put("k", "first")
        store.put("k", "second")
        assert store.get("k") == "first"


@pytest.mark.parametrize("field", sorted(REQUEST))
def test_every_field_of_a_request_is_part_of_its_key(field: str) -> None:
    assert request_key("http://h/v1", {**REQUEST, field: "else"}) != request_key("http://h/v1", REQUEST)


def test_the_server_is_part_of_the_key() -> None:
    assert request_key("http://a/v1", REQUEST) != request_key("http://b/v1", REQUEST)


def test_the_weights_are_part_of_the_key_where_somebody_names_them() -> None:
    keys = {request_key("u", REQUEST, weights) for weights in (None, "w-1", "w-2")}
    assert len(keys) == 3
    assert request_key("u", REQUEST) in keys


def test_what_some_weights_answered_can_be_forgotten_alone(tmp_path: Path) -> None:
    names = (None, "w-1", "w-2", "w_1", "%")
    with ResponseStore(tmp_path / FILE_NAME) as store:
        for weights in names:
            store.put(request_key("u", REQUEST, weights), "answer")
        store.forget("w-1")
        store.forget("%")
        left = [weights for weights in names if store.get(request_key("u", REQUEST, weights))]
    assert left == [None, "w-2", "w_1"]


@given(st.permutations(sorted(REQUEST)))
def test_the_order_of_fields_is_not_part_of_the_key(order: list[str]) -> None:
    assert request_key("u", {field: REQUEST[field] for field in order}) == request_key("u", REQUEST)


def test_threads_and_a_second_connection_share_one_file(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / FILE_NAME) as one, ResponseStore(tmp_path / FILE_NAME) as other:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: (one, other)[i % 2].put(f"k{i // 2}", f"v{i // 2}"), range(400)))
        assert len(one) == len(other) == 200
        assert [other.get(f"k{i}") for i in range(200)] == [f"v{i}" for i in range(200)]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("not a database, but long enough to be read as a header" * 4)
    with pytest.raises(sqlite3.DatabaseError):
        ResponseStore(tmp_path / FILE_NAME)


@pytest.mark.slow
def test_a_run_killed_half_way_pays_again_only_for_what_was_in_flight(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    killed: list[subprocess.Popen[bytes]] = []

    def script(request: dict[str, Any]) -> Answer:
        if len(server.asked) == 25:
            os.kill(killed[0].pid, signal.SIGKILL)
        return Answer({"content": f"answer {request['seed']}"})

    with EndpointServer(script) as server:
        command = [sys.executable, "-c", FIFTY_CALLS, __file__, server.base_url, str(path)]
        killed.append(subprocess.Popen(command, cwd=Path(__file__).parents[2]))
        assert killed[0].wait(timeout=60) == -signal.SIGKILL
        with ResponseStore(path) as store:
            kept = len(store)
        answers = asyncio.run(fifty_calls(server.base_url, path))

    times_asked = Counter(asked.body["seed"] for asked in server.asked)
    assert answers == [f"answer {seed}" for seed in range(50)]
    assert 21 <= kept <= 25
    assert set(times_asked) == set(range(50))
    assert max(times_asked.values()) == 2
    assert sum(times_asked.values()) - 50 <= 4
