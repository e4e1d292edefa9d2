"""Where a training row stands: on which side of the split, and how far the policy is with its scenario."""

from typing import Literal

from while_pipeline.constants import HOLD_BELOW, RETIRE_ABOVE, VALID_PERCENT
from while_pipeline.ids import seed_of

Split = Literal["train", "valid"]
Stage = Literal["retire", "train", "hold"]


def split_of(task_id: str) -> Split:
    """Side of the split a task is on: a tenth is `valid`, by hash, the same on every day and in every cut.

    Rows that share a task share its side, however they are worded.
    """
    return "valid" if seed_of("valid", task_id) % 100 < VALID_PERCENT else "train"


def stage_of(pass_rate: float) -> Stage:
    """What a group's pass rate says of its scenario: `retire` above .8, `hold` below .2, else `train`."""
    if pass_rate > RETIRE_ABOVE:
        return "retire"
    return "hold" if pass_rate < HOLD_BELOW else "train"
