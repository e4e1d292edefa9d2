"""Fitting the embedded policy: maximum likelihood of the decisions in the SFT cut (scipy L-BFGS).

The objective is the mean negative log-likelihood plus an L2 pull towards the parent. It is convex, so the
optimum does not depend on where the search starts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from while_pipeline.agents.policy import HEADS, Weights
from while_pipeline.constants import FIT_PENALTY
from while_pipeline.records import Decision

DECIMALS = 6
"""Weights are rounded so that the last bits of a sum over threads cannot make another policy."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """A fitted policy and how it moved."""

    weights: Weights
    n_decisions: int
    loss_before: float
    """Mean negative log-likelihood under the parent, nats per decision."""
    loss_after: float
    kl: float
    """Mean KL(fitted || parent) over the contexts of the training decisions, nats per decision."""


def fit_sft(parent: Weights, decisions: Iterable[Decision], penalty: float = FIT_PENALTY) -> Fit:
    """Fit by supervised fine-tuning: make the decisions of the training rows likely.

    Args:
        parent: The policy to start from.
        decisions: Decisions of the training rows; heads fit independently of each other.
        penalty: L2 weight of the distance to the parent, per decision.

    Raises:
        ValueError: there is no decision to fit.
    """
    counts = Counter((d.head, d.features, d.choice) for d in decisions)
    if not counts:
        raise ValueError("fit_sft: there are no decisions to fit; the SFT cut is empty")
    total = sum(counts.values())
    fitted: dict[str, dict[str, dict[str, float]]] = {}
    before = after = kl = 0.0
    for head, options in HEADS.items():
        rows = sorted((features, choice, n) for (h, features, choice), n in counts.items() if h == head)
        if not rows:
            fitted[head] = parent.weights[head]
            continue
        problem = _Head.of(parent, head, options, rows, penalty)
        # Tolerances far below the rounding, so that where the search stops does not show in the weights.
        found = minimize(
            problem.loss,
            problem.start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"ftol": 1e-14, "gtol": 1e-9},
        )
        solution = np.round(found.x.reshape(problem.start.shape), DECIMALS) + 0.0
        fitted[head] = {
            option: {f: float(w) for f, w in zip(problem.features, solution[i], strict=True) if w != 0.0}
            for i, option in enumerate(options)
        }
        share = sum(n for _, _, n in rows) / total
        before += share * problem.likelihood_loss(problem.start)
        after += share * problem.likelihood_loss(solution)
        kl += share * problem.divergence(solution)
    return Fit(Weights(weights=fitted), total, before, after, max(kl, 0.0))


@dataclass(frozen=True)
class _Head:
    """The fitting problem of one head."""

    features: tuple[str, ...]
    x: Floats
    """Contexts x features, binary."""
    counts: Floats
    """Contexts x options: how often each option was chosen, as a share of the head's decisions. A share of
    all decisions would make a rare head's objective so flat that the search stops early."""
    start: Floats
    """Options x features: the parent's weights."""
    penalty: float

    @classmethod
    def of(
        cls,
        parent: Weights,
        head: str,
        options: tuple[str, ...],
        rows: Sequence[tuple[tuple[str, ...], str, int]],
        penalty: float,
    ) -> "_Head":
        total = sum(n for _, _, n in rows)
        table = parent.weights[head]
        seen = {f for features, _, _ in rows for f in features}
        features = tuple(sorted(seen | {f for weights in table.values() for f in weights}))
        contexts = sorted({row[0] for row in rows})
        x = np.array([[float(f in context) for f in features] for context in contexts])
        counts = np.zeros((len(contexts), len(options)))
        for context, choice, n in rows:
            counts[contexts.index(context), options.index(choice)] += n / total
        start = np.array([[table[option].get(f, 0.0) for f in features] for option in options])
        return cls(features, x, counts, start, penalty)

    def loss(self, flat: Floats) -> tuple[float, Floats]:
        """Objective and its gradient."""
        w = flat.reshape(self.start.shape)
        logs = log_softmax(self.x @ w.T, axis=1)
        mass = self.counts.sum(axis=1, keepdims=True)
        pull = w - self.start
        value = -float((self.counts * logs).sum()) + 0.5 * self.penalty * float((pull**2).sum())
        gradient = (np.exp(logs) * mass - self.counts).T @ self.x + self.penalty * pull
        return value, gradient.ravel()

    def likelihood_loss(self, w: Floats) -> float:
        """Mean negative log-likelihood of this head's decisions."""
        return -float((self.counts * log_softmax(self.x @ w.T, axis=1)).sum())

    def divergence(self, w: Floats) -> float:
        """Mean KL from the parent over this head's decisions."""
        new, old = (log_softmax(self.x @ m.T, axis=1) for m in (w, self.start))
        return float((self.counts.sum(axis=1, keepdims=True) * np.exp(new) * (new - old)).sum())
