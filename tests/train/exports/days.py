"""Played days whose cuts are exported. No assertion belongs here."""

import datetime as dt
from pathlib import Path
from typing import Any

from resources.warehouse import Warehouse
from tests.train.exports.stored import ALL_CUTS, DAY, SCENARIOS, filled
from tests.train.trl import tiny
from while_pipeline.project import DATABASE
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.tables import grade, simulate, train, watch
from while_pipeline.tables.base import Table, frame
from while_pipeline.train.names import CutName
from while_pipeline.train.publication import rows_hash
from while_pipeline.train.published import CUTS, Row

DATE = dt.date.fromisoformat(DAY)


def published(
    data: Path, cuts: dict[CutName, list[Row]], publication: list[dict[str, Any]] | None = None
) -> Path:
    """A data folder whose snapshot holds a day with those cuts, all of which passed the gate."""
    tables: dict[type[Table], list[dict[str, Any]]] = {
        watch.Agent: [filled(watch.Agent, policy_version="p1", plays="embedded", tools=tiny.OFFERED)],
        grade.Grades: [filled(grade.Grades, judge="j1", no_verdict=None)],
        simulate.Scenarios: [
            filled(simulate.Scenarios, arm="structured", **scenario_row(one)) for one in SCENARIOS.values()
        ],
        train.Publication: [check(cut) for cut in cuts] if publication is None else publication,
        **{CUTS[cut].table: [] for cut in ALL_CUTS},
        **{CUTS[cut].table: [filled(CUTS[cut].table, **row) for row in rows] for cut, rows in cuts.items()},
    }
    held = {cut: frame(CUTS[cut].table, DAY, tables[CUTS[cut].table]) for cut in ALL_CUTS}
    tables[train.Publication] = [
        {"rows_hash": rows_hash(held[one["cut"]]), **one} for one in tables[train.Publication]
    ]
    warehouse = Warehouse(database=str(data / DATABASE))
    warehouse.replace_slices(DAY, {model: frame(model, DAY, rows) for model, rows in tables.items()})
    warehouse.publish()
    return data


def check(cut: str, *, passed: bool = True, stops: str = "day") -> dict[str, Any]:
    """A row of the publication gate."""
    about = {"check": "no_sealed_task", "stops": stops, "detail": "for example r1", "examples": "[]"}
    return {"cut": cut, "passed": passed, "n_rows": 3, "n_refused": int(not passed), **about}
