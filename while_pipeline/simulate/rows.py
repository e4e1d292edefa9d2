"""Scenarios and rollouts as table rows and back. A scenario can be played from its row alone."""

import json
import string
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import polars as pl

from while_pipeline.ids import canonical_json
from while_pipeline.messages import arguments_text, messages_from_json, messages_json
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import Decision, Situation, Step, Usage
from while_pipeline.simulate.axes import AXES
from while_pipeline.simulate.customer_checks import blame
from while_pipeline.simulate.detect import observe, realised, signature
from while_pipeline.simulate.rollout import Played, Rollout
from while_pipeline.simulate.scenario import AnswerKey, Scenario
from while_pipeline.simulate.script import Script
from while_pipeline.simulate.world import WorldStart
from while_pipeline.tools import Tool
from while_pipeline.transcript import Transcript

Row = dict[str, Any]

_WITHOUT_DIGITS = str.maketrans("", "", string.digits)
_WITHOUT_MARKS = str.maketrans("", "", string.punctuation + "\u2018\u2019\u201c\u201d\u2013\u2014\u2026")
"""The typographic ones are quotation marks, dashes and the ellipsis."""

REMEMBERED = 1024
"""Decisions whose JSON is kept: a policy has few contexts."""


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


def rollout_rows(
    rollouts: Iterable[Rollout], tools: Mapping[str, Tool], document: PolicyDocument
) -> Iterator[tuple[Row, list[Row]]]:
    """Rows of `simulate.rollouts` and `simulate.steps` per rollout.

    What samples that went the same way share is worked out once; a group's samples come one after the other.
    """
    shared: dict[int, tuple[Played, Row, list[Row]]] = {}
    group = ""
    for rollout in rollouts:
        played = rollout.played
        if played.scenario.scenario_id != group:
            group = played.scenario.scenario_id
            shared.clear()
        if id(played) not in shared:
            transcript = Transcript(played.messages, tools, document, played.finish_reason)
            columns = _conversation_columns(played, transcript)
            shared[id(played)] = played, columns, [step_row(step) for step in transcript.steps]
        _, columns, steps = shared[id(played)]
        yield (
            _sample_columns(rollout) | columns,
            [{"rollout_id": rollout.rollout_id, **step} for step in steps],
        )


def _sample_columns(rollout: Rollout) -> Row:
    """Columns of `simulate.rollouts` that are a sample's own."""
    return {
        "rollout_id": rollout.rollout_id,
        "sample": rollout.sample,
        "seed": rollout.seed,
        "policy_version": rollout.policy_version,
        "decisions": _decisions_json(rollout.decisions),
        "seeded": canonical_json(rollout.seeded),
        "logprob": rollout.logprob,
        "input_tokens": rollout.usage.input_tokens,
        "output_tokens": rollout.usage.output_tokens,
    }


def _conversation_columns(played: Played, transcript: Transcript) -> Row:
    """Columns of `simulate.rollouts` that are the conversation's."""
    text = " ".join(said for _, said in transcript.agent_texts)
    scenario = played.scenario
    return {
        "scenario_id": scenario.scenario_id,
        "task_id": scenario.task_id,
        "messages": messages_json(played.messages),
        "ended": played.ended,
        "lost": played.lost,
        "blame": blame(played.ended, scenario.script, played.messages),
        "world_diff": canonical_json(played.diff),
        "realised": canonical_json(realised(scenario.situation, observe(transcript))),
        "signature": signature(transcript),
        "n_turns": sum(m.role == "assistant" for m in played.messages),
        "n_tool_calls": len(transcript.steps),
        "n_words": transcript.agent_words,
        "n_digits": len(text) - len(text.translate(_WITHOUT_DIGITS)),
        "n_marks": len(text) - len(text.translate(_WITHOUT_MARKS)),
        "finish_reason": played.finish_reason,
    }


def _decisions_json(decisions: tuple[Decision, ...]) -> str:
    return f"[{','.join(map(_decision_json, decisions))}]"


@lru_cache(maxsize=REMEMBERED)
def _decision_json(decision: Decision) -> str:
    return canonical_json(decision.model_dump(mode="json"))


def rollouts_from(rollouts: pl.DataFrame, scenarios: pl.DataFrame) -> list[Rollout]:
    """Read all rollouts of a frame, in its order, with their scenarios.

    Samples that went the same way share one `Played`, as they did when they were played.
    """
    by_id = {scenario.scenario_id: scenario for scenario in scenarios_from(scenarios)}
    shared: dict[tuple[Any, ...], Played] = {}
    read: list[Rollout] = []
    for row in rollouts.iter_rows(named=True):
        key = tuple(row[name] for name in _PLAYED)
        played = shared.get(key)
        if played is None:
            played = shared[key] = Played(
                scenario=by_id[row["scenario_id"]],
                messages=messages_from_json(row["messages"]),
                ended=row["ended"],
                lost=row["lost"],
                diff=json.loads(row["world_diff"]),
                finish_reason=row["finish_reason"],
            )
        read.append(
            Rollout(
                rollout_id=row["rollout_id"],
                played=played,
                sample=row["sample"],
                seed=row["seed"],
                policy_version=row["policy_version"],
                decisions=tuple(map(Decision.model_validate, json.loads(row["decisions"]))),
                logprob=row["logprob"],
                usage=Usage(input_tokens=row["input_tokens"], output_tokens=row["output_tokens"]),
            )
        )
    return read


_PLAYED = ("scenario_id", "messages", "ended", "lost", "world_diff", "finish_reason")
"""Columns that make one conversation."""


def step_row(step: Step) -> Row:
    """Columns that `simulate.steps` and `watch.steps` share."""
    return {
        "step": step.position,
        "turn": step.turn,
        "tool": step.call.name,
        "arguments": None if step.call.arguments is None else arguments_text(step.call),
        "raw_arguments": step.call.raw,
        "result": step.result,
        "status": step.status,
    }
