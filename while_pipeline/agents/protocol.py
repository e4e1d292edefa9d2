"""What an agent is to the rest of the engine: messages in, one assistant message out."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from while_pipeline.records import NO_USAGE, Decision, Message, Usage
from while_pipeline.tools import Tool


class Reply(NamedTuple):
    """One assistant turn, with what the backend told about how it was made."""

    message: Message
    decisions: tuple[Decision, ...] = ()
    """The embedded policy's choices in this turn; empty for any other agent."""
    logprob: float | None = None
    """Summed natural log-probability of the turn; None when the backend does not say."""
    finish_reason: str | None = None
    usage: Usage = NO_USAGE


class AgentError(Exception):
    """The agent could not answer: an infrastructure failure, never counted as the agent's own failure."""


class Agent(Protocol):
    """Answers inline."""

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Give the next assistant message.

        Args:
            messages: The visible conversation, system message first.
            tools: What may be called.
            seed: Decides every random choice in this turn.

        Raises:
            AgentError: nothing usable came back.
        """
        ...


class AsyncAgent(Protocol):
    """Answers after a wait (a model behind an endpoint)."""

    async def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Give the next assistant message; see `Agent.respond`."""
        ...
