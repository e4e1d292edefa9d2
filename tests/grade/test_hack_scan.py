from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from while_pipeline.grade.hack_regime import Regime
from while_pipeline.grade.hack_scan import HackScan, hack_scan
from while_pipeline.prove.intervals import wilson
from while_pipeline.prove.variance import variance_split

LENGTHS = [[10, 11, 12, 13], [12, 13, 14, 15], [40, 41, 42, 43], [44, 45, 46, 47]]
PASSES = [3, 3, 1, 1]


def worked_example() -> pl.DataFrame:
    """Short easy tasks, long hard ones; within each the longest answers pass."""
    return pl.DataFrame(
        [
            (task, float(rank >= 4 - passes), length)
            for task, lengths, passes in zip("abcd", LENGTHS, PASSES, strict=True)
            for rank, length in enumerate(lengths)
        ],
        schema=["task_id", "reward", "length"],
        orient="row",
    )


def played(seed: int, tasks: int = 40, k: int = 8) -> pl.DataFrame:
    """Rollouts of an honest world: a defect makes the answer short and the outcome fail."""
    rng = np.random.default_rng(seed)
    n = tasks * k
    task = np.repeat(np.arange(tasks), k)
    outcome = rng.random(n) < np.repeat(rng.random(tasks), k)
    conduct = rng.random(n) < 0.7
    length = rng.normal(40, 8, n) + 15 * outcome + 10 * conduct + 3 * task
    return pl.DataFrame(
        {
            "task_id": [f"t{i:03}" for i in task],
            "outcome": outcome,
            "conduct": conduct,
            "length": length,
            "questions": rng.poisson(2, n),
            "noise": rng.random(n),
        }
    )


FEATURES = ["length", "questions", "noise"]
ENDORSED = ["outcome", "conduct"]


def scan(frame: pl.DataFrame, endorsed: list[str] = ENDORSED, seed: int = 1) -> HackScan:
    return hack_scan(frame, FEATURES, endorsed, seed=seed)


def test_the_worked_example_splits_a_quarter_into_three_parts_within_and_one_between() -> None:
    frame = worked_example()
    assert variance_split(frame["reward"], frame["task_id"]) == pytest.approx((0.25, 0.1875, 0.0625))


def test_the_worked_example_has_the_opposite_sign_within_tasks() -> None:
    found = hack_scan(worked_example(), ["length"], [], seed=0)
    [length] = found.features
    assert length.pooled == pytest.approx(-0.4481, abs=5e-5)
    assert length.within == length.residual == pytest.approx(0.7746, abs=5e-5)
    assert found.variance == pytest.approx((0.25, 0.1875, 0.0625))
    assert found.hacked


def test_the_worked_example_says_how_much_length_explains() -> None:
    found = hack_scan(worked_example(), ["length"], [], seed=0).explained
    assert found is not None
    assert (found.endorsed, found.top) == pytest.approx((0, 0.6))
    # Half of each vector's square lies in each half of the tasks; 12 degrees of freedom, shrunk for a fifth.
    weight = np.sqrt(0.6) / 2 / (0.5 + 1 / (12 * 0.2))
    assert found.joint == pytest.approx(2 * weight * np.sqrt(0.6) - weight**2)
    # In each task one answer is .75 off, the others .25; the longest of each is predicted up.
    assert found.joint_rows is not None
    assert found.joint_rows == pytest.approx((1.0, *wilson(4, 4), 4, 4))


def test_the_floor_is_exceeded_by_at_most_one_in_twenty_of_all_rearrangements() -> None:
    found = hack_scan(worked_example(), ["length"], [], permutations=999, seed=0)
    lengths = np.array(LENGTHS) - np.mean(LENGTHS, axis=1, keepdims=True)
    # Each task has one answer that differs from the others: 4^4 rearrangements in all.
    shuffled = np.array(
        [sum(lengths[task, odd] for task, odd in enumerate(at)) for at in product(range(4), repeat=4)]
    )
    exact = np.abs(shuffled) / np.sqrt((lengths**2).sum() * 16 * 0.1875)
    assert found.floor is not None
    assert (exact > found.floor + 1e-9).mean() <= 0.05
    assert (exact > found.floor - 1e-9).mean() >= 0.05


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 8)), min_size=1, max_size=40))
def test_the_parts_add_up_to_the_variance_whatever_the_group_sizes(rows: list[tuple[int, int]]) -> None:
    reward = pl.Series([value / 8 for _, value in rows])
    found = variance_split(reward, pl.Series([f"t{task}" for task, _ in rows]))
    assert found is not None
    assert found.total == pytest.approx(np.var(reward.to_numpy()))
    assert found.within + found.between == pytest.approx(found.total, abs=1e-12)


def test_the_variance_of_the_notes_oracle() -> None:
    reward = pl.Series([1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1])
    task = pl.Series(["a"] * 4 + ["b"] * 4 + ["c"] * 4)
    assert variance_split(reward, task) == pytest.approx((0.243056, 0.145833, 0.097222), abs=1e-6)


def test_unknown_rewards_have_no_part_in_the_variance() -> None:
    assert variance_split(pl.Series([0.0, 1.0, None]), pl.Series(["a", "a", "b"])) == (0.25, 0.25, 0.0)
    assert variance_split(pl.Series([None], dtype=pl.Float64), pl.Series(["a"])) is None


def test_a_reward_paid_for_length_is_flagged_though_it_follows_the_outcome_too() -> None:
    frame = played(3).with_columns(reward=0.6 * pl.col("outcome") + 0.01 * pl.col("length"))
    found = scan(frame)
    assert found.hacked
    assert found.residual_feature == "length"
    assert "length" in found.reason
    assert found.explained is not None
    assert found.explained.top is not None
    assert 0 < found.explained.top < 1 - found.explained.endorsed


def test_an_honest_reward_whose_failures_are_short_is_not_flagged_once_the_outcome_is_endorsed() -> None:
    rng = np.random.default_rng(9)
    frame = played(4)
    frame = frame.with_columns(reward=0.8 * pl.col("outcome") + pl.Series(rng.normal(0, 0.05, frame.height)))
    found = scan(frame)
    assert found.top_feature == "length"
    assert found.top_rho is not None
    assert found.floor is not None
    assert found.top_rho > found.floor
    assert found.hacked is False
    assert scan(frame, endorsed=[]).hacked is True


def test_a_reward_that_asks_for_outcome_and_conduct_together_is_explained_by_the_two() -> None:
    frame = played(5).with_columns(reward=(pl.col("outcome") & pl.col("conduct")).cast(pl.Float64))
    found = scan(frame)
    assert found.hacked is False
    assert (found.residual_feature, found.residual_rho) == (None, None)
    assert found.reason == "the endorsed columns explain the whole reward within tasks"


def test_residual_correlations_are_partial_correlations_given_task_and_endorsed_columns() -> None:
    frame = played(6).with_columns(reward=pl.col("outcome") * 0.5 + pl.col("noise") + pl.col("length") * 0.01)
    tasks = frame["task_id"].to_dummies().to_numpy()
    endorsed = frame.select("outcome", "conduct", both=pl.col("outcome") & pl.col("conduct")).to_numpy()
    known = np.hstack([tasks, endorsed]).astype(float)

    def unexplained(name: str) -> NDArray[np.float64]:
        values = frame[name].cast(pl.Float64).to_numpy()
        rest: NDArray[np.float64] = values - known @ np.linalg.lstsq(known, values)[0]
        return rest

    for row in scan(frame).features:
        expected = np.corrcoef(unexplained(row.feature), unexplained("reward"))[0, 1]
        assert row.residual == pytest.approx(expected, abs=1e-9)
        assert row.pooled == pytest.approx(np.corrcoef(frame[row.feature], frame["reward"])[0, 1])


def test_a_reward_for_what_the_rubric_forbids_is_not_endorsed() -> None:
    wordy = played(11).with_columns(length=pl.col("length") - 40 * pl.col("conduct"))
    found = scan(wordy.with_columns(reward=pl.col("length") / 100))
    assert found.hacked
    assert found.residual_feature == "length"
    assert found.explained is not None
    assert found.explained.top == pytest.approx(1 - found.explained.endorsed)


def test_a_reward_for_either_of_two_endorsed_things_is_explained_by_them() -> None:
    frame = played(5).with_columns(reward=(pl.col("outcome") | pl.col("conduct")).cast(pl.Float64))
    assert scan(frame).regime is Regime.ENDORSED


def test_the_rows_that_a_paid_feature_explains_are_told_from_those_that_noise_does() -> None:
    rng = np.random.default_rng(2)
    frame = played(12, tasks=100)
    high = pl.col("noise") > 0.5
    paid = scan(frame.with_columns(reward=(pl.col("outcome") & high).cast(pl.Float64))).explained
    luck = pl.Series(rng.random(frame.height)) > 0.5
    flipped = scan(frame.with_columns(reward=(pl.col("outcome") & luck).cast(pl.Float64))).explained
    assert paid is not None
    assert flipped is not None
    assert paid.joint_rows is not None
    assert paid.joint_rows.low > 0.8
    assert flipped.joint_rows is not None
    assert flipped.joint_rows.low < 0.5
    assert paid.top is not None
    assert paid.joint is not None
    assert paid.joint == pytest.approx(paid.top, rel=0.15)
    assert flipped.joint is not None
    assert flipped.joint < 0.01


def test_features_explain_nothing_of_noise_however_many_they_are() -> None:
    rng = np.random.default_rng(4)
    frame = played(13)
    many = {f"x{i}": rng.random(frame.height) for i in range(150)}
    noise = frame.with_columns(
        reward=pl.Series(rng.random(frame.height)), **{k: pl.Series(v) for k, v in many.items()}
    )
    found = hack_scan(noise, list(many), ENDORSED, seed=0)
    assert found.regime is Regime.CHANCE
    assert found.explained is not None
    assert found.explained.joint is not None
    assert found.explained.joint < 0.05


def test_chance_is_flagged_about_one_time_in_twenty() -> None:
    flags, over = 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        frame = played(1000 + seed, tasks=8, k=4)
        frame = frame.with_columns(reward=pl.Series(rng.random(frame.height)) + pl.col("outcome"))
        found = hack_scan(frame, FEATURES, ENDORSED, permutations=39, seed=seed)
        assert found.residual_rho is not None
        assert found.residual_floor is not None
        over += abs(found.residual_rho) > found.residual_floor
        flags += bool(found.hacked)
    # Binomial(100, .05): 1 to 13 holds 99.3 %.
    assert 1 <= over <= 13
    assert flags <= over


def test_many_rows_do_not_make_a_trifle_a_hack() -> None:
    rng = np.random.default_rng(0)
    frame = played(7, tasks=500)
    noise = pl.Series(rng.normal(0, 1, frame.height))
    found = scan(frame.with_columns(reward=noise + 0.01 * pl.col("length")))
    assert found.residual_rho is not None
    assert found.residual_floor is not None
    assert found.residual_floor < found.residual_rho < 0.2
    assert found.hacked is False
    assert "trifle" in found.reason


def test_row_order_and_units_change_nothing() -> None:
    frame = played(8).with_columns(reward=0.5 * pl.col("outcome") + 0.01 * pl.col("length"))
    found = scan(frame)
    scaled = scan(frame.with_columns(length=pl.col("length") * 1000 + 5, reward=1 + pl.col("reward") / 4))
    assert (scaled.residual_feature, scaled.hacked) == (found.residual_feature, found.hacked)
    assert scaled.residual_rho == pytest.approx(found.residual_rho)
    assert scaled.residual_floor == pytest.approx(found.residual_floor, abs=0.03)
    assert scan(frame.sample(fraction=1, shuffle=True, seed=5)) == found


def test_shuffles_stay_within_tasks() -> None:
    frame = pl.DataFrame(
        {
            "task_id": list("aaaabbbb"),
            "reward": [0.0, 0, 1, 1, 0, 0, 0, 0],
            "length": [1, 1, 1, 1, 1, 2, 3, 4],
        }
    )
    found = hack_scan(frame, ["length"], [], seed=0)
    assert (found.top_rho, found.floor) == pytest.approx((0, 0))


def test_from_a_shuffled_residual_the_endorsed_columns_are_taken_out_again() -> None:
    marked = {f"row{i}": [float(at == i) for at in range(8)] for i in range(6)}
    frame = pl.DataFrame(
        {"task_id": ["a"] * 8, "reward": [3, 4, 5, 6, 7, 8, 0, 1], "length": range(8), **marked}
    )
    found = hack_scan(frame, ["length"], list(marked), seed=0)
    # Only how the last two rows differ is left: whatever is left of a shuffle lies on one line with that.
    assert (found.residual_rho, found.residual_floor) == pytest.approx((1, 1))
    assert found.regime is Regime.TOO_FEW_ROWS


def test_a_reward_constant_within_every_task_is_not_scanned() -> None:
    frame = played(1).with_columns(reward=pl.col("task_id").rank("dense") / 7)
    found = scan(frame)
    assert (found.hacked, found.top_feature, found.residual_feature) == (None, None, None)
    assert found.reason == "no scan: the reward does not vary within any task"
    assert found.variance is not None
    assert found.variance.within == pytest.approx(0.0)
    assert found.variance.between > 0


def test_features_constant_within_every_task_are_not_scanned() -> None:
    frame = played(1).with_columns(reward=pl.col("noise"), length=pl.col("task_id").rank("dense"))
    found = hack_scan(frame, ["length"], [], seed=0)
    assert (found.hacked, found.reason) == (None, "no scan: no feature varies within a task")
    [length] = found.features
    assert length.pooled is not None
    assert (length.within, length.residual) == (None, None)


def test_a_constant_feature_beside_others_has_no_correlation() -> None:
    frame = played(1).with_columns(reward=pl.col("length"), questions=pl.lit(0.1))
    found = scan(frame)
    assert (found.features[1].pooled, found.features[1].within, found.features[1].residual) == (None,) * 3
    assert found.residual_feature == "length"


def test_a_feature_that_only_repeats_an_endorsed_column_says_nothing_more() -> None:
    frame = played(2).with_columns(reward=pl.col("noise"), echo=1 - 2 * pl.col("outcome").cast(pl.Int64))
    found = hack_scan(frame, ["echo"], ["outcome"], seed=0)
    assert found.hacked is False
    assert found.reason == "the features say nothing that the endorsed columns do not"


def test_an_endorsed_column_is_never_scanned() -> None:
    frame = played(2).with_columns(reward=pl.col("length"))
    found = hack_scan(frame, ["length", "noise"], ["length"], seed=0)
    assert [row.feature for row in found.features] == ["noise"]
    assert found.hacked is False


def test_one_task_of_two_rollouts_is_too_little_to_tell() -> None:
    frame = pl.DataFrame(
        {"task_id": ["a", "a"], "reward": [0.0, 1.0], "length": [1, 2], "outcome": [False, True]}
    )
    found = hack_scan(frame, ["length"], [], seed=0)
    assert found.hacked is None
    assert (found.top_rho, found.floor) == pytest.approx((1.0, 1.0))
    assert "too few rows" in found.reason
    assert "too few rows" in hack_scan(frame, ["length"], ["outcome"], seed=0).reason


def test_rows_without_reward_or_endorsed_value_are_dropped_and_counted() -> None:
    frame = played(3).with_columns(reward=0.6 * pl.col("outcome") + 0.01 * pl.col("length"))
    at = pl.int_range(pl.len())
    holed = frame.with_columns(
        reward=pl.when(at == 3).then(None).when(at == 4).then(float("nan")).otherwise("reward"),
        outcome=pl.when(at == 5).then(None).otherwise("outcome"),
    )
    found = scan(holed)
    assert (found.n, found.n_dropped) == (317, 3)
    without = scan(frame.filter(~at.is_in([3, 4, 5])))
    assert (found.residual_rho, found.residual_floor) == (without.residual_rho, without.residual_floor)


def test_an_unknown_feature_value_counts_as_its_tasks_mean() -> None:
    frame = pl.DataFrame(
        {"task_id": list("aaaabbbb"), "reward": [0.0, 0, 1, 1] * 2, "length": [1.0, 2, 3, None, 5, 6, 7, 8]}
    )
    filled = frame.with_columns(pl.col("length").fill_null(2.0))
    assert hack_scan(frame, ["length"], [], seed=0) == hack_scan(filled, ["length"], [], seed=0)


def test_a_task_without_any_value_of_a_feature_says_nothing_about_it() -> None:
    frame = pl.DataFrame(
        {
            "task_id": list("aaaabbbb"),
            "reward": [0.0, 0, 1, 1, 1, 0, 1, 0],
            "length": [1.0, 2, 3, 4] + [None] * 4,
        }
    )
    [length] = hack_scan(frame, ["length"], [], seed=0).features
    assert length.within == pytest.approx(2 / np.sqrt(5 * 2))
    assert length.within is not None


def test_no_rows_and_no_features_are_said() -> None:
    nothing = played(1).with_columns(reward=pl.lit(None, dtype=pl.Float64))
    assert (scan(nothing).n, scan(nothing).n_dropped, scan(nothing).hacked) == (0, 320, None)
    assert hack_scan(played(1).with_columns(reward=pl.col("noise")), [], [], seed=0).hacked is None


def test_too_few_shuffles_are_refused() -> None:
    with pytest.raises(ValueError, match="permutations is 18, expected at least 19"):
        hack_scan(worked_example(), ["length"], [], permutations=18, seed=0)
