"""The user's own function as the agent."""

import asyncio
import gc
import itertools
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.example import ROOT, rollouts, scenarios
from while_pipeline.agents.callable_agent import CallableAgent, load_callable
from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.errors import ProjectError
from while_pipeline.messages import messages_from_json, messages_json
from while_pipeline.records import Message, ToolCall
from while_pipeline.simulate.drive import AgentDown
from while_pipeline.tools import Tool

QUESTION = (Message(role="system", content="Be brief."), Message(role="user", content="Where is A1?"))
LOOKUP = Tool(name="get_order", description="Read an order.", parameters={"type": "object", "properties": {}})
CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id": "A1"}'}}

NESTED: dict[str, Any] = {}
for _ in range(100_000):
    NESTED = {"a": NESTED}


def reply_of(answer: Any) -> Reply:
    return CallableAgent(lambda _messages, _tools: answer, "mine:reply").respond(QUESTION, [LOOKUP], 1)


def test_the_function_gets_messages_and_tools_in_openais_shape() -> None:
    seen: list[Any] = []

    def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
        seen.extend([messages, tools])
        return "It was sent."

    assert CallableAgent(reply).respond(QUESTION, [LOOKUP], 1).message == Message(
        role="assistant", content="It was sent."
    )
    messages, tools = seen
    assert [(m["role"], m["content"]) for m in messages] == [
        ("system", "Be brief."),
        ("user", "Where is A1?"),
    ]
    assert tools == [LOOKUP.openai()]


def test_an_assistant_message_may_call_tools() -> None:
    message = reply_of({"role": "assistant", "content": None, "tool_calls": [CALL]}).message
    assert message.tool_calls == (ToolCall(id="c1", name="get_order", arguments={"order_id": "A1"}),)


def test_the_role_may_be_left_out() -> None:
    assert reply_of({"content": "Hi."}).message == Message(role="assistant", content="Hi.")


def test_arguments_that_are_no_json_are_kept_raw() -> None:
    broken = {**CALL, "function": {"name": "get_order", "arguments": "{oops"}}
    (call,) = reply_of({"tool_calls": [broken]}).message.tool_calls
    assert (call.arguments, call.raw) == (None, "{oops")


def test_an_async_function_is_awaited() -> None:
    async def reply(_messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> str:
        await asyncio.sleep(0)
        return "Later."

    assert CallableAgent(reply).respond(QUESTION, [], 1).message.content == "Later."


@pytest.mark.parametrize(
    "junk",
    [
        None,
        42,
        ["Hi."],
        {},
        {"text": "Hi."},
        {"role": "user", "content": "Hi."},
        {"content": 42},
        {"tool_calls": [{"id": "c1"}]},
        {"tool_calls": "get_order"},
    ],
)
def test_junk_is_an_agent_error_that_names_the_function_what_came_and_what_was_expected(junk: Any) -> None:
    with pytest.raises(
        AgentError, match=r"mine:reply gave .*expected the reply's text, or an assistant message"
    ):
        reply_of(junk)


def test_an_exception_is_an_agent_error_that_names_the_function_and_keeps_the_cause() -> None:
    def reply(_messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> str:
        raise KeyError("order_id")

    with pytest.raises(AgentError, match="reply raised KeyError: 'order_id'") as caught:
        CallableAgent(reply).respond(QUESTION, [], 1)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_function_is_found_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent_of_mine.py").write_text("def reply(messages, tools):\n    return 'Found.'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = CallableAgent(load_callable("agent_of_mine:reply"))
    assert agent.respond(QUESTION, [], 1).message.content == "Found."


@pytest.mark.parametrize(
    ("spec", "mend"),
    [
        ("json", "module:function"),
        (":dumps", "module:function"),
        ("no_such_module_here:reply", "ModuleNotFoundError"),
        ("json:no_such_function", "json has no function no_such_function"),
        ("json:__name__", "json has no function __name__"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_with_the_mend(spec: str, mend: str) -> None:
    with pytest.raises(ProjectError, match=mend):
        load_callable(spec)


def test_a_module_that_fails_to_import_says_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent_that_breaks.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ProjectError, match="ZeroDivisionError"):
        load_callable("agent_that_breaks:reply")


# -- late, and worse ----------------------------------------------------------------------------------------


def test_a_function_that_hangs_is_left_behind_at_its_deadline() -> None:
    released = threading.Event()

    def reply(_messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> str:
        released.wait()
        return "Too late."

    agent = CallableAgent(reply, "mine:reply", timeout_s=0.05)
    with pytest.raises(AgentError, match=r"^mine:reply timed out after 0\.05 s$"):
        agent.respond(QUESTION, [], 1)
    released.set()


def test_a_coroutine_that_hangs_is_cancelled_at_its_deadline() -> None:
    cancelled = threading.Event()

    async def reply(_messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(AgentError, match=r"^mine:reply timed out after 0\.05 s$"):
        CallableAgent(reply, "mine:reply", timeout_s=0.05).respond(QUESTION, [], 1)
    assert cancelled.wait(5)


def test_a_coroutine_that_never_yields_is_left_behind_too() -> None:
    released = threading.Event()

    async def reply(_messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> None:
        released.wait()

    with pytest.raises(AgentError, match=r"timed out after 0\.05 s"):
        CallableAgent(reply, timeout_s=0.05).respond(QUESTION, [], 1)
    released.set()


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_timeout_of_the_functions_own_is_told_as_its_own(kind: str) -> None:
    made: dict[str, Any] = {}
    exec(f"{kind} reply(messages, tools): raise TimeoutError('the shop did not answer')", made)
    with pytest.raises(AgentError, match=r"mine:reply raised TimeoutError: the shop did not answer"):
        CallableAgent(made["reply"], "mine:reply").respond(QUESTION, [], 1)


def test_a_function_that_exits_ends_its_turn_and_not_the_run() -> None:
    with pytest.raises(AgentError, match="raised SystemExit: 3"):
        CallableAgent(lambda _messages, _tools: sys.exit(3), "mine:reply").respond(QUESTION, [], 1)


def test_the_functions_thread_is_one_for_all_turns_and_ends_with_the_agent() -> None:
    threads: list[threading.Thread] = []

    def reply(_messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> str:
        threads.append(threading.current_thread())
        return "Hi."

    agent = CallableAgent(reply)
    for _ in range(2):
        agent.respond(QUESTION, [], 1)
    assert threads[0] is threads[1] is not threading.current_thread()
    del agent
    gc.collect()
    threads[0].join(5)
    assert not threads[0].is_alive()


HANGS = """
import threading
from while_pipeline.agents.callable_agent import CallableAgent
from while_pipeline.agents.protocol import AgentError
from while_pipeline.records import Message

try:
    CallableAgent(lambda m, t: threading.Event().wait(), "f", 0.05).respond([Message(role="user")], [], 1)
except AgentError as error:
    print(error)
"""


def test_a_function_that_hangs_for_ever_does_not_keep_the_process_from_ending() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert (ended.stdout, ended.stderr) == ("f timed out after 0.05 s\n", "")


class Unspeakable:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "junk",
    [
        Unspeakable(),
        {"content": "Hi.", "tool_calls": Unspeakable()},
        {"tool_calls": [{"function": {"name": "get_order", "arguments": {"order_id": math.nan}}}]},
        {"tool_calls": [{"function": {"name": "get_order", "arguments": {"ids": {1, 2}}}}]},
        {"tool_calls": [{"function": {"name": "get_order", "arguments": NESTED}}]},
        {"role": "x" * 10**6, "content": "Hi."},
        ["Hi." * 10**6],
    ],
    ids=["object", "object inside", "NaN", "set", "nested", "long role", "long list"],
)
def test_what_cannot_be_written_as_json_is_junk_told_briefly(junk: Any) -> None:
    with pytest.raises(AgentError, match=r"mine:reply gave .*expected the reply's text") as caught:
        reply_of(junk)
    assert len(str(caught.value)) < 700


def test_a_lone_surrogate_is_replaced_and_what_the_function_changes_later_is_not_seen() -> None:
    arguments = {"order_id": "A\ud800"}
    message = reply_of(
        {"content": "\udc00", "tool_calls": [{"function": {"name": "get_order", "arguments": arguments}}]}
    ).message
    arguments["order_id"] = "B2"
    assert message.content == "\ufffd"
    assert message.tool_calls[0].arguments == {"order_id": "A\ufffd"}
    assert reply_of("Hi \ud800").message.content == "Hi \ufffd"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_function = st.fixed_dictionaries({}, optional={"name": _json, "arguments": _json})
_call = st.fixed_dictionaries({}, optional={"id": _json, "function": _json | _function})
_answer = _json | st.fixed_dictionaries(
    {}, optional={"role": _json, "content": _json, "tool_calls": _json | st.lists(_json | _call, max_size=3)}
)


@settings(deadline=None, max_examples=80)
@given(_answer)
def test_any_answer_is_a_storable_message_or_an_agent_error(answer: Any) -> None:
    try:
        message = reply_of(answer).message
    except AgentError:
        return
    assert message.role == "assistant"
    assert messages_from_json(messages_json([message]).encode().decode()) == (message,)


def test_a_rollout_whose_turn_hangs_or_is_junk_is_lost_with_that_reason_and_the_rest_is_played() -> None:
    turns = itertools.count()

    def reply(_messages: list[dict[str, Any]], _tools: list[dict[str, Any]]) -> object:
        turn = next(turns)
        if turn == 0:
            threading.Event().wait()
        return 42 if turn == 1 else "I am sorry, I could not find that. Goodbye."

    first, second, *rest = rollouts(CallableAgent(reply, "mine:reply", timeout_s=0.05), scenarios(4))
    assert first.lost == "AgentError: mine:reply timed out after 0.05 s"
    assert second.lost is not None
    assert second.lost.startswith("AgentError: mine:reply gave int 42; expected")
    assert [one.lost for one in rest] == [None, None]


def test_a_function_that_always_hangs_stops_the_run_early_with_its_first_error() -> None:
    agent = CallableAgent(lambda _messages, _tools: threading.Event().wait(), "mine:reply", timeout_s=0.01)
    with pytest.raises(AgentDown, match=r"mine:reply timed out after 0\.01 s"):
        rollouts(agent, scenarios(40))
