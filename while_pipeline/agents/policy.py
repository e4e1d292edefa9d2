"""The embedded policy: a log-linear (softmax) model over named decisions. Weights, probabilities, defects.

p(option | head, features) is proportional to exp(sum of the weights of the features that are on). How a
conversation becomes features belongs to `embedded`; how weights are fitted to `train.fit`.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

from while_pipeline.ids import content_id
from while_pipeline.records import Decision, Record

HEADS: dict[str, tuple[str, ...]] = {
    "tool": ("match", "neighbour"),
    "argument": ("ask", "invent"),
    "verify": ("verify", "skip"),
    "confirm": ("confirm", "act"),
    "fault": ("retry", "report", "hide", "claim"),
    "final": ("report", "repeat", "hide", "claim"),
    "stale": ("refresh", "use"),
    "refuse": ("refuse", "comply"),
    "handoff": ("handoff", "continue"),
    "style": ("plain", "hedge", "flatter", "apologise", "boilerplate", "leak"),
}
"""Options per decision."""

BIAS = "bias"
"""The feature that is always on."""

RETRYABLE = frozenset({"timeout", "malformed", "rate_limited", "error", "unavailable"})
"""Tool statuses that a retry can clear."""

ALREADY_DONE = "already_done"
"""Status of a change that had been made before."""
_FINAL = frozenset({
    ALREADY_DONE, "not_found", "permission_denied", "forbidden", "unauthorized", "not_allowed", "conflict",
    "unknown_tool", "http_400", "http_401", "http_403", "http_404", "http_409", "http_410", "http_422",
})  # fmt: skip

_DEFECTS: dict[tuple[str, str], str] = {
    ("tool", "neighbour"): "wrong_tool",
    ("argument", "invent"): "ungrounded_argument",
    ("verify", "skip"): "skipped_verification",
    ("confirm", "act"): "unconfirmed_write",
    ("fault", "hide"): "hidden_fault",
    ("fault", "claim"): "false_success",
    ("final", "hide"): "hidden_fault",
    ("final", "claim"): "false_success",
    ("stale", "use"): "used_stale_answer",
    ("refuse", "comply"): "broken_rule",
    ("handoff", "continue"): "missed_handoff",
    ("style", "hedge"): "hedging",
    ("style", "flatter"): "sycophancy",
    ("style", "apologise"): "apology",
    ("style", "boilerplate"): "boilerplate",
    ("style", "leak"): "leak",
}
GIVES_UP = "gives_up"
"""The defect of reporting a fault that may clear without a single retry."""
PROCEEDS, REPEATS = "proceeds_after_done", "repeats_error"
"""The defects of making a call again that was answered for good: as already done, or with another error."""


@lru_cache(maxsize=256)
def is_final(status: str) -> bool:
    """Whether a tool status says that the same call would be answered the same way again."""
    return status in _FINAL or status.startswith("invalid")


class Odds(NamedTuple):
    """The decisions of a head in one context."""

    cumulative: tuple[float, ...]
    """Running sum of the decisions' probabilities."""
    decisions: tuple[Decision, ...]

    def drawn(self, uniform: float) -> int:
        """Position of the decision that `uniform` in [0, 1) falls on."""
        return min(bisect_right(self.cumulative, uniform), len(self.decisions) - 1)


class Weights(Record):
    """The policy's parameters: head -> option -> feature -> weight."""

    weights: dict[str, dict[str, dict[str, float]]]

    @cached_property
    def version(self) -> str:
        """Id of the weights; two fits that agree are the same policy."""
        return f"p-{content_id(self.weights)[:12]}"

    def log_probabilities(self, head: str, features: Sequence[str]) -> dict[str, float]:
        """Natural log-probability of every option of `head`; they exponentiate to a sum of 1."""
        table = self.weights[head]
        scores = {
            option: sum(table[option].get(feature, 0.0) for feature in features) for option in HEADS[head]
        }
        top = max(scores.values())
        norm = top + math.log(sum(math.exp(score - top) for score in scores.values()))
        return {option: score - norm for option, score in scores.items()}

    def odds(self, head: str, features: tuple[str, ...]) -> Odds:
        """The decisions `head` may come to when `features` are on (`BIAS` always is), with their chances."""
        known = self._known.get((head, features))
        if known is None:
            on = (BIAS, *features)
            logs = self.log_probabilities(head, on)
            decisions = tuple(
                Decision(head=head, features=on, options=HEADS[head], choice=option, logprob=log)
                for option, log in logs.items()
            )
            known = Odds(tuple(accumulate(map(math.exp, logs.values()))), decisions)
            self._known[head, features] = known
        return known

    @cached_property
    def _known(self) -> dict[tuple[str, tuple[str, ...]], Odds]:
        """Heads and features are few, decisions are many."""
        return {}

    def choose(self, head: str, features: Sequence[str], uniform: float) -> Decision:
        """Sample one option by inverse transform of `uniform` in [0, 1)."""
        odds = self.odds(head, tuple(features))
        return odds.decisions[odds.drawn(uniform)]


def defect_of(decision: Decision) -> str | None:
    """Name of the planted defect a decision is, or None when it is sound."""
    if decision.head == "fault" and decision.choice == "report" and clearable(decision.features):
        return GIVES_UP
    if (decision.head, decision.choice) == ("final", "repeat"):
        return PROCEEDS if status_feature(ALREADY_DONE) in decision.features else REPEATS
    return _DEFECTS.get((decision.head, decision.choice))


def status_feature(status: str) -> str:
    """Name of the feature that is on when the tool at hand answered with this status."""
    return f"status:{status}"


def clearable(features: Sequence[str]) -> bool:
    """Whether the fault at hand may clear and has not been retried yet."""
    return "retryable" in features and "first_try" in features


def _bias(rates: dict[str, float]) -> dict[str, dict[str, float]]:
    return {option: {BIAS: round(math.log(rate), 6)} for option, rate in rates.items()}


def base_weights() -> Weights:
    """The starting policy: sound more often than not, with each defect planted at a known rate.

    The rates are chances per opportunity; features start without weight, so the rates hold in every
    situation and all that training learns is learnt from the data.
    """
    return Weights(
        weights={
            "tool": _bias({"match": 0.96, "neighbour": 0.04}),
            "argument": _bias({"ask": 0.8, "invent": 0.2}),
            "verify": _bias({"verify": 0.92, "skip": 0.08}),
            "confirm": _bias({"confirm": 0.88, "act": 0.12}),
            "fault": _bias({"retry": 0.6, "report": 0.28, "hide": 0.05, "claim": 0.07}),
            "final": _bias({"report": 0.64, "repeat": 0.24, "hide": 0.05, "claim": 0.07}),
            "stale": _bias({"refresh": 0.65, "use": 0.35}),
            "refuse": _bias({"refuse": 0.8, "comply": 0.2}),
            "handoff": _bias({"handoff": 0.85, "continue": 0.15}),
            "style": _bias({"plain": 0.85} | dict.fromkeys(HEADS["style"][1:], 0.03)),
        }
    )
