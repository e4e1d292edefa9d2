"""Controls: the planted-defect policy plays the same scenarios, so that any judge can be measured.

Its `seeded` field and the answer key are gold labels nobody had to write; they work for every judge, a model
included. What is asked of a judge with them belongs to `trust`, `probes` and `swaps`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.grade.grader import Graded
from while_pipeline.grade.outcome import Outcome
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rollout import Rollout
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


class Controls(NamedTuple):
    """What the planted-defect policy played."""

    labelled: list[Rollout]
    """At least as many as were asked for, spread evenly over the scenarios."""
    spare: list[Rollout]
    """One more sample of each of those scenarios, so that pairs of one scenario can be made."""


def play_controls(
    scenarios: Sequence[Scenario],
    tools: Sequence[Tool],
    document: PolicyDocument,
    *,
    count: int,
    seed: int,
    worlds: WorldFactory | None = None,
) -> Controls:
    """Play `count` controls, spread evenly over the scenarios, and a spare one of each scenario played.

    Few scenarios are played several times over, so that a small project can still be measured; each is
    played equally often, which can make a few controls more. No scenario gives no controls.
    """
    if not scenarios:
        return Controls([], [])
    samples = math.ceil(count / len(scenarios))
    chosen = min(math.ceil(count / samples), len(scenarios))
    weights = base_weights()
    played = list(
        play(
            [scenarios[i * len(scenarios) // chosen] for i in range(chosen)],
            EmbeddedAgent(weights),
            tools,
            document,
            samples=range(samples + 1),
            seed=seed,
            policy_version=weights.version,
            worlds=worlds,
        )
    )
    return Controls(
        labelled=[one for one in played if one.sample < samples],
        spare=[one for one in played if one.sample == samples],
    )


def gold_of(rollout: Rollout, outcome: Outcome) -> bool | None:
    """Whether a control is clean: no defect was planted in it and it did what the answer key asks.

    Both are known by construction. A planted defect is none of the judge's guesses, and a policy can fail
    without one (by giving up on the second try, say).

    Returns:
        None where nobody knows: a lost rollout, or an unplanted one in a world that does not tell what came
        of it.
    """
    if rollout.lost is not None:
        return None
    if rollout.seeded:
        return False
    return outcome.ok


def control_labels(graded: Sequence[Graded]) -> pl.DataFrame:
    """Labels of the controls whose gold is known, with the judge's verdicts; columns as in `LABELS`."""
    labels = [
        {
            "rollout_id": one.rollout.rollout_id,
            "task_id": one.rollout.scenario.task_id,
            "gold": gold,
            "verdict": one.verdict.clean,
            "length": one.agent_words,
            "seeded": ",".join(one.rollout.seeded),
        }
        for one in graded
        if (gold := gold_of(one.rollout, one.outcome)) is not None
    ]
    return pl.DataFrame(labels, schema=LABELS, orient="row")
