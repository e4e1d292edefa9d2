"""The grid: every truth at every number of tasks and samples, and what each method does there."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.calibration.batch import Bounds, Flags, hull, pseudo_pair, rule, t
from benchmarks.calibration.bootstrap import bootstrap
from benchmarks.calibration.truths import BY_NAME, TRUTHS
from while_pipeline.ids import seed_of

TASKS = (5, 8, 12, 15, 20, 30, 40, 50)
SAMPLES = (1, 2, 4, 8, 16)

RULE = "rule"
METHODS = {
    RULE: "pseudo-pair t at ±1/√k, sign-flip and six changed tasks (ours)",
    "t": "plain t",
    "percentile": "percentile bootstrap",
    "bca": "BCa bootstrap",
    "wider": "pseudo-pair t at ±1/⁴√k (alternative)",
    "hull": "hull of ours and plain t (alternative)",
}
"""What is compared. All but ours decide by the interval alone."""


@dataclass(frozen=True)
class Effort:
    """How much is simulated in a cell."""

    replicates: int = 20_000
    """Samples for the t intervals and the sign-flip test."""
    bootstrapped: int = 2_000
    """Samples among them that the bootstraps are tried on."""
    resamples: int = 1_000


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    truth: str
    n: int
    k: int


@dataclass(frozen=True)
class Row:
    """What one method did in one cell, as shares of the samples."""

    truth: str
    n: int
    k: int
    method: str
    coverage: float
    """Of the 95 % interval."""
    short: float
    """Intervals that end before they reach the true effect, on the side of 0; 0 in a null cell."""
    better: float
    """Said better: power for a gain, an error for a null or a loss."""
    worse: float
    width: float
    """Mean width of the interval."""

    @property
    def family(self) -> str:
        """The family of its truth."""
        return BY_NAME[self.truth].family

    @property
    def effect(self) -> float:
        """The true mean difference."""
        return BY_NAME[self.truth].effect

    @property
    def cell(self) -> Cell:
        """Where it was."""
        return Cell(self.truth, self.n, self.k)


def grid() -> list[Cell]:
    """All cells."""
    return [Cell(truth.name, n, k) for truth, n, k in product(TRUTHS, TASKS, SAMPLES)]


def simulate(cell: Cell, effort: Effort) -> list[Row]:
    """Try every method on one cell. The cell alone decides the draws."""
    truth = BY_NAME[cell.truth]
    rng = np.random.default_rng(seed_of("calibration", cell.truth, cell.n, cell.k))
    scores = truth.differences(rng, effort.replicates, cell.n, cell.k)
    d = scores / cell.k
    ours, plain = pseudo_pair(d, 1 / math.sqrt(cell.k)), t(d)
    rows = [_row(cell, RULE, ours, *rule(scores, cell.k))]
    alone = {"t": plain, "wider": pseudo_pair(d, cell.k**-0.25), "hull": hull(ours, plain)}
    alone["percentile"], alone["bca"] = bootstrap(rng, d[: effort.bootstrapped], effort.resamples)
    rows += [_row(cell, name, bounds, bounds.above_0(), bounds.below_0()) for name, bounds in alone.items()]
    return sorted(rows, key=lambda row: list(METHODS).index(row.method))


def _row(cell: Cell, method: str, bounds: Bounds, better: Flags, worse: Flags) -> Row:
    effect = BY_NAME[cell.truth].effect
    return Row(
        truth=cell.truth,
        n=cell.n,
        k=cell.k,
        method=method,
        coverage=float(bounds.covers(effect).mean()),
        short=_short(bounds, effect),
        better=float(better.mean()),
        worse=float(worse.mean()),
        width=float((bounds.high - bounds.low).mean()),
    )


def _short(bounds: Bounds, effect: float) -> float:
    missed = ~bounds.covers(effect)
    beyond = bounds.high < effect if effect > 0 else bounds.low > effect
    return float((missed & beyond).mean()) if effect else 0.0


def of_method(rows: list[Row], method: str) -> Iterator[Row]:
    """The rows of one method, in the grid's order."""
    return (row for row in rows if row.method == method)
