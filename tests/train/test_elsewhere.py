import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.example import PROJECT
from tests.policy_history import BASE, ENDPOINT, History, made, nights, nth, policy
from while_pipeline.agents.served import ServedModel
from while_pipeline.errors import ProjectError
from while_pipeline.ids import content_id
from while_pipeline.project import Project
from while_pipeline.settings import AgentSettings
from while_pipeline.tables import train
from while_pipeline.train.elsewhere import (
    Claims,
    candidate_day,
    files_hash,
    read_manifest,
    registered_row,
    require_same_agent,
    undecided,
)
from while_pipeline.train.manifest import Manifest
from while_pipeline.train.registry import contender_of

A, B = policy(1.0), policy(2.0)
TOOLS = content_id([tool.openai() for tool in PROJECT.tools])
DOCUMENT = content_id(PROJECT.policy_document.text)
SERVED = (ServedModel(name="tuned", parent="qwen3"), ServedModel(name="qwen3", parent=None))


def played_by_model() -> History:
    """A project whose own agent is the model qwen3 behind an endpoint."""
    history = History()
    history.serve(nth(0), "m-own", plays="endpoint", model="qwen3", tools_hash=TOOLS)
    return history


def row(
    history: History | None = None,
    served: tuple[ServedModel, ...] | None = SERVED,
    project: Project = PROJECT,
    **claims: Any,
) -> dict[str, Any]:
    registry = (history or nights((A, True))).registry()
    return registered_row(registry, project, ENDPOINT, served, Claims(**claims))


# -- whose candidate ----------------------------------------------------------------------------------------


def test_a_decided_day_is_over_and_the_next_free_one_is_taken() -> None:
    history = nights((A, True), (B, False))
    assert candidate_day(history.registry(), None) == nth(2)
    history.register(nth(2))
    assert candidate_day(history.registry(), None) == nth(3)


def test_the_last_day_is_taken_when_it_ran_without_a_candidate() -> None:
    assert candidate_day(played_by_model().registry(), None) == nth(0)


@pytest.mark.parametrize(
    ("number", "why"), [(0, "days up to"), (1, "it was decided on"), (2, "is registered for it")]
)
def test_a_day_that_cannot_have_another_candidate_is_refused(number: int, why: str) -> None:
    history = nights((A, True), (B, False))
    history.register(nth(2))
    with pytest.raises(ProjectError, match=why):
        candidate_day(history.registry(), nth(number))
    assert candidate_day(history.registry(), nth(3)) == nth(3)


def test_without_a_day_that_ran_one_must_be_named() -> None:
    with pytest.raises(ProjectError, match="--day"):
        candidate_day(History().registry(), None)
    assert candidate_day(History().registry(), nth(4)) == nth(4)


def test_only_an_undecided_registration_can_be_taken_back() -> None:
    history = nights((A, True))
    history.register(nth(1))
    assert undecided(history.registry(), nth(1)) == ENDPOINT.version
    with pytest.raises(ProjectError, match="no model is registered"):
        undecided(history.registry(), nth(2))
    history.decide(nth(1), ENDPOINT.version, False)
    with pytest.raises(ProjectError, match="what was decided stays"):
        undecided(history.registry(), nth(1))


# -- what is registered -------------------------------------------------------------------------------------


def test_a_model_is_registered_with_what_is_claimed_and_no_key() -> None:
    found = row(name="night 7", method="dpo")
    assert made(train.Registered, nth(1), found).height == 1
    assert (found["policy_version"], found["name"], found["method"]) == (ENDPOINT.version, "night 7", "dpo")
    assert (found["model"], found["base_model"], found["parent"]) == ("tuned", "qwen3", None)
    assert (found["tools_hash"], found["policy_document_hash"]) == (TOOLS, DOCUMENT)


def test_a_model_that_its_server_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(ProjectError, match=r"'tuned': .* does not serve it; it has llama, gemma"):
        row(served=(ServedModel(name="llama", parent=None), ServedModel(name="gemma", parent=None)))


def test_a_server_without_a_list_is_believed() -> None:
    assert row(served=None)["base_model"] is None


def test_the_model_that_serves_already_is_no_candidate() -> None:
    history = nights((A, True))
    history.register(nth(1))
    history.decide(nth(1), ENDPOINT.version, True)
    with pytest.raises(ProjectError, match="serves already"):
        row(history)
    own = AgentSettings.model_validate({"plays": "endpoint", "endpoint": ENDPOINT.model_dump()})
    project = replace(PROJECT, settings=PROJECT.settings.model_copy(update={"agent": own}))
    with pytest.raises(ProjectError, match="serves already"):
        row(played_by_model(), project=project)


# -- its base model -----------------------------------------------------------------------------------------


def test_a_model_of_the_serving_ones_base_has_that_for_its_parent() -> None:
    assert row(played_by_model())["parent"] == "m-own"


@pytest.mark.parametrize("claims", [{}, {"parent": "m-own"}])
def test_a_model_of_another_base_is_refused_and_both_are_named(claims: dict[str, Any]) -> None:
    with pytest.raises(ProjectError, match="'llama': its parent m-own is made of qwen3; --foreign"):
        row(played_by_model(), base_model="llama", **claims)


def test_a_foreign_model_may_be_of_any_base_and_has_no_parent() -> None:
    found = row(played_by_model(), base_model="llama", foreign=True)
    assert (found["base_model"], found["parent"]) == ("llama", None)
    with pytest.raises(ProjectError, match="foreign model has none"):
        row(played_by_model(), foreign=True, parent="m-own")


def test_a_parent_is_believed_only_with_a_base() -> None:
    with pytest.raises(ProjectError, match="--base-model"):
        row(played_by_model(), served=None, parent="m-own")
    assert row(played_by_model(), served=None)["parent"] is None


def test_no_language_model_descends_from_the_embedded_policy() -> None:
    with pytest.raises(ProjectError, match="no language model"):
        row(parent=A.version)


def test_a_model_may_descend_from_one_registered_before() -> None:
    history = nights((A, True))
    first = ENDPOINT.model_copy(update={"model": "first"})
    history.register(nth(0), first, base_model="qwen3")
    for base in ("first", "qwen3"):
        assert row(history, base_model=base, parent=first.version)["parent"] == first.version


def test_an_unknown_parent_is_named_with_the_known_ones() -> None:
    with pytest.raises(ProjectError, match=f"'p-typo'.*{BASE.version}"):
        row(parent="p-typo")


# -- its data and its weights -------------------------------------------------------------------------------


def manifest(version: str = "m-own", number: int = 0) -> Manifest:
    return Manifest.model_construct(
        id="manifest-1", cut="sft", day=nth(number).isoformat(), policy_version=version
    )


def trained(**changed: str) -> History:
    history = History()
    told = {"tools_hash": TOOLS, "policy_document_hash": DOCUMENT, **changed}
    history.serve(nth(0), "m-own", plays="endpoint", model="qwen3", **told)
    return history


def test_the_manifest_of_its_data_says_which_cut_of_which_day_it_learnt_from() -> None:
    found = row(trained(), manifest=manifest())
    assert (found["data_hash"], found["data_day"], found["data_cut"]) == ("manifest-1", nth(0), "sft")


@pytest.mark.parametrize(
    ("changed", "what"), [("tools_hash", "tools"), ("policy_document_hash", "policy document")]
)
def test_a_model_trained_on_other_tools_or_rules_is_refused(changed: str, what: str) -> None:
    with pytest.raises(ProjectError, match=f"the {what} of its day .* differ from the project's"):
        row(trained(**{changed: "other"}), manifest=manifest())


@pytest.mark.parametrize("other", [manifest("p-elsewhere"), manifest(number=5)])
def test_a_manifest_of_another_projects_data_is_refused(other: Manifest) -> None:
    with pytest.raises(ProjectError, match="no such day is stored here"):
        row(trained(), manifest=other)


def test_what_is_no_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"cut": "sft"}')
    with pytest.raises(ProjectError, match=r"manifest\.json: id .*no manifest of an exported cut"):
        read_manifest(tmp_path / "manifest.json")


def test_the_hash_of_a_checkpoint_is_of_its_files_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "model.bin").write_bytes(b"weights")
    line = f"{hashlib.sha256(b'weights').hexdigest()}  model.bin\n"
    assert files_hash(tmp_path / "one") == hashlib.sha256(line.encode()).hexdigest()
    assert files_hash(tmp_path / "one") == files_hash(tmp_path / "one" / "model.bin")
    whole = files_hash(tmp_path)
    (tmp_path / "one" / "model.bin").rename(tmp_path / "one" / "other.bin")
    assert files_hash(tmp_path) != whole
    assert row(checkpoint=tmp_path)["weights_hash"] == files_hash(tmp_path)


def test_an_empty_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="no file to hash"):
        row(checkpoint=tmp_path)


# -- on its day ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["tools", "policy_document"])
def test_tools_that_changed_since_it_was_registered_stop_the_trial(what: str) -> None:
    history = nights((A, True))
    history.register(nth(1), tools_hash="t", policy_document_hash="d")
    contender = contender_of(made(train.Policies, nth(1)), history.table("registered"))
    assert contender is not None
    agent = {"tools_hash": "t", "policy_document_hash": "d"}
    require_same_agent(contender, agent)
    with pytest.raises(ProjectError, match=f"the {what.replace('_', ' ')} changed since it was registered"):
        require_same_agent(contender, {**agent, f"{what}_hash": "new"})
