"""What the fits of the embedded policy share: log-probabilities as a function of the weights, and a search.

What belongs here: the space a fit moves in and the minimiser. What does not: what is minimised (`fit_sft`,
`fit_dpo`, `fit_grpo`), and how far a fitted policy moved (`policy_report`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from while_pipeline.agents.policy import HEADS, Weights
from while_pipeline.records import Decision

DECIMALS = 6
"""Weights are rounded so that the last bits of a sum over threads cannot make another policy."""

EPOCHS, STEP = 1000, 0.01
"""Gradient steps, and the length of the first. Together they can move a weight by 5, from even odds to 1 in
150; one alone changes a ratio of two choices by about 2 %, so no farther is a corner passed."""
_KEPT, _NOISE = 0.999, 1e-8
"""The values of the method's paper."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Method = Literal["sft", "dpo", "grpo"]

Objective = Callable[[Floats], tuple[float, Floats]]
"""A loss of the log-probabilities of a space's cells, and its derivative with respect to each of them."""


class NothingToFit(ValueError):
    """A cut holds nothing that a fit could learn from; the message says why."""


@dataclass(frozen=True)
class Fit:
    """A fitted policy and what its fit came to."""

    method: Method
    weights: Weights
    n_decisions: int
    """Decisions fitted."""
    loss_before: float
    """What the method minimises, without the pull towards the parent, under the parent."""
    loss_after: float
    """The same under the fitted policy."""


@dataclass(frozen=True)
class Head:
    """The contexts in which one head decided."""

    name: str
    features: tuple[str, ...]
    """Those seen, and those the parent has weights for."""
    contexts: tuple[tuple[str, ...], ...]
    """Sorted sets of features that were on."""
    start: Floats
    """Options x features: the parent's weights."""

    @classmethod
    def of(cls, parent: Weights, name: str, contexts: Iterable[tuple[str, ...]]) -> "Head":
        """The head `name` in `contexts`."""
        table, seen = parent.weights[name], sorted(set(contexts))
        known = {feature for weights in table.values() for feature in weights}
        features = tuple(sorted(known.union(*seen)))
        start = np.array([[table[option].get(f, 0.0) for f in features] for option in HEADS[name]])
        return cls(name, features, tuple(seen), start)

    @cached_property
    def x(self) -> Floats:
        """Contexts x features, binary."""
        return np.array([[float(f in context) for f in self.features] for context in self.contexts])

    @property
    def cells(self) -> int:
        """Number of contexts times options."""
        return len(self.contexts) * len(HEADS[self.name])

    def table(self, w: Floats) -> dict[str, dict[str, float]]:
        """Weights as a policy holds them: zeros are left out."""
        return {
            option: {f: float(v) for f, v in zip(self.features, row, strict=True) if v != 0.0}
            for option, row in zip(HEADS[self.name], w, strict=True)
        }


class Space:
    """The weights of some heads as one vector, and the log-probabilities they give.

    A *cell* is a head, a context and an option. Cells are counted head by head, context by context, option
    by option.
    """

    def __init__(self, parent: Weights, decisions: Iterable[Decision]) -> None:
        """Hold the heads and contexts of `decisions`, starting at `parent`."""
        contexts: dict[str, set[tuple[str, ...]]] = {}
        for d in decisions:
            contexts.setdefault(d.head, set()).add(d.features)
        self.parent = parent
        self.heads = [Head.of(parent, name, contexts[name]) for name in HEADS if name in contexts]
        self.start: Floats = np.concatenate([head.start.ravel() for head in self.heads])
        self.reference = self.logs(self.start)
        """Log-probabilities under the parent."""
        self._places: dict[tuple[str, tuple[str, ...], str], int] = {}
        for head in self.heads:
            for context in head.contexts:
                for option in HEADS[head.name]:
                    self._places[head.name, context, option] = len(self._places)

    def cells(self, decisions: Iterable[Decision]) -> Ints:
        """The cell of each decision."""
        return np.array([self._places[d.head, d.features, d.choice] for d in decisions], dtype=np.int64)

    @cached_property
    def context_of(self) -> Ints:
        """The context of each cell, as a number."""
        sizes = [len(HEADS[head.name]) for head in self.heads for _ in head.contexts]
        return np.repeat(np.arange(len(sizes)), sizes)

    def logs(self, flat: Floats) -> Floats:
        """Natural log-probability of every cell."""
        parts = zip(self.heads, self._split(flat), strict=True)
        return np.concatenate([log_softmax(head.x @ w.T, axis=1).ravel() for head, w in parts])

    def logs_of(self, policy: Weights) -> Floats:
        """Natural log-probability of every cell under any policy."""
        contexts = [(head.name, context) for head in self.heads for context in head.contexts]
        tables = [policy.log_probabilities(name, context) for name, context in contexts]
        return np.array([log for table in tables for log in table.values()])

    def gradient(self, logs: Floats, slopes: Floats) -> Floats:
        """Derivative with respect to the weights, from that with respect to the log-probabilities.

        A score raises its own log-probability by 1 and lowers all of its context's by its probability.
        """
        made, at = list[Floats](), 0
        for head in self.heads:
            shape = len(head.contexts), len(HEADS[head.name])
            own, chances = (a[at : at + head.cells].reshape(shape) for a in (slopes, np.exp(logs)))
            made.append(((own - chances * own.sum(axis=1, keepdims=True)).T @ head.x).ravel())
            at += head.cells
        return np.concatenate(made)

    def weights(self, flat: Floats) -> Weights:
        """The parent with these heads' weights replaced."""
        parts = zip(self.heads, self._split(flat), strict=True)
        return Weights(weights=self.parent.weights | {head.name: head.table(w) for head, w in parts})

    def _split(self, flat: Floats) -> Sequence[Floats]:
        ends = np.cumsum([head.start.size for head in self.heads])
        parts = zip(self.heads, np.split(flat, ends[:-1]), strict=True)
        return [part.reshape(head.start.shape) for head, part in parts]


def penalised(space: Space, objective: Objective, penalty: float) -> Objective:
    """The objective as a function of the weights, with an L2 pull of weight `penalty` towards the parent."""

    def loss(flat: Floats) -> tuple[float, Floats]:
        logs, pull = space.logs(flat), flat - space.start
        value, slopes = objective(logs)
        return (
            value + 0.5 * penalty * float(pull @ pull),
            space.gradient(logs, slopes) + penalty * pull,
        )

    return loss


def minimised(space: Space, objective: Objective, penalty: float = 0.0) -> Floats:
    """Weights that minimise the penalised objective, searched from the parent with L-BFGS, rounded."""
    # Tolerances far below the rounding, so that where the search stops does not show in the weights.
    found = minimize(
        penalised(space, objective, penalty),
        space.start,
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    return np.round(found.x, DECIMALS) + 0.0


def stepped(space: Space, objective: Objective) -> Floats:
    """Weights after `EPOCHS` full-batch gradient steps from the parent, the step falling to 0, rounded.

    For objectives with corners: there the last bit of a sum decides where a line search ends, and two
    machines would find two policies. Every weight moves by its slope over the root of the slope's running
    mean square: Adam (Kingma and Ba 2015, arXiv 1412.6980) without momentum, which would carry it past a
    corner.
    """
    loss, at, square = penalised(space, objective, 0.0), space.start.copy(), np.zeros_like(space.start)
    for epoch in range(EPOCHS):
        slope = loss(at)[1]
        square += (1 - _KEPT) * (slope**2 - square)
        scale = np.sqrt(square / (1 - _KEPT ** (epoch + 1)))
        at -= STEP * (1 - epoch / EPOCHS) * slope / (scale + _NOISE)
    return np.round(at, DECIMALS) + 0.0
