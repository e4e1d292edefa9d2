"""The user's own Python function as the agent.

What belongs here: finding the function and calling it. What does not: putting the project's folder on
`sys.path`, which is the project's own loading.
"""

import asyncio
import importlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.errors import ProjectError
from while_pipeline.messages import from_openai, to_openai
from while_pipeline.records import Message
from while_pipeline.tools import Tool

EXPECTED = "expected the reply's text, or an assistant message as a dict with `content` or `tool_calls`"

_EXCERPT = 200
"""Characters of what came back that an error quotes."""

AgentFunction = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Any]
"""Takes the messages and the tools in OpenAI's shape; gives text, an assistant message, or an awaitable
of either."""


def load_callable(spec: str) -> AgentFunction:
    """Import the function that `module:function` names.

    Raises:
        ProjectError: the text is malformed, the module does not import, or the name is no callable.
    """
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise _wrong(spec, "write it as module:function, such as my_agent:reply")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        raise _wrong(spec, f"importing {module_name} gave {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise _wrong(spec, f"{module_name} has no function {name}")
    return function  # type: ignore[no-any-return]


class CallableAgent:
    """Plays the agent through a Python function, plain or `async`."""

    def __init__(self, function: AgentFunction, name: str | None = None) -> None:
        """Wrap a function.

        Args:
            function: See `AgentFunction`. An `async` one gets a fresh event loop each turn.
            name: How errors call it; by default its own qualified name.
        """
        self._function = function
        self._name = name or f"{function.__module__}:{function.__qualname__}"

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Give the function's next message. The seed is unused: the function's randomness is its own.

        Raises:
            AgentError: the function raised, or gave neither text nor an assistant message.
        """
        try:
            answer = self._function([to_openai(m) for m in messages], [tool.openai() for tool in tools])
            if inspect.isawaitable(answer):
                answer = asyncio.run(_result(answer))
        except Exception as error:
            raise AgentError(f"{self._name} raised {type(error).__name__}: {error}") from error
        return Reply(message=self._message(answer))

    def _message(self, answer: object) -> Message:
        if isinstance(answer, str):
            return Message(role="assistant", content=answer)
        if (
            not isinstance(answer, dict)
            or not {"content", "tool_calls"} & answer.keys()
            or not isinstance(answer.get("content"), str | list | None)
        ):
            raise AgentError(f"{self._name} gave {_shown(answer)}; {EXPECTED}")
        if answer.get("role", "assistant") != "assistant":
            raise AgentError(f"{self._name} gave a message with role {answer['role']!r}; {EXPECTED}")
        try:
            return from_openai({**answer, "role": "assistant"})
        except ValueError as error:
            raise AgentError(f"{self._name} gave {_shown(answer)} ({error}); {EXPECTED}") from error


def _wrong(spec: str, mend: str) -> ProjectError:
    return ProjectError("while.yaml", "agent.callable", spec, mend)


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _shown(answer: object) -> str:
    return f"{type(answer).__name__} {repr(answer)[:_EXCERPT]}"
