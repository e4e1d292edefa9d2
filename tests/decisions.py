"""Decisions made by hand, for what learns from them. No assertion belongs here."""

import math
from collections.abc import Sequence

from hypothesis import strategies as st

from tests.example import BASE
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.records import Decision

CHOICES = [(head, choice) for head, options in HEADS.items() for choice in options]
ON = st.sets(st.sampled_from(["f0", "f1", "f2"]))


def decision(head: str, choice: str, *features: str, by: Weights = BASE) -> Decision:
    """A decision as the policy `by` makes it."""
    on = (BIAS, *features)
    logprob = by.log_probabilities(head, on)[choice]
    return Decision(head=head, features=on, options=HEADS[head], choice=choice, logprob=logprob)


ANY = st.builds(lambda at, on: decision(*at, *sorted(on)), st.sampled_from(CHOICES), ON)
DECISIONS = st.lists(ANY, min_size=1, max_size=40)


def chances(weights: Weights, head: str, *features: str) -> dict[str, float]:
    """Probability of each option, by the policy itself."""
    return {o: math.exp(p) for o, p in weights.log_probabilities(head, (BIAS, *features)).items()}


def likelihood(weights: Weights, decisions: Sequence[Decision]) -> float:
    """Mean log-likelihood by the policy itself, which no fit uses."""
    logs = [weights.log_probabilities(d.head, d.features)[d.choice] for d in decisions]
    return math.fsum(logs) / len(logs)
