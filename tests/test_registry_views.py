"""The views `train.serving` and `train.registry`, on days of promotions, refusals and rollbacks."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.example import PROJECT
from tests.policy_history import BASE, ENDPOINT, History, made, nights, nth, policy
from while_pipeline.ids import canonical_json
from while_pipeline.tables import prove
from while_pipeline.tables.base import ddl, table_name
from while_pipeline.tables.views import VIEWS
from while_pipeline.train.decide import promotion_row, rollback_row
from while_pipeline.train.registry import REGISTRY

A, B, C = policy(1.0), policy(2.0), policy(3.0)
REASON = "refunds twice"


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    """A database with the tables the views read, and the views."""
    connection = duckdb.connect()
    for model in (*REGISTRY.values(), prove.Delta):
        for statement in ddl(model):
            connection.execute(statement)
    for view in ("train.serving", "train.registry"):
        connection.execute(f"CREATE VIEW {view} AS {VIEWS[view]}")
    return connection


@pytest.fixture
def con(database: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    database.begin()
    yield database
    database.rollback()


def store(con: duckdb.DuckDBPyConnection, history: History, *deltas: pl.DataFrame) -> None:
    frames = [(REGISTRY[name], history.table(name)) for name in REGISTRY]
    for model, rows in [*frames, *((prove.Delta, rows) for rows in deltas)]:
        con.register("incoming", rows)
        con.execute(f"INSERT INTO {table_name(model)} BY NAME SELECT * FROM incoming")
        con.unregister("incoming")


def stretches(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return con.sql("SELECT first_day, last_day, policy_version, decided_by FROM train.serving").fetchall()


def states(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(con.sql("SELECT policy_version, state FROM train.registry").fetchall())


def row(con: duckdb.DuckDBPyConnection, version: str) -> dict[str, Any]:
    (found,) = con.sql("FROM train.registry WHERE policy_version = ?", params=[version]).pl().to_dicts()
    return found


# -- which policy served ------------------------------------------------------------------------------------


def test_nothing_ran_and_nothing_serves(con: duckdb.DuckDBPyConnection) -> None:
    assert stretches(con) == []
    assert states(con) == {}


def test_a_promotion_begins_a_stretch_the_day_after_and_a_refusal_none(
    con: duckdb.DuckDBPyConnection,
) -> None:
    store(con, nights((A, True), (B, False), (C, True)))
    assert stretches(con) == [
        (nth(0), nth(0), BASE.version, None),
        (nth(1), nth(2), A.version, "gate"),
        (nth(3), None, C.version, "gate"),
    ]
    assert states(con) == {
        BASE.version: "retired",
        A.version: "retired",
        B.version: "refused",
        C.version: "promoted",
    }


def test_what_people_decided_stands_with_their_reason(con: duckdb.DuckDBPyConnection) -> None:
    history = nights((A, True), (B, True))
    history.by_hand(nth(2), rollback_row(history.registry(), PROJECT, reason=REASON, decided_by="Ada"))
    store(con, history)
    (last,) = con.sql("FROM train.serving WHERE last_day IS NULL").pl().to_dicts()
    assert (last["policy_version"], last["action"], last["decided_by"]) == (A.version, "rollback", "Ada")
    assert (last["reason"], last["forced"]) == (REASON, False)
    assert states(con)[B.version] == "retired", "it was to serve"
    assert (row(con, A.version)["serves_from"], row(con, A.version)["served_until"]) == (nth(2), None)


def test_a_forced_promotion_says_so(con: duckdb.DuckDBPyConnection) -> None:
    history = nights((A, True), (B, False))
    history.by_hand(nth(2), promotion_row(history.registry(), PROJECT, B.version, reason=REASON, force=True))
    store(con, history)
    found = row(con, B.version)
    assert (found["state"], found["forced"], found["decided_by"]) == ("promoted", True, "person")


def test_of_two_decisions_for_a_day_the_last_one_holds(con: duckdb.DuckDBPyConnection) -> None:
    history = nights((A, True), (B, True))
    history.by_hand(nth(2), rollback_row(history.registry(), PROJECT, reason=REASON))
    history.by_hand(nth(2), promotion_row(history.registry(), PROJECT, B.version, reason="it was the world"))
    store(con, history)
    assert stretches(con)[-1][2] == B.version


def test_an_agent_of_the_projects_own_serves_without_a_decision(con: duckdb.DuckDBPyConnection) -> None:
    history = History()
    history.serve(nth(0), "m-own", plays="endpoint", model="qwen3")
    store(con, history)
    assert stretches(con) == [(nth(0), None, "m-own", None)]
    found = row(con, "m-own")
    assert (found["origin"], found["name"], found["place"]) == ("own", "qwen3", "while.yaml")
    assert (found["state"], found["weights_hash"]) == ("promoted", None)


moves = st.lists(
    st.tuples(
        st.sampled_from([A, B, C]),
        st.booleans(),
        st.lists(st.sampled_from(["rollback", "promote"]), max_size=2),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40)
@given(moves)
def test_the_views_say_what_the_registry_says_whatever_happened(
    database: duckdb.DuckDBPyConnection, told: list[tuple[Any, bool, list[str]]]
) -> None:
    history, served = History(), dict[dt.date, str]()
    for number, (weights, promoted, by_hand) in enumerate(told):
        registry, day = history.registry(), nth(number)
        served[day] = registry.serving_version(day) or BASE.version
        history.serve(day, served[day])
        history.fit(day, weights, served[day])
        history.decide(day, weights.version, promoted)
        for action in by_hand:
            now = history.registry()
            serving = now.standing(PROJECT)
            before = now.stack(serving)[:-1]
            if action == "rollback" and before:
                history.by_hand(nth(number + 1), rollback_row(now, PROJECT, reason=REASON))
            elif action == "promote" and weights.version != serving:
                made_row = promotion_row(now, PROJECT, weights.version, reason=REASON, force=True)
                history.by_hand(nth(number + 1), made_row)
    after, registry = nth(len(told)), history.registry()
    served[after] = registry.serving_version(after) or BASE.version
    database.begin()
    try:
        store(database, history)
        covered = {
            first + dt.timedelta(days=n): version
            for first, last, version, _ in stretches(database)
            for n in range(((last or after) - first).days + 1)
        }
        found = states(database)
    finally:
        database.rollback()
    assert covered == served
    assert [version for version, state in found.items() if state == "promoted"] == [served[after]]
    assert registry.stack(registry.standing(PROJECT))[-1] == served[after]
    assert found.keys() == set(registry.known)
    for version, state in found.items():
        ever = {event.version for event in registry.events} | set(served.values())
        assert (state in ("promoted", "retired")) == (version in ever)


# -- where a version comes from -----------------------------------------------------------------------------


def test_a_fitted_version_stands_with_its_data_and_its_proof(con: duckdb.DuckDBPyConnection) -> None:
    history = nights((A, True))
    proof = {"kind": "overall", "scope": "overall", "before": 0.5, "after": 0.7, "difference": 0.2}
    category = {"kind": "category", "scope": "money", "before": 0.1, "after": 0.9, "difference": 0.8}
    store(con, history, made(prove.Delta, nth(0), proof, category))
    found = row(con, A.version)
    assert (found["origin"], found["parent"], found["method"]) == ("fitted", BASE.version, "sft")
    assert (found["data_day"], found["data_cut"], found["place"]) == (nth(0), "sft", "train.policies.weights")
    assert (found["before"], found["after"], found["difference"]) == (0.5, 0.7, 0.2)
    assert (found["delta_id"], found["delta_day"], found["against"]) == ("1", nth(0), "1")
    assert (
        found["weights_hash"]
        == pl.DataFrame(con.sql("SELECT sha256(?) AS hash", params=[canonical_json(A.weights)]).pl())[
            "hash"
        ].item()
    )


def test_a_registered_model_that_nobody_decided_on_is_a_candidate(con: duckdb.DuckDBPyConnection) -> None:
    history = nights((A, True))
    history.register(nth(1), base_model="qwen3", checkpoint="/models/tuned", weights_hash="h", name="night 7")
    store(con, history)
    found = row(con, ENDPOINT.version)
    assert (found["origin"], found["name"], found["state"]) == ("registered", "night 7", "candidate")
    assert found["place"] == "tuned at http://127.0.0.1:1/v1; /models/tuned"
    assert (found["base_model"], found["weights_hash"], found["decided_by"]) == ("qwen3", "h", None)


def test_what_served_and_was_fitted_by_nothing_that_is_left_is_not_the_projects_own(
    con: duckdb.DuckDBPyConnection,
) -> None:
    history = nights((A, True), (B, False))
    history.forget("policies", nth(0))
    store(con, history)
    found, own = row(con, A.version), row(con, BASE.version)
    assert (found["origin"], found["name"], found["method"]) == ("served", A.version, None)
    assert (found["place"], found["day"]) == ("watch.agent.weights", nth(1))
    assert (own["origin"], own["method"]) == ("own", "embedded")


def test_a_version_fitted_twice_stands_once_with_its_newest_day(con: duckdb.DuckDBPyConnection) -> None:
    store(con, nights((A, False), (A, False)))
    assert row(con, A.version)["day"] == nth(1)
