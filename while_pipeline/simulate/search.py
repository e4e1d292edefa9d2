"""The search for situations that break the agent: five arms, their shares, and when to stop.

Each batch an arm is given rows by its share; every new scenario is probed once, and what the probe shows
(new behaviour, newly realised pairs) moves the shares. How an arm chooses is in `arms`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from while_pipeline.constants import (
    ARM_FLOORS,
    ARM_WEIGHTS,
    OPEN_ENDED_BOUNDS,
    RARE_ARM_CAP,
    SATURATION_BATCHES,
    SATURATION_RATE,
    YIELD_GAIN,
)
from while_pipeline.records import Arm
from while_pipeline.simulate.arms import TRIES, Choice, Chooser
from while_pipeline.simulate.cells import Pair, pairs_of
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import Scenario

StopReason = Literal["budget", "saturated", "nothing left"]

ARMS: tuple[Arm, ...] = tuple(ARM_WEIGHTS)
_RARE_ARMS: tuple[Arm, ...] = ("behavior_targeted", "failure_mutation")


def updated_shares(yields: Mapping[Arm, float | None]) -> dict[Arm, float]:
    """Shares of the next batch from the yields of the last; they sum to 1.

    raw = w (1 + 0.5 yield); share = floor + (1 - sum of floors) raw / sum of raw. An arm without rows
    (None) takes the mean yield. The open-ended arm stays within its bounds and rare arms under their cap;
    what a bound takes away (or needs) is shared by the arms not at a bound, in proportion.
    """
    known = [value for value in yields.values() if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    filled = {arm: mean if yields.get(arm) is None else float(yields[arm] or 0.0) for arm in ARMS}
    raw = {arm: ARM_WEIGHTS[arm] * (1 + YIELD_GAIN * filled[arm]) for arm in ARMS}
    total, free = sum(raw.values()), 1 - sum(ARM_FLOORS.values())
    shares = {arm: ARM_FLOORS[arm] + free * raw[arm] / total for arm in ARMS}
    bounds = dict.fromkeys(_RARE_ARMS, (0.0, RARE_ARM_CAP)) | {"open_ended": OPEN_ENDED_BOUNDS}
    clipped: set[Arm] = set()
    while True:
        over = {arm for arm, (low, high) in bounds.items() if not low <= shares[arm] <= high} - clipped
        if not over:
            return shares
        clipped |= over
        for arm in over:
            low, high = bounds[arm]
            shares[arm] = min(high, max(low, shares[arm]))
        rest = {arm: share for arm, share in shares.items() if arm not in clipped}
        scale = (1 - sum(shares[arm] for arm in clipped)) / sum(rest.values())
        shares |= {arm: share * scale for arm, share in rest.items()}


def allotted(shares: Mapping[Arm, float], rows: int) -> dict[Arm, int]:
    """Split `rows` by shares in whole numbers (largest remainder); they sum to `rows`."""
    exact = {arm: shares[arm] * rows for arm in ARMS}
    counts = {arm: int(value) for arm, value in exact.items()}
    by_remainder = sorted(ARMS, key=lambda arm: (counts[arm] - exact[arm], ARMS.index(arm)))
    for arm in by_remainder[: rows - sum(counts.values())]:
        counts[arm] += 1
    return counts


@dataclass(frozen=True)
class Probed:
    """A scenario with its probe rollout and what the probe showed."""

    scenario: Scenario
    choice: Choice
    batch: int
    rollout: Rollout
    signature: str
    realised: tuple[str, ...]
    failed: bool


@dataclass(frozen=True)
class ArmBatch:
    """What one arm did in one batch."""

    batch: int
    arm: Arm
    share: float
    rows: int
    new_signatures: int
    new_pairs: int
    yield_per_row: float
    failures: int


@dataclass
class SearchResult:
    """Everything a search made."""

    probed: list[Probed] = field(default_factory=list)
    log: list[ArmBatch] = field(default_factory=list)
    stopped: StopReason = "budget"


Probe = Callable[[Sequence[Scenario]], Iterator[tuple[Rollout, str, tuple[str, ...], bool]]]
"""Plays sample 0 of each scenario: (rollout, signature, realised axes, failed)."""


def search(
    chooser: Chooser,
    write: Callable[[Choice, Arm], Scenario],
    probe: Probe,
    *,
    budget: int,
    batch_size: int,
    phrasings: int = 1,
) -> SearchResult:
    """Write and probe scenarios until the budget, saturation, or nothing left to write.

    Time and memory grow with the budget in proportion: no step looks back over what was probed.

    Args:
        chooser: Chooses for each arm, and learns from each probe.
        write: Makes a choice concrete.
        probe: Plays each new scenario once.
        budget: Scenarios in all.
        batch_size: Scenarios between two updates of the shares.
        phrasings: Scenarios per situation, each counted in the budget: the same in other words. A mutant is
            a phrasing itself and is played once.
    """
    result = SearchResult()
    shares = dict(ARM_WEIGHTS)
    seen_scenarios: set[str] = set()
    signatures: set[str] = set()
    pairs: set[Pair] = set()
    quiet = batch = 0

    def written_by(arm: Arm, rows: int) -> list[tuple[Scenario, Choice]]:
        """New scenarios of an arm."""
        each = 1 if arm == "failure_mutation" else phrasings
        choices = [c for choice in chooser.choose(arm, -(-rows // each)) for c in choice.phrased(each)]
        made = [(write(choice, arm), choice) for choice in choices[:rows]]
        new = {s.scenario_id: (s, choice) for s, choice in made if s.scenario_id not in seen_scenarios}
        seen_scenarios.update(new)
        return list(new.values())

    while len(result.probed) < budget:
        planned = allotted(shares, min(batch_size, budget - len(result.probed)))
        written = [row for arm in ARMS for row in written_by(arm, planned[arm])]
        if not written:  # chance, or a small batch that asked none of the arms that still have something
            tries = (written_by(arm, 1) for _ in range(TRIES) for arm in ARMS)
            written = next((found for found in tries if found), [])
        if not written:
            result.stopped = "nothing left"
            break
        tally = {arm: _Tally() for arm in ARMS}
        played = probe([scenario for scenario, _ in written])
        for (scenario, choice), (rollout, sign, shown, failed) in zip(written, played, strict=True):
            fresh_pairs = set(pairs_of(scenario.situation, shown)) - pairs
            tally[scenario.arm].add(sign not in signatures, len(fresh_pairs), failed)
            signatures.add(sign)
            pairs |= fresh_pairs
            one = Probed(scenario, choice, batch, rollout, sign, shown, failed)
            result.probed.append(one)
            chooser.learn(one)
        yields = {arm: counts.yield_per_row for arm, counts in tally.items()}
        result.log += _log(batch, shares, tally, yields)
        new = sum(counts.signatures for counts in tally.values())
        quiet = quiet + 1 if new < SATURATION_RATE * len(written) else 0
        if quiet >= SATURATION_BATCHES:
            result.stopped = "saturated"
            break
        shares = updated_shares(yields)
        batch += 1
    return result


@dataclass
class _Tally:
    """Counts of one arm in one batch."""

    rows: int = 0
    signatures: int = 0
    pairs: int = 0
    failures: int = 0

    def add(self, new_signature: bool, new_pairs: int, failed: bool) -> None:
        self.rows += 1
        self.signatures += new_signature
        self.pairs += new_pairs
        self.failures += failed

    @property
    def yield_per_row(self) -> float | None:
        """None without rows."""
        return (self.signatures + self.pairs) / self.rows if self.rows else None


def _log(
    batch: int,
    shares: Mapping[Arm, float],
    tally: Mapping[Arm, _Tally],
    yields: Mapping[Arm, float | None],
) -> list[ArmBatch]:
    """One entry per arm; an arm without rows is given the mean yield."""
    known = [value for value in yields.values() if value is not None]
    mean = sum(known) / len(known)
    return [
        ArmBatch(
            batch, arm, shares[arm], t.rows, t.signatures, t.pairs, mean if own is None else own, t.failures
        )
        for arm, t in tally.items()
        for own in [yields[arm]]
    ]
