"""Supervised fine-tuning of the embedded policy: maximum likelihood of the decisions in the SFT cut.

The objective is the mean negative log-likelihood plus an L2 pull towards the parent. It is convex, so the
optimum does not depend on where the search starts.
"""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from while_pipeline.agents.policy import Weights
from while_pipeline.constants import FIT_PENALTY
from while_pipeline.records import Decision
from while_pipeline.train.fit import Fit, Floats, NothingToFit, Objective, Space, minimised


def fit_sft(parent: Weights, decisions: Iterable[Decision], penalty: float = FIT_PENALTY) -> Fit:
    """Fit by supervised fine-tuning: make the decisions of the training rows likely.

    Args:
        parent: The policy to start from.
        decisions: Decisions of the training rows.
        penalty: L2 weight of the distance to the parent, per decision of a head.

    Raises:
        NothingToFit: there is no decision.
    """
    by_head: dict[str, list[Decision]] = defaultdict(list)
    for d in decisions:
        by_head[d.head].append(d)
    if not by_head:
        raise NothingToFit("there are no decisions to fit: the SFT cut is empty")
    total = sum(map(len, by_head.values()))
    weights, before, after = parent, 0.0, 0.0
    # Heads fit independently: a share of all decisions would make a rare head's objective so flat that the
    # search stops early.
    for made in by_head.values():
        space = Space(weights, made)
        objective = negative_log_likelihood(space, made)
        found = minimised(space, objective, penalty)
        before += len(made) / total * objective(space.reference)[0]
        after += len(made) / total * objective(space.logs(found))[0]
        weights = space.weights(found)
    return Fit("sft", weights, total, before, after)


def negative_log_likelihood(space: Space, decisions: list[Decision]) -> Objective:
    """Mean negative log-likelihood, nats per decision."""
    counts = np.bincount(space.cells(decisions), minlength=space.reference.size) / len(decisions)

    def objective(logs: Floats) -> tuple[float, Floats]:
        return -float(counts @ logs), -counts

    return objective
