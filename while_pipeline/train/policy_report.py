"""How far a fitted policy moved from its parent, and how old the rollouts were that moved it.

What belongs here: the figures of `train.policies` and `train.policy_heads`. What does not: how a policy is
fitted (`fit`), and whether it is better (`prove`).
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from while_pipeline.agents.policy import HEADS, Weights
from while_pipeline.records import Decision
from while_pipeline.train.fit import Floats, Space

ALL_HEADS = "all"
"""Name of the row over all heads."""


@dataclass(frozen=True)
class Taught:
    """The decisions a fit learnt from, by what it was to learn of them."""

    wanted: Sequence[Decision]
    """Those to make likelier: of imitated rollouts, chosen answers, and rollouts better than their group."""
    unwanted: Sequence[Decision] = ()
    """Those to make less likely: of rejected answers, and rollouts worse than their group."""

    @property
    def decisions(self) -> list[Decision]:
        """All of them."""
        return [*self.wanted, *self.unwanted]


class Move(NamedTuple):
    """How one head, or all of them, moved. Natural logarithms; None where there is no decision to average."""

    head: str
    n_wanted: int
    n_unwanted: int
    logprob_before: float | None
    """Mean log-probability of the wanted decisions under the parent."""
    logprob_after: float | None
    """The same under the fitted policy."""
    unwanted_before: float | None
    """Mean log-probability of the unwanted decisions under the parent."""
    unwanted_after: float | None
    kl: float | None
    """Mean KL(fitted || parent) over the contexts of all these decisions."""
    entropy_before: float | None
    """Mean entropy over the same contexts under the parent."""
    entropy_after: float | None


class Age(NamedTuple):
    """How far behind the serving policy the training rollouts were played."""

    n_stale: int
    """Training rollouts that another policy played than the one that serves."""
    versions_behind: int | None
    """Changes of the serving policy since, at most; None when a version never served."""
    days_behind: int | None
    """Days since that version served last, at most; None when a version never served."""


def moves(parent: Weights, fitted: Weights, taught: Taught) -> list[Move]:
    """The move over all heads first, then that of every head.

    Args:
        parent: The policy the fit started from.
        fitted: The policy it ended at.
        taught: What it learnt from.
    """
    parts = [(ALL_HEADS, taught)]
    for head in HEADS:
        wanted, unwanted = ([d for d in ds if d.head == head] for ds in (taught.wanted, taught.unwanted))
        parts.append((head, Taught(wanted, unwanted)))
    return [_move(name, parent, fitted, part) for name, part in parts]


def _move(name: str, parent: Weights, fitted: Weights, taught: Taught) -> Move:
    every = taught.decisions
    if not every:
        return Move(name, 0, 0, None, None, None, None, None, None, None)
    space = Space(parent, every)
    old, new = space.reference, space.logs_of(fitted)
    visits = np.bincount(space.context_of[space.cells(every)])[space.context_of] / len(every)
    return Move(
        head=name,
        n_wanted=len(taught.wanted),
        n_unwanted=len(taught.unwanted),
        logprob_before=_mean(old, space, taught.wanted),
        logprob_after=_mean(new, space, taught.wanted),
        unwanted_before=_mean(old, space, taught.unwanted),
        unwanted_after=_mean(new, space, taught.unwanted),
        # Rounding can take a divergence of zero below it.
        kl=max(float(visits @ (np.exp(new) * (new - old))), 0.0),
        entropy_before=-float(visits @ (np.exp(old) * old)),
        entropy_after=-float(visits @ (np.exp(new) * new)),
    )


def _mean(logs: Floats, space: Space, decisions: Sequence[Decision]) -> float | None:
    return float(logs[space.cells(decisions)].mean()) if decisions else None


def heads_markdown(found: Sequence[Move]) -> str:
    """The moves as a Markdown table, those that learnt nothing too."""
    names = Move._fields
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(map(_shown, move)) + " |" for move in found]
    return "\n".join(lines)


def _shown(value: str | float | None) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def age_of(played_by: Iterable[str], agents: pl.DataFrame) -> Age:
    """How old the training rollouts are.

    Args:
        played_by: Policy version of each training rollout.
        agents: `watch.agent` of the days up to the one that is trained on, by day; the last serves.
    """
    served = agents.sort("day").select("day", "policy_version")
    changes = served["policy_version"].rle_id()
    last = {
        version: (day, change) for (day, version), change in zip(served.iter_rows(), changes, strict=True)
    }
    today, serving = served.row(-1)
    stale = [version for version in played_by if version != serving]
    seen = [last.get(version) for version in sorted(set(stale))]
    known = [at for at in seen if at is not None]
    if len(known) < len(seen):
        return Age(len(stale), None, None)
    return Age(
        n_stale=len(stale),
        versions_behind=max((int(changes[-1]) - change for _, change in known), default=0),
        days_behind=max((_days(today, day) for day, _ in known), default=0),
    )


def _days(today: dt.date, day: dt.date) -> int:
    return (today - day).days
