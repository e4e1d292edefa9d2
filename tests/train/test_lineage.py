"""What a model was trained from: who is believed, and what is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.example import PROJECT
from tests.policy_history import BASE, ENDPOINT, History, nights, nth, playing, policy
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.errors import ProjectError
from while_pipeline.project import Project
from while_pipeline.train.lineage import Base, Descent, Told, descent_of, read_told

A = policy(1.0)
QWEN = EndpointSettings(base_url="http://127.0.0.1:1/v1", model="qwen3")
MODEL = playing(plays="endpoint", endpoint=QWEN.model_dump())
"""A project whose own agent is the model qwen3 behind an endpoint."""
SERVER = Base("qwen3", "server")


def descent(
    history: History | None = None,
    project: Project = MODEL,
    *,
    told: Told | None = None,
    server: Base | None = None,
    base_model: str | None = None,
    parent: str | None = None,
    another_base: bool = False,
) -> Descent:
    return descent_of(
        (history or History()).registry(),
        project,
        told or Told(),
        server,
        base_model=base_model,
        parent=parent,
        another_base=another_base,
    )


def tuned(**row: Any) -> History:
    """The model `tuned`, made of qwen3, serves."""
    history = nights((A, False))
    history.register(nth(0), **{"base_model": "qwen3", "weights_hash": "w-tuned", **row})
    history.decide(nth(0), ENDPOINT.version, True)
    return history


def checkpoint(folder: Path, training: Mapping[str, Any] | None = None, **files: Mapping[str, Any]) -> Path:
    (folder / "model").mkdir(parents=True)
    for name, content in files.items():
        (folder / "model" / f"{name}.json").write_text(json.dumps(content))
    if training is not None:
        (folder / "training.json").write_text(json.dumps(training))
    return folder / "model"


# -- who is believed ----------------------------------------------------------------------------------------


def test_a_model_of_the_serving_ones_base_has_that_for_its_parent() -> None:
    assert descent(server=SERVER) == Descent("qwen3", QWEN.version)
    for base in ("tuned", "qwen3"):
        assert descent(tuned(), base_model=base) == Descent(base, ENDPOINT.version)


def test_people_are_believed_before_the_checkpoint_and_that_before_the_server() -> None:
    told = Told(base=Base("/models/qwen3", "adapter_config.json"))
    assert descent(told=told, server=Base("llama", "server"), base_model="qwen3").base_model == "qwen3"
    with pytest.raises(ProjectError, match=r"'/models/qwen3': so its adapter_config\.json says"):
        descent(told=told, server=SERVER)


def test_weights_that_a_training_of_ours_began_with_prove_the_parent_they_were_registered_as() -> None:
    told = Told(trained_from="w-tuned", base=Base("/runs/sft/model", "config.json"))
    assert descent(tuned(), told=told) == Descent("qwen3", ENDPOINT.version)
    with pytest.raises(ProjectError, match=f"says that it was trained from {ENDPOINT.version}"):
        descent(tuned(), told=told, parent=A.version)
    with pytest.raises(ProjectError, match="another base has none here"):
        descent(tuned(), told=told, another_base=True)


def test_where_no_language_model_serves_nothing_need_be_said() -> None:
    assert descent(nights((A, True)), PROJECT) == Descent(None, None)
    assert descent(nights((A, True)), PROJECT, server=SERVER) == Descent("qwen3", None)


# -- what is refused ----------------------------------------------------------------------------------------


def test_where_a_language_model_serves_a_base_that_nobody_names_is_asked_for() -> None:
    for history in (None, tuned()):
        with pytest.raises(
            ProjectError, match=r"nothing says what this one was trained from.*--another-base"
        ):
            descent(history)


@pytest.mark.parametrize(
    "said",
    [
        {"base_model": "llama"},
        {"server": Base("llama", "server")},
        {"told": Told(base=Base("llama", "config.json"))},
        {"base_model": "llama", "parent": QWEN.version},
    ],
)
def test_a_model_of_another_base_is_refused_whoever_says_so(said: dict[str, Any]) -> None:
    history = History()
    history.serve(nth(0), QWEN.version, plays="endpoint", model="qwen3")
    with pytest.raises(ProjectError, match=f"'llama': .*{QWEN.version} is made of qwen3; --another-base"):
        descent(history, **said)


def test_a_network_of_another_shape_is_of_another_base_whatever_its_name() -> None:
    history = tuned(architecture="qwen3 1024x28")
    told = Told(architecture="qwen3 2048x28")
    with pytest.raises(ProjectError, match=r"it is qwen3 2048x28, and its parent .* qwen3 1024x28"):
        descent(history, told=told, base_model="qwen3")
    assert descent(history, told=Told(architecture="qwen3 1024x28"), base_model="qwen3").parent


def test_another_base_is_a_choice_when_it_is_said_and_has_no_parent() -> None:
    assert descent(base_model="llama", another_base=True) == Descent("llama", None)
    assert descent(another_base=True) == Descent(None, None)
    with pytest.raises(ProjectError, match="another base has none here"):
        descent(parent=QWEN.version, another_base=True)


def test_no_language_model_descends_from_the_embedded_policy() -> None:
    with pytest.raises(ProjectError, match="no language model"):
        descent(nights((A, True)), PROJECT, parent=A.version)


def test_an_unknown_parent_is_named_with_the_known_ones() -> None:
    with pytest.raises(ProjectError, match=f"'p-typo'.*{BASE.version}"):
        descent(nights((A, True)), PROJECT, parent="p-typo")


# -- what a checkpoint says of itself -----------------------------------------------------------------------


def test_an_adapter_names_its_base_and_a_config_may(tmp_path: Path) -> None:
    config = {"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "_name_or_path": "b"}
    whole = checkpoint(tmp_path / "whole", config=config)
    assert read_told(whole, "w") == Told(Base("b", "config.json"), None, "qwen3 1024x28")
    adapter = checkpoint(tmp_path / "lora", config=config, adapter_config={"base_model_name_or_path": "a"})
    assert read_told(adapter, "w").base == Base("a", "adapter_config.json")
    assert read_told(whole / "config.json", "w").architecture == "qwen3 1024x28"


def test_a_config_without_a_kind_names_its_architecture(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, config={"architectures": ["LlamaForCausalLM"]})
    assert read_told(path, "w").architecture == "LlamaForCausalLM"


def test_the_training_beside_a_checkpoint_counts_only_for_the_weights_it_made(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, training={"parent": "w-old", "version": "w-new"})
    assert read_told(path, "w-new").trained_from == "w-old"
    assert read_told(path, "w-other").trained_from is None


@pytest.mark.parametrize("content", ["", "[]", "{", "\udcff"])
def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path, content: str) -> None:
    path = checkpoint(tmp_path)
    (path / "config.json").write_text(content, "utf-8", "surrogateescape")
    assert read_told(path, "w") == Told()


def test_without_a_checkpoint_nothing_is_told() -> None:
    assert read_told(None, None) == Told()
