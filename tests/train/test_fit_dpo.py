import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, check_grad
from scipy.special import expit

from tests.decisions import ANY, chances, decision
from tests.example import BASE
from while_pipeline.agents.policy import HEADS, Weights
from while_pipeline.records import Decision
from while_pipeline.train.fit import NothingToFit, Space, penalised
from while_pipeline.train.fit_dpo import Pair, fit_dpo, preference_loss

TURN = st.lists(ANY, max_size=3).map(tuple)
PAIRS = st.lists(st.builds(Pair, TURN, TURN), min_size=1, max_size=12)
ASKS = Pair((decision("argument", "ask"),), (decision("argument", "invent"),))


def margin(weights: Weights, pair: Pair) -> float:
    """Log-ratio of the chosen less that of the rejected, by the policies themselves."""

    def log_ratio(made: tuple[Decision, ...]) -> float:
        return math.fsum(
            policy.log_probabilities(d.head, d.features)[d.choice] * sign
            for d in made
            for policy, sign in ((weights, 1), (BASE, -1))
        )

    return log_ratio(pair.chosen) - log_ratio(pair.rejected)


@settings(max_examples=15, deadline=None)
@given(PAIRS, st.integers(0, 99))
def test_the_gradient_is_that_of_the_objective(pairs: list[Pair], seed: int) -> None:
    decisions = [decision("stale", "use"), *(d for pair in pairs for d in pair.decisions)]
    space = Space(BASE, decisions)
    loss = penalised(space, preference_loss(space, pairs, beta=0.5), 0.1)
    at = space.start + np.random.default_rng(seed).normal(size=space.start.size)
    assert check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], at) < 1e-5


@settings(max_examples=8, deadline=None)
@given(PAIRS)
def test_the_loss_is_the_papers_under_both_policies(pairs: list[Pair]) -> None:
    """Oracle: the formula itself, on what the policies say."""
    try:
        fit = fit_dpo(BASE, pairs)
    except NothingToFit:
        return
    expected = [math.log1p(math.exp(-0.1 * margin(fit.weights, pair))) for pair in pairs]
    assert fit.loss_before == pytest.approx(math.log(2))
    assert fit.loss_after == pytest.approx(math.fsum(expected) / len(pairs), abs=1e-6)
    assert fit.loss_after <= fit.loss_before + 1e-9


def test_preferences_that_are_split_three_to_one_are_a_log_odds_of_three_over_beta() -> None:
    """Closed form of Bradley and Terry: sigmoid(beta * margin) is the share that prefers it."""
    split = [ASKS] * 3 + [Pair(ASKS.rejected, ASKS.chosen)]
    fitted = fit_dpo(BASE, split, beta=2.0, penalty=0.0).weights
    assert margin(fitted, ASKS) == pytest.approx(math.log(3) / 2, abs=1e-5)


def test_the_penalised_optimum_is_where_the_gradient_vanishes() -> None:
    """One kind of pair on one context: both weights move by m, beta * sigmoid(-2 beta m) = pull * m."""
    beta, penalty = 0.1, 0.02
    pull = penalty * beta / 2
    m = brentq(lambda m: beta * expit(-2 * beta * m) - pull * m, 0, 100)
    fitted = fit_dpo(BASE, [ASKS] * 5, beta=beta, penalty=penalty).weights
    assert margin(fitted, ASKS) == pytest.approx(2 * m, abs=1e-4)


def test_what_both_answers_decided_alike_does_not_count() -> None:
    shared = (decision("verify", "verify"), decision("confirm", "confirm"))
    longer = Pair(shared + ASKS.chosen, shared + ASKS.rejected)
    fitted = fit_dpo(BASE, [longer]).weights
    assert fitted == fit_dpo(BASE, [ASKS]).weights
    assert all(fitted.weights[head] == BASE.weights[head] for head in HEADS if head != "argument")


def test_chosen_answers_get_likelier_and_rejected_ones_less_so() -> None:
    before, after = (chances(weights, "argument") for weights in (BASE, fit_dpo(BASE, [ASKS]).weights))
    assert after["ask"] > before["ask"]
    assert after["invent"] < before["invent"]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.builds(Pair, TURN, TURN), max_size=8), st.randoms(use_true_random=False))
def test_the_same_pairs_in_any_order_are_the_same_policy(pairs: list[Pair], rng: random.Random) -> None:
    made = [ASKS, *pairs]
    assert fit_dpo(BASE, made).weights == fit_dpo(BASE, rng.sample(made, len(made))).weights


def test_a_smaller_beta_goes_farther() -> None:
    gaps = [margin(fit_dpo(BASE, [ASKS], beta=beta).weights, ASKS) for beta in (2.0, 0.5, 0.1)]
    assert gaps == sorted(gaps)
    assert gaps[0] > 0


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "no scenario was both solved and failed"),
        ([Pair(ASKS.chosen, ASKS.chosen)] * 2, "none of the 2 pairs differs in a decision"),
        ([Pair((), ())], "none of the 1 pairs differs"),
    ],
)
def test_without_a_contrast_there_is_nothing_to_fit(pairs: list[Pair], why: str) -> None:
    with pytest.raises(NothingToFit, match=why):
        fit_dpo(BASE, pairs)
