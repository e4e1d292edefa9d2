"""Scenarios and rollouts as table rows and back. A scenario can be played from its row alone."""

import json
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from while_pipeline.ids import canonical_json
from while_pipeline.messages import arguments_text, messages_from_json, messages_json
from while_pipeline.records import Decision, Situation, Step, Usage
from while_pipeline.simulate.axes import AXES
from while_pipeline.simulate.detect import observe, realised, signature
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import AnswerKey, Scenario
from while_pipeline.simulate.script import Script
from while_pipeline.simulate.world import WorldStart
from while_pipeline.transcript import Transcript

Row = dict[str, Any]

_DIGIT = re.compile(r"\d")
_MARK = re.compile(r"[^\w\s]|_")


def scenario_row(scenario: Scenario) -> Row:
    """Columns that every table of scenarios shares."""
    return {
        "scenario_id": scenario.scenario_id,
        "task_id": scenario.task_id,
        "category": scenario.category,
        **scenario.situation.model_dump(),
        "prompt": scenario.script.opening,
        "goals": canonical_json(scenario.goals),
        "script": canonical_json(scenario.script.model_dump(mode="json")),
        "world": canonical_json(scenario.world.model_dump(mode="json")),
        "answer_key": canonical_json(scenario.key.model_dump(mode="json")),
    }


def scenario_from_row(row: Mapping[str, Any]) -> Scenario:
    """Read a scenario back from `simulate.scenarios` or `prove.held_out`."""
    return Scenario(
        scenario_id=row["scenario_id"],
        task_id=row["task_id"],
        category=row["category"],
        situation=Situation(**{axis: row[axis] for axis in AXES}),
        arm=row.get("arm", "structured"),
        goals=tuple(json.loads(row["goals"])),
        script=Script.model_validate_json(row["script"]),
        world=WorldStart.model_validate_json(row["world"]),
        key=AnswerKey.model_validate_json(row["answer_key"]),
    )


def scenarios_from(frame: pl.DataFrame) -> list[Scenario]:
    """Read all scenarios of a frame, in its order."""
    return [scenario_from_row(row) for row in frame.iter_rows(named=True)]


def rollout_row(rollout: Rollout, transcript: Transcript) -> Row:
    """Columns of `simulate.rollouts`."""
    text = " ".join(said for _, said in transcript.agent_texts)
    return {
        "rollout_id": rollout.rollout_id,
        "scenario_id": rollout.scenario.scenario_id,
        "task_id": rollout.scenario.task_id,
        "sample": rollout.sample,
        "seed": rollout.seed,
        "policy_version": rollout.policy_version,
        "messages": messages_json(rollout.messages),
        "decisions": canonical_json([d.model_dump(mode="json") for d in rollout.decisions]),
        "seeded": canonical_json(rollout.seeded),
        "ended": rollout.ended,
        "lost": rollout.lost,
        "blame": _blame(rollout),
        "world_diff": canonical_json(rollout.diff),
        "realised": canonical_json(realised(rollout.scenario.situation, observe(transcript))),
        "signature": signature(transcript),
        "n_turns": sum(m.role == "assistant" for m in rollout.messages),
        "n_tool_calls": len(transcript.steps),
        "n_words": transcript.agent_words,
        "n_digits": len(_DIGIT.findall(text)),
        "n_marks": len(_MARK.findall(text)),
        "logprob": rollout.logprob,
        "finish_reason": rollout.finish_reason,
        "input_tokens": rollout.usage.input_tokens,
        "output_tokens": rollout.usage.output_tokens,
    }


def _blame(rollout: Rollout) -> str:
    """Whose doing an ending is: a customer who leaves was given reason to by the agent."""
    return {"lost": "infrastructure", "max_turns": "agent", "gone": "agent"}.get(rollout.ended, "nobody")


def rollout_from_row(row: Mapping[str, Any], scenario: Scenario) -> Rollout:
    """Read a rollout of `scenario` back from its row."""
    return Rollout(
        rollout_id=row["rollout_id"],
        scenario=scenario,
        sample=row["sample"],
        seed=row["seed"],
        policy_version=row["policy_version"],
        messages=messages_from_json(row["messages"]),
        decisions=tuple(Decision.model_validate(d) for d in json.loads(row["decisions"])),
        ended=row["ended"],
        lost=row["lost"],
        diff=json.loads(row["world_diff"]),
        logprob=row["logprob"],
        finish_reason=row["finish_reason"],
        usage=Usage(input_tokens=row["input_tokens"], output_tokens=row["output_tokens"]),
    )


def rollouts_from(rollouts: pl.DataFrame, scenarios: pl.DataFrame) -> list[Rollout]:
    """Read all rollouts of a frame, in its order, with their scenarios."""
    by_id = {scenario.scenario_id: scenario for scenario in scenarios_from(scenarios)}
    return [rollout_from_row(row, by_id[row["scenario_id"]]) for row in rollouts.iter_rows(named=True)]


def step_row(step: Step) -> Row:
    """Columns that `simulate.steps` and `watch.steps` share."""
    return {
        "step": step.index,
        "turn": step.turn,
        "tool": step.call.name,
        "arguments": None if step.call.arguments is None else arguments_text(step.call),
        "raw_arguments": step.call.raw,
        "result": step.result,
        "status": step.status,
    }
