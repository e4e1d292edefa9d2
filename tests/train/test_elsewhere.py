import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.example import PROJECT
from tests.policy_history import ENDPOINT, History, made, nights, nth, playing, policy
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.served import ServedModel
from while_pipeline.errors import ProjectError
from while_pipeline.ids import content_id
from while_pipeline.project import Project
from while_pipeline.tables import train
from while_pipeline.train.decide import promotion_row, rollback_row
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
from while_pipeline.train.registry import contender_of, policy_from

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
    day: int = 1,
    **claims: Any,
) -> dict[str, Any]:
    registry = (history or nights((A, True))).registry()
    return registered_row(registry, project, ENDPOINT, served, Claims(**claims), nth(day))


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
    assert undecided(history.registry(), nth(1)).version == ENDPOINT.version
    with pytest.raises(ProjectError, match="no model is registered"):
        undecided(history.registry(), nth(2))
    history.decide(nth(1), ENDPOINT.version, False)
    with pytest.raises(ProjectError, match="what was decided stays"):
        undecided(history.registry(), nth(1))


def test_a_registration_that_people_promoted_by_force_stays_known() -> None:
    history = nights((A, True))
    history.register(nth(1))
    row = promotion_row(history.registry(), PROJECT, ENDPOINT.version, reason="support asks", force=True)
    history.by_hand(nth(1), row)
    with pytest.raises(ProjectError, match="promoted by hand"):
        undecided(history.registry(), nth(1))


def test_what_is_taken_back_says_whose_answers_may_be_anothers(tmp_path: Path) -> None:
    for checkpoint, known in ((None, True), (weights_in(tmp_path / "a", b"1"), False)):
        history = nights((A, True))
        history.add("registered", nth(1), **row(checkpoint=checkpoint))
        assert (undecided(history.registry(), nth(1)).unhashed is not None) == known


# -- what is registered -------------------------------------------------------------------------------------


def test_a_model_is_registered_with_what_is_claimed_and_no_key() -> None:
    found = row(name="night 7", method="dpo")
    assert made(train.Registered, nth(1), found).height == 1
    assert (found["name"], found["method"]) == ("night 7", "dpo")
    assert (found["model"], found["base_model"], found["parent"]) == ("tuned", "qwen3", None)
    assert (found["tools_hash"], found["policy_document_hash"]) == (TOOLS, DOCUMENT)


def test_a_model_that_its_server_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(ProjectError, match=r"'tuned': .* does not serve it; it has llama, gemma"):
        row(served=(ServedModel(name="llama", parent=None), ServedModel(name="gemma", parent=None)))


def test_a_server_without_a_list_is_believed() -> None:
    assert row(served=None)["base_model"] is None


# -- where it is asked --------------------------------------------------------------------------------------


def test_a_model_is_not_asked_where_the_serving_one_is() -> None:
    history = nights((A, True))
    history.register(nth(1))
    history.decide(nth(1), ENDPOINT.version, True)
    with pytest.raises(ProjectError, match="serves already, is asked under that name"):
        row(history, checkpoint=None, name="other weights")
    with pytest.raises(ProjectError, match="serves already, is asked under that name"):
        row(History(), project=playing(plays="endpoint", endpoint=ENDPOINT.model_dump()))


# -- which weights answer -----------------------------------------------------------------------------------


def version(day: int = 1, **claims: Any) -> str:
    return str(row(day=day, **claims)["policy_version"])


def weights_in(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(content)
    return folder


def test_other_weights_at_the_same_address_are_another_version(tmp_path: Path) -> None:
    one, other, again = (
        weights_in(tmp_path / name, content) for name, content in (("a", b"1"), ("b", b"2"), ("c", b"1"))
    )
    assert version(checkpoint=one) == version(checkpoint=again) != version(checkpoint=other)
    assert version(checkpoint=one, day=2, name="night 8") == version(checkpoint=one)


def test_without_a_checkpoint_each_registration_is_of_weights_of_its_own() -> None:
    assert version() == version()
    assert len({version(), version(day=2), version(name="night 8")}) == 3


def test_the_row_holds_how_its_own_weights_are_asked() -> None:
    found = row()
    registered = policy_from(found)
    assert isinstance(registered, EndpointSettings)
    assert registered.version == found["policy_version"] != ENDPOINT.version
    assert registered.model_copy(update={"weights": None}) == ENDPOINT


def test_a_verdict_on_other_weights_promotes_nothing(tmp_path: Path) -> None:
    history = nights((A, True))
    for number, content in ((1, b"1"), (2, b"2")):
        history.serve(nth(number), A.version)
        found = row(history, checkpoint=weights_in(tmp_path / str(number), content), day=number)
        history.add("registered", nth(number), **found)
        if number == 1:
            history.decide(nth(1), found["policy_version"], True)
            history.by_hand(nth(2), rollback_row(history.registry(), PROJECT, reason="refunds twice"))
    with pytest.raises(ProjectError, match="never stood before the delta gate"):
        promotion_row(history.registry(), PROJECT, found["policy_version"], reason="support asks")


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
