"""What a model was trained from: what people, its own files and its server say, held against what serves.

What belongs here: the base model and the parent that a registration records. What else is looked at before a
model is a day's candidate belongs to `elsewhere`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.project import Project
from while_pipeline.train.registry import Registry, RegistryError

CONFIG, ADAPTER, TRAINING = "config.json", "adapter_config.json", "training.json"
"""Files of a checkpoint that say what it is: of transformers, of peft, and of a training by this project,
which stands beside the checkpoint's folder."""

PEOPLE = "--base-model"
"""Source of what people say themselves."""

SIZES = ("hidden_size", "num_hidden_layers")
"""Sizes in a config that no training changes."""


class Base(NamedTuple):
    """A base model as it is named, and who names it."""

    model: str
    source: str


@dataclass(frozen=True)
class Told:
    """What a checkpoint's own files say of it; None where they say nothing."""

    base: Base | None = None
    trained_from: str | None = None
    """Hash of the weights that a training by this project began with."""
    architecture: str | None = None
    """Kind and sizes of the network, which a model has in common with what it was trained from."""


@dataclass(frozen=True)
class Descent:
    """What is recorded of where a model comes from."""

    base_model: str | None
    parent: str | None


class _Lineage(NamedTuple):
    """What a policy is made of: a model trained from any of `models` descends from it."""

    version: str
    models: frozenset[str]
    """Empty for the embedded policy and for a Python callable."""
    architecture: str | None


def read_told(checkpoint: Path | None, weights_hash: str | None) -> Told:
    """Read what a checkpoint says of itself.

    Args:
        checkpoint: File or folder of weights; a file's config lies beside it.
        weights_hash: Hash of it: `training.json` of another checkpoint says nothing of this one.
    """
    if checkpoint is None:
        return Told()
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    config, adapter = _read(folder / CONFIG), _read(folder / ADAPTER)
    training = _read(checkpoint.parent / TRAINING)
    named = (
        (adapter.get("base_model_name_or_path"), ADAPTER),
        (config.get("_name_or_path"), CONFIG),
    )
    return Told(
        base=next((Base(str(model), source) for model, source in named if model), None),
        trained_from=training.get("parent") if training.get("version") == weights_hash else None,
        architecture=_architecture(config),
    )


def descent_of(
    registry: Registry,
    project: Project,
    told: Told,
    server: Base | None,
    *,
    base_model: str | None,
    parent: str | None,
    another_base: bool,
) -> Descent:
    """What a model is recorded to come from.

    Whom to believe on the base model: people, then the checkpoint, then the server. The hash that one of our
    trainings wrote down proves the parent where a policy was registered with those weights.

    Args:
        registry: All that is stored.
        project: Whose agent it would be.
        told: What its checkpoint says.
        server: What its server says.
        base_model: What people say.
        parent: Policy that people say it was trained from; None is the one that serves, if that is a model.
        another_base: People say that it is of another base model than what serves.

    Raises:
        RegistryError: what is said contradicts itself, is of another base model than the parent, or leaves
            the base open where a language model serves.
    """
    said = Base(base_model, PEOPLE) if base_model else told.base or server
    proven = _registered_with(registry, told.trained_from)
    if another_base:
        if other := parent or proven:
            raise RegistryError(
                "parent", other, "a model of another base has none here; leave out --another-base or --parent"
            )
        return Descent(said.model if said else None, None)
    if proven and parent not in (None, proven):
        raise RegistryError("parent", parent, f"its {TRAINING} says that it was trained from {proven}")
    lineage = _lineage(registry, project, parent or proven)
    if not lineage.models:
        if parent is None:
            return Descent(said.model if said else None, None)
        mend = "it is no language model, so that none can be trained from it; leave --parent out"
        raise RegistryError("parent", parent, mend)
    if proven and base_model is None:
        said = _base_of(registry, proven)
    return Descent(_agreeing(lineage, said, told.architecture), lineage.version)


def _agreeing(lineage: _Lineage, said: Base | None, architecture: str | None) -> str:
    """The base model, where nothing says that it is another one than the parent's.

    Raises:
        RegistryError: naming what differs, or that nobody said.
    """
    models = ", ".join(sorted(lineage.models))
    if said is None:
        raise RegistryError(
            "base_model",
            None,
            f"{lineage.version} is made of {models}, and nothing says what this one was trained from: name "
            "it with --base-model, or say --another-base",
        )
    if said.model not in lineage.models:
        mend = (
            f"its parent {lineage.version} is made of {models}; --another-base registers one of another base"
        )
        if said.source != PEOPLE:
            mend = f"so its {said.source} says, and {mend}, --base-model names the same as it is called here"
        raise RegistryError("base_model", said.model, mend)
    if lineage.architecture and architecture and lineage.architecture != architecture:
        raise RegistryError(
            "base_model",
            said.model,
            f"by its {CONFIG} it is {architecture}, and its parent {lineage.version} {lineage.architecture}; "
            "--another-base registers one of another base",
        )
    return said.model


def _registered_with(registry: Registry, weights_hash: str | None) -> str | None:
    """The policy that was registered last with these weights."""
    if weights_hash is None:
        return None
    rows = registry.registered.filter(pl.col("weights_hash") == weights_hash).sort("day")
    return None if rows.is_empty() else str(rows["policy_version"][-1])


def _base_of(registry: Registry, version: str) -> Base:
    row = _registration(registry, version).row(0, named=True)
    return Base(row["base_model"] or row["model"], TRAINING)


def _registration(registry: Registry, version: str) -> pl.DataFrame:
    return registry.registered.filter(pl.col("policy_version") == version).sort("day").tail(1)


def _lineage(registry: Registry, project: Project, version: str | None) -> _Lineage:
    """What a version is made of; None stands for the one that serves next."""
    serving = registry.standing(project)
    version = version or serving
    rows = _registration(registry, version)
    if rows.height:
        row = rows.row(0, named=True)
        models = frozenset(filter(None, (row["model"], row["base_model"])))
        return _Lineage(version, models, row["architecture"])
    own = project.settings.agent
    if own.plays == "endpoint" and own.endpoint is not None and own.endpoint.version == version:
        return _Lineage(version, frozenset([own.endpoint.model]), None)
    if version != serving:
        registry.require_known(version)
    played = registry.agents.filter((pl.col("policy_version") == version) & (pl.col("plays") == "endpoint"))
    return _Lineage(version, frozenset(played["model"].tail(1)), None)


def _architecture(config: Mapping[str, Any]) -> str | None:
    kind = config.get("model_type") or next(iter(config.get("architectures") or ()), None)
    sizes = [str(config[name]) for name in SIZES if name in config]
    return " ".join([str(kind), "x".join(sizes)]).strip() if kind else None


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none that can be read, for then the file says nothing."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
