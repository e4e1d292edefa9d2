"""What is planned really happens: pairs of values, read back from played conversations."""

import json
from itertools import combinations

import pytest

from tests.example import BASE, DOCUMENT, SHARED, TOOLS
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.grade.grader import transcript_of
from while_pipeline.policy_document import PolicyDocument, read_policy_document
from while_pipeline.simulate.axes import AXES, grid_of
from while_pipeline.simulate.detect import observe, realised
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.plan import plan
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.tools import Tool, parse_tools

AIRLINE = ("tau-bench/airline.tools.openai.json", "tau-bench/airline.wiki.md")
TELECOM = ("tau2-telecom/tools.openai.json", "tau2-telecom/main_policy.md")
DEVICE = ("tau2-telecom/user_tools.openai.json", "tau2-telecom/policy.full.md")

_SOUND = dict.fromkeys(("match", "ask", "verify", "confirm", "refresh", "refuse", "handoff", "plain"), 50.0)
SOUND = Weights(
    weights={
        head: {option: {BIAS: _SOUND.get(option, -50.0)} for option in options}
        for head, options in HEADS.items()
    }
    | {
        "fault": {
            "retry": {BIAS: -50.0, "retryable": 150.0, "spent": -300.0},
            "report": {BIAS: 50.0},
            "hide": {BIAS: -200.0},
            "claim": {BIAS: -200.0},
        },
        "final": {option: {BIAS: 50.0 if option == "report" else -50.0} for option in HEADS["final"]},
    }
)
"""A policy that as good as never draws a defect, and retries what a retry can clear."""


def _agent_of(paths: tuple[str, str]) -> tuple[tuple[Tool, ...], PolicyDocument]:
    tools, policy = (SHARED / path for path in paths)
    if not tools.exists():
        pytest.skip(f"the public data set {paths[0]} is not beside this checkout")
    return parse_tools(json.loads(tools.read_text()), str(tools)), read_policy_document(policy.read_text())


def _share_realised(
    tools: tuple[Tool, ...], document: PolicyDocument, weights: Weights, worlds: int
) -> float:
    """Of the pairs of a first plan, the share that shows in one of `worlds` rollouts per situation."""
    writer, by_name = ScenarioWriter(tools, document), {tool.name: tool for tool in tools}
    _, cells, report = plan(grid_of(tools, document, seed=7), [])
    assert report.fraction == 1.0
    written = (writer.write(cell, seed) for cell in cells for seed in range(worlds))
    shown: set[tuple[tuple[str, str], ...]] = set()
    played = play(
        written, EmbeddedAgent(weights), tools, document, samples=range(1), seed=1, policy_version="p"
    )
    for rollout in played:
        cell = rollout.scenario.situation
        axes = realised(cell, observe(transcript_of(rollout.played, by_name, document)))
        shown.update(combinations(((axis, getattr(cell, axis)) for axis in AXES if axis in axes), 2))
    return len(shown) / report.pairs_planned


def test_one_world_a_situation_shows_nearly_every_planned_pair_when_the_agent_is_sound() -> None:
    assert _share_realised(TOOLS, DOCUMENT, SOUND, worlds=1) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("weights", [SOUND, BASE], ids=["sound", "base"])
@pytest.mark.parametrize(
    "paths", [None, AIRLINE, TELECOM, DEVICE], ids=["ours", "airline", "telecom", "device"]
)
def test_ten_worlds_a_situation_show_nearly_every_planned_pair_whatever_the_agent_plays(
    paths: tuple[str, str] | None, weights: Weights
) -> None:
    tools, document = _agent_of(paths) if paths else (TOOLS, DOCUMENT)
    assert _share_realised(tools, document, weights, worlds=10) >= 0.95
