import pytest
from scipy.stats import binomtest

from while_pipeline.constants import VALID_PERCENT
from while_pipeline.train.curriculum import split_of, stage_of


def test_a_tenth_of_the_tasks_is_valid_by_hash() -> None:
    tasks = [f"task {n}" for n in range(2_000)]
    valid = [task for task in tasks if split_of(task) == "valid"]
    assert binomtest(len(valid), len(tasks), VALID_PERCENT / 100).pvalue > 0.001
    assert [split_of(task) for task in valid] == ["valid"] * len(valid), "the same whenever asked"


@pytest.mark.parametrize(
    ("rate", "stage"),
    [
        (1.0, "retire"),
        (0.801, "retire"),
        (0.8, "train"),
        (0.5, "train"),
        (0.2, "train"),
        (0.199, "hold"),
        (0.0, "hold"),
    ],
)
def test_stages_meet_at_one_and_four_fifths_which_are_trained_on(rate: float, stage: str) -> None:
    assert stage_of(rate) == stage
