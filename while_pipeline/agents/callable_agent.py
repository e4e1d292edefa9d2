"""The user's own Python function as the agent.

What belongs here: finding the function, calling it, and giving up on it. What does not: putting the
project's folder on `sys.path`, which is the project's own loading.
"""

import asyncio
import importlib
import inspect
import json
import reprlib
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any

from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.errors import ProjectError
from while_pipeline.messages import decode_json, from_openai, to_openai
from while_pipeline.records import Message
from while_pipeline.tools import Tool

EXPECTED = "expected the reply's text, or an assistant message as a dict with `content` or `tool_calls`"

TIMEOUT_S = 120.0
"""As long as an endpoint's answer may take: a function that asks a model is no faster than the model."""

_QUOTE = reprlib.Repr()
_QUOTE.maxstring = _QUOTE.maxother = 200
"""Quotes what came back, clipped before it is written out: it may be huge, or refuse to be written at all."""

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

    def __init__(
        self, function: AgentFunction, name: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wrap a function.

        Args:
            function: See `AgentFunction`. An `async` one gets a fresh event loop each turn.
            name: How errors call it; by default its own qualified name.
            timeout_s: Seconds a turn may take, above 0.
        """
        self._function = function
        self._name = name or f"{function.__module__}:{function.__qualname__}"
        self._timeout_s = timeout_s
        self._turns: _Turns | None = None

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Give the function's next message. The seed is unused: the function's randomness is its own.

        The function runs in a thread of this agent's own, one call at a time. When it is still busy at its
        deadline, the two are left behind, and neither the run nor its exit waits for them; a coroutine is
        cancelled.

        Raises:
            AgentError: the function raised, took too long, or gave neither text nor an assistant message.
        """
        arguments = ([to_openai(m) for m in messages], [tool.openai() for tool in tools])
        answer: Future[Any] = Future()
        turns = self._turns = self._turns or self._another_thread()
        turns.put((answer, partial(_call, self._function, arguments, self._timeout_s)))
        try:
            error = answer.exception(self._timeout_s)
        except TimeoutError:  # of the waiting: the function's own is what `exception` gives
            turns.put(None)
            self._turns, error = None, _TooSlow()
        if isinstance(error, _TooSlow):
            raise AgentError(f"{self._name} timed out after {self._timeout_s:g} s")
        if error is not None:
            raise AgentError(f"{self._name} raised {type(error).__name__}: {error}") from error
        return Reply(message=self._message(answer.result()))

    def _another_thread(self) -> "_Turns":
        """Queue of a new thread, which ends with this agent."""
        turns: _Turns = SimpleQueue()
        # A pool's thread would be waited for at exit, and a function that hangs may hang for ever.
        threading.Thread(target=_take_turns, args=(turns,), daemon=True).start()
        weakref.finalize(self, turns.put, None)
        return turns

    def _message(self, answer: object) -> Message:
        given = {"content": answer} if isinstance(answer, str) else answer
        if (
            not isinstance(given, dict)
            or not {"content", "tool_calls"} & given.keys()
            or not isinstance(given.get("content"), str | list | None)
        ):
            raise AgentError(f"{self._name} gave {_shown(answer)}; {EXPECTED}")
        if given.get("role", "assistant") != "assistant":
            raise AgentError(
                f"{self._name} gave a message with role {_QUOTE.repr(given['role'])}; {EXPECTED}"
            )
        try:
            # Through JSON, as an endpoint's answer comes: what cannot be stored is refused here, and what
            # the function does with its own objects afterwards changes nothing.
            plain = decode_json(json.dumps({**given, "role": "assistant"}, allow_nan=False))
            return from_openai(plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise AgentError(f"{self._name} gave {_shown(answer)} ({error}); {EXPECTED}") from error


def _wrong(spec: str, mend: str) -> ProjectError:
    return ProjectError("while.yaml", "agent.callable", spec, mend)


class _TooSlow(Exception):
    """The function was still busy at its deadline."""


_Turns = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
"""What a thread is to call, each with where its answer goes; None when it is no longer needed."""


def _take_turns(turns: _Turns) -> None:
    while turn := turns.get():
        answer, call = turn
        try:
            answer.set_result(call())
        except BaseException as error:  # `sys.exit()` in the function ends a turn, not the thread
            answer.set_exception(error)


def _call(function: AgentFunction, arguments: tuple[Any, Any], timeout_s: float) -> Any:
    given = function(*arguments)
    return asyncio.run(_in_time(given, timeout_s)) if inspect.isawaitable(given) else given


async def _in_time(awaitable: Awaitable[Any], seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await awaitable
    except TimeoutError as error:
        if deadline.expired():
            raise _TooSlow from error
        raise  # the function's own


def _shown(answer: object) -> str:
    return f"{type(answer).__name__} {_QUOTE.repr(answer)}"
