import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from while_pipeline.prove.noise import rerun_noise, sampling_noise

Samples = list[bool]


def tasks(*played: tuple[Samples, Samples], paired: bool) -> pl.DataFrame:
    """Counts of tasks from the samples of both arms; paired ones go by the same numbers."""
    return pl.DataFrame(
        {
            "n_before": [len(before) for before, _ in played],
            "n_after": [len(after) for _, after in played],
            "c_before": [sum(before) for before, _ in played],
            "c_after": [sum(after) for _, after in played],
            "pairs": [len(before) if paired else 0 for before, _ in played],
            "discordant": [
                sum(a != b for a, b in zip(before, after, strict=True)) if paired else 0
                for before, after in played
            ],
        }
    )


BEFORE = [True, False, False, True, False, False]
AFTER = [True, True, False, True, True, False]


def test_samples_drawn_apart_give_welchs_interval() -> None:
    of_scipy = stats.ttest_ind(AFTER, BEFORE[:4], equal_var=False).confidence_interval(0.9)
    found = sampling_noise(tasks((BEFORE[:4], AFTER), paired=False), 0.9)
    assert found == pytest.approx((of_scipy.high - of_scipy.low) / 2)


def test_samples_of_the_same_luck_give_the_paired_interval() -> None:
    of_scipy = stats.ttest_rel(np.array(AFTER, float), np.array(BEFORE, float)).confidence_interval(0.95)
    assert sampling_noise(tasks((BEFORE, AFTER), paired=True)) == pytest.approx(
        (of_scipy.high - of_scipy.low) / 2
    )


def test_shared_luck_moves_the_difference_less_than_two_draws_do() -> None:
    same = tasks((BEFORE, AFTER), (AFTER, AFTER), paired=True)
    assert sampling_noise(same) < sampling_noise(same.with_columns(pairs=0))


def test_the_tasks_stay_the_same_so_their_own_spread_is_no_noise() -> None:
    never, always = [False] * 4, [True] * 4
    assert sampling_noise(tasks((never, always), (always, always), (never, never), paired=False)) == 0.0


def test_one_sample_a_task_measures_nothing() -> None:
    assert math.isnan(sampling_noise(tasks(([True], [False]), paired=True)))
    assert math.isnan(sampling_noise(tasks(paired=True).cast(pl.Int64)))


def test_a_task_with_one_sample_is_taken_to_vary_like_the_others() -> None:
    whole = sampling_noise(tasks(*[(BEFORE, AFTER)] * 4, paired=True))
    short = sampling_noise(tasks(*[(BEFORE, AFTER)] * 3, ([True], [False]), paired=True))
    # Only the degrees of freedom are fewer: 15 for 20.
    assert short == pytest.approx(whole * stats.t.ppf(0.975, 15) / stats.t.ppf(0.975, 20))


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=12))
def test_more_tasks_of_the_same_kind_make_less_noise(samples: list[Samples]) -> None:
    played = [(one, one[1:] + one[:1]) for one in samples]
    once, twice = (sampling_noise(tasks(*played * times, paired=False)) for times in (1, 2))
    assert twice <= once / math.sqrt(2) + 1e-12


def test_the_band_holds_the_stated_share_of_re_runs() -> None:
    rng = np.random.default_rng(3)
    rates = rng.uniform(0.2, 0.8, 15)
    inside = 0
    for _ in range(400):
        first, second = (rng.random((15, 4)) < rates[:, None] for _ in range(2))
        band = sampling_noise(tasks(*zip(first.tolist(), second.tolist(), strict=True), paired=False), 0.9)
        inside += abs(first.mean() - second.mean()) <= band
    assert abs(inside - 360) <= stats.binom.std(400, 0.9) * 3


def run(*passes: int, category: str | None = "a") -> pl.DataFrame:
    """One run of tasks with four samples each."""
    rows = [
        {"task_id": f"t{i}", "category": category, "passed": sample < count}
        for i, count in enumerate(passes)
        for sample in range(4)
    ]
    return pl.DataFrame(rows, schema={"task_id": pl.String, "category": pl.String, "passed": pl.Boolean})


def test_whole_runs_differ_by_the_spread_of_their_means() -> None:
    runs = [run(2, 2), run(2, 3), run(2, 4)]
    found = rerun_noise(runs)
    spread = float(np.std([0.5, 0.625, 0.75], ddof=1))
    assert found["overall"] == pytest.approx(stats.t.ppf(0.975, 2) * spread * math.sqrt(2))
    assert found["a"] == found["overall"]


def test_tasks_without_a_category_are_noise_of_the_whole_only() -> None:
    assert rerun_noise([run(2, 2, category=None), run(2, 3, category=None)]).keys() == {"overall"}


def test_one_run_shows_no_spread() -> None:
    assert math.isnan(rerun_noise([run(2, 2)])["overall"])
