"""A hack scan as rows of its table.

What belongs here: rows of `grade.hack_scan` and what is told of them. The numbers are made in `hack_scan`.
"""

from typing import Any

import polars as pl

from while_pipeline.grade.hack_features import Measured
from while_pipeline.grade.hack_regime import advice
from while_pipeline.grade.hack_scan import HackScan
from while_pipeline.grade.hack_shares import RowShare

FIGURES = (
    "regime",
    "n",
    "n_day",
    "variance",
    "variance_within",
    "variance_between",
    "endorsed_share",
    "joint_share",
    "top_rows",
    "joint_rows",
)
"""Columns that say the same in every row of a day."""


def hack_rows(scan: HackScan, measured: Measured) -> list[dict[str, Any]]:
    """Rows of `grade.hack_scan`: one per feature, each with the conclusion."""
    whole = _conclusion(scan) | {"n_day": measured.n_day}
    kinds = {feature.name: feature.kind.value for feature in measured.features}
    left = None if scan.explained is None else 1 - scan.explained.endorsed
    return [
        {
            **rhos._asdict(),
            "kind": kinds[rhos.feature],
            "share": None if rhos.residual is None or left is None else rhos.residual**2 * left,
            **whole,
        }
        for rhos in scan.features
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
    top = found.top_rows if found else None
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
        "n_missed": top.n if top else 0,
        "n_missed_tasks": top.n_tasks if top else 0,
        **_bounds("top_rows", top),
        **_bounds("joint_rows", found.joint_rows if found else None),
    }


def _bounds(name: str, share: RowShare | None) -> dict[str, float | None]:
    value, low, high = (share.value, share.low, share.high) if share else (None, None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}
