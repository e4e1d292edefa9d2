"""The space that every fit moves in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from tests.decisions import DECISIONS, decision
from tests.example import BASE
from while_pipeline.agents.policy import HEADS
from while_pipeline.records import Decision
from while_pipeline.train.fit import Floats, Space, minimised, penalised


def squares(logs: Floats) -> tuple[float, Floats]:
    """An objective that feels every cell."""
    return 0.5 * float(logs @ logs), logs


def moved(space: Space, seed: int) -> Floats:
    return space.start + np.random.default_rng(seed).normal(size=space.start.size)


@settings(max_examples=15, deadline=None)
@given(DECISIONS, st.integers(0, 99))
def test_the_log_probabilities_of_the_cells_are_those_of_the_policy(made: list[Decision], seed: int) -> None:
    space = Space(BASE, made)
    flat = moved(space, seed)
    weights, logs = space.weights(flat), space.logs(flat)[space.cells(made)]
    assert logs == pytest.approx([weights.log_probabilities(d.head, d.features)[d.choice] for d in made])
    assert space.reference[space.cells(made)] == pytest.approx([d.logprob for d in made])


@settings(max_examples=15, deadline=None)
@given(DECISIONS, st.integers(0, 99), st.sampled_from([0.0, 0.3]))
def test_the_gradient_is_that_of_any_objective_with_its_penalty(
    made: list[Decision], seed: int, penalty: float
) -> None:
    space = Space(BASE, made)
    loss, at = penalised(space, squares, penalty), moved(space, seed)
    error = check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], at)
    assert error < 1e-4 * (1 + np.linalg.norm(loss(at)[1]))


@settings(max_examples=15, deadline=None)
@given(DECISIONS)
def test_the_cells_of_a_context_are_its_heads_options(made: list[Decision]) -> None:
    space = Space(BASE, made)
    contexts = space.context_of[space.cells(made)]
    for d, context in zip(made, contexts, strict=True):
        assert np.count_nonzero(space.context_of == context) == len(HEADS[d.head])
    assert len(set(contexts.tolist())) == len({(d.head, d.features) for d in made})


def test_what_pays_nothing_stays_and_heads_not_seen_are_the_parents() -> None:
    space = Space(BASE, [decision("fault", "retry", "f0")])
    found = minimised(space, lambda logs: (0.0, np.zeros_like(logs)))
    assert space.weights(found) == BASE
