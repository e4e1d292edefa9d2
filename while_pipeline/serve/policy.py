"""The policy behind the endpoint: which one is served, and its replies from many threads.

What belongs here: finding the weights, and the agents that play them. What does not: HTTP (`app`) and how
replies are written (`completion`).
"""

import threading
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import takewhile
from pathlib import Path

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.policy import Weights, base_weights
from while_pipeline.agents.protocol import Reply
from while_pipeline.agents.view import UnanswerableError
from while_pipeline.errors import ProjectError
from while_pipeline.project import Project
from while_pipeline.records import Message
from while_pipeline.serve.request import ChatRequest, RequestError, Toolset
from while_pipeline.settings import SETTINGS_FILE
from while_pipeline.snapshot import SnapshotError
from while_pipeline.train.registry import RegistryError, published_registry, serving_policy

AGENTS = 32
"""Agents kept ready. Each has read one system message and one list of tools, 10 ms of work; applications
send few different ones."""


def weights_to_serve(project: Project, data: Path, version: str | None, day: str) -> Weights:
    """Weights of the version named, else of the policy that serves `day`, else the base policy's.

    Args:
        project: The user's project.
        data: The data folder, whose published snapshot says which policies there are.
        version: A policy version, promoted or not; None for the one that serves.
        day: ISO date of today.

    Raises:
        RegistryError: the version is not known; the newest known ones are named.
        ProjectError: what is asked for has no weights here, for it is a model or a program of the user's.
    """
    try:
        policy = serving_policy(day, data) if version is None else published_registry(data).policy(version)
    except SnapshotError:
        base = base_weights()
        if version not in (None, base.version):
            mend = f"no day has run yet, so there is only {base.version}, the base policy"
            raise RegistryError("policy_version", version, mend) from None
        policy = None if version is None else base
    if isinstance(policy, EndpointSettings):
        mend = f"it has no weights here: {policy.base_url} serves {policy.model}"
        raise RegistryError("policy_version", policy.version, mend)
    if policy is not None:
        return policy
    if version is not None:
        mend = "it has no weights here: it is the agent as while.yaml described it, a model or a program"
        raise RegistryError("policy_version", version, mend)
    plays = project.settings.agent.plays
    if plays != "embedded":
        mend = "no fitted policy serves; name one with --policy"
        raise ProjectError(SETTINGS_FILE, "agent.plays", plays, mend)
    return base_weights()


class ServedPolicy:
    """Answers requests with one policy.

    A reply depends on the messages, the tools and the seed of its request alone, in whatever order and
    however many at a time they come.
    """

    def __init__(self, weights: Weights, name: str, policy_document: str) -> None:
        """Serve `weights`.

        Args:
            weights: The policy.
            name: What the policy may be called beside its version: the same name, night after night.
            policy_document: Text that holds for a request without a system message.
        """
        self.version, self.name, self.policy_document = weights.version, name, policy_document
        self._player = lru_cache(maxsize=AGENTS)(partial(_Player, weights))

    def answer(self, request: ChatRequest) -> Reply:
        """Give the next assistant message.

        Raises:
            RequestError: the model is not this policy, or the conversation leaves nothing to answer.
        """
        if request.model not in (self.version, self.name):
            raise RequestError(
                f"The model {request.model!r} does not exist here; {self.version} is served, "
                f"also as {self.name}.",
                status=404,
                param="model",
                code="model_not_found",
            )
        leading = list(takewhile(lambda message: message.role == "system", request.messages))
        told = "\n".join(message.content or "" for message in leading)
        player = self._player(told if leading else self.policy_document, request.toolset)
        try:
            return player.play(request.messages[len(leading) :], request.seed)
        except UnanswerableError as error:
            raise RequestError(
                f"Invalid messages: {error}.", param="messages", code="invalid_value"
            ) from None


class _Player:
    """An agent that has read one system message and one list of tools, and answers one request at a time."""

    def __init__(self, weights: Weights, instructions: str, toolset: Toolset) -> None:
        self._agent = EmbeddedAgent(weights)
        self._system = Message(role="system", content=instructions)
        self._tools = toolset.tools
        self._lock = threading.Lock()

    def play(self, dialogue: Sequence[Message], seed: int) -> Reply:
        with self._lock:
            return self._agent.respond([self._system, *dialogue], self._tools, seed)
