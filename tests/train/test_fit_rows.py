import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.decisions import likelihood
from tests.example import BASE, DAY, DOCUMENT, TOOLS, played, rollout_row, rollouts, scenarios
from tests.policies import always
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import HEADS, Weights
from while_pipeline.agents.protocol import Reply
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import grade_row
from while_pipeline.ids import canonical_json
from while_pipeline.records import Decision, Message
from while_pipeline.settings import TrainSettings
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.tables import grade as grade_tables
from while_pipeline.tables import simulate, train
from while_pipeline.tables.base import Table, frame
from while_pipeline.tools import Tool
from while_pipeline.train.cuts import Cutter
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.fit import NothingToFit
from while_pipeline.train.fit_rows import (
    Learnt,
    Lesson,
    credited_of,
    decisions_of,
    head_rows,
    learn,
    pairs_of,
    policy_figures,
    policy_row,
)
from while_pipeline.train.registry import weights_from
from while_pipeline.train.rows import candidates_from

COUNT = 60
"""Enough for rows on both sides of the split."""
PLAYED = played(COUNT, samples=4)
BY_ID = {rollout.rollout_id: rollout for rollout in PLAYED}
JUDGE = RulesJudge()
# The rollouts name `p` as who played; here the base policy is known under that name.
ROLLOUTS = frame(simulate.Rollouts, DAY, [rollout_row(rollout) for rollout in PLAYED])
GRADES = frame(
    grade_tables.Grades, DAY, [grade_row(one, JUDGE) for one in grade(PLAYED, TOOLS, DOCUMENT, JUDGE)]
)
ASKED = {"arm": "structured", "batch": 0, "spot_id": None, "operator": None, "parent_id": None}
SCENARIOS = frame(simulate.Scenarios, DAY, [{**ASKED, **scenario_row(one)} for one in scenarios(COUNT)])
CUTTER = Cutter(candidates_from(ROLLOUTS, GRADES, SCENARIOS), TOOLS, DOCUMENT.text, SealedPrompts({}))
MODELS: dict[str, type[Table]] = {"sft": train.Sft, "dpo": train.Dpo, "grpo": train.Grpo}
CUTS = {
    "sft": frame(train.Sft, DAY, CUTTER.sft().rows),
    "dpo": frame(train.Dpo, DAY, CUTTER.dpo().rows),
    "grpo": frame(train.Grpo, DAY, CUTTER.grpo().rows),
}

TRAINED = {method: rows.filter(split="train") for method, rows in CUTS.items()}


def agents(*served: tuple[str, Weights | None], document: str = DOCUMENT.text) -> pl.DataFrame:
    """`watch.agent` of days on end, as far as a fit reads it."""
    rows = [
        {
            "day": f"2026-03-{number:02}",
            "policy_version": version,
            "plays": "endpoint" if weights is None else "embedded",
            "policy_document": document,
            "weights": None if weights is None else canonical_json(weights.weights),
        }
        for number, (version, weights) in enumerate(served, 1)
    ]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("day").str.to_date())


def lesson(method: str, served: pl.DataFrame | None = None) -> Lesson:
    return Lesson(agents(("p", BASE)) if served is None else served, CUTS[method], ROLLOUTS, TOOLS)


def learnt(method: str, **settings: Any) -> Learnt:
    return learn(lesson(method), TrainSettings(method=method, **settings))


# -- what each method reads ---------------------------------------------------------------------------------


def test_decisions_are_those_of_the_rows_rollouts_and_no_others() -> None:
    assert decisions_of(CUTS["sft"], ROLLOUTS) == [
        d for rollout in CUTS["sft"]["rollout_id"] for d in BY_ID[rollout].decisions
    ]


def test_a_decision_is_credited_with_its_rollouts_advantage() -> None:
    expected = [
        (d, advantage)
        for rollout, advantage in CUTS["grpo"].select("rollout_id", "advantage").iter_rows()
        for d in BY_ID[rollout].decisions
    ]
    assert [tuple(one) for one in credited_of(CUTS["grpo"], ROLLOUTS)] == expected
    assert {one.advantage > 0 for one in credited_of(CUTS["grpo"], ROLLOUTS)} == {True, False}


class Watched(EmbeddedAgent):
    """Remembers what it decided in each turn."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self.turns: dict[str, tuple[Decision, ...]] = {}

    def respond_each(
        self, messages: Sequence[Message], tools: Sequence[Tool], seeds: Sequence[int]
    ) -> list[Reply]:
        replies = super().respond_each(messages, tools, seeds)
        for reply in replies:
            said = canonical_json([m.model_dump() for m in (*messages[1:], reply.message)])
            self.turns[said] = reply.decisions
        return replies


def test_a_pair_is_the_decisions_of_the_turn_where_it_parts() -> None:
    agent = Watched(BASE)
    again = rollouts(agent, scenarios(COUNT), range(4))
    assert [one.rollout_id for one in again] == list(BY_ID)
    rows, pairs = CUTS["dpo"], pairs_of(lesson("dpo"), CUTS["dpo"])
    assert len(pairs) == rows.height > 5
    for row, pair in zip(rows.to_dicts(), pairs, strict=True):
        at = len(json.loads(row["prompt"])) - 1
        for name, made in (("chosen", pair.chosen), ("rejected", pair.rejected)):
            said = BY_ID[row[f"{name}_rollout_id"]].messages[: at + 1]
            assert made == agent.turns[canonical_json([m.model_dump() for m in said])]
    assert any(len(pair.chosen) < len(BY_ID[row["chosen_rollout_id"]].decisions)
               for row, pair in zip(rows.to_dicts(), pairs, strict=True))  # fmt: skip


def test_a_pair_of_a_policy_that_has_served_before_is_made_again_by_that_policy() -> None:
    earlier = agents(("p", BASE), ("newer", always()))
    assert pairs_of(lesson("dpo", earlier), CUTS["dpo"]) == pairs_of(lesson("dpo"), CUTS["dpo"])
    assert learn(lesson("dpo", earlier), TrainSettings(method="dpo")).age.versions_behind == 1


@pytest.mark.parametrize(
    ("served", "why"),
    [
        (agents(("other", BASE)), "was played by p, which never served"),
        (agents(("p", always(style="hedge"))), "comes out differently now"),
    ],
)
def test_a_turn_that_cannot_be_made_again_is_an_error_with_its_mend(served: pl.DataFrame, why: str) -> None:
    with pytest.raises(ValueError, match=f"{why}.*: play the day's rollouts again"):
        pairs_of(lesson("dpo", served), CUTS["dpo"])


# -- the candidate -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sft", "dpo", "grpo"])
def test_a_candidate_is_a_row_that_reads_back_with_its_parent_data_and_figures(method: str) -> None:
    made = learnt(method)
    row = frame(train.Policies, DAY, [policy_row(made)]).row(0, named=True)
    assert weights_from(row) == made.fit.weights
    assert (row["parent"], row["policy_version"]) == (BASE.version, made.fit.weights.version)
    assert (row["method"], row["n_rows"]) == (method, TRAINED[method].height)
    assert row["loss_after"] < row["loss_before"]
    assert row["logprob_after"] > row["logprob_before"]
    assert row["kl"] > 0
    assert (row["n_stale"], row["versions_behind"], row["days_behind"]) == (0, 0, 0)
    assert (row["unwanted_before"] is None) is (method == "sft")
    if method != "sft":
        assert row["unwanted_after"] < row["unwanted_before"]


@pytest.mark.parametrize("method", ["sft", "dpo", "grpo"])
def test_nothing_is_learnt_from_the_validation_side_and_its_loss_is_told(method: str) -> None:
    both = learnt(method)
    alone = Lesson(agents(("p", BASE)), TRAINED[method], ROLLOUTS, TOOLS)
    trained = learn(alone, TrainSettings(method=method))
    assert trained.fit == both.fit
    assert trained.withheld == (0, None, None)
    assert both.withheld.n_valid == CUTS[method].height - both.n_rows


def test_the_loss_on_the_validation_side_is_that_of_its_decisions() -> None:
    made = learnt("sft")
    valid = decisions_of(CUTS["sft"].filter(split="valid"), ROLLOUTS)
    assert made.withheld.valid_before == pytest.approx(-likelihood(BASE, valid))
    assert made.withheld.valid_after == pytest.approx(-likelihood(made.fit.weights, valid))


@pytest.mark.parametrize("method", ["sft", "dpo", "grpo"])
def test_every_head_has_a_row_that_says_how_it_moved(method: str) -> None:
    made = learnt(method)
    rows = frame(train.PolicyHeads, DAY, head_rows(made))
    assert rows["head"].to_list() == list(HEADS)
    assert set(rows["policy_version"]) == {made.fit.weights.version}
    counted = rows.select(pl.col("n_wanted") + pl.col("n_unwanted")).sum().item()
    assert counted == made.fit.n_decisions
    for row in rows.iter_rows(named=True):
        moved = made.fit.weights.weights[row["head"]] != BASE.weights[row["head"]]
        assert moved <= (row["n_wanted"] + row["n_unwanted"] > 0)
        assert (row["kl"] is None) is (row["n_wanted"] + row["n_unwanted"] == 0)


@pytest.mark.parametrize(
    ("settings", "stored"),
    [
        ({"method": "sft", "penalty": 0.5}, {"penalty": 0.5}),
        ({"method": "dpo"}, {"beta": 0.1, "penalty": 0.02}),
        ({"method": "dpo", "beta": 0.4}, {"beta": 0.4, "penalty": 0.02}),
        ({"method": "grpo"}, {"beta": 0.04, "clip": 0.2}),
        ({"method": "grpo", "clip": 0.1}, {"beta": 0.04, "clip": 0.1}),
    ],
)
def test_the_settings_that_the_method_read_decide_and_are_stored(
    settings: dict[str, Any], stored: dict[str, float]
) -> None:
    made = learnt(**settings)
    assert json.loads(policy_row(made)["settings"]) == stored
    usual = learnt(settings["method"]).fit.weights
    assert (made.fit.weights == usual) is (len(settings) == 1)


def test_the_figures_told_are_the_known_numbers_of_the_row() -> None:
    figures = policy_figures(learnt("sft"))
    assert {"loss_before", "kl", "entropy_after", "n_stale", "n_rows"} <= figures.keys()
    assert not {"weights", "method", "unwanted_before"} & figures.keys()


def test_the_data_hash_is_of_the_rows_not_of_their_order() -> None:
    def hash_of(rows: pl.DataFrame) -> str:
        return learn(Lesson(agents(("p", BASE)), rows, ROLLOUTS, TOOLS), TrainSettings()).data_hash

    rows = CUTS["sft"]
    assert hash_of(rows) == hash_of(rows.reverse())
    assert hash_of(rows.head(2)) != hash_of(rows)


@pytest.mark.parametrize(
    ("method", "why"),
    [("sft", "the SFT cut is empty"), ("dpo", "the DPO cut is empty"), ("grpo", "the GRPO cut is empty")],
)
def test_an_empty_cut_makes_no_candidate_and_says_so(method: str, why: str) -> None:
    nothing = frame(MODELS[method], DAY, [])
    with pytest.raises(NothingToFit, match=why):
        learn(Lesson(agents(("p", BASE)), nothing, ROLLOUTS, TOOLS), TrainSettings(method=method))


def test_groups_that_agree_leave_nothing_to_contrast() -> None:
    for reward in (1.0, 0.0):
        agreed = GRADES.with_columns(passed=pl.lit(reward == 1.0), reward=pl.lit(reward))
        cutter = Cutter(candidates_from(ROLLOUTS, agreed, SCENARIOS), TOOLS, DOCUMENT.text, SealedPrompts({}))
        for method, cut in (("dpo", cutter.dpo()), ("grpo", cutter.grpo())):
            rows = frame(MODELS[method], DAY, cut.rows)
            with pytest.raises(NothingToFit):
                learn(Lesson(agents(("p", BASE)), rows, ROLLOUTS, TOOLS), TrainSettings(method=method))


def test_a_cut_that_publication_holds_back_makes_no_candidate() -> None:
    held = replace(lesson("sft"), held_back="publication refused sft: not_empty: no row")
    with pytest.raises(NothingToFit, match="publication refused sft"):
        learn(held, TrainSettings())


def test_an_agent_without_weights_is_not_fitted_here() -> None:
    served = agents(("p", BASE), ("m-1", None))
    with pytest.raises(NothingToFit, match="of kind endpoint and not fitted here"):
        learn(lesson("sft", served), TrainSettings())
