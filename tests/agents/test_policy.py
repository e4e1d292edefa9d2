import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.agents.policy import (
    BIAS,
    HEADS,
    RETRYABLE,
    Weights,
    base_weights,
    defect_of,
    is_final,
    status_feature,
)
from while_pipeline.records import Decision

FEATURES = ("f0", "f1", "f2")
WEIGHTS = st.fixed_dictionaries(
    {
        head: st.fixed_dictionaries(
            {
                option: st.dictionaries(st.sampled_from([BIAS, *FEATURES]), st.floats(-50, 50), max_size=4)
                for option in options
            }
        )
        for head, options in HEADS.items()
    }
).map(lambda weights: Weights(weights=weights))
ON = st.lists(st.sampled_from(FEATURES), unique=True).map(lambda on: (BIAS, *on))


@settings(max_examples=40)
@given(WEIGHTS, st.sampled_from(sorted(HEADS)), ON)
def test_probabilities_are_a_softmax_of_the_summed_weights_and_sum_to_one(
    weights: Weights, head: str, features: tuple[str, ...]
) -> None:
    logs = weights.log_probabilities(head, features)
    scores = np.array([sum(weights.weights[head][o].get(f, 0.0) for f in features) for o in HEADS[head]])
    expected = scores - np.logaddexp.reduce(scores)
    assert list(logs) == list(HEADS[head])
    np.testing.assert_allclose(list(logs.values()), expected, atol=1e-9)
    assert math.fsum(map(math.exp, logs.values())) == pytest.approx(1.0)


@settings(max_examples=40)
@given(WEIGHTS, st.sampled_from(sorted(HEADS)), st.floats(0, 1, exclude_max=True))
def test_a_choice_inverts_the_distribution_and_keeps_its_own_log_probability(
    weights: Weights, head: str, uniform: float
) -> None:
    decision = weights.choose(head, ["f0"], uniform)
    assert decision.features == (BIAS, "f0")
    logs = weights.log_probabilities(head, decision.features)
    assert decision.logprob == logs[decision.choice]
    before = math.fsum(math.exp(logs[o]) for o in HEADS[head][: HEADS[head].index(decision.choice)])
    assert before <= uniform + 1e-9
    assert uniform < before + math.exp(decision.logprob) + 1e-9


def test_equal_weights_are_the_same_policy_and_others_are_not() -> None:
    changed = base_weights().model_dump()
    changed["weights"]["tool"]["match"][BIAS] += 0.5
    assert base_weights().version == base_weights().version
    assert Weights(**changed).version != base_weights().version


def test_the_starting_policy_plants_every_defect_and_is_sound_more_often_than_not() -> None:
    weights = base_weights()
    for head, options in HEADS.items():
        chances = {o: math.exp(p) for o, p in weights.log_probabilities(head, (BIAS,)).items()}
        assert chances[options[0]] > 0.5
        assert all(0.01 < chances[option] < 0.5 for option in options[1:])
        assert all(set(table) == {BIAS} for table in weights.weights[head].values())


def _fault(choice: str, *features: str) -> Decision:
    return Decision(
        head="fault", features=(BIAS, *features), options=HEADS["fault"], choice=choice, logprob=0.0
    )


@pytest.mark.parametrize(
    ("decision", "defect"),
    [
        (_fault("retry", "retryable", "first_try"), None),
        (_fault("report", "retryable", "first_try"), "gives_up"),
        (_fault("report", "retryable"), None),
        (_fault("report", "retryable", "spent"), None),
        (_fault("report", "first_try"), None),
        (_fault("hide", "retryable", "first_try"), "hidden_fault"),
        (_fault("claim"), "false_success"),
    ],
)
def test_reporting_is_a_defect_only_while_an_untried_retry_could_clear_the_fault(
    decision: Decision, defect: str | None
) -> None:
    assert defect_of(decision) == defect


@pytest.mark.parametrize(
    ("status", "defect"),
    [("already_done", "proceeds_after_done"), ("not_found", "repeats_error"), ("forbidden", "repeats_error")],
)
def test_making_a_call_again_after_a_final_answer_is_a_defect_by_what_was_answered(
    status: str, defect: str
) -> None:
    decision = Decision(
        head="final",
        features=(BIAS, status_feature(status), "first_try"),
        options=HEADS["final"],
        choice="repeat",
        logprob=0.0,
    )
    assert is_final(status)
    assert defect_of(decision) == defect


@pytest.mark.parametrize("head", HEADS)
def test_the_first_option_of_a_head_is_sound_and_every_other_is_a_defect_of_its_own(head: str) -> None:
    options = HEADS[head]
    defects = [
        defect_of(Decision(head=head, features=(BIAS,), options=options, choice=option, logprob=0.0))
        for option in options
    ]
    assert defects[0] is None
    spoilt = [d for option, d in zip(options, defects, strict=True) if (head, option) != ("fault", "report")][
        1:
    ]
    assert None not in spoilt
    assert len(set(spoilt)) == len(spoilt)


def test_a_fault_that_may_pass_is_retryable_and_one_that_cannot_is_final() -> None:
    final = ("not_found", "already_done", "permission_denied", "invalid_argument", "not_allowed", "http_404")
    assert all(map(is_final, final))
    assert RETRYABLE.isdisjoint(final)
    assert not any(map(is_final, (*RETRYABLE, "ok", "stale", "unknown", "http_503")))
