"""Where a reward can stand, what is advised, and when the gate is shut."""

import numpy as np
import polars as pl
import pytest

from while_pipeline.grade.hack_regime import Regime, advice, is_hacked, refusal
from while_pipeline.grade.hack_scan import HackScan, hack_scan

K = 6


def rewarded(tasks: int = 60, **columns: pl.Expr) -> pl.DataFrame:
    """Rollouts whose outcome and length are luck, with the reward that `columns` make of it."""
    rng = np.random.default_rng(8)
    n = tasks * K
    made = pl.DataFrame(
        {
            "task_id": [f"t{i // K:03}" for i in range(n)],
            "outcome": rng.random(n) < 0.5,
            "length": rng.normal(50, 10, n),
            "luck": rng.random(n),
        }
    )
    return made.with_columns(**columns)


def regime(made: pl.DataFrame, features: tuple[str, ...] = ("length",)) -> HackScan:
    return hack_scan(made, features, ["outcome"], seed=3)


OUTCOME = pl.col("outcome").cast(pl.Float64)
LENGTH, LUCK = pl.col("length"), pl.col("luck")
TASK = pl.col("task_id").str.tail(3).cast(pl.Float64)


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (pl.lit(None, dtype=pl.Float64), Regime.UNGRADED),
        (TASK / 60, Regime.NO_GRADIENT),
        (OUTCOME, Regime.ENDORSED),
        (OUTCOME + LUCK, Regime.CHANCE),
        (OUTCOME + LENGTH / 20, Regime.HACKED),
        (OUTCOME / 10 + TASK, Regime.MOSTLY_BETWEEN),
    ],
)
def test_each_reward_has_its_regime(reward: pl.Expr, expected: Regime) -> None:
    assert regime(rewarded(reward=reward)).regime is expected


def test_more_than_chance_but_little_is_a_trifle() -> None:
    made = rewarded(600, reward=OUTCOME + LUCK + LENGTH / 250)
    assert regime(made).regime is Regime.TRIFLE


def test_features_that_never_differ_within_a_task_and_too_few_rows_are_told_apart() -> None:
    assert regime(rewarded(reward=LUCK, length=TASK)).regime is Regime.FLAT_FEATURES
    assert regime(rewarded(reward=LUCK).head(2)).regime is Regime.TOO_FEW_ROWS


def test_a_hack_is_a_hack_though_most_variance_is_between_tasks() -> None:
    made = regime(rewarded(reward=LENGTH / 100 + TASK))
    assert made.regime is Regime.HACKED
    assert made.variance is not None
    assert made.variance.within < 0.1 * made.variance.total


def test_the_share_within_tasks_is_told_where_it_is_what_matters() -> None:
    reason = regime(rewarded(reward=OUTCOME / 10 + TASK)).reason
    assert "of the reward's variance is within tasks" in reason


def test_only_a_hack_is_hacked_and_what_was_not_measured_is_unknown() -> None:
    known = {one: is_hacked(one) for one in Regime}
    assert [one for one, hacked in known.items() if hacked] == [Regime.HACKED]
    assert {one for one, hacked in known.items() if hacked is None} == {
        Regime.UNGRADED,
        Regime.NO_GRADIENT,
        Regime.FLAT_FEATURES,
        Regime.TOO_FEW_ROWS,
    }


def test_every_regime_has_advice_and_a_hacks_names_the_feature() -> None:
    assert len({advice(one, "n_words") for one in Regime}) == len(Regime)
    assert "n_words" in advice(Regime.HACKED, "n_words")


def test_features_that_go_along_are_named_too() -> None:
    made = rewarded(reward=LENGTH / 20, chars=LENGTH * 6 + LUCK, marks=LENGTH + 5 * LUCK)
    found = regime(made, ("length", "chars", "marks", "luck"))
    assert found.residual_feature == "length"
    assert found.reason.endswith("also over it: chars, marks")


def stored(*rows: tuple[bool | None, str]) -> pl.DataFrame:
    schema = {"hacked": pl.Boolean, "reason": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row").with_columns(advice=pl.lit("Do this."))


def test_the_gate_is_shut_by_a_hack_and_by_a_day_that_was_not_scanned() -> None:
    assert refusal(stored((True, "it is length"))) == "the reward is hacked: it is length. Do this."
    assert "has no row for the day" in (refusal(stored()) or "")


@pytest.mark.parametrize("hacked", [False, None])
def test_the_gate_is_open_to_what_is_clean_or_could_not_be_measured(hacked: bool | None) -> None:
    assert refusal(stored((hacked, "why"))) is None
