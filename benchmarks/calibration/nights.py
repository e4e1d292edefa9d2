"""Thirty nights of looking: how often a candidate that changes nothing is called better at least once.

Three ways of looking at the same tasks, each look corrected by `prove.looks` or not, and fresh tasks every
night. What promotion by such looks does to the serving policy belongs to `drift`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.calibration.batch import ALPHA, Flags, verdict_p
from benchmarks.calibration.truths import TRUTHS, Truth
from while_pipeline.ids import seed_of
from while_pipeline.prove.intervals import Floats
from while_pipeline.prove.looks import looks_factor

NIGHTS = 30
SAMPLES = (1, 4)
"""Samples per task and policy each night."""
TASKS = 40
"""Tasks of a night whose tasks stay the same."""
ADDED = 10
"""Tasks a night adds where they accumulate."""

NULLS = tuple(truth for truth in TRUTHS if truth.is_null)

Look = tuple[Floats, int]
"""Differences of passes so far, shape (replicates, n), and the samples per task behind them."""


def more_tasks(truth: Truth, rng: np.random.Generator, replicates: int, k: int) -> Iterator[Look]:
    """Every night adds tasks, and all so far are looked at."""
    scores = truth.differences(rng, replicates, NIGHTS * ADDED, k)
    for night in range(1, NIGHTS + 1):
        yield scores[:, : night * ADDED], k


def more_samples(truth: Truth, rng: np.random.Generator, replicates: int, k: int) -> Iterator[Look]:
    """Every night plays the same tasks again, and all samples so far are looked at."""
    before, after = truth.tasks(rng, (replicates, TASKS))
    scores = np.zeros((replicates, TASKS))
    for night in range(1, NIGHTS + 1):
        scores += truth.play(rng, before, after, k)
        yield scores, k * night


def played_anew(truth: Truth, rng: np.random.Generator, replicates: int, k: int) -> Iterator[Look]:
    """Every night plays the same tasks for a new candidate, and looks at that night alone."""
    before, after = truth.tasks(rng, (replicates, TASKS))
    for _ in range(NIGHTS):
        yield truth.play(rng, before, after, k), k


def fresh_tasks(truth: Truth, rng: np.random.Generator, replicates: int, k: int) -> Iterator[Look]:
    """Every night draws tasks that nobody has looked at, for a new candidate."""
    for _ in range(NIGHTS):
        yield truth.differences(rng, replicates, TASKS, k), k


DESIGNS: dict[str, Callable[[Truth, np.random.Generator, int, int], Iterator[Look]]] = {
    f"{ADDED} more tasks a night, all looked at": more_tasks,
    f"the same {TASKS} tasks, k more samples a night": more_samples,
    f"the same {TASKS} tasks, a new candidate a night": played_anew,
}
"""Looks at the same tasks."""
FRESH = f"{TASKS} fresh tasks a night"


@dataclass(frozen=True)
class Looks:
    """Thirty nights of one null, as shares of the replicates."""

    design: str
    truth: str
    k: int
    replicates: int
    per_night: float
    """Mean share of nights that say better, uncorrected."""
    uncorrected: float
    """At least one night says better."""
    corrected: float | None
    """The same with each look's p multiplied by `looks_factor`; None for fresh tasks, which need none."""


def simulate(replicates: int) -> list[Looks]:
    """Every design on every null."""
    return [
        thirty(design, truth, k, replicates)
        for design, truth, k in product((*DESIGNS, FRESH), NULLS, SAMPLES)
    ]


def thirty(design: str, truth: Truth, k: int, replicates: int) -> Looks:
    """Simulate thirty nights of one way of looking. The arguments alone decide the draws."""
    rng = np.random.default_rng(seed_of("nights", design, truth.name, k))
    looks = DESIGNS.get(design, fresh_tasks)(truth, rng, replicates, k)
    plain: Flags = np.zeros((NIGHTS, replicates), dtype=np.bool_)
    corrected = np.zeros_like(plain)
    for night, (scores, samples) in enumerate(looks):
        p, _ = verdict_p(scores, samples)
        plain[night] = p < ALPHA
        corrected[night] = p * looks_factor(night + 1) < ALPHA
    return Looks(
        design=design,
        truth=truth.name,
        k=k,
        replicates=replicates,
        per_night=float(plain.mean()),
        uncorrected=float(plain.any(axis=0).mean()),
        corrected=None if design == FRESH else float(corrected.any(axis=0).mean()),
    )
