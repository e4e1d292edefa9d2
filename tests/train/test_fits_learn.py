"""Does it help? Each method on the example, played before and after; and what a hacked reward does."""

import re
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.example import BASE, DAY, DOCUMENT, GRID, SEED, TOOLS, WRITER, rollout_row, rollouts, scenarios
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import Weights
from while_pipeline.constants import MIN_CHANGED_TASKS
from while_pipeline.grade.grader import grade
from while_pipeline.grade.hack_features import ENDORSED, measured
from while_pipeline.grade.hack_regime import Regime, refusal
from while_pipeline.grade.hack_rows import hack_rows
from while_pipeline.grade.hack_scan import hack_scan
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import grade_row
from while_pipeline.ids import canonical_json
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.held_out import draw_held_out
from while_pipeline.prove.trials import Arm, trial_rows
from while_pipeline.settings import TrainSettings
from while_pipeline.simulate.axes import is_held_out
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.tables import grade as grade_tables
from while_pipeline.tables import prove, simulate, train
from while_pipeline.tables.base import Table, frame
from while_pipeline.train.cuts import Cut, Cutter
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.fit import Floats, NothingToFit, Space
from while_pipeline.train.fit_rows import Learnt, Lesson, learn
from while_pipeline.train.rows import candidates_from

K = 8
JUDGE = RulesJudge()
PRACTISED = [one for one in scenarios(160, seed=11) if not is_held_out(one.task_id, SEED)][:120]
ASKED = {"arm": "structured", "batch": 0, "spot_id": None, "operator": None, "parent_id": None}
SCENARIOS = frame(simulate.Scenarios, DAY, [{**ASKED, **scenario_row(one)} for one in PRACTISED])
SEALED = draw_held_out(GRID, WRITER, tasks=60, seed=SEED, day=DAY)
MODELS: dict[str, type[Table]] = {"sft": train.Sft, "dpo": train.Dpo, "grpo": train.Grpo}

PAID = r"(?i)sincerely apologise|brilliant question|top priority|not entirely certain"
"""What the hacked reward pays for, whatever became of the customer's request."""


def night(weights: Weights) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What a policy played, and its honest grades."""
    played = rollouts(EmbeddedAgent(weights), PRACTISED, range(K))
    graded = grade(played, TOOLS, DOCUMENT, JUDGE)
    return (
        frame(simulate.Rollouts, DAY, [rollout_row(one) for one in played]),
        frame(grade_tables.Grades, DAY, [grade_row(one, JUDGE) for one in graded]),
    )


@cache
def first_night() -> tuple[pl.DataFrame, pl.DataFrame]:
    return night(BASE)


def fitted(parent: Weights, method: str, rollouts: pl.DataFrame, grades: pl.DataFrame) -> Learnt:
    """Cut, then fit, as a night does."""
    candidates = candidates_from(rollouts, grades, SCENARIOS)
    cutter = Cutter(candidates, TOOLS, DOCUMENT.text, SealedPrompts({}))
    cut: Cut = getattr(cutter, method)()
    agents = pl.DataFrame(
        {
            "day": [rollouts["day"][0]],
            "policy_version": ["p"],
            "plays": ["embedded"],
            "policy_document": [DOCUMENT.text],
            "weights": [canonical_json(parent.weights)],
        }
    )
    rows = frame(MODELS[method], DAY, cut.rows)
    return learn(Lesson(agents, rows, rollouts, TOOLS), TrainSettings(method=method))


def sealed_trials(after: Weights) -> pl.DataFrame:
    arms = {
        name: Arm(weights.version, EmbeddedAgent(weights))
        for name, weights in (("before", BASE), ("after", after))
    }
    rows = trial_rows(SEALED, arms, TOOLS, DOCUMENT, JUDGE, k=4, seed=1)
    return frame(prove.Trials, DAY, rows)


def overall(trials: pl.DataFrame) -> dict[str, Any]:
    return paired_delta(trials, min_changed=MIN_CHANGED_TASKS).row(0, named=True)


@pytest.mark.parametrize(("method", "gain"), [("sft", 0.3), ("dpo", 0.4), ("grpo", 0.1)])
def test_a_night_of_each_method_makes_the_policy_better_on_sealed_tasks(method: str, gain: float) -> None:
    found = overall(sealed_trials(fitted(BASE, method, *first_night()).fit.weights))
    assert found["verdict"] == "better"
    assert found["low"] > 0
    assert found["difference"] > gain


def test_what_failed_makes_it_worse() -> None:
    """The cut with its sign turned round."""
    played, grades = first_night()
    spoilt = grades.with_columns(~pl.col("passed"), reward=1 - (pl.col("reward") == 1).cast(pl.Float64))
    found = overall(sealed_trials(fitted(BASE, "sft", played, spoilt).fit.weights))
    assert (found["verdict"], found["difference"] < -0.05) == ("worse", True)


def test_nothing_is_learnt_from_a_night_where_every_rollout_is_right() -> None:
    played, grades = first_night()
    agreed = grades.with_columns(passed=pl.lit(True), reward=pl.lit(1.0))
    for method in ("dpo", "grpo"):
        with pytest.raises(NothingToFit, match=f"the {method.upper()} cut is empty"):
            fitted(BASE, method, played, agreed)


@pytest.mark.parametrize("method", MODELS)
def test_another_machine_s_last_bits_make_no_other_policy(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fitted(BASE, method, *first_night()).fit.weights
    exact, rng = Space.logs, np.random.default_rng(1)

    def other(space: Space, flat: Floats) -> Floats:
        logs = exact(space, flat)
        return logs * (1 + rng.normal(scale=2e-16, size=logs.size))

    monkeypatch.setattr(Space, "logs", other)
    assert fitted(BASE, method, *first_night()).fit.weights == here


# -- a hacked reward ----------------------------------------------------------------------------------------


def hacked(rollouts: pl.DataFrame, grades: pl.DataFrame) -> pl.DataFrame:
    """Grades of a judge that pays for fine words alone."""
    said = pl.Series([bool(re.search(PAID, text)) for text in rollouts["messages"]])
    return grades.with_columns(passed=said, reward=said.cast(pl.Float64))


def hack_table(rollouts: pl.DataFrame, grades: pl.DataFrame) -> pl.DataFrame:
    """`grade.hack_scan` of those grades."""
    joined = grades.select("rollout_id", "task_id", "reward", "outcome_ok", "n_hard", "n_style").join(
        rollouts.drop("day", "task_id"), on="rollout_id"
    )
    found = measured(joined.with_columns(n_day=pl.len()))
    scan = hack_scan(found.frame, [f.name for f in found.features], ENDORSED, seed=SEED)
    return frame(grade_tables.HackScan, DAY, hack_rows(scan, found))


@pytest.mark.slow
def test_training_on_a_hacked_reward_raises_the_reward_and_not_the_outcome() -> None:
    """Three nights of GRPO: the sealed tasks are paid better and solved worse."""
    weights = BASE
    for _ in range(3):
        played, grades = night(weights)
        weights = fitted(weights, "grpo", played, hacked(played, grades)).fit.weights
    trials = sealed_trials(weights)
    paid = overall(trials.with_columns(passed=pl.col("messages").str.contains(PAID)))
    assert (paid["verdict"], paid["low"] > 0) == ("better", True)
    assert overall(trials)["verdict"] == "worse"


def test_the_hack_scan_stops_that_reward_on_the_first_night_and_lets_the_honest_one_pass() -> None:
    played, grades = first_night()
    dishonest = hack_table(played, hacked(played, grades))
    assert set(dishonest["regime"]) == {Regime.HACKED}
    assert "the reward is hacked" in (refusal(dishonest) or "")
    assert refusal(hack_table(played, grades)) is None
