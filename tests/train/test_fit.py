import math
import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from tests.example import BASE, DOCUMENT, TOOLS, rollouts, scenarios
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.records import Decision
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.train.fit import Floats, _Head, fit_sft


def decision(head: str, choice: str, *features: str) -> Decision:
    return Decision(head=head, features=(BIAS, *features), options=HEADS[head], choice=choice, logprob=-1.0)


CHOICES = [(head, choice) for head, options in HEADS.items() for choice in options]
ON = st.sets(st.sampled_from(["f0", "f1", "f2"]))
DECISIONS = st.lists(
    st.builds(lambda at, on: decision(*at, *sorted(on)), st.sampled_from(CHOICES), ON),
    min_size=1,
    max_size=40,
)


def likelihood(weights: Weights, decisions: Iterable[Decision]) -> float:
    """Mean log-likelihood by the policy itself, which the fit does not use."""
    logs = [weights.log_probabilities(d.head, d.features)[d.choice] for d in decisions]
    return math.fsum(logs) / len(logs)


def test_the_gradient_is_that_of_the_objective() -> None:
    rows = [((BIAS,), "retry", 3), ((BIAS, "f0"), "report", 2), ((BIAS, "f0", "f1"), "hide", 1)]
    problem = _Head.of(BASE, "fault", HEADS["fault"], rows, 0.3)

    def value(flat: Floats) -> float:
        return problem.loss(flat)[0]

    def gradient(flat: Floats) -> Floats:
        return problem.loss(flat)[1]

    rng = np.random.default_rng(5)
    for _ in range(5):
        assert check_grad(value, gradient, rng.normal(size=problem.start.size)) < 1e-6


@pytest.mark.parametrize("others", [0, 100_000])
def test_without_a_penalty_a_bias_only_head_gets_the_observed_shares(others: int) -> None:
    """Closed form: the maximum likelihood of a multinomial; a head that is rare among others gets it too."""
    counts = {"retry": 6, "report": 2, "hide": 1, "claim": 1}
    made = [decision("fault", choice) for choice, n in counts.items() for _ in range(n)]
    filler = [decision("verify", "verify"), decision("verify", "skip")] * (others // 2)
    fitted = fit_sft(BASE, [*made, *filler], penalty=0.0).weights
    chances = {o: math.exp(p) for o, p in fitted.log_probabilities("fault", (BIAS,)).items()}
    assert chances == pytest.approx({o: n / 10 for o, n in counts.items()}, abs=1e-6)


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
    assert fit.n_decisions == len(made)
    assert fit.loss_before == pytest.approx(-likelihood(BASE, made))
    assert fit.loss_after == pytest.approx(-likelihood(fit.weights, made))
    assert fit.loss_after <= fit.loss_before + 1e-6


@settings(max_examples=8, deadline=None)
@given(DECISIONS)
def test_kl_is_the_mean_divergence_from_the_parent_over_the_training_contexts(made: list[Decision]) -> None:
    fit = fit_sft(BASE, made)
    each = []
    for d in made:
        new = fit.weights.log_probabilities(d.head, d.features)
        old = BASE.log_probabilities(d.head, d.features)
        each.append(math.fsum(math.exp(new[o]) * (new[o] - old[o]) for o in d.options))
    assert fit.kl >= 0.0
    assert fit.kl == pytest.approx(math.fsum(each) / len(each), abs=1e-9)


@settings(max_examples=8, deadline=None)
@given(DECISIONS, st.randoms(use_true_random=False))
def test_the_same_decisions_in_any_order_are_the_same_policy(
    made: list[Decision], rng: random.Random
) -> None:
    assert fit_sft(BASE, made) == fit_sft(BASE, rng.sample(made, len(made)))


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
    moves = [fit_sft(BASE, made, penalty=penalty).kl for penalty in (0.0, 0.02, 0.5, 100.0)]
    assert moves == sorted(moves, reverse=True)
    assert moves[-1] < 1e-4


def test_no_decision_is_an_error_not_the_parent_again() -> None:
    with pytest.raises(ValueError, match="no decisions to fit"):
        fit_sft(BASE, [])


# -- does it help? ----------------------------------------------------------------------------------------


def _graded(weights: Weights, of: Iterable[Scenario], samples: int) -> list[Graded]:
    return grade(rollouts(EmbeddedAgent(weights), of, range(samples)), TOOLS, DOCUMENT, RulesJudge())


def _pass_rate(weights: Weights) -> float:
    fresh = _graded(weights, scenarios(60, seed=2), 2)
    return sum(one.passed is True for one in fresh) / len(fresh)


@pytest.mark.slow
def test_good_data_make_the_policy_better_on_fresh_scenarios_and_spoilt_data_worse() -> None:
    practised = _graded(BASE, scenarios(60, seed=1), 3)
    good = [d for one in practised if one.passed for d in one.rollout.decisions]
    spoilt = [d for one in practised if one.passed is False for d in one.rollout.decisions]
    before = _pass_rate(BASE)
    assert _pass_rate(fit_sft(BASE, good).weights) > before + 0.10
    assert _pass_rate(fit_sft(BASE, spoilt).weights) < before - 0.05


def test_calls_made_again_after_a_final_answer_are_learnt_away() -> None:
    practised = _graded(BASE, scenarios(120, seed=1), 3)
    final = [(one, d) for one in practised for d in one.rollout.decisions if d.head == "final"]
    assert not any(one.passed for one, d in final if d.choice == "repeat")
    good = [d for one in practised if one.passed for d in one.rollout.decisions]
    fitted = fit_sft(BASE, good).weights
    for status in ("already_done", "not_found", "permission_denied"):
        features = (BIAS, f"status:{status}", "first_try")
        before, after = (math.exp(w.log_probabilities("final", features)["repeat"]) for w in (BASE, fitted))
        assert after < before / 3
