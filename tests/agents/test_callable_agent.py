"""The user's own function as the agent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from while_pipeline.agents.callable_agent import CallableAgent, load_callable
from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.errors import ProjectError
from while_pipeline.records import Message, ToolCall
from while_pipeline.tools import Tool

QUESTION = (Message(role="system", content="Be brief."), Message(role="user", content="Where is A1?"))
LOOKUP = Tool(name="get_order", description="Read an order.", parameters={"type": "object", "properties": {}})
CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id": "A1"}'}}


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
