"""Worlds other than the mock one: what a world must offer, and the user's own class behind that.

The mock world is in `world`; answers recorded in traffic, which only lend it fields, are in `recorded`.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json, seed_of
from while_pipeline.messages import decode_json
from while_pipeline.simulate.answers import Fields, faulty, no_such_tool, refusal
from while_pipeline.simulate.recorded import Recorded
from while_pipeline.simulate.world import World, WorldStart
from while_pipeline.tools import Tool


class WorldLike(Protocol):
    """What an episode needs of a world."""

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """Answer one tool call as text."""
        ...

    def diff(self) -> dict[str, Any] | None:
        """What changed since the start, a value per path; None where the world cannot tell."""
        ...

    def fork(self) -> "WorldLike":
        """A second world in the same state, independent from here on."""
        ...


WorldFactory = Callable[[WorldStart], WorldLike]
"""Makes the world of one episode."""


class WorldLost(Exception):
    """A user's world failed. The rollout is lost: no evidence about the agent."""


class UserWorld:
    """One episode's world, played by an object of the user's class.

    The class offers `reset(seed)` and `call(tool, arguments)`; `call` gives text, or anything that is JSON.
    It may offer `load(records)`, called after `reset` with what the scenario speaks of (entity -> id ->
    fields), so that the customer's identifiers exist; and `diff()`, a mapping of what changed. Without `diff`
    the effects of a rollout are unknown.

    What the tools' schemas refuse, and the scheduled faults, are answered before the object is asked.
    """

    def __init__(self, make: Callable[[], Any], name: str, tools: Sequence[Tool], start: WorldStart) -> None:
        """Make an object, reset it and load `start` into it. `name` is how errors call it.

        Raises:
            WorldLost: the object could not be made, reset or loaded.
        """
        self._make, self._name, self._tools, self._start = make, name, tools, start
        self._by_name = {tool.name: tool for tool in tools}
        self._faults = {fault.tool: fault for fault in start.faults}
        self._attempts: dict[str, int] = {}
        self._asked: list[tuple[str, dict[str, Any]]] = []
        self._own = self._safely("()", make)
        self._safely(".reset", lambda: self._own.reset(seed_of("user world", start.model_dump(mode="json"))))
        if hasattr(self._own, "load"):
            self._safely(".load", lambda: self._own.load(deepcopy(start.records)))

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """Answer one tool call as text.

        Raises:
            WorldLost: the object raised, or gave what is not JSON.
        """
        tool = self._by_name.get(name)
        if tool is None:
            return canonical_json(no_such_tool(name))
        problem = refusal(tool, arguments)
        if arguments is None or problem is not None:
            return canonical_json(problem)
        fault = self._faults.get(name)
        attempt = self._attempts[name] = self._attempts.get(name, 0) + 1
        if fault is not None and attempt <= fault.failures:
            draw = seed_of("fault", name, attempt, arguments)
            return faulty(fault.condition, tool.entity, lambda: _as_fields(self._ask(name, arguments)), draw)
        return self._ask(name, arguments)

    def diff(self) -> dict[str, Any] | None:
        """What the object says changed; None where it has no `diff`.

        Raises:
            WorldLost: the object raised, or gave no mapping of JSON values.
        """
        if not hasattr(self._own, "diff"):
            return None
        told = self._safely(".diff", lambda: decode_json(canonical_json(self._own.diff())))
        if not isinstance(told, dict):
            raise WorldLost(f"{self._name}.diff gave {type(told).__name__}; expected a mapping")
        return dict(sorted(told.items()))

    def fork(self) -> "UserWorld":
        """A second object, brought to the same state by the same calls: the class must be deterministic.

        Raises:
            WorldLost: the object failed on the way.
        """
        twin = UserWorld(self._make, self._name, self._tools, self._start)
        for name, arguments in self._asked:
            twin._ask(name, arguments)
        twin._attempts = dict(self._attempts)
        return twin

    def _ask(self, name: str, arguments: Mapping[str, Any]) -> str:
        self._asked.append((name, deepcopy(dict(arguments))))
        answer = self._safely(".call", lambda: self._own.call(name, deepcopy(dict(arguments))))
        if isinstance(answer, str):
            return answer
        return str(self._safely(".call", lambda: canonical_json(answer)))

    def _safely(self, where: str, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except Exception as error:  # the user's class may raise anything
            raise WorldLost(f"{self._name}{where} raised {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Worlds:
    """What makes the worlds of a project: the mock world, or the user's class; picklable."""

    tools: tuple[Tool, ...]
    plays: str = "mock"
    """`mock`, or `module:Class`."""
    root: Path = Path()
    """Folder of `while.yaml`, for errors."""
    recorded: Recorded | None = None
    """Exemplars for the mock world; a user's world answers for itself."""

    def __call__(self, start: WorldStart) -> WorldLike:
        """Make the world of one episode.

        Raises:
            ProjectError: the user's class cannot be imported, made or reset, or lacks a method.
            WorldLost: an object of it failed.
        """
        if self.plays == "mock":
            return World(self.tools, start, self.recorded)
        make = _load_class(self.plays, str(self.root / "while.yaml"))
        return UserWorld(make, self.plays, self.tools, start)

    @cached_property
    def identity(self) -> str:
        """What can change an answer, besides the tools and the class's own code."""
        return f"{self.plays}-{self.recorded.identity}" if self.recorded else self.plays


@cache
def _load_class(named: str, source: str) -> Callable[[], Any]:
    module, _, attribute = named.partition(":")
    try:
        make: Callable[[], Any] = getattr(importlib.import_module(module), attribute)
        one = make()
        one.reset(0)
    except Exception as error:  # the user's module may raise anything
        mend = f"it cannot be imported, made without arguments and reset: {type(error).__name__}: {error}"
        raise ProjectError(source, "world.plays", named, mend) from error
    if not callable(getattr(one, "call", None)):
        raise ProjectError(source, "world.plays", named, "it has no method call(tool, arguments)")
    return make


def _as_fields(answer: str) -> Fields:
    """An answer as an object, for the fault that ages it."""
    try:
        value = decode_json(answer)
    except ValueError:
        value = answer
    return value if isinstance(value, dict) else {"result": value}
