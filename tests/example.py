"""The example project as the tests use it: loaded once, with scenarios of it and rollouts of those.

What is made here is shared by all tests of a run, so no test may change it. No assertion belongs here, and
nothing of any other project but the place where public data sets lie.
"""

import importlib.util
import random
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.agents.protocol import Agent, AsyncAgent
from while_pipeline.grade.grader import transcript_of
from while_pipeline.policy_document import RuleKind
from while_pipeline.project import load_project
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import NONE, grid_of, situation
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.plan import plan
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.rows import Row, rollout_rows
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.transcript import Transcript

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "telecom"
SHARED = ROOT.parent / "shared" / "data"
"""Public data sets, where they lie beside the checkout: a test that needs one is skipped without it."""

PROJECT = load_project(EXAMPLE)
TOOLS, DOCUMENT = PROJECT.tools, PROJECT.policy_document
BY_NAME = {tool.name: tool for tool in TOOLS}
RULE = {kind: DOCUMENT.of_kind(kind)[0].rule_id for kind in RuleKind}
"""The first rule of each kind."""

DAY = "2026-03-02"
SEED = 7
"""Seals the held-out tasks."""
GRID = grid_of(TOOLS, DOCUMENT, SEED)
WRITER = ScenarioWriter(TOOLS, DOCUMENT)
BASE = base_weights()

_write = cache(ScenarioWriter.write)


def script(name: str) -> ModuleType:
    """A script of the example's folder, as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def ordinary(tool: str = NONE, **values: str) -> Situation:
    """A situation that is ordinary on every axis but those named; no rule is in play."""
    others = {
        "policy_rule": NONE,
        "stance": "ordinary",
        "world_state": "exists",
        "tool_condition": "success",
        "history": "fresh",
    }
    return Situation(tool=tool, **(others | values))


@cache
def planned() -> tuple[Situation, ...]:
    """The situations of the example's first coverage plan."""
    return tuple(plan(GRID, [])[1])


def scenarios(count: int, seed: int = 5, writer: ScenarioWriter = WRITER) -> list[Scenario]:
    """Scenarios of situations that `seed` draws among the allowed ones, sealed ones too.

    More of the same seed begin with the same ones.
    """
    grid, rng, made = grid_of(writer.tools, writer.document, SEED), random.Random(seed), list[Scenario]()
    while len(made) < count:
        row = [rng.choice(values) for values in grid.axes.values()]
        if grid.allowed(row):
            made.append(_write(writer, situation(row), len(made)))
    return made


def rollouts(
    agent: Agent | AsyncAgent,
    of: Iterable[Scenario],
    samples: range = range(1),
    writer: ScenarioWriter = WRITER,
) -> list[Rollout]:
    """Those samples of each scenario in turn, played with the tools and policy document of `writer`."""
    played = play(of, agent, writer.tools, writer.document, samples=samples, seed=1, policy_version="p")
    return list(played)


@cache
def played(count: int, samples: int = 1, seed: int = 5) -> tuple[Rollout, ...]:
    """The base policy's first `samples` rollouts of each of the first `count` scenarios of `seed`."""
    return tuple(rollouts(EmbeddedAgent(BASE), scenarios(count, seed), range(samples)))


def transcript(rollout: Rollout) -> Transcript:
    """A rollout of the example as the grader reads it."""
    return transcript_of(rollout.played, BY_NAME, DOCUMENT)


def rollout_row(rollout: Rollout) -> Row:
    """A rollout of the example as its row of `simulate.rollouts`."""
    ((row, _),) = rollout_rows([rollout], BY_NAME, DOCUMENT)
    return row
