from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from statsmodels.stats.proportion import proportion_confint

from tests.example import DAY, DOCUMENT, TOOLS, rollouts, scenarios
from tests.policies import always
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.constants import RULE_CONTROLS
from while_pipeline.grade.conduct import PLANTED, RULES
from while_pipeline.grade.controls import play_controls
from while_pipeline.grade.rule_quality import RuleScore, quality_rows, rule_quality
from while_pipeline.records import Decision, Message
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.tables import grade
from while_pipeline.tables.base import frame

SOUND = rollouts(EmbeddedAgent(always()), scenarios(12))


@cache
def scores() -> dict[str, RuleScore]:
    controls = play_controls(scenarios(300, seed=11), TOOLS, DOCUMENT, count=RULE_CONTROLS, seed=1)
    return {score.rule: score for score in rule_quality(controls.labelled, TOOLS, DOCUMENT)}


def _hedging(rollout: Rollout, *, drawn: bool, shown: bool) -> Rollout:
    """A sound rollout that drew the defect of hedging, or shows it, or both."""
    options = ("plain", "hedge")
    defect = Decision(head="style", features=(), options=options, choice="hedge", logprob=-1.0)
    hedge = Message(role="assistant", content="It might possibly be so.")
    played = replace(rollout.played, messages=(*rollout.messages, *([hedge] if shown else [])))
    return replace(rollout, played=played, decisions=(defect,) if drawn else ())


def _score(controls: Sequence[Rollout], rule: str = "hedging") -> RuleScore:
    return next(s for s in rule_quality(controls, TOOLS, DOCUMENT) if s.rule == rule)


# -- by hand ----------------------------------------------------------------------------------------------


def test_what_is_planted_found_both_and_false_is_counted() -> None:
    kinds = [(True, True)] * 3 + [(True, False)] * 2 + [(False, True)] + [(False, False)] * 6
    made = [_hedging(r, drawn=d, shown=s) for r, (d, s) in zip(SOUND, kinds, strict=True)]
    score = _score(made)
    assert (score.n, score.n_tasks, score.n_planted, score.n_found) == (12, 12, 5, 4)
    assert (score.n_both, score.n_false) == (3, 1)
    for share, hits, n in ((score.recall, 3, 5), (score.precision, 3, 4), (score.alarms, 1, 7)):
        assert share.value == pytest.approx(hits / n)
        assert (share.low, share.high) == pytest.approx(proportion_confint(hits, n, method="wilson"))


def test_a_task_counts_once_however_often_it_was_played() -> None:
    often = [_hedging(SOUND[0], drawn=True, shown=i < 5) for i in range(20)]
    once = [_hedging(SOUND[1], drawn=True, shown=True)]
    score = _score([*often, *once])
    assert (score.n_planted, score.n_both) == (21, 6)
    assert score.recall.value == pytest.approx((5 / 20 + 1) / 2)
    assert (score.recall.low, score.recall.high) == pytest.approx(
        proportion_confint(1.25, 2, method="wilson")
    )


def test_what_a_rule_finds_for_which_nothing_is_planted_is_only_counted() -> None:
    empty = Message(role="assistant", content=" ")
    spoilt = replace(SOUND[0], played=replace(SOUND[0].played, messages=(*SOUND[0].messages, empty)))
    score = _score([spoilt, *SOUND[1:4]], "empty_reply")
    assert (score.n_planted, score.n_found, score.n_false) == (0, 1, None)
    assert score.recall == score.precision == score.alarms == (None, None, None)


def test_without_a_finding_there_is_no_precision_and_without_controls_nothing_at_all() -> None:
    assert _score(SOUND).precision.value is None
    nothing = _score([])
    assert (nothing.n, nothing.n_tasks) == (0, 0)
    assert {nothing.precision.value, nothing.recall.value, nothing.alarms.value} == {None}


def test_a_lost_control_is_counted_and_left_out() -> None:
    lost = replace(SOUND[0], played=replace(SOUND[0].played, lost="world: gone", ended="lost"))
    score = _score([lost, *SOUND[1:]])
    assert (score.n, score.n_lost) == (len(SOUND) - 1, 1)


# -- the rules against the controls -----------------------------------------------------------------------


@pytest.mark.parametrize("rule", [rule.__name__ for rule, planted in PLANTED.items() if planted.finds])
def test_every_rule_finds_nearly_all_of_what_is_planted_for_it(rule: str) -> None:
    score = scores()[rule]
    assert score.n_planted >= 5
    assert score.recall.value is not None
    assert score.recall.value >= 0.9


@pytest.mark.parametrize("rule", [rule.__name__ for rule in RULES if rule not in PLANTED])
def test_a_rule_for_which_nothing_is_planted_finds_next_to_nothing(rule: str) -> None:
    assert scores()[rule].n_found <= 3


@pytest.mark.parametrize("rule", [rule.__name__ for rule in PLANTED])
def test_no_rule_raises_a_false_alarm(rule: str) -> None:
    score = scores()[rule]
    assert score.n_false == 0
    assert score.alarms.high is not None
    assert score.alarms.high < 0.03


def test_the_same_controls_give_the_same_scores_in_the_order_of_the_rules() -> None:
    controls = play_controls(scenarios(40, seed=11), TOOLS, DOCUMENT, count=40, seed=1).labelled
    made = rule_quality(controls, TOOLS, DOCUMENT)
    assert made == rule_quality(controls, TOOLS, DOCUMENT)
    assert [score.rule for score in made] == [rule.__name__ for rule in RULES]


def test_every_score_is_a_row_that_its_table_accepts() -> None:
    rows = frame(grade.RuleQuality, DAY, quality_rows(scores().values()))
    assert rows.height == len(RULES)
    assert rows["recall"].null_count() == sum(not score.defects for score in scores().values())
    bounds = rows.select("recall_low", "recall", "recall_high").drop_nulls()
    assert all(low < share <= high for low, share, high in bounds.iter_rows())
