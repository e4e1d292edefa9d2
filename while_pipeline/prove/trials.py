"""Trials: the serving policy and the candidate answer the same sealed tasks, same worlds, same customers."""

from collections.abc import Mapping, Sequence
from typing import Any

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import Weights
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import Judge
from while_pipeline.ids import canonical_json
from while_pipeline.messages import messages_json
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.user_world import WorldFactory
from while_pipeline.tools import Tool

CUSTOMER = "template"
"""Identity of the customer that answers in trials: the scripted one, part of this version of the code."""


def trial_rows(
    held_out: Sequence[Scenario],
    arms: Mapping[str, Weights],
    tools: Sequence[Tool],
    document: PolicyDocument,
    judge: Judge,
    *,
    k: int,
    seed: int,
    worlds: WorldFactory | None = None,
) -> list[dict[str, Any]]:
    """Rows of `prove.trials`: every arm plays every task k times.

    The seed of a sample does not depend on the arm, so both policies draw the same luck (common random
    numbers): what differs is the policy.
    """
    rows: list[dict[str, Any]] = []
    for arm, weights in arms.items():
        agent = EmbeddedAgent(weights)
        played = play(
            held_out,
            agent,
            tools,
            document,
            samples=range(k),
            seed=seed,
            policy_version=weights.version,
            worlds=worlds,
        )
        rows += [_row(arm, graded, judge) for graded in grade(played, tools, document, judge)]
    return rows


def _row(arm: str, graded: Graded, judge: Judge) -> dict[str, Any]:
    rollout = graded.rollout
    return {
        "rollout_id": rollout.rollout_id,
        "task_id": rollout.scenario.task_id,
        "category": rollout.scenario.category,
        "arm": arm,
        "policy_version": rollout.policy_version,
        "sample": rollout.sample,
        "passed": graded.passed,
        "reward": graded.reward,
        "reason": graded.reason,
        "findings": canonical_json(sorted({finding.rule for finding in graded.findings})),
        "judge": judge.identity,
        "customer": CUSTOMER,
        "messages": messages_json(rollout.messages),
    }
