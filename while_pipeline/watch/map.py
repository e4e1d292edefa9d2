"""The map: real conversations placed on the six axes, graded, and summed up into weak spots."""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from while_pipeline.grade.conduct import findings
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.messages import messages_from_json
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.prove.intervals import wilson
from while_pipeline.simulate.axes import category
from while_pipeline.simulate.detect import place, signature
from while_pipeline.tools import Tool
from while_pipeline.transcript import Transcript

SPOT = ("category", "tool", "tool_condition", "stance")
"""What makes a weak spot."""
WINDOW_DAYS = 7
"""Days of traffic a spot is judged on: a week has every weekday once."""
MIN_GRADED = 3
"""Fewer conversations than this say nothing about a spot's course."""


def window(day: str) -> tuple[str, str]:
    """First day of the window that ends with `day`, and the day after it."""
    today = dt.date.fromisoformat(day)
    first, after = today - dt.timedelta(days=WINDOW_DAYS - 1), today + dt.timedelta(days=1)
    return first.isoformat(), after.isoformat()


def situation_rows(
    conversations: pl.DataFrame, tools: Mapping[str, Tool], document: PolicyDocument
) -> list[dict[str, Any]]:
    """Rows of `watch.situations` for `watch.conversations`."""
    return [_situation_row(row, tools, document) for row in conversations.iter_rows(named=True)]


def _situation_row(
    row: Mapping[str, Any], tools: Mapping[str, Tool], document: PolicyDocument
) -> dict[str, Any]:
    transcript = Transcript(messages_from_json(row["messages"]), dict(tools), document)
    cell = place(transcript)
    found = findings(transcript)
    hard = [f for f in found if f.severity == "hard"]
    return {
        "conversation_id": row["conversation_id"],
        "category": category(cell, tools),
        **cell.model_dump(),
        "n_hard": len(hard),
        "n_style": len(found) - len(hard),
        "findings": canonical_json([f.model_dump() for f in found]),
        "failed": _failed(row, bool(hard)),
        "signature": signature(transcript),
    }


def _failed(row: Mapping[str, Any], hard: bool) -> bool | None:
    """A hard finding fails whatever the outcome; else the traffic's own outcome decides where it has one.

    A partial record with neither is unknown: what went wrong may be what is missing.
    """
    if row["reward"] is not None:
        return hard or row["reward"] < 1.0
    return None if row["incomplete"] is not None and not hard else hard


def weak_spot_rows(situations: pl.DataFrame, day: str) -> list[dict[str, Any]]:
    """Rows of `watch.weak_spots` from the `watch.situations` of the window that ends with `day`.

    A spot is listed when anything failed there in the window. Its priority is failures times the lower
    Wilson bound of the rate: many failures count, and so does being sure. Shares are priorities over their
    sum.
    """
    graded = situations.filter(pl.col("failed").is_not_null())
    now = pl.col("day") == dt.date.fromisoformat(day)
    spots = (
        graded.group_by(SPOT)
        .agg(
            n=pl.len(),
            failures=pl.col("failed").sum(),
            n_now=now.sum(),
            failures_now=(now & pl.col("failed")).sum(),
        )
        .filter(pl.col("failures") > 0)
        .sort(SPOT)
    )
    rows = [_spot_row(spot) for spot in spots.iter_rows(named=True)]
    total = sum(row["priority"] for row in rows)
    shared = [{**row, "share": row["priority"] / total} for row in rows]
    return sorted(shared, key=lambda row: (-row["priority"], row["spot_id"]))


def _spot_row(spot: Mapping[str, Any]) -> dict[str, Any]:
    n, failures = int(spot["n"]), int(spot["failures"])
    low, high = wilson(failures, n)
    values = {name: spot[name] for name in SPOT}
    return {
        "spot_id": content_id("spot", list(values.values())),
        **values,
        "n": n,
        "failures": failures,
        "rate": failures / n,
        "low": low,
        "high": high,
        "state": _state(n, failures, int(spot["n_now"]), int(spot["failures_now"])),
        "priority": failures * low,
    }


def _state(n: int, failures: int, n_now: int, failures_now: int) -> str:
    """The spot's course: this day against the days before it in the window."""
    n_before, failures_before = n - n_now, failures - failures_now
    if n < MIN_GRADED:
        return "uncertain"
    if failures_before == 0:
        return "new"
    if n_now == 0:
        return "persistent"
    if failures_now == 0:
        return "solved" if n_now >= MIN_GRADED else "improving"
    return "improving" if failures_now / n_now < failures_before / n_before else "persistent"


def spots_for(rows: Iterable[Mapping[str, Any]], tools: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """The weak spots the search can aim at: those of tools the agent still has, and of none or several."""
    return [dict(row) for row in rows if row["tool"] in tools or row["tool"] in ("none", "several")]
