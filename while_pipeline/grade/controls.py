"""Controls: the planted-defect policy plays the same scenarios, so that any judge can be measured.

Its `seeded` field and the answer key are gold labels nobody had to write; they work for every judge, a model
included.
"""

import math
from collections.abc import Sequence

import polars as pl

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.constants import TRUST_CONTROLS
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import Judge
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.user_world import WorldFactory
from while_pipeline.tools import Tool

LABELS = {
    "rollout_id": pl.String,
    "task_id": pl.String,
    "gold": pl.Boolean,
    "verdict": pl.Boolean,
    "length": pl.Int64,
    "seeded": pl.String,
}
"""Columns of the labels frame that `trust` reads."""


def control_labels(
    scenarios: Sequence[Scenario],
    tools: Sequence[Tool],
    document: PolicyDocument,
    judge: Judge,
    *,
    seed: int,
    worlds: WorldFactory | None = None,
) -> pl.DataFrame:
    """Play and judge `TRUST_CONTROLS` controls, spread evenly over the scenarios.

    Few scenarios are played several times over, so that a small project can still be trusted; each is played
    equally often, which can make a few controls more.
    """
    if not scenarios:
        return pl.DataFrame(schema=LABELS)
    samples = math.ceil(TRUST_CONTROLS / len(scenarios))
    chosen = min(math.ceil(TRUST_CONTROLS / samples), len(scenarios))
    weights = base_weights()
    played = play(
        [scenarios[i * len(scenarios) // chosen] for i in range(chosen)],
        EmbeddedAgent(weights),
        tools,
        document,
        samples=range(samples),
        seed=seed,
        policy_version=weights.version,
        worlds=worlds,
    )
    graded = grade(played, tools, document, judge)
    return pl.DataFrame([_label(one) for one in graded], schema=LABELS, orient="row")


def _label(graded: Graded) -> dict[str, object]:
    """A control is clean when no defect was planted in it and it did what the answer key asks.

    Both are known by construction. A planted defect is none of the judge's guesses, and a policy can fail
    without one (by giving up on the second try, say).
    """
    seeded = graded.rollout.seeded
    return {
        "rollout_id": graded.rollout.rollout_id,
        "task_id": graded.rollout.scenario.task_id,
        "gold": not seeded and graded.outcome.ok is True,
        "verdict": graded.verdict.clean,
        "length": graded.agent_words,
        "seeded": ",".join(seeded),
    }
