from itertools import combinations

import pytest

from tests.example import ordinary
from while_pipeline.constants import CELL_WEIGHTS, PRIOR_PLAYS, RL_CELL_WEIGHTS
from while_pipeline.simulate.axes import AXES, row_of
from while_pipeline.simulate.cells import Cells, Spot, pairs_of

CELL = ordinary("get_bill", stance="hurried")
ROW = row_of(CELL)
OTHER = ordinary(
    "pay_bill", stance="unsure", world_state="missing", tool_condition="stale", history="repeat_visit"
)


def _cells(*spots: Spot) -> Cells:
    return Cells(CELL_WEIGHTS, spots)


def test_the_weights_are_the_published_ones_and_sum_to_one() -> None:
    assert list(CELL_WEIGHTS.values()) == [0.35, 0.35, 0.20, 0.10]
    assert list(RL_CELL_WEIGHTS.values()) == [0.25, 0.25, 0.15, 0.35]
    assert sum(CELL_WEIGHTS.values()) == pytest.approx(1)
    assert sum(RL_CELL_WEIGHTS.values()) == pytest.approx(1)


def test_a_situation_has_fifteen_pairs_and_those_of_three_axes_are_three() -> None:
    assert len(pairs_of(CELL, AXES)) == 15
    assert pairs_of(CELL, ("tool", "stance", "history")) == [
        (("tool", "get_bill"), ("stance", "hurried")),
        (("tool", "get_bill"), ("history", "fresh")),
        (("stance", "hurried"), ("history", "fresh")),
    ]


def test_before_anything_was_seen_a_cell_is_all_new_and_as_likely_to_fail_as_not() -> None:
    terms = _cells().terms(ROW)
    assert terms == pytest.approx({"undercoverage": 1, "risk": 0.5, "novelty": 1, "behavior_gap": 1})


def test_undercoverage_falls_with_the_square_of_how_often_the_triples_were_chosen() -> None:
    cells = _cells()
    for times in (1, 2, 3):
        cells.chosen(CELL)
        assert cells.terms(ROW)["undercoverage"] == pytest.approx(1 / (1 + times) ** 2)
    # One axis apart: the 10 triples without that axis are as often chosen, the other 10 not at all.
    near = row_of(ordinary("get_bill", stance="unsure"))
    assert cells.terms(near)["undercoverage"] == pytest.approx((10 / 16 + 10) / 20)


def test_novelty_is_the_share_of_pairs_no_trace_has_shown() -> None:
    cells = _cells()
    cells.learn(CELL, ("tool", "stance", "history"), failed=False)
    assert cells.terms(ROW)["novelty"] == pytest.approx(12 / 15)
    cells.learn(CELL, AXES, failed=False)
    assert cells.terms(ROW)["novelty"] == 0


def test_risk_is_the_worst_pairs_failure_rate_shrunk_to_the_overall_rate() -> None:
    cells = _cells()
    for failed in (True, True, False):
        cells.learn(CELL, AXES, failed=failed)
    for _ in range(5):
        cells.learn(OTHER, AXES, failed=False)
    overall = (2 + 1) / (8 + 2)
    assert cells.terms(ROW)["risk"] == pytest.approx((2 + PRIOR_PLAYS * overall) / (3 + PRIOR_PLAYS))
    assert cells.terms(row_of(OTHER))["risk"] < overall


def test_one_failing_pair_is_enough_to_make_a_cell_risky() -> None:
    cells = _cells()
    pair = {"tool": "pay_bill", "stance": "hurried"}
    for history in ("fresh", "repeat_visit", "prior_failure"):
        cells.learn(ordinary(**pair, history=history), AXES, failed=True)
        cells.learn(ordinary("pay_bill", history=history), AXES, failed=False)
        cells.learn(ordinary("get_bill", stance="hurried", history=history), AXES, failed=False)
    both, one = ordinary(**pair), ordinary("pay_bill", stance="unsure")
    assert cells.terms(row_of(both))["risk"] > cells.terms(row_of(one))["risk"] + 0.15


def test_the_traffics_weak_spots_count_as_seen_failures() -> None:
    spot = Spot("s", "pay_bill", "timeout", "hurried", 1.0, n=20, failures=15)
    there = ordinary("pay_bill", stance="hurried", tool_condition="timeout")
    overall = 16 / 22
    expected = (15 + PRIOR_PLAYS * overall) / (20 + PRIOR_PLAYS)
    assert _cells(spot).terms(row_of(there))["risk"] == pytest.approx(expected)


def test_the_behaviour_gap_is_widest_where_success_and_failure_are_even() -> None:
    cells = _cells()
    for i in range(200):
        cells.learn(CELL, AXES, failed=i % 2 == 0)
        cells.learn(OTHER, AXES, failed=False)
    assert cells.terms(ROW)["behavior_gap"] > 0.95
    assert cells.terms(row_of(OTHER))["behavior_gap"] < 0.4


@pytest.mark.parametrize("weights", [CELL_WEIGHTS, RL_CELL_WEIGHTS])
def test_the_weight_is_the_weighted_sum_of_terms_between_zero_and_one(weights: dict[str, float]) -> None:
    cells = Cells(weights, [])
    for i, (a, b) in enumerate(combinations(("hurried", "unsure", "retry", "boundary"), 2)):
        cells.chosen(ordinary("get_bill", stance=a))
        cells.learn(ordinary("pay_bill", stance=b), AXES[:4], failed=i % 2 == 0)
    for row in (ROW, row_of(OTHER)):
        terms = cells.terms(row)
        assert all(0 <= value <= 1 for value in terms.values())
        assert cells.weight(row) == pytest.approx(sum(weights[name] * terms[name] for name in weights))
        assert 0 <= cells.weight(row) <= 1
