"""Decisions by hand on which policy serves: a promotion, or a rollback to what served before.

What belongs here: whether a decision may be taken, and its row. Which policy serves by all of them belongs to
`registry`; storing the row, to the command.
"""

import datetime as dt
from typing import Any

import polars as pl

from while_pipeline.agents.policy import Weights
from while_pipeline.ids import content_id
from while_pipeline.project import Project
from while_pipeline.train.registry import Registry, RegistryError
from while_pipeline.watch.agent import agent_version

PERSON = "person"
"""Who decides by hand, when no name is given."""


def holds_from(registry: Registry) -> dt.date:
    """First day that a decision taken now holds for: the day after the last one that ran.

    A day that ran is not decided again: running it once more must give the same tables.

    Raises:
        RegistryError: no day has run yet, so nothing serves that could be replaced.
    """
    if registry.last_day is None:
        raise RegistryError("last day", None, "no day has run yet; run one: while-pipeline run")
    return registry.last_day + dt.timedelta(days=1)


def promotion_row(
    registry: Registry,
    project: Project,
    version: str,
    *,
    reason: str,
    decided_by: str = PERSON,
    force: bool = False,
) -> dict[str, Any]:
    """Row of `prove.decisions`: a version serves from the next day on.

    Args:
        registry: All that is stored.
        project: Whose agent it is to be.
        version: The policy that is to serve.
        reason: Why, in the words of who decides.
        decided_by: Who decides.
        force: Promote although the delta gate did not let it pass; recorded as forced where it did not.

    Raises:
        RegistryError: the version is not known, serves already, would not play with the project as it is, or
            did not pass its delta gate; or no reason is given.
    """
    holds_from(registry)
    registry.require_known(version)
    serving = registry.standing(project)
    _require_playable(registry, project, version, serving)
    passed = registry.passed(version)
    if not passed and not force:
        said = "never stood before the delta gate" if passed is None else "was refused by the delta gate"
        raise RegistryError(
            "policy_version",
            version,
            f"it {said} ({_said(registry, version)}); --force promotes it all the same",
        )
    return _row(registry, "promote", version, serving, decided_by, reason, forced=not passed)


def rollback_row(
    registry: Registry, project: Project, to: str | None = None, *, reason: str, decided_by: str = PERSON
) -> dict[str, Any]:
    """Row of `prove.decisions`: a version that served before serves again from the next day on.

    Args:
        registry: All that is stored.
        project: Whose agent it is to be.
        to: The version; None goes back over the last promotion that was not rolled back yet.
        reason: Why, in the words of who decides.
        decided_by: Who decides.

    Raises:
        RegistryError: nothing served before, the version is not known, serves already, never served, or
            would not play with the project as it is; or no reason is given.
    """
    holds_from(registry)
    serving = registry.standing(project)
    before = registry.stack(serving)[:-1]
    if to is not None:
        registry.require_known(to)
    elif before:
        to = before[-1]
    else:
        raise RegistryError("policy_version", serving, "nothing served before it to roll back to")
    if to != serving and to not in registry.agents["policy_version"]:
        raise RegistryError(
            "policy_version", to, f"it never served; try while-pipeline promote {to} --reason ..."
        )
    _require_playable(registry, project, to, serving)
    return _row(registry, "rollback", to, serving, decided_by, reason, forced=_on_trust(registry, to))


def _require_playable(registry: Registry, project: Project, version: str, serving: str) -> None:
    """Refuse a version that serves already, or in whose place another one would play.

    Raises:
        RegistryError: naming what stands against it.
    """
    if version == serving:
        raise RegistryError("policy_version", version, "it serves already")
    policy = registry.policy(version)
    played = agent_version(project, policy)
    if played == version:
        return
    plays = project.settings.agent.plays
    if isinstance(policy, Weights):
        why = f"it is weights of the embedded policy, and agent.plays is {plays}: set that to embedded"
    else:
        why = "it is the agent as while.yaml described it then: put agent there back to that"
    raise RegistryError("policy_version", version, f"{played} would play in its place; {why}")


def _on_trust(registry: Registry, version: str) -> bool:
    """Whether a version was promoted by force and has not passed its gate."""
    forced = registry.decisions.filter(pl.col("policy_version") == version)["forced"].any()
    return forced and not registry.passed(version)


def _said(registry: Registry, version: str) -> str:
    rows = registry.promotions.filter(pl.col("candidate") == version).sort("day").tail(1)
    return str(rows["reason"].item()) if rows.height else "it is in no prove.promotion"


def _row(
    registry: Registry, action: str, version: str, serving: str, by: str, reason: str, *, forced: bool
) -> dict[str, Any]:
    for key, text in (("reason", reason), ("by", by)):
        if not text.strip():
            raise RegistryError(key, text, "it is empty; who reads the registry later asks for it")
    day = holds_from(registry)
    row: dict[str, Any] = {
        "position": registry.decisions.filter(pl.col("day") == day).height,
        "action": action,
        "policy_version": version,
        "replaces": serving,
        "decided_by": by.strip(),
        "forced": forced,
        "reason": reason.strip(),
    }
    return {"decision_id": content_id("decision", day.isoformat(), row), **row}
