"""A hack scan as rows of its table.

What belongs here: rows of `grade.hack_scan` and what is told of them. The numbers are made in `hack_scan`.
"""

from typing import Any

import polars as pl

from while_pipeline.grade.hack_features import Measured
from while_pipeline.grade.hack_regime import advice
from while_pipeline.grade.hack_scan import HackScan

FIGURES = (
    "regime",
    "n",
    "n_day",
    "variance",
    "variance_within",
    "variance_between",
    "endorsed_share",
    "joint_share",
    "joint_rows",
)
"""Columns that say the same in every row of a day."""

_DECIMALS = 12
"""The last bits of a matrix product depend on how many threads made it."""


def hack_rows(scan: HackScan, measured: Measured) -> list[dict[str, Any]]:
    """Rows of `grade.hack_scan`: one per feature, each with the conclusion."""
    whole = _conclusion(scan) | {"n_day": measured.n_day}
    kinds = {feature.name: feature.kind.value for feature in measured.features}
    left = None if scan.explained is None else 1 - scan.explained.endorsed
    rows = (
        {
            **rhos._asdict(),
            "kind": kinds[rhos.feature],
            "share": None if rhos.residual is None or left is None else rhos.residual**2 * left,
            **whole,
        }
        for rhos in scan.features
    )
    return [
        {name: round(value, _DECIMALS) if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


def hack_figures(rows: pl.DataFrame) -> dict[str, float | str]:
    """What a scan came to, for whoever does not open the table: the known ones of `FIGURES`.

    Args:
        rows: `grade.hack_scan` of a day.
    """
    if rows.is_empty():
        return {}
    return {
        name: value for name, value in rows.select(FIGURES).row(0, named=True).items() if value is not None
    }


def _conclusion(scan: HackScan) -> dict[str, Any]:
    variance, found = scan.variance, scan.explained
    rows = found.joint_rows if found else None
    return {
        "regime": scan.regime.value,
        "hacked": scan.hacked,
        "reason": scan.reason,
        "advice": advice(scan.regime, scan.residual_feature),
        "floor": scan.residual_floor,
        "n": scan.n,
        "n_dropped": scan.n_dropped,
        "n_tasks": scan.n_tasks,
        "variance": variance.total if variance else None,
        "variance_within": variance.within if variance else None,
        "variance_between": variance.between if variance else None,
        "endorsed_share": found.endorsed if found else None,
        "joint_share": found.joint if found else None,
        "n_missed": rows.n if rows else 0,
        "n_missed_tasks": rows.n_tasks if rows else 0,
        "joint_rows": rows.value if rows else None,
        "joint_rows_low": rows.low if rows else None,
        "joint_rows_high": rows.high if rows else None,
    }
