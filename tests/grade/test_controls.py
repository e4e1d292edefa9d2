from collections.abc import Sequence
from functools import cache

import polars as pl
import pytest

from tests.example import DOCUMENT, TOOLS, scenarios
from while_pipeline.agents.policy import HEADS, defect_of
from while_pipeline.constants import TRUST_CONTROLS
from while_pipeline.grade import controls
from while_pipeline.grade.controls import LABELS, control_labels
from while_pipeline.grade.judge import Case, RulesJudge, Verdict
from while_pipeline.grade.trust import judge_trust
from while_pipeline.records import Decision

SCENARIOS = scenarios(260, seed=11)


class Silent:
    """A judge that costs no time, to count what it is asked."""

    identity = "silent"

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        return [Verdict(clean=None, reason="")] * len(cases)


@cache
def labels(count: int) -> pl.DataFrame:
    return control_labels(SCENARIOS[:count], TOOLS, DOCUMENT, Silent(), seed=1)


@pytest.fixture(scope="module")
def by_rules() -> pl.DataFrame:
    return control_labels(SCENARIOS, TOOLS, DOCUMENT, RulesJudge(), seed=1)


@pytest.mark.parametrize("count", [1, 239, 260])
def test_few_scenarios_are_played_often_and_many_are_sampled(count: int) -> None:
    made = labels(count)
    assert TRUST_CONTROLS <= made.height < TRUST_CONTROLS + TRUST_CONTROLS / 20
    assert made["rollout_id"].n_unique() == made.height
    assert made["task_id"].n_unique() <= count


def test_a_sample_is_spread_over_all_scenarios_not_the_first() -> None:
    played = set(labels(260)["task_id"])
    assert {SCENARIOS[i].task_id for i in (0, 65, 130, 195)} <= played


def test_no_scenario_no_label_but_the_columns_are_there() -> None:
    made = labels(0)
    assert made.height == 0
    assert dict(made.schema) == LABELS


def test_the_same_seed_gives_the_same_labels_and_another_seed_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "TRUST_CONTROLS", 20)
    one, same, other = (
        control_labels(SCENARIOS[:10], TOOLS, DOCUMENT, Silent(), seed=seed) for seed in (1, 1, 2)
    )
    assert one.height == 20
    assert one.equals(same)
    assert not one.equals(other)


def test_a_control_is_clean_without_a_planted_defect_and_with_the_right_outcome() -> None:
    made = labels(260)
    planted = {
        defect
        for head, options in HEADS.items()
        for choice in options
        if (defect := defect_of(_decision(head, choice)))
    }
    assert made["verdict"].null_count() == made.height
    assert made.filter(pl.col("gold") & (pl.col("seeded") != "")).is_empty()
    unplanted = made.filter(pl.col("seeded") == "")
    failed = unplanted.filter(~pl.col("gold"))
    assert 0 < failed.height < unplanted.height / 4
    assert {d for seeded in made["seeded"] for d in seeded.split(",") if d} <= planted


def _decision(head: str, choice: str) -> Decision:
    features = ("bias", "retryable", "first_try")
    return Decision(head=head, features=features, options=HEADS[head], choice=choice, logprob=0.0)


def test_both_gold_labels_are_common_enough_to_measure_a_judge(by_rules: pl.DataFrame) -> None:
    assert 0.2 < by_rules["gold"].sum() / by_rules.height < 0.8


def test_the_rules_are_a_judge_to_be_trusted(by_rules: pl.DataFrame) -> None:
    overall = judge_trust(by_rules)[0]
    assert overall.trusted
    assert overall.agreement is not None
    assert overall.agreement > 0.95
    assert overall.specificity == 1.0


@pytest.mark.parametrize("always", [True, False])
def test_a_judge_that_always_says_the_same_is_not_trusted(by_rules: pl.DataFrame, always: bool) -> None:
    deaf = by_rules.with_columns(verdict=pl.lit(always))
    assert not judge_trust(deaf)[0].trusted
