"""Models that were trained elsewhere: what is claimed of one, whether it holds, and its row.

What belongs here: all that is looked at before such a model is a day's candidate. What it was trained from
belongs to `lineage`, playing it to `prove`, asking its server to `agents`.
"""

import datetime as dt
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from pydantic import ValidationError

from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.served import ServedModel
from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.project import Project
from while_pipeline.train.lineage import Base, descent_of, read_told
from while_pipeline.train.manifest import Manifest
from while_pipeline.train.registry import Contender, Registry, RegistryError

ELSEWHERE = "elsewhere"
"""How a model was trained, when nobody says more."""

BLOCK = 1 << 20
"""Bytes hashed at a time."""


@dataclass(frozen=True)
class Claims:
    """What is said of a model; nothing of it is needed to prove it."""

    name: str | None = None
    """What people call it; the model's own name when not given."""
    method: str = ELSEWHERE
    base_model: str | None = None
    """Model it was trained from; where None, what its checkpoint or its server says."""
    parent: str | None = None
    """Policy it was trained from; where None, the one that serves, if that is a model too."""
    another_base: bool = False
    """It is of another base model than what serves, and descends from no policy here."""
    manifest: Manifest | None = None
    """Of the exported cut that it was trained on."""
    checkpoint: Path | None = None
    """File or folder of its weights, to be hashed."""


def candidate_day(registry: Registry, asked: dt.date | None) -> dt.date:
    """The day a model is to be a candidate of.

    Args:
        registry: All that is stored.
        asked: A day, or None for the last one that ran, if it has no candidate yet, else the first after it
            that has none.

    Raises:
        RegistryError: the day lies before the last one that ran, is decided, or has a registered model; or no
            day is given and none has run.
    """
    last = registry.last_day
    if asked is None:
        if last is None:
            raise RegistryError("day", None, "no day has run yet; say whose candidate it is: --day")
        day = last
        while _taken(registry, day):
            day += dt.timedelta(days=1)
        return day
    if last is not None and asked < last:
        raise RegistryError("day", str(asked), f"days up to {last} have run; what they came to must stay")
    if why := _taken(registry, asked):
        raise RegistryError("day", str(asked), f"{why}; take a later day")
    return asked


def _taken(registry: Registry, day: dt.date) -> str | None:
    """Why a day can have no other candidate."""
    decided = registry.promotions.filter(pl.col("day") == day)["candidate"].to_list()
    if decided:
        return f"it was decided on {decided[0]}"
    held = registry.registered.filter(pl.col("day") == day)["policy_version"].to_list()
    return f"{held[0]} is registered for it" if held else None


class Undecided(NamedTuple):
    """A registered model that is not decided on."""

    version: str
    unhashed: str | None
    """What its weights are called, where that is no hash of them: others may be called so next."""


def undecided(registry: Registry, day: dt.date) -> Undecided:
    """The registered model of a day that is not decided on.

    Raises:
        RegistryError: the day has none, or was decided; or people promoted the model all the same.
    """
    held = registry.registered.filter(pl.col("day") == day).to_dicts()
    if not held:
        raise RegistryError("day", str(day), "no model is registered for it")
    version = held[0]["policy_version"]
    if registry.promotions.filter(pl.col("day") == day).height:
        raise RegistryError("day", str(day), f"{version} was decided on; what was decided stays")
    if version in registry.decisions["policy_version"]:
        raise RegistryError("day", str(day), f"{version} was promoted by hand; it must stay known")
    weights = EndpointSettings.model_validate_json(held[0]["endpoint"]).weights
    return Undecided(version, weights if held[0]["weights_hash"] is None else None)


def registered_row(
    registry: Registry,
    project: Project,
    endpoint: EndpointSettings,
    served: tuple[ServedModel, ...] | None,
    claims: Claims,
    day: dt.date,
) -> dict[str, Any]:
    """Row of `train.registered`.

    Its version covers its weights: the hash of its checkpoint, and without one the name and day of this
    registration. The same address may answer with others tomorrow, of which nothing is proven then.

    Args:
        registry: All that is stored.
        project: Whose agent it would be.
        endpoint: Where the model is served and how it is asked.
        served: What its server lists; None when it has no list.
        claims: What is said of it.
        day: Whose candidate it is to be.

    Raises:
        RegistryError: what serves is asked at its address, its server does not have it, it is of another base
            model than its parent or nobody says of which, or it was trained on other tools, another policy
            document or another project's data.
        ProjectError: the checkpoint has no file, or one that cannot be read.
    """
    tools, document = _documents(project)
    _refuse_the_address_that_serves(registry, project, endpoint)
    server = _told_by_server(endpoint, served)
    manifest, name = claims.manifest, claims.name or endpoint.model
    if manifest is not None:
        _require_same_project(registry, manifest, tools, document)
    weights_hash = files_hash(claims.checkpoint) if claims.checkpoint else None
    told = read_told(claims.checkpoint, weights_hash)
    descent = descent_of(
        registry,
        project,
        told,
        server,
        base_model=claims.base_model,
        parent=claims.parent,
        another_base=claims.another_base,
    )
    weights = weights_hash or content_id("registered", day.isoformat(), name)
    registered = endpoint.model_copy(update={"weights": weights})
    return {
        "policy_version": registered.version,
        "name": name,
        "model": endpoint.model,
        "base_model": descent.base_model,
        "parent": descent.parent,
        "method": claims.method,
        "endpoint": canonical_json(registered.model_dump()),
        "data_hash": manifest.id if manifest else None,
        "data_day": dt.date.fromisoformat(manifest.day) if manifest else None,
        "data_cut": manifest.cut if manifest else None,
        "checkpoint": str(claims.checkpoint) if claims.checkpoint else None,
        "weights_hash": weights_hash,
        "architecture": told.architecture,
        "tools_hash": tools,
        "policy_document_hash": document,
    }


def require_same_agent(contender: Contender, agent: dict[str, Any]) -> None:
    """Refuse a registered model on a day whose tools or policy document are not those it was registered for.

    Args:
        contender: Who stands against the serving policy.
        agent: Row of `watch.agent` of the day.

    Raises:
        RegistryError: naming what differs.
    """
    pairs = (
        ("tools", contender.tools_hash, agent["tools_hash"]),
        ("policy document", contender.policy_document_hash, agent["policy_document_hash"]),
    )
    for what, registered, now in pairs:
        if registered is not None and registered != now:
            raise RegistryError(
                "policy_version",
                contender.version,
                f"the {what} changed since it was registered ({registered} then, {now} now); withdraw it, or "
                "register it again",
            )


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of an exported cut.

    Raises:
        ProjectError: the file is none.
    """
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise ProjectError(
            str(path), where, path.name, f"it is no manifest of an exported cut: {first['msg']}"
        ) from None


def files_hash(path: Path) -> str:
    """SHA-256 over the names and contents of a file, or of all files below a folder, in the names' order.

    Raises:
        ProjectError: there is no file.
    """
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    if not files:
        raise ProjectError("checkpoint", "path", str(path), "there is no file to hash")
    whole = hashlib.sha256()
    for file in files:
        digest = hashlib.sha256()
        with file.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
        name = file.name if file == path else file.relative_to(path).as_posix()
        whole.update(f"{digest.hexdigest()}  {name}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _documents(project: Project) -> tuple[str, str]:
    """Hashes of the tools and of the policy document, as `watch.agent` has them."""
    return content_id([tool.openai() for tool in project.tools]), content_id(project.policy_document.text)


def _refuse_the_address_that_serves(registry: Registry, project: Project, endpoint: EndpointSettings) -> None:
    """Refuse a model where the serving policy is asked: one of the two would answer for both.

    Raises:
        RegistryError: naming the version that serves.
    """
    serving, own = registry.standing(project), project.settings.agent
    policy = registry.policy(serving) if serving in registry.known else None
    asked = own.endpoint if policy is None and own.plays == "endpoint" else policy
    if isinstance(asked, EndpointSettings) and (asked.base_url, asked.model) == (
        endpoint.base_url,
        endpoint.model,
    ):
        raise RegistryError(
            "model",
            endpoint.model,
            f"{serving}, which serves already, is asked under that name at {endpoint.base_url}: serve the "
            "new one under another name or port",
        )


def _told_by_server(endpoint: EndpointSettings, served: tuple[ServedModel, ...] | None) -> Base | None:
    """The base model that the server names.

    Raises:
        RegistryError: the server does not have the model.
    """
    if served is None:
        return None
    found = [model for model in served if model.name == endpoint.model]
    if not found:
        names = ", ".join(model.name for model in served) or "none"
        raise RegistryError("model", endpoint.model, f"{endpoint.base_url} does not serve it; it has {names}")
    return Base(found[0].parent, "server") if found[0].parent else None


def _require_same_project(registry: Registry, manifest: Manifest, tools: str, document: str) -> None:
    rows = registry.agents.filter(pl.col("day") == dt.date.fromisoformat(manifest.day))
    if rows.is_empty() or rows["policy_version"].item() != manifest.policy_version:
        raise RegistryError(
            "manifest",
            manifest.id,
            f"its cut is of {manifest.day}, played by {manifest.policy_version}: no such day is stored here",
        )
    agent = rows.row(0, named=True)
    for what, then, now in (
        ("tools", agent["tools_hash"], tools),
        ("policy document", agent["policy_document_hash"], document),
    ):
        if then != now:
            raise RegistryError(
                "manifest",
                manifest.id,
                f"the {what} of its day {manifest.day} differ from the project's ({then} then, {now} now)",
            )
