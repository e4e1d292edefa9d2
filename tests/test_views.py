import datetime as dt
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from resources.warehouse import Warehouse
from while_pipeline.project import REPOSITORY
from while_pipeline.snapshot import read_snapshot
from while_pipeline.tables import ALL, grade, prove, simulate, train, watch
from while_pipeline.tables.base import Table, ddl, frame, polars_schema
from while_pipeline.tables.views import VIEWS

DAY, NEXT_DAY = "2026-03-02", "2026-03-03"

FILLER: dict[Any, Any] = {
    pl.String: "1",
    pl.Int64: 1,
    pl.Float64: 0.5,
    pl.Boolean: True,
    pl.Date: dt.date.fromisoformat(DAY),
}

CELL = {
    "tool": "refund",
    "policy_rule": "r1",
    "stance": "hurried",
    "world_state": "exists",
    "tool_condition": "timeout",
    "history": "fresh",
}


PLACE = {"split": "train", "stage": "train"}
"""Where a row of a cut stands."""


UNMEASURED = {f"{what}_{when}": None for what in ("logprob", "unwanted") for when in ("before", "after")}


def made(model: type[Table], *given: Mapping[str, Any], day: str = DAY) -> pl.DataFrame:
    """Rows of a table: what a test does not care about is filled, with text that is JSON too."""
    columns = {name: FILLER[type(kind)] for name, kind in polars_schema(model).items() if name != "day"}
    return frame(model, day, [{**columns, **row} for row in given])


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a warehouse with every table, all empty."""
    path = tmp_path_factory.mktemp("empty") / "while.duckdb"
    with Warehouse(database=str(path)).connect() as connection:
        connection.begin()
        for model in ALL:
            for statement in ddl(model):
                connection.execute(statement)
        connection.commit()
    return path


@pytest.fixture
def warehouse(empty: Path, tmp_path: Path) -> Warehouse:
    return Warehouse(database=str(shutil.copy(empty, tmp_path)))


def asked(warehouse: Warehouse, sql: str) -> pl.DataFrame:
    """What a reader of the snapshot gets."""
    warehouse.create_views(VIEWS)
    return read_snapshot(warehouse.publish(), sql)


def test_every_view_is_made_of_stored_tables_and_answers_without_rows(warehouse: Warehouse) -> None:
    assert warehouse.create_views(VIEWS) == list(VIEWS)
    snapshot = warehouse.publish()
    for name in VIEWS:
        assert read_snapshot(snapshot, f"FROM {name}").is_empty()


def test_views_of_tables_that_no_run_wrote_yet_are_left_out(tmp_path: Path) -> None:
    warehouse = Warehouse(database=str(tmp_path / "while.duckdb"))
    warehouse.replace_slice(prove.Delta, DAY, made(prove.Delta, {"kind": "overall"}))
    assert warehouse.create_views(VIEWS) == ["prove.latest"]


def test_the_map_counts_all_days_and_an_unknown_outcome_as_neither(warehouse: Warehouse) -> None:
    for day, outcomes in ((DAY, {"a": True, "b": None}), (NEXT_DAY, {"c": True, "d": False})):
        place = {**CELL, "category": "money"}
        warehouse.replace_slices(
            day,
            {
                watch.Conversations: made(
                    watch.Conversations,
                    *({"conversation_id": c, "incomplete": None} for c in outcomes),
                    day=day,
                ),
                watch.Situations: made(
                    watch.Situations,
                    *({**place, "conversation_id": c, "failed": failed} for c, failed in outcomes.items()),
                    day=day,
                ),
            },
        )
    (row,) = asked(warehouse, "FROM watch.map").to_dicts()
    assert (row["category"], row["tool"], row["tool_condition"]) == ("money", "refund", "timeout")
    assert (row["n"], row["n_graded"], row["failures"], row["n_incomplete"]) == (4, 3, 2, 0)
    assert row["failed_share"] == pytest.approx(2 / 3)
    assert row["example"] == "c"


def test_gates_count_the_rollouts_of_a_cut_with_what_was_kept_first(warehouse: Warehouse) -> None:
    gates = {"r1": "failed", "r2": "failed", "r3": "kept"}
    rows = [{"rollout_id": r, "cut": "sft", "gate": gate, "detail": r} for r, gate in gates.items()]
    warehouse.replace_slice(train.WhyDropped, DAY, made(train.WhyDropped, *rows))
    found = asked(warehouse, "SELECT gate, rollouts, example FROM train.gates")
    assert found.rows() == [("kept", 1, "r3"), ("failed", 2, "r1")]


def test_the_latest_proof_is_of_the_last_day_only_and_overall_comes_first(warehouse: Warehouse) -> None:
    for day in (DAY, NEXT_DAY):
        scopes = [
            {"scope": scope, "kind": kind}
            for kind, scope in (("guard", "leak"), ("category", "billing"), ("overall", "overall"))
        ]
        warehouse.replace_slice(prove.Delta, day, made(prove.Delta, *scopes, day=day))
    found = asked(warehouse, "SELECT day::VARCHAR, scope FROM prove.latest")
    assert found.rows() == [(NEXT_DAY, "overall"), (NEXT_DAY, "billing"), (NEXT_DAY, "leak")]


def test_history_has_a_row_a_day_with_or_without_a_decision(warehouse: Warehouse) -> None:
    for day in (DAY, NEXT_DAY):
        warehouse.replace_slice(
            prove.Delta, day, made(prove.Delta, {"kind": "overall", "scope": "overall"}, day=day)
        )
    warehouse.replace_slice(
        prove.Promotion, DAY, made(prove.Promotion, {"candidate": "p2", "promoted": True})
    )
    found = asked(warehouse, "SELECT day::VARCHAR, candidate, promoted FROM prove.history")
    assert found.rows() == [(DAY, "p2", True), (NEXT_DAY, None, None)]


@pytest.fixture(scope="module")
def trained(empty: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot: rollout r1 of scenario s1, asked for by a weak spot, in all four cuts; r2 of s2, asked for
    by none, in one."""
    scenario = {**CELL, "category": "money", "arm": "structured"}
    played = {"ended": "satisfied", "blame": "nobody", "policy_version": "p1", "lost": None}
    graded = {"no_verdict": None}
    slices: dict[type[Table], list[dict[str, Any]]] = {
        watch.Agent: [{"plays": "embedded", "policy_version": "p1", "policy_document_hash": "d1"}],
        watch.WeakSpots: [
            {"spot_id": "w1", "category": "weak", "tool": "pay", "state": "new", "failures": 3, "n": 4}
        ],
        simulate.Scenarios: [
            {**scenario, "scenario_id": "s1", "task_id": "t1", "spot_id": "w1"},
            {**scenario, "scenario_id": "s2", "task_id": "t2", "spot_id": None},
        ],
        simulate.Probes: [{**played, "rollout_id": "r1", "sample": 0}],
        simulate.Rollouts: [
            {**played, "rollout_id": "r1", "sample": 0},
            {**played, "rollout_id": "r2", "sample": 3},
        ],
        grade.Grades: [
            {**graded, "rollout_id": "r1", "scenario_id": "s1", "reward": 1.0, "reason": "all met"},
            {**graded, "rollout_id": "r2", "scenario_id": "s2", "reward": 0.0, "reason": "fault hidden"},
        ],
        train.Sft: [{"row_id": "x1", "rollout_id": "r1", **PLACE}],
        train.SftRandom: [{"row_id": "x3", "rollout_id": "r1", "split": "valid", "stage": "train"}],
        train.Dpo: [{"row_id": "x2", "chosen_rollout_id": "r1", "rejected_rollout_id": "r2", **PLACE}],
        train.Grpo: [{"rollout_id": "r1", "split": "train"}],
        train.RewardModel: [{"rollout_id": "r1", **PLACE}, {"rollout_id": "r2", **PLACE}],
        train.Policies: [{"policy_version": "p2", "parent": "p1", "method": "sft", **UNMEASURED}],
        prove.Promotion: [{"candidate": "p2", "promoted": True, "delta_id": "f00"}],
    }
    warehouse = Warehouse(database=str(shutil.copy(empty, tmp_path_factory.mktemp("trained"))))
    warehouse.replace_slices(DAY, {model: made(model, *rows) for model, rows in slices.items()})
    warehouse.create_views(VIEWS)
    return warehouse.publish()


def test_every_training_row_is_in_the_lineage_exactly_once(trained: Path) -> None:
    found = read_snapshot(trained, "SELECT cut, row_id FROM lineage.row ORDER BY ALL")
    assert found.rows() == [
        ("dpo", "x2"),
        ("grpo", "r1"),
        ("reward_model", "r1"),
        ("reward_model", "r2"),
        ("sft", "x1"),
        ("sft_random", "x3"),
    ]


def test_a_training_row_leads_back_to_the_traffic_and_the_policy_it_came_from(trained: Path) -> None:
    (row,) = read_snapshot(trained, "FROM lineage.row WHERE cut = 'sft'").to_dicts()
    expected = {
        **CELL,
        "rollout_id": "r1",
        "reward": 1.0,
        "grade_reason": "all met",
        "sample": 0,
        "policy_version": "p1",
        "scenario_id": "s1",
        "task_id": "t1",
        "category": "money",
        "arm": "structured",
        "spot_id": "w1",
        "spot_category": "weak",
        "spot_tool": "pay",
        "spot_failures": 3,
        "spot_n": 4,
        "policy_document_hash": "d1",
    }
    assert {name: row[name] for name in expected} == expected
    assert str(row["day"]) == DAY


def test_a_training_row_that_no_weak_spot_asked_for_is_there_without_one(trained: Path) -> None:
    (row,) = read_snapshot(trained, "FROM lineage.row WHERE rollout_id = 'r2'").to_dicts()
    assert (row["spot_id"], row["spot_tool"], row["sample"]) == (None, None, 3)


def test_coverage_so_far_says_since_when_each_pair_is_planned_played_and_shown(warehouse: Warehouse) -> None:
    pair: dict[str, Any] = {
        "axis_a": "tool",
        "value_a": "refund",
        "axis_b": "stance",
        "value_b": "hurried",
        "arm": "all",
    }
    other = pair | {"value_b": "unsure", "planned": True, "played": 0, "realised": 0}
    first = [pair | {"planned": True, "played": 3, "realised": 0}, other]
    second = [
        pair | {"planned": False, "played": 2, "realised": 1},
        pair | {"planned": False, "played": 2, "realised": 1, "arm": "structured"},
        other,
    ]
    warehouse.replace_slice(simulate.Coverage, DAY, made(simulate.Coverage, *first))
    warehouse.replace_slice(simulate.Coverage, NEXT_DAY, made(simulate.Coverage, *second, day=NEXT_DAY))
    found = asked(
        warehouse,
        """SELECT value_b, first_planned::VARCHAR, first_played::VARCHAR, first_realised::VARCHAR,
            played, realised
        FROM simulate.coverage_so_far""",
    )
    assert found.rows() == [
        ("unsure", DAY, None, None, 0, 0),
        ("hurried", DAY, DAY, NEXT_DAY, 5, 1),
    ]


def test_the_documented_query_leads_from_the_serving_policy_to_the_traffic_it_learnt_from(
    trained: Path,
) -> None:
    section = (REPOSITORY / "docs" / "training.md").read_text().split("### Where a policy comes from")[1]
    (row,) = read_snapshot(trained, section.split("```sql")[1].split("```")[0]).to_dicts()
    assert (row["policy_version"], row["parent"], row["method"]) == ("p2", "p1", "sft")
    assert (row["delta_id"], str(row["data_day"]), row["training_rows"]) == ("f00", DAY, 1)
    assert (row["spot_category"], row["spot_failures"], row["spot_n"]) == ("weak", 3, 4)
