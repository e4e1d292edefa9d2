"""Known truth, end to end: the pipeline's own intervals hold the rates planted in the embedded agent.

Every night below is small, has a seed of its own, and goes through the functions that the assets call. An
interval at 95 % holds the truth with probability .95, so of M intervals a binomial number does. The tolerance
is the number that a binomial at .95 falls below once in 10,000 times: it depends on M alone. The seeds are
fixed, so a test that passes passes always.
"""

import math
import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tests.example import BASE, DOCUMENT, TOOLS, scenarios
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import HEADS, Weights, defect_of
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.intervals import wilson
from while_pipeline.prove.pass_at import pass_table
from while_pipeline.prove.trials import Arm, trial_rows
from while_pipeline.records import Decision
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import Scenario

LEVEL = 0.95
LUCK = 1e-4
"""How rarely an honest interval may fail a test."""
POPULATION, LONG = 200, 8
"""Tasks whose true pass rate is found by playing each this often: the error of their mean is less than a
twentieth of the width of a night's interval. The nights' tasks are drawn among them."""
NIGHTS, TASKS, K = 24, 20, 3
OCCASIONS_NIGHTS, OCCASIONS_TASKS, OCCASIONS_K = 20, 40, 6
"""Nights at which single decisions are counted: larger, since some occasions are rare."""

FIRST = pl.Schema(
    {"task_id": pl.String(), "category": pl.String(), "passed": pl.Boolean(), "sound": pl.Float64()}
)


def fewest(intervals: int) -> int:
    """Fewest of this many intervals that must hold the truth."""
    return int(stats.binom.ppf(LUCK, intervals, LEVEL))


def improved() -> Weights:
    """The base policy with one head made nearly always sound."""
    head = "fault"
    sound, *others = HEADS[head]
    table = {sound: {"bias": 4.0}} | {option: {"bias": 0.0} for option in others}
    return Weights(weights=BASE.weights | {head: table})


ARMS = {"before": BASE, "after": improved()}


def played(of: list[Scenario], weights: Weights, k: int, seed: int) -> list[Rollout]:
    agent = EmbeddedAgent(weights)
    return list(play(of, agent, TOOLS, DOCUMENT, samples=range(k), seed=seed, policy_version=weights.version))


@cache
def true_rate(arm: str) -> float:
    """pass@1 of the population, by long play."""
    rollouts = played(scenarios(POPULATION), ARMS[arm], LONG, seed=1_000)
    return float(np.mean([one.passed for one in grade(rollouts, TOOLS, DOCUMENT, RulesJudge())]))


@cache
def nights() -> tuple[pl.DataFrame, ...]:
    """Independent nights: tasks drawn from the population, both policies, every night its own luck."""
    population = scenarios(POPULATION)
    return tuple(
        pl.DataFrame(
            trial_rows(
                random.Random(night).sample(population, TASKS),
                {name: Arm(weights.version, EmbeddedAgent(weights)) for name, weights in ARMS.items()},
                TOOLS,
                DOCUMENT,
                RulesJudge(),
                k=K,
                seed=night,
            )
        )
        for night in range(NIGHTS)
    )


@pytest.mark.parametrize("arm", ARMS)
def test_the_nights_intervals_for_pass_at_1_hold_the_true_rate(arm: str) -> None:
    tables = [pass_table(night.filter(pl.col("arm") == arm), [1]).row(0, named=True) for night in nights()]
    held = sum(table["low"] <= true_rate(arm) <= table["high"] for table in tables)

    assert held >= fewest(NIGHTS)
    assert 0 < true_rate(arm) < 1


def test_the_nights_intervals_for_the_delta_hold_the_true_difference() -> None:
    truth = true_rate("after") - true_rate("before")
    deltas = [paired_delta(night).row(0, named=True) for night in nights()]
    held = sum(delta["low"] <= truth <= delta["high"] for delta in deltas)

    assert truth > 0.05, "the candidate is sound where the base policy often is not"
    assert held >= fewest(NIGHTS)


@cache
def occasions() -> tuple[pl.DataFrame, ...]:
    """Per night and head, how the first occasion went in each rollout; heads met in half of the tasks."""
    population = scenarios(POPULATION)
    found = []
    for night in range(OCCASIONS_NIGHTS):
        tasks = random.Random(2_000 + night).sample(population, OCCASIONS_TASKS)
        rollouts = played(tasks, BASE, OCCASIONS_K, seed=2_000 + night)
        found += [pl.DataFrame(list(_first_of(head, rollouts)), FIRST) for head in HEADS]
    return tuple(
        one for one in found if one.drop_nulls("passed")["task_id"].n_unique() >= OCCASIONS_TASKS // 2
    )


def test_the_nights_intervals_over_tasks_hold_the_planted_chances() -> None:
    held = 0
    for first in occasions():
        row = pass_table(first, [1]).row(0, named=True)
        planted = first.drop_nulls("sound").group_by("task_id").agg(pl.col("sound").mean())
        held += row["low"] <= planted["sound"].mean() <= row["high"]

    assert len(occasions()) > 2 * OCCASIONS_NIGHTS, "most nights have occasions for several heads"
    assert held >= fewest(len(occasions()))


def test_the_nights_intervals_over_occasions_hold_the_planted_chances() -> None:
    held = 0
    for first in occasions():
        known = first.drop_nulls("sound")
        low, high = wilson(int(known["passed"].sum()), known.height)
        held += low <= known["sound"].mean() <= high

    assert held >= fewest(len(occasions()))


def _first_of(head: str, rollouts: list[Rollout]) -> Iterator[dict[str, object]]:
    """How the first occasion of a head went in each rollout, and how likely the policy was to be sound there.

    Later occasions would not do: whether there is a second one may depend on how the first one went.
    """
    for rollout in rollouts:
        decision = next((d for d in rollout.decisions if d.head == head), None)
        yield {
            "task_id": rollout.scenario.task_id,
            "category": head,
            "passed": None if decision is None else defect_of(decision) is None,
            "sound": None if decision is None else _chance_of_sound(decision),
        }


def _chance_of_sound(decision: Decision) -> float:
    """What the policy's weights give all options that are no defect, where this decision was made."""
    logs = BASE.log_probabilities(decision.head, decision.features)
    options = {option: decision.model_copy(update={"choice": option}) for option in logs}
    return sum(math.exp(logs[option]) for option, made in options.items() if defect_of(made) is None)
