"""Group relative policy optimisation of the embedded policy.

Source: Shao et al. 2024 (arXiv 2402.03300), equation 3, with two differences. Each decision weighs the same,
as in DAPO (Yu et al. 2025, arXiv 2503.14476): dividing by a rollout's length would make a mistake cheaper the
longer one talks. And the KL divergence to the reference is exact, for a head has few options; Schulman's k3
(joschu.net/blog/kl-approx.html), which the paper samples, has it as its mean.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from while_pipeline.agents.policy import Weights
from while_pipeline.constants import GRPO_BETA, GRPO_CLIP
from while_pipeline.records import Decision
from while_pipeline.train.fit import Fit, Floats, NothingToFit, Objective, Space, stepped


class Credited(NamedTuple):
    """A decision with the advantage of its rollout in its group."""

    decision: Decision
    advantage: float


def fit_grpo(
    parent: Weights, credited: Iterable[Credited], clip: float = GRPO_CLIP, beta: float = GRPO_BETA
) -> Fit:
    """Fit by group relative policy optimisation: decisions of the better rollouts of a group get likelier.

    The old log-probabilities are those stored with the decisions. All epochs see the whole batch.

    Args:
        parent: The policy to start from, which is the reference too.
        credited: Decisions of the training rollouts.
        clip: A probability counts as moved by a factor of 1 - clip to 1 + clip at most.
        beta: Price of a nat of KL divergence from the parent.

    Raises:
        NothingToFit: there is no decision, or every advantage is zero, as in groups that agree.
    """
    made = list(credited)
    if not made:
        raise NothingToFit("the GRPO cut is empty: no group passed sometimes and failed sometimes")
    if not any(one.advantage for one in made):
        raise NothingToFit("no rollout did better or worse than its group")
    space = Space(parent, [one.decision for one in made])
    objective = clipped_loss(space, made, clip, beta)
    found = stepped(space, objective)
    before, after = (objective(logs)[0] for logs in (space.reference, space.logs(found)))
    return Fit("grpo", space.weights(found), len(made), before, after)


def clipped_loss(space: Space, credited: list[Credited], clip: float, beta: float) -> Objective:
    """Mean over decisions of -min(r * advantage, clipped r * advantage) + beta * KL(policy || parent).

    The ratio r is the decision's probability to that under the policy that made it. At a corner the slope is
    that of the unclipped side.
    """
    cells = space.cells([one.decision for one in credited])
    old = np.array([one.decision.logprob for one in credited])
    advantages = np.array([one.advantage for one in credited]) / len(credited)
    # Sorted, so that the order of the rows cannot show in the last bits of a sum.
    order = np.lexsort((advantages, old, cells))
    cells, old, advantages = cells[order], old[order], advantages[order]
    # Decisions of one cell and old probability share their ratio: their advantages add up, by sign.
    first = np.r_[True, (np.diff(cells) != 0) | (np.diff(old) != 0)]
    kind = np.cumsum(first) - 1
    at, was = cells[first], old[first]
    gains = np.bincount(kind, np.maximum(advantages, 0.0))
    losses = np.bincount(kind, np.minimum(advantages, 0.0))
    visits = np.bincount(space.context_of[cells])[space.context_of] / len(credited)

    def objective(logs: Floats) -> tuple[float, Floats]:
        ratio, chances = np.exp(logs[at] - was), np.exp(logs)
        moved = logs - space.reference
        gained = gains @ np.minimum(ratio, 1 + clip) + losses @ np.maximum(ratio, 1 - clip)
        slopes = beta * visits * chances * (moved + 1)
        felt = gains * (ratio <= 1 + clip) + losses * (ratio >= 1 - clip)
        np.subtract.at(slopes, at, felt * ratio)
        return float(beta * (visits * chances) @ moved - gained), slopes

    return objective
