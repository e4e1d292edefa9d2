"""One episode, sans IO: it says whose turn it is and is given the answer.

The episode's logic exists here once. Who answers, inline or over a network, belongs to `drive`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from while_pipeline.agents.policy import defect_of
from while_pipeline.agents.protocol import Reply
from while_pipeline.constants import MAX_AGENT_TURNS
from while_pipeline.ids import content_id, seed_of
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import NO_USAGE, Decision, Message, Usage
from while_pipeline.simulate.customer import CustomerTurn
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.user_world import WorldFactory, WorldLike, WorldLost
from while_pipeline.uniforms import derived_seed

Ended = Literal["satisfied", "transferred", "gone", "max_turns", "lost"]


def system_message(document: PolicyDocument) -> Message:
    """The message every episode's agent sees first."""
    return Message(role="system", content=document.text)


class Episode:
    """A conversation in progress. Ask `awaits`, give the answer, until nobody is awaited."""

    __slots__ = ("awaits", "ended", "finish_reason", "lost", "messages", "scenario", "turn", "world")

    def __init__(self, scenario: Scenario, worlds: WorldFactory, system: Message) -> None:
        """Begin with the customer's opening; `system` is `system_message` of the policy document."""
        self.scenario = scenario
        self.messages = [system, Message(role="user", content=scenario.script.opening)]
        """What the agent sees."""
        self.turn = 0
        """Assistant turns so far."""
        self.awaits: Literal["agent", "customer", "nobody"] = "agent"
        self.ended: Ended = "max_turns"
        self.lost: str | None = None
        self.finish_reason: str | None = None
        self.world: WorldLike
        try:
            self.world = worlds(scenario.world)
        except WorldLost as error:
            self.lose(f"world: {error}")

    def fork(self) -> "Episode":
        """A second episode that has gone the same way so far and is independent from here on."""
        twin = object.__new__(Episode)
        twin.scenario, twin.messages, twin.turn = self.scenario, list(self.messages), self.turn
        twin.awaits, twin.ended, twin.lost = self.awaits, self.ended, self.lost
        twin.finish_reason = self.finish_reason
        if self.lost is None:
            try:
                twin.world = self.world.fork()
            except WorldLost as error:
                twin.lose(f"world: {error}")
        return twin

    def take_reply(self, reply: Reply) -> None:
        """Go on with the agent's message; the world answers its calls at once."""
        message = reply.message
        self.finish_reason = reply.finish_reason
        self.turn += 1
        self.messages.append(message)
        for call in message.tool_calls:
            try:
                answer = self.world.call(call.name, call.arguments)
            except WorldLost as error:
                self.lose(f"world: {error}")
                return
            self.messages.append(Message(role="tool", content=answer, tool_call_id=call.id))
        spoken = not message.tool_calls
        self.awaits = "customer" if spoken else "agent" if self.turn < MAX_AGENT_TURNS else "nobody"

    def take_customer(self, turn: CustomerTurn) -> None:
        """Go on with the customer's turn, which may be their last."""
        if turn.text is None:
            self.ended, self.awaits = turn.ending or "satisfied", "nobody"
            return
        self.messages.append(Message(role="user", content=turn.text))
        self.awaits = "agent" if self.turn < MAX_AGENT_TURNS else "nobody"

    def diff(self) -> dict[str, Any] | None:
        """What the world's records became; nothing for a lost episode, None where the world does not tell."""
        if self.lost is None:
            try:
                return self.world.diff()
            except WorldLost as error:
                self.lose(f"world: {error}")
        return {}

    def lose(self, reason: str) -> None:
        """End an episode whose answer never came: no evidence about the agent."""
        self.ended, self.lost, self.awaits = "lost", reason, "nobody"


@dataclass(frozen=True, slots=True)
class Played:
    """A finished conversation. Samples of a scenario that went the same way share one."""

    scenario: Scenario
    messages: tuple[Message, ...]
    """Without the system message: the policy document is the same for the whole day."""
    ended: Ended
    lost: str | None
    """Why the rollout is no evidence about the agent (infrastructure); None for a played one."""
    diff: dict[str, Any] | None
    """See `Episode.diff`."""
    finish_reason: str | None

    @classmethod
    def of(cls, episode: Episode) -> "Played":
        """What a finished episode was."""
        diff = episode.diff()  # first: it can be what loses the episode
        return cls(
            episode.scenario,
            tuple(episode.messages[1:]),
            episode.ended,
            episode.lost,
            diff,
            episode.finish_reason,
        )


@dataclass(frozen=True, slots=True)
class Rollout:
    """One full attempt at a scenario: a sample of the policy, and the conversation it led to."""

    rollout_id: str
    played: Played
    sample: int
    """0 .. k-1 within the scenario's group."""
    seed: int
    policy_version: str
    decisions: tuple[Decision, ...]
    logprob: float | None
    """Summed over the agent's turns; None when any turn's is unknown, and for a lost rollout."""
    usage: Usage

    @property
    def scenario(self) -> Scenario:
        """What was played."""
        return self.played.scenario

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, without its system message."""
        return self.played.messages

    @property
    def lost(self) -> str | None:
        """Why the rollout is no evidence about the agent; None for a played one."""
        return self.played.lost

    @property
    def seeded(self) -> tuple[str, ...]:
        """Planted defects drawn, sorted, each once: the answer key for whoever grades."""
        return tuple(sorted({defect for d in self.decisions if (defect := defect_of(d))}))


class Sample:
    """One sample of a scenario's group while it is played: its seed and the replies it was given."""

    __slots__ = ("_version", "number", "replies", "rollout_id", "seed")

    def __init__(self, scenario: Scenario, number: int, seed: int, policy_version: str) -> None:
        """Sample `number` of `scenario`; `seed` is the night's."""
        self.number, self._version = number, policy_version
        self.seed = seed_of("rollout", seed, scenario.scenario_id, number)
        self.rollout_id = content_id("rollout", scenario.scenario_id, policy_version, number, seed)
        self.replies: list[Reply] = []

    def turn_seed(self, turn: int) -> int:
        """Seed of an assistant turn."""
        return derived_seed(self.seed, turn)

    def rollout(self, played: Played) -> Rollout:
        """The sample as the conversation it led to."""
        logprobs = [reply.logprob for reply in self.replies if reply.logprob is not None]
        known = not played.lost and len(logprobs) == len(self.replies)
        return Rollout(
            rollout_id=self.rollout_id,
            played=played,
            sample=self.number,
            seed=self.seed,
            policy_version=self._version,
            decisions=tuple(chain.from_iterable([reply.decisions for reply in self.replies])),
            logprob=sum(logprobs) if known else None,
            usage=_total([reply.usage for reply in self.replies]),
        )


def _total(usages: Sequence[Usage]) -> Usage:
    spent = [usage for usage in usages if usage is not NO_USAGE]
    if not spent:
        return NO_USAGE
    return Usage(
        input_tokens=sum(u.input_tokens for u in spent), output_tokens=sum(u.output_tokens for u in spent)
    )
