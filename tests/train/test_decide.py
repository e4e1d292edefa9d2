from collections.abc import Callable
from typing import Any

import pytest

from tests.example import PROJECT
from tests.policy_history import BASE, ENDPOINT, History, made, nights, nth, playing, policy
from while_pipeline.errors import ProjectError
from while_pipeline.project import Project
from while_pipeline.tables import prove
from while_pipeline.train.decide import holds_from, promotion_row, rollback_row
from while_pipeline.train.registry import Registry
from while_pipeline.watch.agent import agent_row

A, B, C = policy(1.0), policy(2.0), policy(3.0)


def promoted(history: History, version: str, **more: Any) -> dict[str, Any]:
    row = {"reason": "asked for by support", "project": PROJECT, **more}
    return promotion_row(history.registry(), version=version, **row)


def rolled_back(history: History, to: str | None = None, project: Project = PROJECT) -> dict[str, Any]:
    return rollback_row(history.registry(), project, to, reason="refunds twice")


def test_a_decision_holds_from_the_day_after_the_last_one_that_ran() -> None:
    assert holds_from(nights((A, True), (B, False)).registry()) == nth(2)


def test_a_version_that_passed_its_gate_and_was_rolled_back_may_serve_again() -> None:
    history = nights((A, True), (B, True))
    history.by_hand(nth(2), rolled_back(history))
    row = promoted(history, B.version, decided_by="Ada")
    assert (row["action"], row["policy_version"], row["replaces"]) == ("promote", B.version, A.version)
    assert (row["decided_by"], row["forced"], row["position"]) == ("Ada", False, 1)
    assert made(prove.Decisions, nth(2), row).height == 1


def test_a_refused_version_is_promoted_by_force_only_and_says_so() -> None:
    history = nights((A, True), (B, False))
    with pytest.raises(ProjectError, match=rf"'{B.version}': it was refused .*the figures.*--force"):
        promoted(history, B.version)
    assert promoted(history, B.version, force=True)["forced"]


def test_a_version_that_never_stood_before_the_gate_is_promoted_by_force_only() -> None:
    history = nights((A, True))
    history.register(nth(0))
    with pytest.raises(ProjectError, match="never stood before the delta gate"):
        promoted(history, ENDPOINT.version)
    assert promoted(history, ENDPOINT.version, force=True)["forced"]


def test_force_is_recorded_only_where_it_was_needed() -> None:
    history = nights((A, True), (B, True))
    assert not promoted(history, A.version, force=True)["forced"]


def test_what_the_gate_said_last_counts() -> None:
    history = nights((A, True), (B, True), (A, False))
    with pytest.raises(ProjectError, match="refused by the delta gate"):
        promoted(history, A.version)


@pytest.mark.parametrize("decide", [promoted, rolled_back])
def test_an_unknown_version_is_named_with_the_known_ones(decide: Callable[..., dict[str, Any]]) -> None:
    history = nights((A, True), (B, False))
    with pytest.raises(ProjectError) as error:
        decide(history, "p-typo")
    said = str(error.value)
    assert all(version in said for version in ("p-typo", A.version, B.version, BASE.version))


@pytest.mark.parametrize("decide", [promoted, rolled_back])
def test_the_serving_version_is_not_decided_for_again(decide: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(ProjectError, match="serves already"):
        decide(nights((A, True)), A.version)


def test_a_rollback_may_name_any_version_that_served() -> None:
    row = rolled_back(nights((A, True), (B, True), (C, True)), BASE.version)
    assert (row["action"], row["policy_version"], row["replaces"]) == ("rollback", BASE.version, C.version)


def test_a_rollback_to_a_version_that_never_served_is_a_promotion_and_refused() -> None:
    with pytest.raises(ProjectError, match=f"never served; try while-pipeline promote {B.version}"):
        rolled_back(nights((A, True), (B, False)), B.version)


def test_a_version_that_was_promoted_and_replaced_before_it_served_never_served() -> None:
    history = nights((A, True), (B, False), (C, False))
    for version in (B.version, C.version):
        history.by_hand(nth(3), promoted(history, version, force=True))
    with pytest.raises(ProjectError, match="never served"):
        rolled_back(history, B.version)
    assert rolled_back(history)["policy_version"] == A.version


def test_a_rollback_to_what_serves_by_force_is_forced_until_it_passes_its_gate() -> None:
    history = nights((A, True), (B, False))
    history.by_hand(nth(2), promoted(history, B.version, force=True))
    history.serve(nth(2), B.version)
    history.fit(nth(2), C)
    history.decide(nth(2), C.version, True)
    assert rolled_back(history, B.version)["forced"]
    assert not rolled_back(history, A.version)["forced"]
    assert not rolled_back(history, BASE.version)["forced"]
    history.decide(nth(3), B.version, True)
    history.serve(nth(3), C.version)
    history.by_hand(nth(4), promoted(history, C.version))
    assert not rolled_back(history, B.version)["forced"]


# -- a decision that the settings would not honour ----------------------------------------------------------

CALLABLE = {"plays": "callable", "callable": "shop:answer"}


@pytest.mark.parametrize("decide", [promoted, rolled_back])
def test_weights_are_not_decided_for_where_a_program_plays(decide: Callable[..., dict[str, Any]]) -> None:
    history = nights((A, True), (B, True))
    with pytest.raises(ProjectError, match=r"c-.* would play in its place; .*agent\.plays is callable"):
        decide(history, A.version, project=playing(**CALLABLE))


def test_a_model_behind_an_endpoint_serves_whatever_the_settings_say() -> None:
    history = nights((A, True))
    history.register(nth(0))
    row = promoted(history, ENDPOINT.version, force=True, project=playing(**CALLABLE))
    assert row["policy_version"] == ENDPOINT.version


def test_an_agent_that_the_project_describes_no_more_is_not_rolled_back_to() -> None:
    before, now = (ENDPOINT.model_copy(update={"model": name}) for name in ("qwen3", "gemma"))
    then, today = (playing(plays="endpoint", endpoint=own.model_dump()) for own in (before, now))
    history = nights()
    history.add("agents", nth(0), **agent_row(then, None))
    history.register(nth(0))
    history.decide(nth(0), ENDPOINT.version, True)
    history.add("agents", nth(1), **agent_row(then, ENDPOINT))
    assert rolled_back(history, project=then)["policy_version"] == before.version
    with pytest.raises(
        ProjectError, match=f"{now.version} would play in its place; .*as while.yaml described"
    ):
        rolled_back(history, project=today)


def test_what_is_stored_no_more_does_not_stop_another_promotion() -> None:
    history = nights((A, True))
    history.decide(nth(0), "p-gone", True)
    assert promoted(history, A.version)["replaces"] == "p-gone"


# -- what no decision is taken without ----------------------------------------------------------------------


def test_before_any_promotion_there_is_nothing_to_roll_back_to() -> None:
    with pytest.raises(ProjectError, match="nothing served before it"):
        rolled_back(nights((A, False)))


@pytest.mark.parametrize("decide", [promoted, rolled_back])
def test_before_any_day_has_run_nothing_is_decided(decide: Callable[..., dict[str, Any]]) -> None:
    history = History()
    history.fit(nth(0), A)
    with pytest.raises(ProjectError, match="while-pipeline run"):
        decide(history, A.version)


@pytest.mark.parametrize(("reason", "by"), [(" ", "Ada"), ("refunds twice", "")])
def test_a_decision_without_a_reason_or_a_name_is_none(reason: str, by: str) -> None:
    registry: Registry = nights((A, True)).registry()
    with pytest.raises(ProjectError, match="it is empty"):
        rollback_row(registry, PROJECT, reason=reason, decided_by=by)


def test_equal_decisions_of_different_turns_have_different_ids_and_the_same_one_the_same() -> None:
    history = nights((A, True), (B, True))
    first = rolled_back(history)
    assert first == rolled_back(history)
    history.by_hand(nth(2), first)
    history.by_hand(nth(2), promoted(history, B.version))
    assert rolled_back(history)["decision_id"] != first["decision_id"]
