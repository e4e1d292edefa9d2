"""Drivers of episodes: one answers inline, one awaits an endpoint with many episodes in flight.

The episode itself is in `rollout`; both drivers give the same rollouts for the same answers.
"""

import asyncio
import inspect
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import cast

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.protocol import Agent, AgentError, AsyncAgent, Reply
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.simulate.customer import respond
from while_pipeline.simulate.rollout import Episode, Played, Rollout, Sample, system_message
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.user_world import WorldFactory, Worlds
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
    worlds: WorldFactory | None = None,
) -> Iterator[Rollout]:
    """Play every sample of every scenario, in order.

    Args:
        scenarios: What is played.
        agent: Who answers.
        tools: What the agent may call.
        document: The policy document.
        samples: Which samples of each scenario's group.
        seed: The night's.
        policy_version: Of the agent, for the rollouts' ids.
        worlds: What makes the world of an episode; the mock world by default.

    Raises:
        AgentDown: the first `HOPELESS` rollouts were all lost.
    """
    system = system_message(document)
    make = worlds or Worlds(tuple(tools))
    groups = (
        (Episode(scenario, make, system), [Sample(scenario, n, seed, policy_version) for n in samples])
        for scenario in scenarios
    )
    if inspect.iscoroutinefunction(agent.respond):
        played = _awaited(groups, cast(AsyncAgent, agent), tools)
    else:
        played = (one for group in groups for one in _together(*group, cast(Agent, agent), tools))
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


def _together(episode: Episode, samples: list[Sample], agent: Agent, tools: Sequence[Tool]) -> list[Rollout]:
    """Play a scenario's samples as one episode that forks where their replies differ."""
    finished: list[Rollout] = []
    branches = [(episode, samples)] if samples else []
    while branches:
        episode, members = branches.pop()
        if episode.awaits == "nobody":
            played = Played.of(episode)
            finished += [sample.rollout(played) for sample in members]
            continue
        parted: dict[int, tuple[Reply | AgentError, list[Sample]]] = {}
        for sample, answer in zip(members, _answers(agent, episode, members, tools), strict=True):
            parted.setdefault(id(answer), (answer, []))[1].append(sample)
        ways = list(parted.values())
        twins = [episode.fork() for _ in ways[1:]]
        for branch, (answer, its) in zip([*twins, episode], ways, strict=True):
            _go_on(branch, answer, its)
            branches.append((branch, its))
    return sorted(finished, key=lambda rollout: rollout.sample)


def _answers(
    agent: Agent, episode: Episode, samples: list[Sample], tools: Sequence[Tool]
) -> Sequence[Reply | AgentError]:
    seeds = [sample.turn_seed(episode.turn) for sample in samples]
    if isinstance(agent, EmbeddedAgent):
        return agent.respond_each(episode.messages, tools, seeds)
    answers: list[Reply | AgentError] = []
    for seed in seeds:
        try:
            answers.append(agent.respond(episode.messages, tools, seed))
        except AgentError as error:
            answers.append(error)
    return answers


def _go_on(episode: Episode, answer: Reply | AgentError, samples: list[Sample]) -> None:
    """Give an episode the agent's answer, and the customer's to that."""
    if isinstance(answer, AgentError):
        episode.lose(f"{type(answer).__name__}: {answer}")
        return
    for sample in samples:
        sample.replies.append(answer)
    episode.take_reply(answer)
    if episode.awaits == "customer":
        episode.take_customer(respond(episode.scenario.script, episode.messages))


def _awaited(
    groups: Iterable[tuple[Episode, list[Sample]]], agent: AsyncAgent, tools: Sequence[Tool]
) -> Iterator[Rollout]:
    """Play with up to `WINDOW` episodes in flight; rollouts come out in the order of their samples."""
    source = ((episode.fork(), sample) for episode, samples in groups for sample in samples)
    with asyncio.Runner() as runner:
        try:
            while window := list(islice(source, WINDOW)):
                yield from runner.run(_gather(window, agent, tools))
        finally:
            close = getattr(agent, "close", None)
            if close is not None:
                runner.run(close())


async def _gather(
    window: list[tuple[Episode, Sample]], agent: AsyncAgent, tools: Sequence[Tool]
) -> list[Rollout]:
    return list(await asyncio.gather(*(_one(*one, agent, tools) for one in window)))


async def _one(episode: Episode, sample: Sample, agent: AsyncAgent, tools: Sequence[Tool]) -> Rollout:
    while episode.awaits == "agent":
        answer: Reply | AgentError
        try:
            answer = await agent.respond(episode.messages, tools, sample.turn_seed(episode.turn))
        except AgentError as error:
            answer = error
        _go_on(episode, answer, [sample])
    return sample.rollout(Played.of(episode))
