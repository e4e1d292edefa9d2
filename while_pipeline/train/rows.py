"""Between tables and training: candidates for the cuts, the publication gate, the fitted policy's row."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from while_pipeline.agents.policy import Weights
from while_pipeline.constants import FIT_PENALTY
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.messages import messages_from_json
from while_pipeline.records import Decision
from while_pipeline.train.cuts import Candidate
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.fit import Fit


def candidates_from(rollouts: pl.DataFrame, grades: pl.DataFrame) -> list[Candidate]:
    """Join rollouts with their grades, as the cuts see them."""
    graded = rollouts.join(
        grades.select("rollout_id", "reward", "passed"), on="rollout_id", how="left", maintain_order="left"
    )
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
            words=row["n_words"],
        )
        for row in graded.iter_rows(named=True)
    ]


def sealed_prompts(held_out: pl.DataFrame) -> SealedPrompts:
    """Index the prompts of `prove.held_out`."""
    return SealedPrompts(dict(held_out.select("task_id", "prompt").iter_rows()))


def facts_by_rollout(rollouts: pl.DataFrame, scenarios: pl.DataFrame) -> dict[str, tuple[str, ...]]:
    """Answer-key facts by rollout id."""
    facts = {
        scenario: tuple(json.loads(key)["facts"])
        for scenario, key in scenarios.select("scenario_id", "answer_key").iter_rows()
    }
    return {
        rollout: facts[scenario]
        for rollout, scenario in rollouts.select("rollout_id", "scenario_id").iter_rows()
    }


def decisions_of(rows: pl.DataFrame, rollouts: pl.DataFrame) -> list[Decision]:
    """Decisions of the rollouts that training rows were cut from, in the rows' order."""
    made = dict(rollouts.select("rollout_id", "decisions").iter_rows())
    return [Decision.model_validate(d) for rollout in rows["rollout_id"] for d in json.loads(made[rollout])]


def policy_row(parent: Weights, fit: Fit, training: pl.DataFrame) -> dict[str, Any]:
    """Row of `train.policies`."""
    figures: Mapping[str, Any] = {k: v for k, v in asdict(fit).items() if k != "weights"}
    return {
        "policy_version": fit.weights.version,
        "parent": parent.version,
        "method": "sft",
        "data_hash": content_id(sorted(training["row_id"])),
        "n_rows": training.height,
        **figures,
        "settings": canonical_json({"penalty": FIT_PENALTY}),
        "weights": canonical_json(fit.weights.weights),
    }
