import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from tests.decisions import ANY, DECISIONS, chances, decision
from tests.example import BASE
from tests.policies import always
from while_pipeline.records import Decision
from while_pipeline.train.fit import NothingToFit, Space, penalised
from while_pipeline.train.fit_grpo import Credited, clipped_loss, fit_grpo
from while_pipeline.train.fit_sft import fit_sft
from while_pipeline.train.policy_report import Taught, moves

ADVANTAGE = st.floats(-3, 3)
CREDITED = st.lists(st.builds(Credited, ANY, ADVANTAGE), min_size=1, max_size=30)


def refusals(paid: float, n: int = 1) -> list[Credited]:
    """Eight refusals and two promises, as the base policy makes them; advantages that add up to 0."""
    refused, complied = decision("refuse", "refuse"), decision("refuse", "comply")
    return n * ([Credited(refused, paid)] * 8 + [Credited(complied, -4 * paid)] * 2)


@settings(max_examples=25, deadline=None)
@given(CREDITED, st.integers(0, 99))
def test_the_gradient_is_that_of_the_objective(credited: list[Credited], seed: int) -> None:
    space = Space(BASE, [one.decision for one in credited])
    loss = penalised(space, clipped_loss(space, credited, clip=0.2, beta=0.5), 0.1)
    at = space.start + np.random.default_rng(seed).normal(scale=0.3, size=space.start.size)
    assert check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], at) < 1e-5


@settings(max_examples=8, deadline=None)
@given(CREDITED)
def test_the_loss_is_the_papers_under_both_policies(credited: list[Credited]) -> None:
    """Oracle: the formula itself, decision by decision, on what the policies say."""
    if not any(one.advantage for one in credited):
        return
    fit = fit_grpo(BASE, credited, clip=0.3, beta=0.2)
    made = [one.decision for one in credited]
    for weights, loss in ((BASE, fit.loss_before), (fit.weights, fit.loss_after)):
        gains = []
        for d, advantage in credited:
            ratio = math.exp(weights.log_probabilities(d.head, d.features)[d.choice] - d.logprob)
            clipped = min(max(ratio, 0.7), 1.3)
            gains.append(min(ratio * advantage, clipped * advantage))
        kl = moves(BASE, weights, Taught(made))[0].kl
        assert kl is not None
        assert loss == pytest.approx(0.2 * kl - math.fsum(gains) / len(gains), abs=1e-5)
    assert fit.loss_after <= fit.loss_before + 1e-6
    assert (fit.method, fit.n_decisions) == ("grpo", len(credited))


def test_where_the_clip_is_not_reached_the_optimum_is_the_tilted_reference() -> None:
    """Closed form: shares as the parent's chances, so p is proportional to reference * exp(A / beta)."""
    fitted = fit_grpo(BASE, refusals(0.02), beta=1.0).weights
    tilted = {"refuse": 0.8 * math.exp(0.02), "comply": 0.2 * math.exp(-0.08)}
    expected = {option: value / sum(tilted.values()) for option, value in tilted.items()}
    assert chances(fitted, "refuse") == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("clip", [0.1, 0.2])
def test_a_small_price_of_divergence_ends_at_the_clip(clip: float) -> None:
    fitted = fit_grpo(BASE, refusals(1.0), clip=clip, beta=0.001).weights
    assert chances(fitted, "refuse")["refuse"] == pytest.approx(0.8 * (1 + clip), abs=3e-3)


def test_a_decision_that_has_moved_past_the_clip_already_pulls_no_more() -> None:
    """What a policy long gone made: it refused one time in five, so the parent stands at a ratio of 4."""
    old = decision("refuse", "refuse").model_copy(update={"logprob": math.log(0.2)})
    assert fit_grpo(BASE, [Credited(old, 1.0)]).weights == BASE
    worse = fit_grpo(BASE, [Credited(old, -1.0)]).weights
    assert chances(worse, "refuse")["refuse"] < 0.8


def test_a_higher_price_of_divergence_moves_less() -> None:
    made = refusals(0.5)
    fitted = [fit_grpo(BASE, made, beta=beta).weights for beta in (0.04, 1.0, 10.0, 1000.0)]
    gains = [chances(weights, "refuse")["refuse"] - 0.8 for weights in fitted]
    assert gains == sorted(gains, reverse=True)
    assert 0 < gains[-1] < 1e-3


@settings(max_examples=8, deadline=None)
@given(DECISIONS, st.integers(0, 99))
def test_the_exact_divergence_is_what_schulmans_k3_estimates(made: list[Decision], seed: int) -> None:
    """The mean of (ratio - 1) - log ratio over the policy's own choices, ratio = reference / policy."""
    head, on = made[0].head, made[0].features
    fitted = fit_sft(BASE, made, penalty=0.05).weights
    new, old = (weights.log_probabilities(head, on) for weights in (fitted, BASE))
    k3 = math.fsum(math.exp(new[o]) * (math.expm1(old[o] - new[o]) - (old[o] - new[o])) for o in new)
    exact = moves(BASE, fitted, Taught(made[:1]))[0].kl
    assert exact == pytest.approx(k3, abs=1e-12)


@settings(max_examples=8, deadline=None)
@given(CREDITED, st.randoms(use_true_random=False))
def test_the_same_decisions_in_any_order_are_the_same_policy(
    credited: list[Credited], rng: random.Random
) -> None:
    made = [*refusals(1.0), *credited]
    assert fit_grpo(BASE, made).weights == fit_grpo(BASE, rng.sample(made, len(made))).weights


def test_credit_that_is_even_moves_nothing() -> None:
    """Every choice is as good as any other: a gradient of zero."""
    even = [*refusals(0.0), Credited(decision("refuse", "refuse"), 0.25)]
    even += [Credited(decision("refuse", "refuse"), -0.25)]
    fitted = fit_grpo(BASE, even).weights
    assert chances(fitted, "refuse") == pytest.approx(chances(BASE, "refuse"), abs=1e-6)


def test_decisions_of_two_policies_are_each_held_against_their_own() -> None:
    sure = always()
    mixed = [
        Credited(decision("refuse", "refuse"), 1.0),
        Credited(decision("refuse", "refuse", by=sure), 1.0),
    ]
    # Of the second the parent's chance is below already, so only the first is clipped.
    fitted = fit_grpo(BASE, mixed, beta=0.001).weights
    assert chances(fitted, "refuse")["refuse"] > 0.8 * 1.2 + 0.01


@pytest.mark.parametrize(
    ("credited", "why"),
    [([], "the GRPO cut is empty"), (refusals(0.0), "no rollout did better or worse than its group")],
)
def test_without_an_advantage_there_is_nothing_to_fit(credited: list[Credited], why: str) -> None:
    with pytest.raises(NothingToFit, match=why):
        fit_grpo(BASE, credited)
