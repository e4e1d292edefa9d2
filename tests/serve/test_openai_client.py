"""The endpoint as the official client of OpenAI sees it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

from tests.example import BASE, DOCUMENT, PROJECT, TOOLS, scenarios
from tests.served import Served, serving
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.endpoint import SEED_BITS, Endpoint, EndpointAgent, EndpointSettings
from while_pipeline.agents.protocol import Reply
from while_pipeline.ids import seed_of
from while_pipeline.messages import from_openai, messages_json
from while_pipeline.records import Message
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rollout import system_message

MODEL = PROJECT.settings.name
TOOL_JSON: list[Any] = [tool.openai() for tool in TOOLS]
HELLO: list[Any] = [{"role": "user", "content": "Please show me bill BIL-48213, I was born on 1990-02-03."}]
CANCEL: list[Any] = [{"role": "user", "content": "Please cancel order ORD-48213, I was born on 1990-02-03."}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(PROJECT, BASE, tmp_path_factory.mktemp("traffic")) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served.base_url, api_key="unused", max_retries=0) as made:
        yield made


def _inline(messages: list[Any], seed: int) -> Reply:
    """What the policy itself answers."""
    return EmbeddedAgent(BASE).respond([system_message(DOCUMENT), *map(from_openai, messages)], TOOLS, seed)


def _asked(client: openai.OpenAI, messages: list[Any], **more: Any) -> ChatCompletion:
    made: ChatCompletion = client.chat.completions.create(
        model=MODEL, messages=messages, tools=TOOL_JSON, **more
    )
    return made


def test_the_models_are_the_version_and_the_project(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [BASE.version, MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.models.retrieve("gpt-4o")


def test_an_answer_is_what_the_policy_says_to_that_seed(client: openai.OpenAI) -> None:
    for seed in range(40):
        answer = _asked(client, HELLO, seed=seed)
        (choice,) = answer.choices
        inline = _inline(HELLO, seed)
        assert from_openai(choice.message.model_dump()) == inline.message
        assert choice.finish_reason == inline.finish_reason
        assert (answer.model, answer.system_fingerprint) == (BASE.version, BASE.version)
        assert answer.usage is None


def test_a_call_of_a_tool_comes_as_one_and_its_result_is_taken(client: openai.OpenAI) -> None:
    seed = next(s for s in range(100) if _inline(HELLO, s).message.tool_calls)
    called = _asked(client, HELLO, seed=seed).choices[0]
    assert called.finish_reason == "tool_calls"
    assert called.message.content is None
    (call,) = called.message.tool_calls or ()
    told = [
        *HELLO,
        called.message.to_dict(),
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": '{"bill":{"bill_id":"BIL-48213","amount":37.45}}',
        },
    ]
    texts = {_asked(client, told, seed=s).choices[0].message.content for s in range(20)}
    assert any("37.45" in (text or "") for text in texts)


def test_without_a_seed_the_conversation_decides(client: openai.OpenAI) -> None:
    answers = [_asked(client, HELLO).choices[0].message for _ in range(5)]
    assert all(answer == answers[0] for answer in answers)
    others = [
        [{"role": "user", "content": f"Hello, bill BIL-{n}, please show me my bill."}] for n in range(60)
    ]
    texts = {_asked(client, other).choices[0].message.content for other in others}
    assert len(texts) > 1
    ids = {_asked(client, HELLO).id for _ in range(5)}
    assert len(ids) == 5


def test_a_system_message_of_the_request_replaces_the_projects_document(client: openai.OpenAI) -> None:
    ours = [{"role": "system", "content": DOCUMENT.text}, *CANCEL]
    free = [{"role": "system", "content": "You are an assistant."}, *CANCEL]
    by_ours, by_none, by_free = (
        [_asked(client, messages, seed=seed).choices[0].message for seed in range(20)]
        for messages in (ours, CANCEL, free)
    )
    assert by_ours == by_none
    assert sum(bool(m.tool_calls) for m in by_none) < 10, "changes are confirmed first, by our rules"
    assert all(m.tool_calls for m in by_free)


def test_no_tools_are_offered_where_the_request_says_none(client: openai.OpenAI) -> None:
    assert all(
        not _asked(client, HELLO, seed=seed, tool_choice="none").choices[0].message.tool_calls
        for seed in range(30)
    )


@pytest.mark.parametrize(("messages", "calls"), [(HELLO, True), (CANCEL, False)])
def test_a_stream_adds_up_to_the_answer(client: openai.OpenAI, messages: list[Any], calls: bool) -> None:
    seed = next(s for s in range(100) if bool(_inline(messages, s).message.tool_calls) is calls)
    whole = _asked(client, messages, seed=seed, logprobs=True).choices[0]
    with client.chat.completions.stream(
        model=MODEL, messages=messages, tools=TOOL_JSON, seed=seed, logprobs=True
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion().choices[0]
    assert "chunk" in kinds
    assert final.finish_reason == whole.finish_reason
    assert from_openai(final.message.model_dump()) == from_openai(whole.message.model_dump())
    assert final.logprobs is not None
    assert whole.logprobs is not None
    assert [e.logprob for e in final.logprobs.content or ()] == [
        e.logprob for e in whole.logprobs.content or ()
    ]


def test_the_log_probability_is_one_entry_that_is_the_whole_turn(client: openai.OpenAI) -> None:
    assert _asked(client, HELLO, seed=1).choices[0].logprobs is None
    for seed in range(30):
        choice = _asked(client, HELLO, seed=seed, logprobs=True).choices[0]
        assert choice.logprobs is not None
        (entry,) = choice.logprobs.content or ()
        assert entry.logprob == pytest.approx(_inline(HELLO, seed).logprob, abs=1e-12)
        assert bytes(entry.bytes or ()).decode() == entry.token
        if choice.message.content is not None:
            assert entry.token == choice.message.content
        else:
            assert all(call.function.name in entry.token for call in choice.message.tool_calls or ())


def test_what_is_wrong_comes_as_the_clients_own_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-4o", messages=HELLO)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    assert BASE.version in str(unknown.value)
    with pytest.raises(openai.BadRequestError) as orphan:
        _asked(client, [*HELLO, {"role": "tool", "tool_call_id": "call_9", "content": "{}"}])
    assert (orphan.value.code, orphan.value.param) == ("invalid_value", "messages[1]")
    with pytest.raises(openai.BadRequestError, match="temperature"):
        _asked(client, HELLO, temperature=0)


def test_sixty_four_at_a_time_get_what_each_gets_alone(served: Served) -> None:
    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=served.base_url, api_key="unused", max_retries=0) as client:
            made = [
                client.chat.completions.create(model=MODEL, messages=HELLO, tools=TOOL_JSON, seed=seed)
                for seed in range(64)
            ]
            answers = await asyncio.gather(*made)
        return [messages_json([from_openai(a.choices[0].message.model_dump())]) for a in answers]

    assert asyncio.run(ask_all()) == [messages_json([_inline(HELLO, seed).message]) for seed in range(64)]


class _SeedsAsSent:
    """The policy with the seeds that an endpoint is sent: their low bits."""

    def respond(self, messages: Any, tools: Any, seed: int) -> Reply:
        return EmbeddedAgent(BASE).respond(messages, tools, seed & ((1 << SEED_BITS) - 1))


def test_whole_conversations_over_http_are_those_in_process(served: Served) -> None:
    """Every turn of every episode: history, tool calls, results and the log-probability survive the wire."""
    settings = EndpointSettings(base_url=served.base_url, model=MODEL, logprobs=True)
    drawn = scenarios(30, seed=41)
    asked: dict[str, Any] = {"samples": range(2), "seed": 3, "policy_version": BASE.version}
    over_http = list(play(drawn, EndpointAgent(Endpoint(settings)), TOOLS, DOCUMENT, **asked))
    in_process = list(play(drawn, _SeedsAsSent(), TOOLS, DOCUMENT, **asked))
    assert [r.messages for r in over_http] == [r.messages for r in in_process]
    assert [r.played.ended for r in over_http] == [r.played.ended for r in in_process]
    assert [r.logprob for r in over_http] == pytest.approx([r.logprob for r in in_process], abs=1e-9)
    assert sum(m.role == "tool" for r in over_http for m in r.messages) > 50


def test_the_default_seed_is_the_hash_of_what_was_sent(client: openai.OpenAI) -> None:
    message = Message(role="user", content=HELLO[0]["content"])
    own = seed_of("serve", messages_json([message]), "[]")
    answer = client.chat.completions.create(model=MODEL, messages=HELLO)
    again = client.chat.completions.create(model=MODEL, messages=HELLO, seed=own)
    assert answer.choices[0].message == again.choices[0].message
