"""Which policy serves a day: the one promoted last before it, else the base policy."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from while_pipeline.agents.policy import Weights, base_weights
from while_pipeline.project import DATABASE
from while_pipeline.snapshot import read_snapshot, snapshot_path


def serving(promotions: pl.DataFrame, policies: pl.DataFrame) -> Weights:
    """Weights that serve a day.

    Args:
        promotions: `prove.promotion` of the days before it.
        policies: `train.policies` of the days before it.
    """
    promoted = promotions.filter(pl.col("promoted")).sort("day").tail(1)
    if promoted.is_empty():
        return base_weights()
    chosen = policies.filter(pl.col("policy_version") == promoted["candidate"][0]).sort("day").tail(1)
    return weights_from(chosen.row(0, named=True))


def weights_from(row: Mapping[str, Any]) -> Weights:
    """Read weights back from a table row."""
    return Weights(weights=json.loads(row["weights"]))


def serving_weights(day: str, data: Path) -> Weights:
    """Weights that serve `day` according to the published snapshot.

    Raises:
        SnapshotError: nothing has been published yet.
    """
    snapshot = snapshot_path(data / DATABASE)
    before = f"day < DATE '{day}'"
    return serving(
        read_snapshot(snapshot, f"SELECT * FROM prove.promotion WHERE {before}"),
        read_snapshot(snapshot, f"SELECT * FROM train.policies WHERE {before}"),
    )
