"""Between tables and training: candidates for the cuts, and what the publication gate holds them against."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from while_pipeline.ids import canonical_json
from while_pipeline.messages import messages_from_json
from while_pipeline.tools import Tool
from while_pipeline.train.cuts import KEPT, Candidate
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.privileged import Hidden, strings
from while_pipeline.train.publication import Graded

Row = Mapping[str, Any]


def candidates_from(rollouts: pl.DataFrame, grades: pl.DataFrame, scenarios: pl.DataFrame) -> list[Candidate]:
    """Join rollouts with their grades and scenarios, as the cuts see them."""
    graded = rollouts.join(
        grades.select("rollout_id", "reward", "passed"), on="rollout_id", how="left", maintain_order="left"
    )
    conditions = dict(scenarios.select("scenario_id", "tool_condition").iter_rows())
    hidden = hidden_by_rollout(rollouts, grades, scenarios)
    return [
        Candidate(
            rollout_id=row["rollout_id"],
            scenario_id=row["scenario_id"],
            task_id=row["task_id"],
            sample=row["sample"],
            messages=messages_from_json(row["messages"]),
            reward=row["reward"],
            passed=row["passed"],
            signature=row["signature"],
            tool_condition=conditions[row["scenario_id"]],
            hidden=hidden[row["rollout_id"]],
        )
        for row in graded.iter_rows(named=True)
    ]


def sealed_prompts(held_out: pl.DataFrame) -> SealedPrompts:
    """Index the prompts of `prove.held_out`."""
    return SealedPrompts(dict(held_out.select("task_id", "prompt").iter_rows()))


def hidden_by_rollout(
    rollouts: pl.DataFrame, grades: pl.DataFrame, scenarios: pl.DataFrame
) -> dict[str, Hidden]:
    """What only the simulator knows, by rollout id; a rollout without a grade has no reasons to hide."""
    of_scenario = {
        row["scenario_id"]: Hidden(
            key=_key_texts(json.loads(row["answer_key"])),
            records=_texts(row["world"]),
            script=_texts(row["script"]),
            grading=(row["scenario_id"], row["task_id"]),
        )
        for row in scenarios.iter_rows(named=True)
    }
    why = {row["rollout_id"]: _reasons(row) for row in grades.iter_rows(named=True)}
    found: dict[str, Hidden] = {}
    for rollout, scenario in rollouts.select("rollout_id", "scenario_id").iter_rows():
        shared = of_scenario[scenario]
        found[rollout] = shared._replace(grading=(*shared.grading, rollout, *why.get(rollout, ())))
    return found


def graded_by_rollout(grades: pl.DataFrame) -> dict[str, Graded]:
    """What was measured, by rollout id."""
    columns = grades.select("rollout_id", "scenario_id", "reward", "passed")
    return {rollout: Graded(*measured) for rollout, *measured in columns.iter_rows()}


def dropped_by_cut(why_dropped: pl.DataFrame) -> dict[str, str]:
    """Per cut, which gates dropped how many rollouts, the widest first; of `train.why_dropped`."""
    counted = (
        why_dropped.filter(pl.col("gate") != KEPT)
        .group_by("cut", "gate")
        .len()
        .sort("cut", "len", "gate", descending=[False, True, False])
    )
    said: dict[str, list[str]] = {}
    for cut, gate, n in counted.iter_rows():
        said.setdefault(cut, []).append(f"{n} {gate}")
    return {cut: ", ".join(gates) for cut, gates in said.items()}


def own_texts(policy_document: str, tools: Sequence[Tool]) -> str:
    """What the business itself says: addresses and numbers in it are meant to be told."""
    return f"{policy_document}\n{canonical_json([tool.openai() for tool in tools])}"


def _key_texts(key: Mapping[str, Any]) -> tuple[str, ...]:
    return (*key["facts"], *strings(key["effects"] or {}))


def _texts(column: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(strings(column)))


def _reasons(row: Row) -> tuple[str, ...]:
    """Why a rollout got its reward, in the grader's and the judge's words."""
    criteria = json.loads(row["criteria"]) if row["criteria"] else []
    said = [row["reason"], row["outcome_reason"], row["verdict_reason"], *(c["reason"] for c in criteria)]
    return tuple(dict.fromkeys(text for text in said if text))
