"""What a night has seen at the axis values of a cell, and how much a cell is worth playing next.

A cell is a situation that may be played. Running counters only: neither learning nor weighing ever looks
back over what was played. Who asks for weights, and what is made of them, belongs to `arms`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from while_pipeline.constants import PRIOR_PLAYS
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import AXES, row_of

Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two axis values seen together: ((axis, value), (axis, value)), in axis order."""


@dataclass(frozen=True)
class Spot:
    """A weak spot of the traffic."""

    spot_id: str
    tool: str
    tool_condition: str
    stance: str
    share: float
    """Share of the steered budget, in [0, 1]."""
    n: int
    """Graded conversations of the traffic there."""
    failures: int


def pairs_of(cell: Situation, axes: Sequence[str]) -> list[Pair]:
    """Pairs of a situation's values on `axes`: n (n - 1) / 2 of them for n axes."""
    return list(combinations([(axis, getattr(cell, axis)) for axis in axes], 2))


class Cells:
    """Counts of one night per pair and triple of axis values, and the cell weight made of them."""

    def __init__(self, weights: Mapping[str, float], spots: Sequence[Spot]) -> None:
        """Weigh by `weights` (see `constants.CELL_WEIGHTS`); the traffic at `spots` counts as seen."""
        self._weights = dict(weights)
        self._chosen: Counter[tuple[tuple[str, str], ...]] = Counter()
        self._plays: Counter[Pair] = Counter()
        self._failures: Counter[Pair] = Counter()
        self._realised: set[Pair] = set()
        self._all = self._failed = 0
        for spot in spots:
            pairs = list(combinations([(a, getattr(spot, a)) for a in AXES if hasattr(spot, a)], 2))
            self._plays.update(dict.fromkeys(pairs, spot.n))
            self._failures.update(dict.fromkeys(pairs, spot.failures))
            self._all += spot.n
            self._failed += spot.failures

    def chosen(self, cell: Situation) -> None:
        """Count a cell as soon as it is chosen, so that one batch does not choose the same cell over."""
        self._chosen.update(combinations(zip(AXES, row_of(cell), strict=True), 3))

    def learn(self, cell: Situation, realised: Sequence[str], failed: bool) -> None:
        """Take in a probe: whether it failed and which axes its trace shows."""
        pairs = pairs_of(cell, AXES)
        self._plays.update(pairs)
        self._all += 1
        if failed:
            self._failures.update(pairs)
            self._failed += 1
        self._realised.update(pairs_of(cell, realised))

    def terms(self, row: Sequence[str]) -> dict[str, float]:
        """The four terms of a cell's weight, each in [0, 1].

        - `undercoverage`: mean of 1/(1 + n)^2 over the cell's triples of values, n = times the triple was
          chosen tonight. Triples, since every pair has soon been played.
        - `risk`: the highest failure rate among the cell's pairs. A pair's rate counts tonight's probes and
          the traffic's conversations at weak spots, shrunk to the overall rate as if `PRIOR_PLAYS` plays had
          shown that (a Beta prior): one failure in one play is not yet a rate of 1.
        - `novelty`: share of the cell's pairs no trace has shown tonight.
        - `behavior_gap`: 4p(1 - p) at the mean rate p of the cell's pairs: 1 where success and failure are
          even, so that a group of samples would disagree, and 0 where the outcome is certain.
        """
        named = tuple(zip(AXES, row, strict=True))
        pairs, triples = tuple(combinations(named, 2)), tuple(combinations(named, 3))
        prior = PRIOR_PLAYS * (self._failed + 1) / (self._all + 2)
        plays, failures, chosen = self._plays.get, self._failures.get, self._chosen.get
        rates = [(failures(pair, 0) + prior) / (plays(pair, 0) + PRIOR_PLAYS) for pair in pairs]
        mean = sum(rates) / len(rates)
        return {
            "undercoverage": sum([1 / (1 + chosen(t, 0)) ** 2 for t in triples]) / len(triples),
            "risk": max(rates),
            "novelty": len(set(pairs) - self._realised) / len(pairs),
            "behavior_gap": 4 * mean * (1 - mean),
        }

    def weight(self, row: Sequence[str]) -> float:
        """How much a cell is worth playing next, in [0, 1]: the weighted sum of its `terms`."""
        terms = self.terms(row)
        return sum([share * terms[name] for name, share in self._weights.items()])
