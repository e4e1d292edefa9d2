"""A day's grading in batches, so that its memory is that of a batch however long the night was.

What belongs here: which rollouts are read and graded together. What does not: how one is graded (`grader`),
and how batches are read and stored (the assets).
"""

from collections.abc import Iterable, Iterator

BATCH = 8_000
"""Rollouts read and graded together. Messages and what is made of them take some 30 kB a rollout: 0.25 GB.
Finding and reading a batch takes half a second, beside 4 s to grade it by rules, and hardly less at half the
size."""


def scenario_batches(groups: Iterable[tuple[str, int]], most: int = BATCH) -> Iterator[list[str]]:
    """Cut a day into batches of whole scenarios, in their order.

    A scenario's rollouts stay together: samples that went the same way are read once, and a judge that
    compares attempts sees all of them.

    Args:
        groups: Scenario id and number of rollouts, each scenario once.
        most: Rollouts in a batch at most; a scenario with more is a batch of its own.

    Returns:
        Scenario ids per batch; no batch is empty, and without scenarios there is none.
    """
    batch, held = list[str](), 0
    for scenario, size in groups:
        if batch and held + size > most:
            yield batch
            batch, held = [], 0
        batch.append(scenario)
        held += size
    if batch:
        yield batch
