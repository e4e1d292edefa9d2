"""What no conversation may hold, looked for in whole rollouts of a sound policy on several agents' tools."""

import random
import re
from functools import cache

import pytest

from tests.example import SEED, ordinary
from tests.policies import always
from tests.toolsets import NAMES, lexicon, toolset
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.grade.conduct import findings
from while_pipeline.grade.grader import transcript_of
from while_pipeline.simulate.axes import grid_of, situation
from while_pipeline.simulate.customer_checks import leaks, plays_agent
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.slots import spoken
from while_pipeline.tools import ToolKind, words_of
from while_pipeline.transcript import REFUSES

COUNT = 150
_IDENTIFIER = re.compile(r"[A-Z]{2,}-?\d{3,}")
_VAGUE = re.compile(r"(?:the|my|your|this|that) (?:record|order|line|bill|account|value|one)", re.IGNORECASE)


@cache
def _rollouts(name: str) -> tuple[Rollout, ...]:
    tools, document = toolset(name)
    grid, rng = grid_of(tools, document, SEED), random.Random(11)
    rows = (tuple(rng.choice(values) for values in grid.axes.values()) for _ in iter(int, 1))
    cells = (situation(row) for row in rows if grid.allowed(row))
    writer = ScenarioWriter(tools, document)
    scenarios = [writer.write(cell, seed) for seed, cell in zip(range(COUNT), cells, strict=False)]
    agent = EmbeddedAgent(always())
    return tuple(play(scenarios, agent, tools, document, samples=range(1), seed=1, policy_version="p"))


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_has_a_source_and_fits_its_schema(name: str) -> None:
    tools, document = toolset(name)
    by_name = {tool.name: tool for tool in tools}
    calls = 0
    for rollout in _rollouts(name):
        transcript = transcript_of(rollout.played, by_name, document)
        rules = {finding.rule for finding in findings(transcript)}
        assert not rules & {"ungrounded_argument", "placeholder_argument", "undeclared_tool"}
        for step in transcript.steps:
            calls += 1
            tool, made = by_name[step.call.name], step.call.arguments or {}
            assert tool.validator.is_valid(made), (tool.name, made)
            for parameter, value in made.items():
                if "phone" in words_of(parameter):
                    assert not _IDENTIFIER.search(str(value)), (parameter, value)
                if isinstance(value, str):
                    assert not _VAGUE.fullmatch(value.strip()), (parameter, value)
    assert calls >= COUNT / 2


@pytest.mark.parametrize("name", NAMES)
def test_a_hand_over_says_in_words_what_it_is_about(name: str) -> None:
    tools, _ = toolset(name)
    transfers = {tool.name for tool in tools if tool.kind is ToolKind.TRANSFER}
    for rollout in _rollouts(name):
        for message in rollout.messages:
            for call in message.tool_calls:
                if call.name in transfers:
                    texts = [str(value) for value in (call.arguments or {}).values()]
                    assert all(len(text.split()) >= 4 for text in texts), texts
                    assert not any(_IDENTIFIER.fullmatch(text.strip(" .")) for text in texts)


@pytest.mark.parametrize("name", NAMES)
def test_an_off_topic_question_is_declined_and_nothing_is_looked_up(name: str) -> None:
    tools, document = toolset(name)
    writer = ScenarioWriter(tools, document)
    scenarios = [writer.write(ordinary(), seed) for seed in range(60)]
    asked = [s for s in scenarios if lexicon(name).is_off_topic(s.script.opening)]
    assert len(asked) >= 15
    agent = EmbeddedAgent(always())
    for rollout in play(asked, agent, tools, document, samples=range(1), seed=1, policy_version="p"):
        answer = rollout.messages[1]
        assert not any(message.tool_calls for message in rollout.messages)
        assert REFUSES.search(answer.content or ""), answer.content


@pytest.mark.parametrize("name", NAMES)
def test_no_customer_tells_the_answer_key_or_plays_the_agent(name: str) -> None:
    for rollout in _rollouts(name):
        script, key = rollout.scenario.script, rollout.scenario.key
        known = {spoken(value).lower() for value in (*script.slots.values(), *script.corrections.values())}
        known |= {str(value).lower() for value in (*script.slots.values(), *script.corrections.values())}
        heard: list[str] = []
        for message in rollout.messages:
            text = message.content or ""
            if message.role == "user":
                secret = [fact for fact in key.facts if fact.lower() not in known and not _in(fact, heard)]
                assert not leaks(text, secret), (text, secret)
                assert not plays_agent(text), text
            else:
                heard.append(text)


def _in(fact: str, texts: list[str]) -> bool:
    return any(fact.lower() in text.lower() for text in texts)
