from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from while_pipeline.agents.policy import BIAS, Weights, base_weights
from while_pipeline.ids import canonical_json
from while_pipeline.snapshot import SnapshotError, snapshot_path
from while_pipeline.tables import prove, train
from while_pipeline.tables.base import ddl, frame, table_name
from while_pipeline.train.registry import serving, serving_weights, weights_from


def policy(step: float) -> Weights:
    weights = base_weights().model_dump()["weights"]
    weights["tool"]["match"][BIAS] = step
    return Weights(weights=weights)


FIRST, SECOND, THIRD = policy(1.0), policy(2.0), policy(3.0)


def policy_rows(day: str, weights: Weights) -> pl.DataFrame:
    row = {
        "policy_version": weights.version,
        "parent": base_weights().version,
        "method": "sft",
        "data_hash": "h",
        "n_rows": 1,
        "n_decisions": 1,
        "loss_before": 1.0,
        "loss_after": 0.5,
        "kl": 0.1,
        "settings": "{}",
        "weights": canonical_json(weights.weights),
    }
    return frame(train.Policies, day, [row])


def decision(day: str, candidate: Weights, promoted: bool) -> pl.DataFrame:
    row = {
        "candidate": candidate.version,
        "serving": base_weights().version,
        "promoted": promoted,
        "reason": "the figures",
    }
    return frame(prove.Promotion, day, [row])


DAYS: list[tuple[str, Weights, bool]] = [
    ("2026-03-02", FIRST, True),
    ("2026-03-03", SECOND, False),
    ("2026-03-04", THIRD, True),
]


def tables(days: list[tuple[str, Weights, bool]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    decisions = [frame(prove.Promotion, "2026-03-01", []), *(decision(*one) for one in days)]
    policies = [frame(train.Policies, "2026-03-01", []), *(policy_rows(day, w) for day, w, _ in days)]
    return pl.concat(decisions), pl.concat(policies)


def test_before_any_promotion_the_base_policy_serves() -> None:
    assert serving(*tables([])) == base_weights()
    assert serving(*tables([("2026-03-02", FIRST, False)])) == base_weights()


def test_the_last_promoted_candidate_serves_and_a_refused_one_never_does() -> None:
    assert serving(*tables(DAYS[:1])) == FIRST
    assert serving(*tables(DAYS[:2])) == FIRST
    assert serving(*tables(DAYS)) == THIRD


def test_the_order_of_the_rows_does_not_matter_the_days_do() -> None:
    promotions, policies = tables(DAYS)
    assert serving(promotions.reverse(), policies.reverse()) == THIRD


def test_a_policy_may_be_promoted_again() -> None:
    again = [*DAYS, ("2026-03-05", FIRST, True)]
    assert serving(*tables(again)) == FIRST


def test_weights_read_back_to_the_same_version() -> None:
    row: dict[str, Any] = policy_rows("2026-03-02", SECOND).row(0, named=True)
    assert weights_from(row).version == SECOND.version == row["policy_version"]


# -- from the published snapshot --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    promotions, policies = tables(DAYS)
    with duckdb.connect(snapshot_path(folder / "while.duckdb")) as connection:
        for model, rows in ((prove.Promotion, promotions), (train.Policies, policies)):
            for statement in ddl(model):
                connection.execute(statement)
            connection.register("incoming", rows)
            connection.execute(f"INSERT INTO {table_name(model)} BY NAME SELECT * FROM incoming")
    return folder


@pytest.mark.parametrize(
    ("day", "serves"),
    [
        ("2026-03-01", base_weights()),
        ("2026-03-02", base_weights()),
        ("2026-03-03", FIRST),
        ("2026-03-04", FIRST),
        ("2026-03-05", THIRD),
        ("2030-01-01", THIRD),
    ],
)
def test_a_day_is_served_by_what_was_promoted_before_it_not_on_it(
    data: Path, day: str, serves: Weights
) -> None:
    assert serving_weights(day, data) == serves


def test_without_a_snapshot_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="while-pipeline run"):
        serving_weights("2026-03-02", tmp_path)
