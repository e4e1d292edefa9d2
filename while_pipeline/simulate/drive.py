"""Drivers of episodes: one answers inline, one awaits an endpoint with many episodes in flight.

The episode itself is in `rollout`; both drivers give the same rollouts for the same answers.
"""

import asyncio
import inspect
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from while_pipeline.agents.protocol import Agent, AgentError, AsyncAgent, Reply
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.simulate.customer import respond
from while_pipeline.simulate.rollout import Ask, AskAgent, Episode, Rollout, episode
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.tools import Tool

HOPELESS = 12
"""Rollouts lost in a row from the start before a run gives up: the agent is down, not unlucky."""

WINDOW = 256
"""Episodes in flight at most; the endpoint's own limit decides how many calls go out at once."""


class AgentDown(Exception):
    """The agent fails every time; its first error is the message."""


def play(
    scenarios: Iterable[Scenario],
    agent: Agent | AsyncAgent,
    tools: Sequence[Tool],
    document: PolicyDocument,
    *,
    samples: range,
    seed: int,
    policy_version: str,
) -> Iterator[Rollout]:
    """Play every sample of every scenario, in order.

    Raises:
        AgentDown: the first `HOPELESS` rollouts were all lost.
    """
    episodes = (
        episode(scenario, tools, document, sample=sample, seed=seed, policy_version=policy_version)
        for scenario in scenarios
        for sample in samples
    )
    if inspect.iscoroutinefunction(agent.respond):
        played: Iterable[Rollout] = _awaited(episodes, cast(AsyncAgent, agent))
    else:
        played = (_inline(one, cast(Agent, agent)) for one in episodes)
    return _unless_down(played)


def _unless_down(played: Iterable[Rollout]) -> Iterator[Rollout]:
    reasons: list[str] = []
    alive = False
    for rollout in played:
        alive = alive or rollout.lost is None
        if not alive and rollout.lost is not None:
            reasons.append(rollout.lost)
            if len(reasons) >= HOPELESS:
                raise AgentDown(f"the first {HOPELESS} rollouts were all lost: {reasons[0]}")
        yield rollout


def _until_agent(one: Episode, answer: Reply | AgentError | None) -> AskAgent | Rollout:
    """Go on with an episode until it wants the agent, or is over; the customer answers on the way."""
    given: Any = answer
    while True:
        try:
            ask: Ask = one.throw(given) if isinstance(given, AgentError) else one.send(given)
        except StopIteration as stop:
            rollout: Rollout = stop.value
            return rollout
        if isinstance(ask, AskAgent):
            return ask
        given = respond(ask.script, ask.messages)


def _inline(one: Episode, agent: Agent) -> Rollout:
    wanted = _until_agent(one, None)
    while isinstance(wanted, AskAgent):
        answer: Reply | AgentError
        try:
            answer = agent.respond(wanted.messages, wanted.tools, wanted.seed)
        except AgentError as error:
            answer = error
        wanted = _until_agent(one, answer)
    return wanted


def _awaited(episodes: Iterable[Episode], agent: AsyncAgent) -> Iterator[Rollout]:
    """Play with up to `WINDOW` episodes in flight; rollouts come out in the order of their episodes."""
    source = iter(episodes)
    with asyncio.Runner() as runner:
        try:
            while window := list(islice(source, WINDOW)):
                yield from runner.run(_gather(window, agent))
        finally:
            close = getattr(agent, "close", None)
            if close is not None:
                runner.run(close())


async def _gather(window: list[Episode], agent: AsyncAgent) -> list[Rollout]:
    return list(await asyncio.gather(*(_one(one, agent) for one in window)))


async def _one(one: Episode, agent: AsyncAgent) -> Rollout:
    wanted = _until_agent(one, None)
    while isinstance(wanted, AskAgent):
        answer: Reply | AgentError
        try:
            answer = await agent.respond(wanted.messages, wanted.tools, wanted.seed)
        except AgentError as error:
            answer = error
        wanted = _until_agent(one, answer)
    return wanted
