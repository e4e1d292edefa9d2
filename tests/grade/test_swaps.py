from collections.abc import Sequence
from functools import cache

import pytest

from tests.example import DOCUMENT, TOOLS, scenarios
from while_pipeline.grade.controls import Controls, play_controls
from while_pipeline.grade.judge import Case, Choice, Preference, RulesJudge
from while_pipeline.grade.probes import PROBED
from while_pipeline.grade.swaps import Compared, order_labels, swap_judge, swapped
from while_pipeline.grade.trust import judge_trust
from while_pipeline.prove.intervals import score_interval, t_quantile, wilson


@cache
def controls(count: int) -> Controls:
    return play_controls(scenarios(count, seed=3), TOOLS, DOCUMENT, count=160, seed=1)


class Asked(RulesJudge):
    """Remembers the pairs it was asked about, and answers as it is told, or as the rules do."""

    def __init__(self, said: tuple[Choice, Choice] | None = None) -> None:
        self._said = said
        self.pairs: list[tuple[Case, Case]] = []

    def preferences(self, pairs: Sequence[tuple[Case, Case]]) -> list[Preference]:
        self.pairs += pairs
        return (
            [Preference.of(*self._said, "told") for _ in pairs] if self._said else super().preferences(pairs)
        )


@pytest.mark.parametrize("count", [40, 160, 260])
def test_a_pair_is_a_clean_and_a_defective_control_of_one_scenario_and_a_task_has_one(count: int) -> None:
    judge = Asked()
    found = swap_judge(judge, controls(count), TOOLS, DOCUMENT)
    assert found.n == len(judge.pairs) == PROBED
    task = {s.scenario_id: s.task_id for s in scenarios(count, seed=3)}
    assert len({task[first.group] for first, _ in judge.pairs}) == PROBED
    assert all(first.group == second.group for first, second in judge.pairs)
    rules = RulesJudge()
    clean = [[verdict.clean for verdict in rules.verdicts(pair)] for pair in judge.pairs]
    # The rules miss a planted defect now and then, so that a pair may look alike to them.
    assert sum(one != other for one, other in clean) >= PROBED - 2


def test_which_of_a_pair_comes_first_is_mixed() -> None:
    judge = Asked()
    swap_judge(judge, controls(160), TOOLS, DOCUMENT)
    first_is_clean = [said.forward == "first" for said in RulesJudge().preferences(judge.pairs)]
    assert PROBED / 4 < sum(first_is_clean) < PROBED * 3 / 4


def test_the_rules_prefer_the_same_in_either_order() -> None:
    found = swap_judge(RulesJudge(), controls(160), TOOLS, DOCUMENT)
    assert found == ("swap", PROBED, 0, 0, 0.0, *wilson(0, PROBED), False)


def test_a_judge_that_takes_what_it_is_shown_first_turns_every_time() -> None:
    found = swap_judge(Asked(("first", "second")), controls(160), TOOLS, DOCUMENT)
    assert (found.flipped, found.rate, found.flagged) == (PROBED, 1.0, True)


def test_no_controls_no_pairs_and_nobody_is_asked() -> None:
    judge = Asked()
    assert swap_judge(judge, Controls([], []), TOOLS, DOCUMENT).rate is None
    assert judge.pairs == []


def test_a_preference_turns_when_the_orders_differ_and_a_missing_one_is_counted_apart() -> None:
    orders: list[tuple[Choice | None, Choice | None]] = [
        ("first", "first"),
        ("tie", "tie"),
        ("first", "second"),
        ("tie", "second"),
        (None, "first"),
        ("first", None),
        (None, None),
    ]
    assert swapped(orders) == ("swap", 4, 3, 2, 0.5, *wilson(2, 4), False)


def test_each_order_of_a_pair_is_a_label_and_the_pair_is_their_task() -> None:
    made = order_labels(
        [
            Compared("a", True, forward="first", backward="second", longer=7),
            Compared("b", False, forward="tie", backward=None, longer=-3),
        ]
    )
    assert made.select("task_id", "gold", "verdict", "length").rows() == [
        ("a", True, True, 7),
        ("a", True, False, 7),
        ("b", False, None, -3),
        ("b", False, None, -3),
    ]
    assert made["rollout_id"].n_unique() == 4


def test_both_orders_of_a_pair_that_agree_count_as_one_label_for_the_interval() -> None:
    pairs = [
        Compared(f"p{i}", i % 2 == 0, forward=said, backward=said, longer=0)
        for i in range(40)
        for said in ("first" if (i % 2 == 0) != (i < 4) else "second",)
    ]
    row = judge_trust(order_labels(pairs), source="human")[0]
    assert (row.n, row.n_tasks, row.agreement) == (80, 40, 0.9)
    assert (row.low, row.high) == pytest.approx(score_interval(0.9, 39, t_quantile(39, 0.95)))
