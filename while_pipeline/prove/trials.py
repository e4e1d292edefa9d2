"""Trials: the serving policy and the candidate answer the same sealed tasks, same worlds, same customers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.agents.protocol import Agent, AsyncAgent
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import Judge
from while_pipeline.ids import canonical_json
from while_pipeline.messages import messages_json
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.prove.delta_report import Compared
from while_pipeline.prove.looks import looks_factor
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.user_world import WorldFactory
from while_pipeline.tools import Tool

CUSTOMER = "template"
"""Identity of the customer that answers in trials: the scripted one, part of this version of the code."""


class Arm(NamedTuple):
    """One side of the trials."""

    policy_version: str
    agent: Agent | AsyncAgent


def trial_rows(
    held_out: Sequence[Scenario],
    arms: Mapping[str, Arm],
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
    numbers): what differs is the policy. A model behind an endpoint is sent the same seeds.

    Raises:
        AgentDown: an arm's first rollouts were all lost; see `drive.play`.
    """
    rows: list[dict[str, Any]] = []
    for arm, playing in arms.items():
        played = play(
            held_out,
            playing.agent,
            tools,
            document,
            samples=range(k),
            seed=seed,
            policy_version=playing.policy_version,
            worlds=worlds,
        )
        rows += [trial_row(arm, graded, judge) for graded in grade(played, tools, document, judge)]
    return rows


def about_trials(trials: pl.DataFrame, *, level: float, min_effect: float, looks: int) -> Compared:
    """What the report on a day's trials is about.

    Args:
        trials: Rows of `prove.trials`; may be empty.
        level: Level of the intervals.
        min_effect: Smallest difference that counts.
        looks: How often these tasks have been looked at, this time included.
    """
    about = Compared(before="the serving policy", after="the candidate", level=level, min_effect=min_effect)
    if trials.is_empty():
        return about
    versions = dict(trials.select("arm", "policy_version").unique().iter_rows())
    cautions = [
        f"Some of these tasks are looked at for the {looks}. time: the overall p is "
        f"{looks_factor(looks)} times the plain one."
    ]
    return replace(
        about,
        facts=[
            f"The serving policy is {versions['before']}, the candidate is {versions['after']}.",
            "Both answered the same sealed tasks: same worlds, same customers, same luck.",
        ],
        cautions=cautions if looks > 1 else [],
    )


def trial_row(arm: str, graded: Graded, judge: Judge) -> dict[str, Any]:
    """One row of `prove.trials`: a graded rollout of an arm."""
    rollout = graded.rollout
    found = canonical_json(sorted({finding.rule for finding in graded.findings}))
    return {
        "rollout_id": rollout.rollout_id,
        "scenario_id": rollout.scenario.scenario_id,
        "task_id": rollout.scenario.task_id,
        "category": rollout.scenario.category,
        "arm": arm,
        "policy_version": rollout.policy_version,
        "sample": rollout.sample,
        "passed": graded.passed,
        "reward": graded.reward,
        "reason": graded.reason,
        "answered": _answered(rollout),
        "truncated": None if rollout.lost else _truncated(rollout),
        "findings": None if rollout.lost else found,
        "judge": judge.identity,
        "customer": CUSTOMER,
        "messages": messages_json(rollout.messages),
    }


def _answered(rollout: Rollout) -> bool:
    """Whether the conversation came to its end with words of the agent."""
    last = rollout.messages[-1]
    return not rollout.lost and last.role == "assistant" and bool((last.content or "").strip())


def _truncated(rollout: Rollout) -> bool:
    """Whether the token limit or the limit of turns cut it off."""
    return rollout.played.finish_reason == "length" or rollout.played.ended == "max_turns"
