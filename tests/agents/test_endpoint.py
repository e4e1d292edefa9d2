"""An endpoint agent over real HTTP."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import ValidationError

from tests.endpoint_server import Answer, EndpointServer, Script, in_turn
from while_pipeline.agents.endpoint import Endpoint, EndpointAgent, EndpointSettings
from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.agents.responses import ResponseStore
from while_pipeline.errors import ProjectError
from while_pipeline.records import Message, ToolCall, Usage
from while_pipeline.tools import Tool

T = TypeVar("T")
KEY = "sk-test-5d1f0c7e9ab24c33"
QUESTION = (Message(role="system", content="Be brief."), Message(role="user", content="Where is order A1?"))
LOOKUP = Tool(
    name="get_order",
    description="Read an order.",
    parameters={"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
)
AT_ONCE = {"retry-after-ms": "1"}
"""The client honours the server's wait, so that retries take no time here."""


def settings_for(server: EndpointServer, **changes: Any) -> EndpointSettings:
    return EndpointSettings(
        **{"base_url": server.base_url, "model": "scripted", "max_retries": 2, "timeout_s": 5, **changes}
    )


def played(
    settings: EndpointSettings,
    play: Callable[[EndpointAgent], Awaitable[T]],
    store: ResponseStore | None = None,
) -> T:
    async def run() -> T:
        async with Endpoint(settings, store) as endpoint:
            return await play(EndpointAgent(endpoint))

    return asyncio.run(run())


def reply_to(script: Script, seed: int = 1, **changes: Any) -> Reply:
    with EndpointServer(script) as server:
        return played(settings_for(server, **changes), lambda agent: agent.respond(QUESTION, [LOOKUP], seed))


def error_of(script: Script, **changes: Any) -> str:
    with pytest.raises(AgentError) as caught:
        reply_to(script, **changes)
    return str(caught.value)


def tool_call(arguments: str) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": arguments}}
    return {"content": None, "tool_calls": [call]}


def test_a_reply_carries_the_message_and_what_the_server_told_about_it() -> None:
    answer = Answer(
        tool_call('{"order_id": "A1"}'),
        finish_reason="tool_calls",
        logprobs=[-0.5, -0.25],
        prompt_tokens=41,
        completion_tokens=9,
    )
    reply = reply_to(lambda _request: answer, logprobs=True)
    assert reply.message.tool_calls == (ToolCall(id="c1", name="get_order", arguments={"order_id": "A1"}),)
    assert reply.logprob == pytest.approx(-0.75)
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(input_tokens=41, output_tokens=9)
    assert reply.decisions == ()


def test_the_request_carries_the_conversation_tools_sampling_and_a_seed_any_server_can_hold() -> None:
    history = (
        *QUESTION,
        Message(
            role="assistant", tool_calls=(ToolCall(id="c1", name="get_order", arguments={"order_id": "A1"}),)
        ),
        Message(role="tool", content='{"status": "sent"}', tool_call_id="c1"),
    )
    with EndpointServer(lambda _request: "It was sent.") as server:
        settings = settings_for(server, temperature=0.5, max_tokens=99)
        reply = played(settings, lambda agent: agent.respond(history, [LOOKUP], 2**62 + 5))
    body = server.asked[0].body
    assert reply.message == Message(role="assistant", content="It was sent.")
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"order_id": "A1"}
    assert body["tools"] == [LOOKUP.openai()]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("scripted", 0.5, 99)
    assert body["seed"] == 5
    assert "logprobs" not in body


def test_without_tools_none_are_named_in_the_request() -> None:
    with EndpointServer(lambda _request: "Hello.") as server:
        played(settings_for(server), lambda agent: agent.respond(QUESTION, [], 1))
    assert "tools" not in server.asked[0].body


def test_a_server_that_gives_no_logprobs_and_no_usage_leaves_them_unknown() -> None:
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Hi."}}]})
    reply = reply_to(lambda _request: Answer(body=body))
    assert reply.message.content == "Hi."
    assert (reply.logprob, reply.finish_reason, reply.usage) == (None, None, Usage())


@pytest.mark.parametrize("raw", ["{not json", '["A1"]', ""])
def test_arguments_that_are_no_json_object_are_the_agents_own_answer_kept_raw(raw: str) -> None:
    (call,) = reply_to(lambda _request: tool_call(raw)).message.tool_calls
    assert (call.arguments, call.raw) == (None, raw)


def test_an_empty_answer_is_the_agents_own_answer() -> None:
    message = reply_to(lambda _request: {"content": None}).message
    assert not message.content
    assert message.tool_calls == ()


def test_a_refusal_given_apart_from_the_content_becomes_the_content() -> None:
    assert reply_to(lambda _request: {"content": None, "refusal": "I can't."}).message.content == "I can't."


def test_half_an_emoji_in_an_answer_can_be_sent_back_and_stored(tmp_path: Path) -> None:
    with EndpointServer(lambda _request: "broken \ud83d here") as server, store_in(tmp_path) as store:

        async def two_turns(agent: EndpointAgent) -> Reply:
            first = await agent.respond(QUESTION, [], 1)
            return await agent.respond(
                [*QUESTION, first.message, Message(role="user", content="\udc00")], [], 1
            )

        played(settings_for(server), two_turns, store)
    assert [m["content"] for m in server.asked[1].body["messages"][2:]] == ["broken \ufffd here", "?"]


def test_a_rate_limit_is_waited_out() -> None:
    asked: list[object] = []

    def script(request: dict[str, Any]) -> Answer | str:
        asked.append(request)
        return Answer(status=429, headers=AT_ONCE) if len(asked) < 3 else "Done."

    assert reply_to(script).message.content == "Done."
    assert len(asked) == 3


def test_a_server_that_keeps_failing_is_an_agent_error_with_its_words() -> None:
    asked: list[object] = []

    def script(request: dict[str, Any]) -> Answer:
        asked.append(request)
        return Answer(status=500, headers=AT_ONCE)

    error = error_of(script)
    assert len(asked) == 3
    assert "scripted at http://127.0.0.1" in error
    assert "500" in error
    assert "scripted 500" in error


def test_a_wrong_request_is_not_tried_again() -> None:
    asked: list[object] = []

    def script(request: dict[str, Any]) -> Answer:
        asked.append(request)
        return Answer(status=400)

    assert "scripted 400" in error_of(script)
    assert len(asked) == 1


def test_an_error_of_another_shape_is_quoted_whole() -> None:
    body = '{"detail": "model not loaded"}'
    assert f"HTTP 404: {body}" in error_of(lambda _request: Answer(status=404, body=body))


def test_a_silent_server_is_an_agent_error_after_the_timeout() -> None:
    error = error_of(lambda _request: Answer({"content": "late"}, delay_s=20), timeout_s=0.2, max_retries=0)
    assert "timed out" in error


def test_no_server_is_an_agent_error_that_says_why() -> None:
    with EndpointServer(lambda _request: "x") as server:
        settings = settings_for(server, max_retries=0)
    with pytest.raises(AgentError, match="Connection error"):
        played(settings, lambda agent: agent.respond(QUESTION, [], 1))


@pytest.mark.parametrize(
    "body",
    [
        "<html>502 Bad Gateway</html>",
        "{",
        "null",
        "[]",
        '{"choices": []}',
        '{"choices": [{"message": null}]}',
        '{"error": {"message": "upstream overloaded"}}',
        '{"choices": [{"message": {"tool_calls": ["get_order"]}}]}',
        '{"choices": [{"message": {"tool_calls": [{"id": "c1", "function": {"arguments": "{}"}}]}}]}',
        "[" * 200,
    ],
)
def test_what_is_no_chat_completion_is_an_agent_error_that_quotes_it_and_is_not_remembered(
    body: str, tmp_path: Path
) -> None:
    with EndpointServer(lambda _request: Answer(body=body)) as server, store_in(tmp_path) as store:
        with pytest.raises(AgentError) as caught:
            played(settings_for(server), lambda agent: agent.respond(QUESTION, [], 1), store)
        assert "expected a chat completion" in str(caught.value)
        assert body in str(caught.value)
        assert len(store) == 0


def test_calls_in_flight_stay_within_the_bound_and_reach_it() -> None:
    with EndpointServer(lambda _request: Answer({"content": "ok"}, delay_s=0.03)) as server:

        async def many(agent: EndpointAgent) -> list[Reply]:
            return await asyncio.gather(*(agent.respond(QUESTION, [], seed) for seed in range(24)))

        played(settings_for(server, concurrency=4), many)
    assert len(server.asked) == 24
    assert server.max_in_flight == 4


def test_a_repeated_request_is_paid_for_once_and_another_seed_again(tmp_path: Path) -> None:
    with EndpointServer(lambda request: f"seed {request['seed']}") as server:

        async def play(agent: EndpointAgent) -> list[str | None]:
            at_once = await asyncio.gather(*(agent.respond(QUESTION, [LOOKUP], 1) for _ in range(3)))
            later = [await agent.respond(QUESTION, [LOOKUP], seed) for seed in (1, 2)]
            return [reply.message.content for reply in [*at_once, *later]]

        with store_in(tmp_path) as store:
            first = played(settings_for(server), play, store)
        with store_in(tmp_path) as store:
            second = played(settings_for(server), play, store)
    assert first == second == ["seed 1"] * 4 + ["seed 2"]
    assert len(server.asked) == 2


def test_other_weights_under_the_same_name_are_another_version_and_asked_anew(tmp_path: Path) -> None:
    with EndpointServer(in_turn("First.", "Second.")) as server, store_in(tmp_path) as store:

        def said(weights: str | None) -> str | None:
            settings = settings_for(server, weights=weights)
            reply = played(settings, lambda agent: agent.respond(QUESTION, [], 1), store)
            return reply.message.content

        answers = [said(weights) for weights in (None, "w-1", "w-1", None)]
        assert len({settings_for(server, weights=weights).version for weights in (None, "w-1", "w-2")}) == 3
    assert answers == ["First.", "Second.", "Second.", "First."]


def test_a_failed_call_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    with EndpointServer(in_turn(Answer(status=400), "Now.")) as server, store_in(tmp_path) as store:
        with pytest.raises(AgentError):
            played(settings_for(server), lambda agent: agent.respond(QUESTION, [], 1), store)
        reply = played(settings_for(server), lambda agent: agent.respond(QUESTION, [], 1), store)
    assert reply.message.content == "Now."


def test_a_finished_run_replays_without_server_or_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with EndpointServer(lambda _request: "Stored.") as server, store_in(tmp_path) as store:
        settings = settings_for(server, api_key_env="SCRIPTED_KEY")
        played(settings, lambda agent: agent.respond(QUESTION, [], 1), store)
    monkeypatch.delenv("SCRIPTED_KEY")
    with store_in(tmp_path) as store:
        reply = played(settings, lambda agent: agent.respond(QUESTION, [], 1), store)
    assert reply.message.content == "Stored."


def test_the_key_reaches_the_header_and_nothing_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", f" {KEY}\n")
    with EndpointServer(lambda _request: "ok") as server, store_in(tmp_path) as store:
        settings = settings_for(server, api_key_env="SCRIPTED_KEY")
        played(settings, lambda agent: agent.respond(QUESTION, [LOOKUP], 1), store)
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert server.asked[0].authorization == f"Bearer {KEY}"
    assert b"ok" in kept
    assert KEY.encode() not in kept
    assert b"Bearer" not in kept
    assert KEY not in repr(settings)


def test_a_server_that_echoes_the_key_in_its_error_does_not_spread_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    error = error_of(
        lambda _request: Answer(status=401, body=f'{{"error": "bad key {KEY}"}}'), api_key_env="SCRIPTED_KEY"
    )
    assert "bad key [key]" in error
    assert KEY not in error


def test_a_key_meant_for_another_server_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
    with EndpointServer(lambda _request: "ok") as server:
        played(settings_for(server), lambda agent: agent.respond(QUESTION, [], 1))
    assert KEY not in str(server.asked[0].authorization)


@pytest.mark.parametrize("value", [None, "", " ", "sk-cut…"])
def test_a_missing_key_names_the_variable_and_the_mend_before_anything_is_sent(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRIPTED_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SCRIPTED_KEY", value)
    with EndpointServer(lambda _request: "x") as server:
        settings = settings_for(server, api_key_env="SCRIPTED_KEY")
        with pytest.raises(ProjectError, match=r"SCRIPTED_KEY.*set it to the API key") as caught:
            played(settings, lambda agent: agent.respond(QUESTION, [], 1))
    assert server.asked == []
    assert "sk-cut" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "mend"),
    [
        ({"base_url": "127.0.0.1:8000"}, "http://127.0.0.1:8000/v1"),
        ({"base_url": "https://me:secret@host/v1"}, "api_key_env"),
        ({"base_url": "https://host/v1?key=secret"}, "api_key_env"),
        ({"api_key_env": KEY}, "pattern"),
        ({"model": ""}, "at least 1"),
        ({"concurrency": 0}, "greater than or equal to 1"),
        ({"timeout_s": 0}, "greater than 0"),
        ({"tempereture": 1}, "not permitted"),
    ],
)
def test_wrong_settings_are_refused_with_the_mend(changes: dict[str, Any], mend: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EndpointSettings.model_validate({"base_url": "http://127.0.0.1:1/v1", "model": "m", **changes})
    assert mend in caught.value.errors()[0]["msg"]


def test_a_trailing_slash_is_the_same_address() -> None:
    assert EndpointSettings(base_url="http://h/v1/", model="m").base_url == "http://h/v1"


def test_importing_the_endpoint_does_not_import_the_client() -> None:
    program = "import sys, while_pipeline.agents.endpoint; sys.exit('openai' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, timeout=60, check=False).returncode == 0


def store_in(folder: Path) -> ResponseStore:
    return ResponseStore(folder / "responses.sqlite")
