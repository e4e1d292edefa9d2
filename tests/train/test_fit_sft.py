import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from tests.decisions import DECISIONS, chances, decision, likelihood
from tests.example import BASE, DOCUMENT, TOOLS, rollouts, scenarios
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.records import Decision
from while_pipeline.train.fit import NothingToFit, Space, penalised
from while_pipeline.train.fit_sft import fit_sft, negative_log_likelihood
from while_pipeline.train.policy_report import Taught, moves


def test_the_gradient_is_that_of_the_objective() -> None:
    made = [decision("fault", "retry")] * 3 + [decision("fault", "report", "f0")] * 2
    made += [decision("fault", "hide", "f0", "f1"), decision("verify", "skip", "f1")]
    space = Space(BASE, made)
    loss = penalised(space, negative_log_likelihood(space, made), 0.3)
    rng = np.random.default_rng(5)
    for _ in range(5):
        at = rng.normal(size=space.start.size)
        assert check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], at) < 1e-6


@pytest.mark.parametrize("others", [0, 100_000])
def test_without_a_penalty_a_bias_only_head_gets_the_observed_shares(others: int) -> None:
    """Closed form: the maximum likelihood of a multinomial; a head that is rare among others gets it too."""
    counts = {"retry": 6, "report": 2, "hide": 1, "claim": 1}
    made = [decision("fault", choice) for choice, n in counts.items() for _ in range(n)]
    filler = [decision("verify", "verify"), decision("verify", "skip")] * (others // 2)
    fitted = fit_sft(BASE, [*made, *filler], penalty=0.0).weights
    assert chances(fitted, "fault") == pytest.approx({o: n / 10 for o, n in counts.items()}, abs=1e-6)


def test_the_penalised_optimum_is_where_the_gradient_vanishes() -> None:
    """Independent oracle: for one context, share - probability = penalty x the move of each weight."""
    made = [decision("fault", "retry")] * 9 + [decision("fault", "hide")]
    fitted = fit_sft(BASE, made, penalty=0.1).weights
    logs = fitted.log_probabilities("fault", (BIAS,))
    for option, share in {"retry": 0.9, "report": 0.0, "hide": 0.1}.items():
        moved = fitted.weights["fault"][option].get(BIAS, 0.0) - BASE.weights["fault"][option][BIAS]
        assert share - math.exp(logs[option]) == pytest.approx(0.1 * moved, abs=1e-6)


@settings(max_examples=8, deadline=None)
@given(DECISIONS)
def test_the_data_become_likelier_and_the_report_says_by_how_much(made: list[Decision]) -> None:
    fit = fit_sft(BASE, made)
    assert (fit.method, fit.n_decisions) == ("sft", len(made))
    assert fit.loss_before == pytest.approx(-likelihood(BASE, made))
    assert fit.loss_after == pytest.approx(-likelihood(fit.weights, made))
    assert fit.loss_after <= fit.loss_before + 1e-6


@settings(max_examples=8, deadline=None)
@given(DECISIONS, st.randoms(use_true_random=False))
def test_the_same_decisions_in_any_order_are_the_same_policy(
    made: list[Decision], rng: random.Random
) -> None:
    once, again = fit_sft(BASE, made), fit_sft(BASE, rng.sample(made, len(made)))
    assert once.weights == again.weights
    assert (once.loss_before, once.loss_after) == pytest.approx((again.loss_before, again.loss_after))


def test_heads_without_data_stay_with_the_parent() -> None:
    fitted = fit_sft(BASE, [decision("fault", "retry")]).weights
    assert {head: fitted.weights[head] for head in HEADS if head != "fault"} == {
        head: BASE.weights[head] for head in HEADS if head != "fault"
    }


def test_features_learnt_before_survive_a_day_without_them() -> None:
    first = fit_sft(BASE, [decision("fault", "retry", "f0")] * 20).weights
    second = fit_sft(first, [decision("fault", "report")]).weights
    assert {o: table["f0"] for o, table in second.weights["fault"].items()} == {
        o: table["f0"] for o, table in first.weights["fault"].items()
    }


def test_a_larger_penalty_moves_less() -> None:
    made = [decision("fault", "retry")] * 9 + [decision("fault", "report")]
    fitted = [fit_sft(BASE, made, penalty=penalty).weights for penalty in (0.0, 0.02, 0.5, 100.0)]
    divergences = [moves(BASE, weights, Taught(made))[0].kl or 0.0 for weights in fitted]
    assert divergences == sorted(divergences, reverse=True)
    assert divergences[-1] < 1e-4


def test_no_decision_is_an_error_not_the_parent_again() -> None:
    with pytest.raises(NothingToFit, match="the SFT cut is empty"):
        fit_sft(BASE, [])


def test_calls_made_again_after_a_final_answer_are_learnt_away() -> None:
    practised = grade(
        rollouts(EmbeddedAgent(BASE), scenarios(120, seed=1), range(3)), TOOLS, DOCUMENT, RulesJudge()
    )
    final = [(one, d) for one in practised for d in one.rollout.decisions if d.head == "final"]
    assert not any(one.passed for one, d in final if d.choice == "repeat")
    fitted = fit_sft(BASE, [d for one in practised if one.passed for d in one.rollout.decisions]).weights
    for status in ("already_done", "not_found", "permission_denied"):
        features = (f"status:{status}", "first_try")
        before, after = (chances(weights, "final", *features)["repeat"] for weights in (BASE, fitted))
        assert after < before / 3
