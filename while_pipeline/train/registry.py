"""Which policies there are and which one serves a day: what the gate promoted and what people decided.

What belongs here: reading the stored tables. Deciding by hand belongs to `decide`, registering a model that
was trained elsewhere to `elsewhere`. The states for people to read are the view `train.registry`.
"""

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.policy import Weights, base_weights
from while_pipeline.errors import ProjectError
from while_pipeline.project import DATABASE, Project
from while_pipeline.snapshot import read_snapshot, snapshot_path
from while_pipeline.tables import prove, train, watch
from while_pipeline.tables.base import Table, polars_schema, table_name
from while_pipeline.watch.agent import agent_version

Policy = Weights | EndpointSettings
"""What plays: weights of the embedded policy, or a model behind an endpoint. Where there may be none, None is
the agent as `while.yaml` describes it, whoever that is."""

SHOWN = 8
"""Known versions that an error lists: the newest ones, which are what one mistypes."""


class RegistryError(ProjectError):
    """A version that is not known, or a decision that cannot be taken."""

    def __init__(self, key: str, value: Any, mend: str) -> None:
        """Name what was asked for, and what to do instead."""
        super().__init__("train.registry", key, value, mend)


class Event(NamedTuple):
    """From a day on another policy serves."""

    day: dt.date
    """First day it serves."""
    by_hand: bool
    """On the same day a person's decision comes after the gate's."""
    position: int
    """Among the decisions by hand of a day."""
    version: str
    rollback: bool


@dataclass(frozen=True)
class Contender:
    """The policy that is held against the serving one."""

    version: str
    policy: Policy
    tools_hash: str | None
    """Hash of the tools it was registered for; None for one fitted here, on the day's own tools."""
    policy_document_hash: str | None
    """The same of the policy document."""


@dataclass(frozen=True)
class Registry:
    """What the stored tables hold of policies, over days."""

    promotions: pl.DataFrame
    """Rows of `prove.promotion`."""
    decisions: pl.DataFrame
    """Rows of `prove.decisions`."""
    policies: pl.DataFrame
    """Rows of `train.policies`."""
    registered: pl.DataFrame
    """Rows of `train.registered`."""
    agents: pl.DataFrame
    """Rows of `watch.agent`."""

    @cached_property
    def events(self) -> list[Event]:
        """Everything that made a policy serve, in the order in which it holds.

        A promotion by the gate holds from the day after; a decision by hand from the day it names.
        """
        promoted = self.promotions.filter(pl.col("promoted")).select("day", "candidate")
        next_day = dt.timedelta(days=1)
        found = [Event(day + next_day, False, 0, version, False) for day, version in promoted.iter_rows()]
        found += [
            Event(day, True, position, version, action == "rollback")
            for day, position, version, action in self.decisions.select(
                "day", "position", "policy_version", "action"
            ).iter_rows()
        ]
        return sorted(found)

    @property
    def known(self) -> list[str]:
        """Every version, the newest last."""
        versions = [
            frame.select("day", "policy_version") for frame in (self.agents, self.policies, self.registered)
        ]
        newest = pl.concat(versions).group_by("policy_version").agg(pl.col("day").max())
        return newest.sort("day", "policy_version")["policy_version"].to_list()

    @property
    def last_day(self) -> dt.date | None:
        """The last day that ran; None before the first."""
        found = self.agents["day"].max()
        assert found is None or isinstance(found, dt.date)
        return found

    def equals(self, other: "Registry") -> bool:
        """Whether two hold the same rows, in whatever order, as far as both have the columns."""
        for field in REGISTRY:
            mine, others = getattr(self, field), getattr(other, field)
            both = [name for name in mine.columns if name in others.columns]
            if not mine.select(both).sort(both).equals(others.select(both).sort(both)):
                return False
        return True

    def require_known(self, version: str) -> None:
        """Refuse a version that no stored day holds.

        Raises:
            RegistryError: naming it and the newest known ones.
        """
        if version not in self.known:
            shown = ", ".join(reversed(self.known[-SHOWN:])) or "none: no day has run yet"
            raise RegistryError(
                "policy_version", version, f"no stored day holds it; the newest known ones are {shown}"
            )

    def serving_version(self, day: dt.date) -> str | None:
        """Version that serves a day; None when nothing was ever promoted before it."""
        held = [event.version for event in self.events if event.day <= day]
        return held[-1] if held else None

    def serving(self, day: dt.date) -> Policy | None:
        """What serves a day; None for the agent as the project describes it.

        Raises:
            RegistryError: a promoted version is in no stored day any more.
        """
        version = self.serving_version(day)
        return None if version is None else self.policy(version)

    def policy(self, version: str) -> Policy | None:
        """What a version plays with; None for the agent as the project describes it, without weights here.

        A fit is replaced when its day runs again; what served stays with the day that it served.

        Raises:
            RegistryError: the version is not known.
        """
        for rows in (self.policies, self.registered, self.agents):
            found = rows.filter(pl.col("policy_version") == version).sort("day").tail(1)
            if found.height:
                return policy_from(found.row(0, named=True))
        base = base_weights()
        if version != base.version:
            self.require_known(version)
        return base

    def standing(self, project: Project) -> str:
        """Version that stands to serve next, with the project as it is today.

        A version that is stored no more stands all the same: its day fails until another one is promoted.
        """
        version = self.events[-1].version if self.events else None
        if version is None:
            return agent_version(project, None)
        return agent_version(project, self.policy(version)) if version in self.known else version

    def stack(self, standing: str) -> list[str]:
        """The versions that served and wait to be rolled back to, and the one that stands to serve last.

        What served lies on top of what served before it; a rollback takes off what lies above its version.
        So two rollbacks in a row go back two promotions, not to and fro. What was promoted and replaced
        before it served a day is not in it.
        """
        versions: list[str] = []
        served = dict(self.agents.select("day", "policy_version").sort("day").iter_rows())
        for day, version in served.items():
            by = [event for event in self.events if event.day <= day][-1:]
            _lay(versions, version, rollback=any(event.rollback and event.version == version for event in by))
        for event in self.events:
            if self.last_day is None or event.day > self.last_day:
                if versions and versions[-1] not in served.values():
                    versions.pop()
                _lay(versions, event.version, rollback=event.rollback)
        _lay(versions, standing, rollback=False)
        return versions

    def passed(self, version: str) -> bool | None:
        """What the delta gate said of a version last; None when it never stood before it."""
        decided = self.promotions.filter(pl.col("candidate") == version).sort("day")["promoted"]
        return None if decided.is_empty() else bool(decided[-1])


def _lay(versions: list[str], version: str, *, rollback: bool) -> None:
    """Lay a version on top of a stack; a rollback to one that is in it takes off what lies above."""
    if rollback and version in versions:
        while versions[-1] != version:
            versions.pop()
    elif versions[-1:] != [version]:
        versions.append(version)


REGISTRY: Mapping[str, type[Table]] = {
    "promotions": prove.Promotion,
    "decisions": prove.Decisions,
    "policies": train.Policies,
    "registered": train.Registered,
    "agents": watch.Agent,
}
"""Table of each field of a `Registry`."""

EMPTY = Registry(**{field: pl.DataFrame(schema=polars_schema(model)) for field, model in REGISTRY.items()})
"""What is known before anything ran."""


def contender_of(policies: pl.DataFrame, registered: pl.DataFrame) -> Contender | None:
    """Who stands against the serving policy on a day: the registered model, else the fitted one.

    Args:
        policies: `train.policies` of the day.
        registered: `train.registered` of the day.

    Returns:
        None when the day has neither.
    """
    for rows in (registered, policies):
        for row in rows.iter_rows(named=True):
            policy = policy_from(row)
            assert policy is not None, "a fitted or registered policy has weights or an endpoint"
            return Contender(
                row["policy_version"], policy, row.get("tools_hash"), row.get("policy_document_hash")
            )
    return None


def policy_from(row: Mapping[str, Any]) -> Policy | None:
    """Read a policy back from a row of `train.policies`, `train.registered` or `watch.agent`.

    Returns:
        None where the project's settings say who plays.
    """
    if row.get("weights"):
        return weights_from(row)
    return EndpointSettings.model_validate_json(row["endpoint"]) if row.get("endpoint") else None


def weights_from(row: Mapping[str, Any]) -> Weights:
    """Read weights back from a table row."""
    return Weights(weights=json.loads(row["weights"]))


# -- from the published snapshot --------------------------------------------------------------------------


def serving_policy(day: str, data: Path) -> Policy | None:
    """What serves `day` according to the published snapshot; see `Registry.serving`.

    Raises:
        SnapshotError: nothing has been published yet.
        RegistryError: a promoted version is in no stored day any more.
    """
    return published_registry(data, day).serving(dt.date.fromisoformat(day))


def serving_weights(day: str, data: Path) -> Weights:
    """Weights of the embedded policy that serve `day` according to the published snapshot.

    The base weights while nothing was promoted: those the embedded policy begins with.

    Raises:
        SnapshotError: nothing has been published yet.
        RegistryError: what serves that day has no weights here.
    """
    registry, date = published_registry(data, day), dt.date.fromisoformat(day)
    version = registry.serving_version(date)
    policy = base_weights() if version is None else registry.policy(version)
    if isinstance(policy, Weights):
        return policy
    who = "who while.yaml names" if policy is None else f"{policy.model} at {policy.base_url}"
    raise RegistryError("policy_version", version, f"it serves {day} and has no weights here: it is {who}")


def published_registry(data: Path, day: str | None = None) -> Registry:
    """What the published snapshot holds of policies: all days, or what holds on `day`.

    A table that no run has written yet has no rows.

    Raises:
        SnapshotError: nothing has been published yet.
    """
    snapshot = snapshot_path(data / DATABASE)
    stored = "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE NOT internal"
    there = set(read_snapshot(snapshot, stored).to_series())

    def read(model: type[Table]) -> pl.DataFrame:
        if table_name(model) not in there:
            return pl.DataFrame(schema=polars_schema(model))
        until = "<=" if model is prove.Decisions else "<"
        where = f" WHERE day {until} DATE '{day}'" if day else ""
        return read_snapshot(snapshot, f"SELECT * FROM {table_name(model)}{where} ORDER BY day")

    return Registry(**{field: read(model) for field, model in REGISTRY.items()})
