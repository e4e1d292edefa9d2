"""Which policies there are and which one serves a day: what the gate promoted and what people decided.

What belongs here: reading the stored tables. Deciding by hand belongs to `decide`, registering a model that
was trained elsewhere to `elsewhere`. The states for people to read are the view `train.registry`.
"""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.policy import Weights, base_weights
from while_pipeline.errors import ProjectError
from while_pipeline.project import DATABASE
from while_pipeline.snapshot import read_snapshot, snapshot_path
from while_pipeline.tables import prove, train, watch
from while_pipeline.tables.base import Table, polars_schema, table_name

Policy = Weights | EndpointSettings
"""What plays: weights of the embedded policy, or a model behind an endpoint. The base weights stand for the
agent as `while.yaml` describes it, whoever that is."""

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

    def serving(self, day: dt.date) -> Policy:
        """What serves a day; base weights for the agent as the project describes it.

        Raises:
            RegistryError: a promoted version is in no stored day any more.
        """
        version = self.serving_version(day)
        return base_weights() if version is None else self.policy(version)

    def policy(self, version: str) -> Policy:
        """What a version plays with; base weights for the agent as the project describes it.

        Raises:
            RegistryError: the version is not known.
        """
        for rows in (self.policies, self.registered):
            found = rows.filter(pl.col("policy_version") == version).sort("day").tail(1)
            if found.height:
                policy = policy_from(found.row(0, named=True))
                assert policy is not None, "a fitted or registered policy has weights or an endpoint"
                return policy
        if version != base_weights().version:
            self.require_known(version)
        return base_weights()

    def own(self) -> str:
        """Version of the agent as the project describes it, as the last day that it served recorded it."""
        made = pl.concat([self.policies["policy_version"], self.registered["policy_version"]]).implode()
        served = self.agents.filter(~pl.col("policy_version").is_in(made)).sort("day")
        return str(served["policy_version"][-1]) if served.height else base_weights().version

    def stack(self, day: dt.date) -> list[str]:
        """The versions that serve or wait to be rolled back to on a day, the serving one last.

        A promotion lays its version on top; a rollback takes off what lies above its version. So two
        rollbacks in a row go back two promotions, not to and fro.
        """
        versions = [self.own()]
        for event in self.events:
            if event.day > day:
                break
            if event.rollback and event.version in versions:
                del versions[_last(versions, event.version) + 1 :]
            elif versions[-1] != event.version:
                versions.append(event.version)
        return versions

    def passed(self, version: str) -> bool | None:
        """What the delta gate said of a version last; None when it never stood before it."""
        decided = self.promotions.filter(pl.col("candidate") == version).sort("day")["promoted"]
        return None if decided.is_empty() else bool(decided[-1])


def _last(versions: Sequence[str], version: str) -> int:
    return len(versions) - 1 - versions[::-1].index(version)


REGISTRY: Mapping[str, type[Table]] = {
    "promotions": prove.Promotion,
    "decisions": prove.Decisions,
    "policies": train.Policies,
    "registered": train.Registered,
    "agents": watch.Agent,
}
"""Table of each field of a `Registry`."""


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


def serving_policy(day: str, data: Path) -> Policy:
    """What serves `day` according to the published snapshot; see `Registry.serving`.

    Raises:
        SnapshotError: nothing has been published yet.
        RegistryError: a promoted version is in no stored day any more.
    """
    return published_registry(data, day).serving(dt.date.fromisoformat(day))


def serving_weights(day: str, data: Path) -> Weights:
    """Weights of the embedded policy that serve `day` according to the published snapshot.

    Raises:
        SnapshotError: nothing has been published yet.
        RegistryError: a model behind an endpoint serves that day, which has no weights here.
    """
    policy = serving_policy(day, data)
    if isinstance(policy, EndpointSettings):
        raise RegistryError(
            "policy_version",
            policy.version,
            f"it serves {day} and has no weights here: it is {policy.model} at {policy.base_url}",
        )
    return policy


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
