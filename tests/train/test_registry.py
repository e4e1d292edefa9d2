from pathlib import Path

import duckdb
import pytest

from tests.example import PROJECT
from tests.policy_history import BASE, ENDPOINT, History, made, nights, nth, playing, policy
from while_pipeline.errors import ProjectError
from while_pipeline.snapshot import SnapshotError, snapshot_path
from while_pipeline.tables import train
from while_pipeline.tables.base import ddl, table_name
from while_pipeline.train.decide import promotion_row, rollback_row
from while_pipeline.train.registry import (
    REGISTRY,
    Registry,
    contender_of,
    published_registry,
    serving_policy,
    serving_weights,
    weights_from,
)
from while_pipeline.watch.agent import agent_row

A, B, C = policy(1.0), policy(2.0), policy(3.0)
THREE = ((A, True), (B, False), (C, True))


def serves(registry: Registry, number: int) -> object:
    return registry.serving(nth(number))


# -- what the gate decided ----------------------------------------------------------------------------------


def test_a_promotion_holds_from_the_day_after_and_a_refusal_changes_nothing() -> None:
    registry = nights(*THREE).registry()
    assert [serves(registry, day) for day in range(5)] == [None, A, A, C, C]


def test_the_order_of_the_rows_does_not_matter_the_days_do() -> None:
    told = nights(*THREE)
    turned = Registry(**{name: told.table(name).reverse() for name in REGISTRY})
    assert serves(turned, 5) == C


def test_a_policy_may_be_promoted_again() -> None:
    assert serves(nights(*THREE, (A, True)).registry(), 9) == A


def test_weights_read_back_to_the_same_version() -> None:
    row = nights((B, True)).table("policies").row(0, named=True)
    assert weights_from(row).version == B.version == row["policy_version"]


# -- what people decided ------------------------------------------------------------------------------------


def test_a_decision_by_hand_holds_from_its_day_and_outranks_the_gates_of_the_same_day() -> None:
    history = nights((A, True), (B, True))
    history.by_hand(nth(2), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    registry = history.registry()
    assert [serves(registry, day) for day in (1, 2, 3)] == [A, A, A]


def test_a_later_promotion_by_the_gate_follows_on_a_decision_by_hand() -> None:
    history = nights((A, True), (B, True))
    history.by_hand(nth(2), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    history.decide(nth(2), C.version, True)
    history.fit(nth(2), C)
    assert [serves(history.registry(), day) for day in (2, 3)] == [A, C]


def test_of_two_decisions_for_one_day_the_last_one_holds() -> None:
    history = nights((A, True), (B, True))
    history.by_hand(nth(2), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    history.by_hand(nth(2), promotion_row(history.registry(), PROJECT, B.version, reason="it was the world"))
    assert serves(history.registry(), 2) == B


def test_a_day_knows_nothing_of_what_is_decided_later() -> None:
    history = nights(*THREE)
    before = [serves(history.registry(), day) for day in range(3)]
    history.by_hand(nth(3), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    assert [serves(history.registry(), day) for day in range(3)] == before


def test_a_promoted_model_behind_an_endpoint_serves_with_how_it_is_asked() -> None:
    history = nights((A, True))
    history.register(nth(1))
    history.decide(nth(1), ENDPOINT.version, True)
    assert serves(history.registry(), 2) == ENDPOINT


def test_a_version_that_is_stored_no_more_is_named_with_those_that_are() -> None:
    history = nights((A, True))
    history.decide(nth(1), "p-gone", True)
    with pytest.raises(ProjectError, match=rf"'p-gone': no stored day holds it; .*{A.version}"):
        history.registry().serving(nth(2))


# -- the agent as the project describes it ------------------------------------------------------------------


def test_while_nothing_is_promoted_the_project_says_who_serves() -> None:
    registry = nights((A, False)).registry()
    assert serves(registry, 1) is None
    assert registry.standing(PROJECT) == BASE.version
    assert registry.standing(playing(plays="callable", callable="shop:answer")).startswith("c-")


def test_an_agent_of_the_projects_own_has_nothing_here_to_play_with() -> None:
    history = History()
    history.serve(nth(0), "m-own", plays="endpoint", model="qwen3")
    assert history.registry().policy("m-own") is None


# -- days that ran again ------------------------------------------------------------------------------------


def late() -> History:
    """Two nights; traffic came late, and the first ran again: it now promotes C where it had promoted A."""
    history = nights((A, True), (B, True))
    for field in ("policies", "promotions"):
        history.forget(field, nth(0))
    history.fit(nth(0), C)
    history.decide(nth(0), C.version, True)
    return history


def test_what_served_plays_with_its_own_weights_though_its_fit_was_replaced() -> None:
    assert late().registry().policy(A.version) == A


def test_a_rollback_goes_back_to_what_served_not_to_what_would_have() -> None:
    registry = late().registry()
    assert registry.stack(registry.standing(PROJECT)) == [BASE.version, A.version, B.version]


def test_a_model_that_served_is_asked_as_it_was_though_nothing_else_is_stored_of_it() -> None:
    history = nights((A, True))
    history.add("agents", nth(1), **agent_row(PROJECT, ENDPOINT))
    assert history.registry().policy(ENDPOINT.version) == ENDPOINT


def test_a_promoted_version_that_is_stored_no_more_stands_until_another_one_is_promoted() -> None:
    history = nights((A, True))
    history.decide(nth(1), "p-gone", True)
    assert history.registry().standing(PROJECT) == "p-gone"


# -- the stack of rollbacks ---------------------------------------------------------------------------------


def test_rollbacks_in_a_row_go_back_one_promotion_each() -> None:
    history = nights((A, True), (B, True), (C, True))
    gone_back = []
    for number in range(3, 6):
        row = rollback_row(history.registry(), PROJECT, reason="one further")
        gone_back.append(row["policy_version"])
        history.by_hand(nth(number), row)
        history.serve(nth(number), row["policy_version"])
    assert gone_back == [B.version, A.version, BASE.version]


def test_what_was_promoted_after_a_rollback_rolls_back_to_where_that_had_gone() -> None:
    history = nights((A, True), (B, True))
    history.by_hand(nth(2), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    history.serve(nth(2), A.version)
    history.fit(nth(2), C)
    history.decide(nth(2), C.version, True)
    assert history.registry().stack(C.version) == [BASE.version, A.version, C.version]


def test_what_was_promoted_and_replaced_before_it_served_is_nothing_to_go_back_to() -> None:
    history = nights((A, True), (B, False), (C, False))
    for version in (B.version, C.version):
        row = promotion_row(history.registry(), PROJECT, version, reason="support asks", force=True)
        history.by_hand(nth(3), row)
    assert history.registry().stack(C.version) == [BASE.version, A.version, C.version]


# -- who stands before the gate -----------------------------------------------------------------------------


def test_a_registered_model_stands_in_place_of_the_fitted_one() -> None:
    history = nights((A, True))
    history.register(nth(0), tools_hash="t")
    fitted = contender_of(history.table("policies"), made(train.Registered, nth(0)))
    registered = contender_of(history.table("policies"), history.table("registered"))
    assert fitted is not None
    assert registered is not None
    assert (fitted.version, fitted.policy, fitted.tools_hash) == (A.version, A, None)
    assert (registered.version, registered.policy, registered.tools_hash) == (ENDPOINT.version, ENDPOINT, "t")


def test_a_day_without_either_has_nobody() -> None:
    assert contender_of(made(train.Policies, nth(0)), made(train.Registered, nth(0))) is None


# -- from the published snapshot ----------------------------------------------------------------------------


def published(folder: Path, history: History, *without: str) -> Path:
    with duckdb.connect(snapshot_path(folder / "while.duckdb")) as connection:
        for name, model in REGISTRY.items():
            if name in without:
                continue
            for statement in ddl(model):
                connection.execute(statement)
            connection.register("incoming", history.table(name))
            connection.execute(f"INSERT INTO {table_name(model)} BY NAME SELECT * FROM incoming")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = nights(*THREE)
    history.by_hand(nth(3), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    return published(tmp_path_factory.mktemp("data"), history)


@pytest.mark.parametrize(("number", "weights"), [(-1, BASE), (0, BASE), (1, A), (2, A), (3, A), (2_000, A)])
def test_a_day_is_served_by_what_holds_on_it(data: Path, number: int, weights: object) -> None:
    assert serving_weights(nth(number).isoformat(), data) == weights


def test_tables_that_no_run_wrote_yet_have_no_rows(tmp_path: Path) -> None:
    folder = published(tmp_path, nights(*THREE), "decisions", "registered")
    assert serving_weights(nth(3).isoformat(), folder) == C
    assert published_registry(folder).decisions.is_empty()


def test_who_needs_weights_is_told_that_a_model_elsewhere_serves(tmp_path: Path) -> None:
    history = nights((A, True))
    history.register(nth(1))
    history.decide(nth(1), ENDPOINT.version, True)
    folder = published(tmp_path, history)
    assert serving_policy(nth(2).isoformat(), folder) == ENDPOINT
    with pytest.raises(ProjectError, match=r"no weights here: it is tuned at http://127\.0\.0\.1:1/v1"):
        serving_weights(nth(2).isoformat(), folder)


def test_two_registries_are_equal_when_they_hold_the_same_rows_in_whatever_order(tmp_path: Path) -> None:
    history = nights(*THREE)
    folder = published(tmp_path, history)
    assert published_registry(folder).equals(history.registry())
    history.by_hand(nth(3), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    assert not published_registry(folder).equals(history.registry())


def test_without_a_snapshot_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="while-pipeline run"):
        serving_weights("2026-03-02", tmp_path)
