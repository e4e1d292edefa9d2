"""Direct preference optimisation of the embedded policy on the decisions of the turn where a pair parts.

Source: Rafailov et al. 2023 (arXiv 2305.18290), equation 7. The L2 pull towards the parent is ours: where
one choice wins every pair, the loss alone has no optimum.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from while_pipeline.agents.policy import Weights
from while_pipeline.constants import DPO_BETA, FIT_PENALTY
from while_pipeline.records import Decision
from while_pipeline.train.fit import Fit, Floats, NothingToFit, Objective, Space, minimised


@dataclass(frozen=True)
class Pair:
    """The decisions of two answers to the same messages."""

    chosen: tuple[Decision, ...]
    rejected: tuple[Decision, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All of them."""
        return self.chosen + self.rejected


def fit_dpo(
    parent: Weights, pairs: Iterable[Pair], beta: float = DPO_BETA, penalty: float = FIT_PENALTY
) -> Fit:
    """Fit by direct preference optimisation: make the chosen answers likelier, relative to the rejected.

    Args:
        parent: The policy to start from, which is the reference too.
        pairs: The pairs. One whose answers were decided alike weighs equally on both sides: no gradient.
        beta: How far the policy may part from the reference for a preference; smaller is farther.
        penalty: L2 weight of the distance to the parent, in the scale of `fit_sft`: there a decision pulls
            with a slope of 1 at most, here a pair with beta / 2 where the search begins.

    Raises:
        NothingToFit: there is no pair, or none differs in a decision.
    """
    made = list(pairs)
    if not made:
        raise NothingToFit("the DPO cut is empty: no scenario was both solved and failed")
    decisions = [d for pair in made for d in pair.decisions]
    if not any(sorted(map(_choice, p.chosen)) != sorted(map(_choice, p.rejected)) for p in made):
        raise NothingToFit(f"none of the {len(made)} pairs differs in a decision of the turn where it parts")
    space = Space(parent, decisions)
    objective = preference_loss(space, made, beta)
    found = minimised(space, objective, penalty * beta / 2)
    before, after = (objective(logs)[0] for logs in (space.reference, space.logs(found)))
    return Fit("dpo", space.weights(found), len(decisions), before, after)


def preference_loss(space: Space, pairs: list[Pair], beta: float) -> Objective:
    """Mean of -log sigmoid(beta * (log-ratio of the chosen - log-ratio of the rejected)), nats per pair.

    A log-ratio is the log-probability under the policy less that under the parent, summed over the turn.
    At the parent every pair costs log 2.
    """
    signs = np.zeros((len(pairs), space.reference.size))
    for row, pair in zip(signs, pairs, strict=True):
        np.add.at(row, space.cells(pair.chosen), 1.0)
        np.add.at(row, space.cells(pair.rejected), -1.0)
    # Pairs that part in the same way cost the same, and their order cannot matter.
    kinds, counts = np.unique(signs, axis=0, return_counts=True)
    share = counts / len(pairs)

    def objective(logs: Floats) -> tuple[float, Floats]:
        margins = beta * (kinds @ (logs - space.reference))
        return float(share @ np.logaddexp(0.0, -margins)), -beta * kinds.T @ (share * expit(-margins))

    return objective


def _choice(d: Decision) -> tuple[str, tuple[str, ...], str]:
    return d.head, d.features, d.choice
