"""One episode, sans IO: a generator that yields what it needs and is sent the answer.

The episode's logic exists here once. Who answers, inline or over a network, belongs to `drive`.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from while_pipeline.agents.policy import defect_of
from while_pipeline.agents.protocol import Reply
from while_pipeline.constants import MAX_AGENT_TURNS
from while_pipeline.ids import content_id, seed_of
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import Decision, Message, Record, Usage
from while_pipeline.simulate.customer import CustomerTurn
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.script import Script
from while_pipeline.simulate.world import World
from while_pipeline.tools import Tool


@dataclass(frozen=True)
class AskAgent:
    """Wanted: the agent's next message."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    seed: int


@dataclass(frozen=True)
class AskCustomer:
    """Wanted: the customer's next turn."""

    script: Script
    messages: Sequence[Message]


Ask = AskAgent | AskCustomer
Episode = Generator[Ask, Any, "Rollout"]

Ended = Literal["satisfied", "transferred", "gone", "max_turns", "lost"]


class Rollout(Record):
    """One full attempt at a scenario."""

    rollout_id: str
    scenario: Scenario
    sample: int
    """0 .. k-1 within the scenario's group."""
    seed: int
    policy_version: str
    messages: tuple[Message, ...]
    """Without the system message: the policy document is the same for the whole day."""
    decisions: tuple[Decision, ...]
    ended: Ended
    lost: str | None
    """Why the rollout is no evidence about the agent (infrastructure); None for a played one."""
    diff: dict[str, Any]
    """What the world's records became; see `World.diff`."""
    logprob: float | None
    """Summed over the agent's turns; None when any turn's is unknown, and for a lost rollout."""
    finish_reason: str | None
    usage: Usage

    @property
    def seeded(self) -> tuple[str, ...]:
        """Planted defects drawn, sorted, each once: the answer key for whoever grades."""
        return tuple(sorted({defect for d in self.decisions if (defect := defect_of(d))}))


def system_message(document: PolicyDocument) -> Message:
    """The message every episode's agent sees first."""
    return Message(role="system", content=document.text)


def episode(
    scenario: Scenario,
    tools: Sequence[Tool],
    document: PolicyDocument,
    *,
    sample: int,
    seed: int,
    policy_version: str,
) -> Episode:
    """Play one rollout of `scenario`; yields `AskAgent` and `AskCustomer`, returns the `Rollout`.

    A driver throws `AgentError` in for an answer that never came; the rollout then counts as lost.
    """
    own_seed = seed_of("rollout", seed, scenario.scenario_id, sample)
    world = World(tools, scenario.world)
    system = system_message(document)
    messages: list[Message] = [Message(role="user", content=scenario.script.opening)]
    replies: list[Reply] = []
    ended: Ended = "max_turns"
    lost: str | None = None
    for turn in range(MAX_AGENT_TURNS):
        try:
            reply: Reply = yield AskAgent([system, *messages], tools, seed_of(own_seed, turn))
        except Exception as error:  # whatever the driver reports, the rollout is lost, never failed
            ended, lost = "lost", f"{type(error).__name__}: {error}"
            break
        replies.append(reply)
        messages.append(reply.message)
        if reply.message.tool_calls:
            messages += [
                Message(role="tool", content=world.call(c.name, c.arguments), tool_call_id=c.id)
                for c in reply.message.tool_calls
            ]
            continue
        answer: CustomerTurn = yield AskCustomer(scenario.script, messages)
        if answer.text is None:
            ended = answer.ending or "satisfied"
            break
        messages.append(Message(role="user", content=answer.text))
    logprobs = [reply.logprob for reply in replies]
    return Rollout(
        rollout_id=content_id("rollout", scenario.scenario_id, policy_version, sample, seed),
        scenario=scenario,
        sample=sample,
        seed=own_seed,
        policy_version=policy_version,
        messages=tuple(messages),
        decisions=tuple(d for reply in replies for d in reply.decisions),
        ended=ended,
        lost=lost,
        diff=world.diff(),
        logprob=None if lost or None in logprobs else sum(x for x in logprobs if x is not None),
        finish_reason=replies[-1].finish_reason if replies else None,
        usage=Usage(
            input_tokens=sum(r.usage.input_tokens for r in replies),
            output_tokens=sum(r.usage.output_tokens for r in replies),
        ),
    )
