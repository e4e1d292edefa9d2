"""Between tables and fits: what each method learns from the rows of its cut, and the rows of a candidate.

What belongs here: reading decisions out of stored rollouts. The fits themselves are in `fit_sft`, `fit_dpo`
and `fit_grpo`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import Weights
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.messages import messages_from_json
from while_pipeline.records import Decision, Message
from while_pipeline.settings import TrainSettings
from while_pipeline.tools import Tool
from while_pipeline.train.fit import Fit, NothingToFit, Objective, Space
from while_pipeline.train.fit_dpo import Pair, fit_dpo, preference_loss
from while_pipeline.train.fit_grpo import Credited, clipped_loss, fit_grpo
from while_pipeline.train.fit_sft import fit_sft, negative_log_likelihood
from while_pipeline.train.policy_report import Age, Move, Taught, age_of, moves
from while_pipeline.uniforms import derived_seed

Row = dict[str, Any]


class Withheld(NamedTuple):
    """What the method minimises, on rows of the cut that nothing was learnt from."""

    n_valid: int
    """Rows on the validation side of the split."""
    valid_before: float | None
    """Under the parent; None when they hold no decision."""
    valid_after: float | None
    """Under the fitted policy."""


@dataclass(frozen=True)
class Lesson:
    """What a day's fit reads."""

    agents: pl.DataFrame
    """`watch.agent` of the days up to this one, by day; the last is the parent's."""
    rows: pl.DataFrame
    """Rows of the method's cut, both sides of its split."""
    rollouts: pl.DataFrame
    """`simulate.rollouts` of the day."""
    tools: Sequence[Tool]
    held_back: str | None = None
    """Why publication holds the cut back; None when it does not."""

    @property
    def parent(self) -> Weights:
        """The policy that serves the day.

        Raises:
            NothingToFit: it has no weights here.
        """
        serving = self.agents.row(-1, named=True)
        if serving["weights"] is None:
            raise NothingToFit(
                f"the agent is of kind {serving['plays']} and not fitted here: the cuts are for its trainer"
            )
        return Weights(weights=json.loads(serving["weights"]))

    @property
    def weights(self) -> dict[str, Weights]:
        """Every embedded policy that has served, by version."""
        known = self.agents.drop_nulls("weights").select("policy_version", "weights")
        return {version: Weights(weights=json.loads(text)) for version, text in known.iter_rows()}


@dataclass(frozen=True)
class Learnt:
    """A candidate with what it learnt from."""

    parent: Weights
    fit: Fit
    moves: list[Move]
    """Over all heads first."""
    withheld: Withheld
    age: Age
    data_hash: str
    """Hash of the ids of the training rows."""
    n_rows: int
    settings: TrainSettings


@dataclass(frozen=True)
class _Material:
    """What a method makes of rows of its cut."""

    taught: Taught
    fit: Callable[[], Fit]
    objective: Callable[[Space], Objective]


def learn(lesson: Lesson, settings: TrainSettings) -> Learnt:
    """Fit the parent to the training side of the cut by the method that is set.

    Raises:
        NothingToFit: the policy has no weights, the cut is held back, or it holds nothing to learn from.
        ValueError: a pair's turn cannot be made again; see `pairs_of`.
    """
    if lesson.held_back is not None:
        raise NothingToFit(lesson.held_back)
    rows, withheld = (lesson.rows.filter(pl.col("split") == side) for side in ("train", "valid"))
    material = _material(lesson, rows, settings)
    fit = material.fit()
    return Learnt(
        parent=lesson.parent,
        fit=fit,
        moves=moves(lesson.parent, fit.weights, material.taught),
        withheld=_withheld(
            lesson.parent, fit.weights, _material(lesson, withheld, settings), withheld.height
        ),
        age=age_of(_played_by(rows, lesson.rollouts), lesson.agents),
        data_hash=content_id(sorted(_ids(rows))),
        n_rows=rows.height,
        settings=settings,
    )


def _material(lesson: Lesson, rows: pl.DataFrame, settings: TrainSettings) -> _Material:
    parent, beta = lesson.parent, settings.closeness
    if settings.method == "sft":
        made = decisions_of(rows, lesson.rollouts)
        return _Material(
            Taught(made),
            lambda: fit_sft(parent, made, settings.penalty),
            lambda space: negative_log_likelihood(space, made),
        )
    if settings.method == "dpo":
        pairs = pairs_of(lesson, rows)
        return _Material(
            Taught([d for p in pairs for d in p.chosen], [d for p in pairs for d in p.rejected]),
            lambda: fit_dpo(parent, pairs, beta, settings.penalty),
            lambda space: preference_loss(space, pairs, beta),
        )
    credited = credited_of(rows, lesson.rollouts)
    better, worse = ([c.decision for c in credited if sign * c.advantage > 0] for sign in (1, -1))
    return _Material(
        Taught(better, worse),
        lambda: fit_grpo(parent, credited, settings.clip, beta),
        lambda space: clipped_loss(space, credited, settings.clip, beta),
    )


def _withheld(parent: Weights, fitted: Weights, material: _Material, n_rows: int) -> Withheld:
    decisions = material.taught.decisions
    if not decisions:
        return Withheld(n_rows, None, None)
    space = Space(parent, decisions)
    objective = material.objective(space)
    return Withheld(n_rows, objective(space.reference)[0], objective(space.logs_of(fitted))[0])


def decisions_of(rows: pl.DataFrame, rollouts: pl.DataFrame) -> list[Decision]:
    """Decisions of the rollouts that training rows were cut from, in the rows' order."""
    made = _decisions(rows["rollout_id"], rollouts)
    return [d for rollout in rows["rollout_id"] for d in made[rollout]]


def credited_of(rows: pl.DataFrame, rollouts: pl.DataFrame) -> list[Credited]:
    """Decisions of a GRPO cut's rollouts, each with the advantage of its rollout, in the rows' order."""
    made = _decisions(rows["rollout_id"], rollouts)
    return [
        Credited(d, advantage)
        for rollout, advantage in rows.select("rollout_id", "advantage").iter_rows()
        for d in made[rollout]
    ]


def pairs_of(lesson: Lesson, rows: pl.DataFrame) -> list[Pair]:
    """Decisions of the turn that each pair of a DPO cut parts in, in the rows' order.

    A rollout's decisions are stored in one list. Which of them are a turn's is found by giving the policy
    that played the same messages and seed again.

    Raises:
        ValueError: the policy that played is not known, or says something else now.
    """
    again = _Again(lesson)
    return [
        Pair(again.decisions(chosen, at), again.decisions(rejected, at))
        for prompt, chosen, rejected in rows.select(
            "prompt", "chosen_rollout_id", "rejected_rollout_id"
        ).iter_rows()
        for at in (sum(message["role"] != "system" for message in json.loads(prompt)),)
    ]


class _Again:
    """Makes turns of stored rollouts again."""

    def __init__(self, lesson: Lesson) -> None:
        self._rollouts: Mapping[str, Row] = {row["rollout_id"]: row for row in lesson.rollouts.to_dicts()}
        self._agents = {version: EmbeddedAgent(weights) for version, weights in lesson.weights.items()}
        self._system = Message(role="system", content=lesson.agents["policy_document"][-1])
        self._tools = lesson.tools

    def decisions(self, rollout_id: str, at: int) -> tuple[Decision, ...]:
        """Decisions of message `at` of a rollout."""
        row = self._rollouts[rollout_id]
        agent = self._agents.get(row["policy_version"])
        if agent is None:
            raise ValueError(
                f"rollout {rollout_id} was played by {row['policy_version']}, which never served: play the "
                "day's rollouts again"
            )
        messages = messages_from_json(row["messages"])
        before = messages[:at]
        turn = sum(message.role == "assistant" for message in before)
        reply = agent.respond([self._system, *before], self._tools, derived_seed(row["seed"], turn))
        if reply.message != messages[at]:
            raise ValueError(
                f"message {at} of rollout {rollout_id} comes out differently now, so the tools, the policy "
                "document or the agent's code have changed since: play the day's rollouts again"
            )
        return reply.decisions


def policy_row(learnt: Learnt) -> Row:
    """Row of `train.policies`."""
    overall = learnt.moves[0]._asdict()
    return {
        "policy_version": learnt.fit.weights.version,
        "parent": learnt.parent.version,
        "method": learnt.fit.method,
        "data_hash": learnt.data_hash,
        "n_rows": learnt.n_rows,
        "n_decisions": learnt.fit.n_decisions,
        "loss_before": learnt.fit.loss_before,
        "loss_after": learnt.fit.loss_after,
        **{name: overall[name] for name in MOVED},
        **learnt.withheld._asdict(),
        **learnt.age._asdict(),
        "settings": canonical_json(learnt.settings.used),
        "weights": canonical_json(learnt.fit.weights.weights),
    }


def head_rows(learnt: Learnt) -> list[Row]:
    """Rows of `train.policy_heads`: every head, those that learnt nothing too."""
    version = learnt.fit.weights.version
    return [{"policy_version": version, **move._asdict()} for move in learnt.moves[1:]]


def policy_figures(learnt: Learnt) -> dict[str, Any]:
    """What a fit came to, for whoever does not open the table: the known numbers of its row."""
    row = policy_row(learnt)
    return {name: value for name, value in row.items() if isinstance(value, int | float)}


MOVED = (
    "logprob_before",
    "logprob_after",
    "unwanted_before",
    "unwanted_after",
    "kl",
    "entropy_before",
    "entropy_after",
)
"""Figures of a move that `train.policies` has too, over all heads."""


def _decisions(of: pl.Series, rollouts: pl.DataFrame) -> dict[str, list[Decision]]:
    found = rollouts.filter(pl.col("rollout_id").is_in(of.implode())).select("rollout_id", "decisions")
    return {
        rollout: [Decision.model_validate(d) for d in json.loads(text)] for rollout, text in found.iter_rows()
    }


def _ids(rows: pl.DataFrame) -> list[str]:
    return rows["row_id" if "row_id" in rows.columns else "rollout_id"].to_list()


def _played_by(rows: pl.DataFrame, rollouts: pl.DataFrame) -> list[str]:
    """Policy version of every rollout that the rows are of."""
    columns = [name for name in rows.columns if name.endswith("rollout_id")]
    used = pl.concat([rows[name].rename("rollout_id") for name in columns]).unique(maintain_order=True)
    return rollouts.filter(pl.col("rollout_id").is_in(used.implode()))["policy_version"].to_list()
