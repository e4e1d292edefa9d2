"""The truths that intervals are tried on: populations of tasks whose true pass rates are known.

Three families, written down before any of them was run. A population is a list of equally likely tasks, so
its mean difference is known exactly: no integral, no estimate. How a sample is judged belongs to `batch`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from while_pipeline.prove.intervals import Floats

SIDE = 100
SIZE = SIDE * SIDE
"""Tasks of a population."""

FAMILIES = {
    "beta": "Task rates from a Beta distribution; the candidate lifts them, or does not.",
    "spikes": "Most tasks never or always pass, and few of them change, by much; or effects differ by task.",
    "mixtures": "A handful of levels, effects of both signs, gains that depend on the level, rare collapse.",
}
"""The three families, in words."""

NO_EFFECT = 1e-9
"""A mean difference below this is none: what summing 10,000 floats leaves of 0."""


@dataclass(frozen=True)
class Truth:
    """A population of tasks under two policies."""

    name: str
    family: str
    says: str
    """The truth in words."""
    make: Callable[[], tuple[Floats, Floats]]
    """Pass rates before and after, each of shape (SIZE,)."""
    shared_luck: bool = False
    """Whether both policies draw the same luck, so that only what the policy changes differs."""

    @cached_property
    def rates(self) -> tuple[Floats, Floats]:
        """Pass rates before and after, shape (SIZE,) each."""
        before, after = self.make()
        return np.clip(before, 0, 1), np.clip(after, 0, 1)

    @property
    def is_null(self) -> bool:
        """Whether the policies have the same mean pass rate, whatever single tasks do."""
        return self.effect == 0

    @cached_property
    def effect(self) -> float:
        """The true mean difference; exactly 0 for a null."""
        before, after = self.rates
        effect = float((after - before).mean())
        return 0.0 if abs(effect) < NO_EFFECT else effect

    def tasks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Draw tasks: their pass rates before and after, each of `shape`."""
        drawn = rng.integers(SIZE, size=shape)
        before, after = self.rates
        return before[drawn], after[drawn]

    def play(self, rng: np.random.Generator, before: Floats, after: Floats, k: int) -> Floats:
        """Play tasks k times with each policy: differences of passes, whole numbers in -k .. k.

        With shared luck a sample passes when one uniform number lies below the policy's rate, so the arms
        differ as often as it lies between the two rates.
        """
        if self.shared_luck:
            changed = after - before
            return np.sign(changed) * rng.binomial(k, np.abs(changed))
        return (rng.binomial(k, after) - rng.binomial(k, before)).astype(np.float64)

    def differences(self, rng: np.random.Generator, replicates: int, n: int, k: int) -> Floats:
        """Differences of passes of `replicates` samples of n tasks, shape (replicates, n)."""
        return self.play(rng, *self.tasks(rng, (replicates, n)), k)


def _quantiles(count: int) -> Floats:
    """Midpoints of `count` equal parts of (0, 1)."""
    return (np.arange(count) + 0.5) / count


def _beta(a: float, b: float) -> Floats:
    return np.asarray(special.betaincinv(a, b, _quantiles(SIZE)), dtype=np.float64)


def _lifted(a: float, b: float, lift: float) -> tuple[Floats, Floats]:
    before = _beta(a, b)
    return before, before + lift


def _nearer(a: float, b: float, share: float) -> tuple[Floats, Floats]:
    """Lift a Beta population by a share of what is missing to 1."""
    before = _beta(a, b)
    return before, before + share * (1 - before)


def _logit(mean: float, std: float, shift: float, shift_std: float) -> tuple[Floats, Floats]:
    """Logit-normal task rates, and a shift of the logit that differs by task, independent of the rate."""
    z = special.ndtri(_quantiles(SIDE))
    logits = np.repeat(mean + std * z, SIDE)
    return special.expit(logits), special.expit(logits + np.tile(shift + shift_std * z, SIDE))


def _parts(*parts: tuple[float, float | Floats, float | Floats]) -> tuple[Floats, Floats]:
    """Join parts of a population, each (share, before, after)."""
    sizes = [round(share * SIZE) for share, _, _ in parts]
    assert sum(sizes) == SIZE, f"the parts hold {sum(sizes)} of {SIZE} tasks"
    before, after = (
        np.concatenate(
            [np.broadcast_to(part[arm], (size,)) for part, size in zip(parts, sizes, strict=True)]
        ).astype(np.float64)
        for arm in (1, 2)
    )
    return before, after


def _uniform(share: float) -> Floats:
    return _quantiles(round(share * SIZE))


def _flat(before: float, after: float) -> tuple[Floats, Floats]:
    return np.full(SIZE, before), np.full(SIZE, after)


def _power(exponent: float) -> tuple[Floats, Floats]:
    before = _quantiles(SIZE)
    return before, before**exponent


TRUTHS = (
    Truth("middling, no effect", "beta", "Beta(2, 2), both policies alike", lambda: _lifted(2, 2, 0)),
    Truth("ceiling, no effect", "beta", "Beta(19, 1), mean .95, alike", lambda: _lifted(19, 1, 0)),
    Truth("floor, no effect", "beta", "Beta(1, 19), mean .05, alike", lambda: _lifted(1, 19, 0)),
    Truth("U-shaped, no effect", "beta", "Beta(.3, .3), alike", lambda: _lifted(0.3, 0.3, 0)),
    Truth("low, lift .2", "beta", "Beta(1.5, 3.5), mean .3, plus .2", lambda: _lifted(1.5, 3.5, 0.2)),
    Truth("high, a third of the rest", "beta", "Beta(9, 1), plus .033", lambda: _nearer(9, 1, 1 / 3)),
    Truth("ceiling, a third of the rest", "beta", "Beta(19, 1), plus .017", lambda: _nearer(19, 1, 1 / 3)),
    Truth("floor, lift .05", "beta", "Beta(1, 19), plus .05", lambda: _lifted(1, 19, 0.05)),
    Truth(
        "rare large jumps", "spikes",
        "45 % of tasks never pass, 35 % always, 20 % in between; 15 % of the first kind jump to always",
        lambda: _parts((0.3825, 0, 0), (0.0675, 0, 1), (0.35, 1, 1), (0.2, _uniform(0.2), _uniform(0.2))),
    ),
    Truth(
        "spikes, no effect", "spikes",
        "45 % never pass, 35 % always, 20 % in between; alike",
        lambda: _parts((0.45, 0, 0), (0.35, 1, 1), (0.2, _uniform(0.2), _uniform(0.2))),
    ),
    Truth(
        "jumps that cancel", "spikes",
        "as above, 5 % jump from never to always and 5 % fall back",
        lambda: _parts(
            (0.4, 0, 0), (0.05, 0, 1), (0.3, 1, 1), (0.05, 1, 0), (0.2, _uniform(0.2), _uniform(0.2))
        ),
    ),
    Truth(
        "very rare jumps", "spikes",
        "65 % of tasks at .02, 30 % at .98, 5 % jump from .02 to .9",
        lambda: _parts((0.65, 0.02, 0.02), (0.3, 0.98, 0.98), (0.05, 0.02, 0.9)),
    ),
    Truth("uneven gains", "spikes", "logit N(0, 1.5), shift N(.5, 1)", lambda: _logit(0, 1.5, 0.5, 1)),
    Truth("uneven, cancelling", "spikes", "logit N(0, 1.5), shift N(0, 1)", lambda: _logit(0, 1.5, 0, 1)),
    Truth("uneven, near 1", "spikes", "logit N(3, 1), shift N(.5, .5)", lambda: _logit(3, 1, 0.5, 0.5)),
    Truth(
        "four levels, no effect", "mixtures", "a quarter each at .1, .5, .9 and 1; alike",
        lambda: _parts(*((0.25, level, level) for level in (0.1, 0.5, 0.9, 1.0))),
    ),
    Truth(
        "four levels, lift .1", "mixtures", "the same, plus .1 where there is room",
        lambda: _parts(*((0.25, level, level + 0.1) for level in (0.1, 0.5, 0.9, 1.0))),
    ),
    Truth(
        "mixed signs", "mixtures", "all at .5; half gain .25, half lose .1",
        lambda: _parts((0.5, 0.5, 0.75), (0.5, 0.5, 0.4)),
    ),
    Truth(
        "mixed signs, cancelling", "mixtures", "all at .5; a quarter gains .3, the rest lose .1",
        lambda: _parts((0.25, 0.5, 0.8), (0.75, 0.5, 0.4)),
    ),
    Truth("more where little", "mixtures", "p even in (0, 1) becomes p to the .6", lambda: _power(0.6)),
    Truth(
        "rare collapse", "mixtures", "all at .9; one in ten falls to .1",
        lambda: _parts((0.9, 0.9, 0.9), (0.1, 0.9, 0.1)),
    ),
    Truth("coin, no effect", "mixtures", "all at .5, alike", lambda: _flat(0.5, 0.5)),
    Truth("nearly sure, no effect", "mixtures", "all at .98, alike", lambda: _flat(0.98, 0.98)),
    Truth(
        "shared luck, lift .1", "mixtures", "rates even in (0, 1), plus .1; both policies draw the same luck",
        lambda: (_quantiles(SIZE), _quantiles(SIZE) + 0.1), shared_luck=True,
    ),
)  # fmt: skip
"""All truths. Fixed before the first run; one that an interval fails stays."""

BY_NAME = {truth.name: truth for truth in TRUTHS}
