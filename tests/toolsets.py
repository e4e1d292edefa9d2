"""Tools and policy documents of several agents, and customers who write to them.

The example's are always there; the public ones lie beside the checkout or the test is skipped. No assertion
belongs here.
"""

import random
from collections.abc import Iterator
from functools import cache

import pytest

from tests.example import DOCUMENT, SHARED, TOOLS
from while_pipeline.agents.lexicon import Lexicon
from while_pipeline.policy_document import PolicyDocument, read_policy_document
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import HISTORIES, NONE, STANCES
from while_pipeline.simulate.script import Script, write_script
from while_pipeline.simulate.values import Persona, persona, value_for
from while_pipeline.tools import Tool, ToolKind, load_tools

_PUBLIC = {
    "airline": (("tau-bench/airline.tools.openai.json",), "tau-bench/airline.wiki.md"),
    "telecom": (("tau2-telecom/tools.openai.json",), "tau2-telecom/main_policy.md"),
    "phone": (("tau2-telecom/user_tools.openai.json",), "tau2-telecom/main_policy.md"),
    "telecom and phone": (
        ("tau2-telecom/tools.openai.json", "tau2-telecom/user_tools.openai.json"),
        "tau2-telecom/main_policy.md",
    ),
}
NAMES = ("example", *_PUBLIC)

PERSON = Persona(
    full_name="Ada Fox",
    date_of_birth="1980-02-03",
    email="ada@example.org",
    phone_number="555-010-0000",
    postcode="10000",
)


@cache
def toolset(name: str) -> tuple[tuple[Tool, ...], PolicyDocument]:
    """Tools and policy document of an agent."""
    if name == "example":
        return TOOLS, DOCUMENT
    files, policy = _PUBLIC[name]
    if not SHARED.is_dir():
        pytest.skip("needs the tau benchmarks in ../shared/data")
    tools = tuple(tool for file in files for tool in load_tools(file, SHARED))
    return tools, read_policy_document((SHARED / policy).read_text(encoding="utf-8"))


@cache
def lexicon(name: str) -> Lexicon:
    """The vocabulary of an agent."""
    return Lexicon(*toolset(name))


def cell(tool: str = NONE, stance: str = "ordinary", history: str = "fresh") -> Situation:
    """A situation without a rule, in an ordinary world."""
    return Situation(
        tool=tool,
        policy_rule=NONE,
        stance=stance,
        world_state="exists",
        tool_condition="success",
        history=history,
    )


def script_for(tool: Tool, situation: Situation, seed: int) -> Script:
    """What somebody says who wants one thing: `seed` decides the person, the values and the words."""
    rng = random.Random(f"world {seed}")
    person = persona(rng)
    known = {p: value_for(p, tool.properties[p], person, rng) for p in tool.required if not tool.free_text(p)}
    words = random.Random(f"words {tool.name} {seed}")
    return write_script(situation, [tool], None, person, known, {}, words)


def scripts(name: str, seeds: int) -> Iterator[tuple[Tool, Situation, Script]]:
    """Customers of an agent: `seeds` per tool, all stances and histories in turn."""
    for tool in toolset(name)[0]:
        if tool.kind is not ToolKind.TRANSFER:
            for seed in range(seeds):
                stance = STANCES[seed % len(STANCES)]
                history = HISTORIES[seed // len(STANCES) % len(HISTORIES)]
                situation = cell(tool.name, stance, history)
                yield tool, situation, script_for(tool, situation, seed)


def all_said(script: Script) -> str:
    """Everything a customer says who is asked for everything and whose request fails."""
    goal = [script.goal_line] if script.holds_back else []
    return "\n".join([script.opening, *goal, *script.follow_ups, script.reaction])
