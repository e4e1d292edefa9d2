"""Policies that a test can foresee. No assertion belongs here."""

from while_pipeline.agents.policy import BIAS, HEADS, Weights

SURE = 40.0
"""exp(-40) is below 1e-17: such a weight decides."""


def always(**choices: str) -> Weights:
    """A policy that makes the sound choice everywhere but on the heads named, where it makes that one."""
    weights = {
        head: {option: {BIAS: SURE if option == choices.get(head, options[0]) else 0.0} for option in options}
        for head, options in HEADS.items()
    }
    if "fault" not in choices:  # retry what may clear, three times at most, then say so
        weights["fault"] = {
            "retry": {"retryable": 2 * SURE, "spent": -4 * SURE},
            "report": {BIAS: SURE},
            "hide": {},
            "claim": {},
        }
    return Weights(weights=weights)
