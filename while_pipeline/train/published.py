"""A day's cut, read to be trained on or exported: what may not leave is refused before anything is made.

What belongs here: the one door from the stored cuts to trainers and files. Which rows a cut has belongs to
`cuts`, whether they may leave to `publication`.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import polars as pl

from while_pipeline.errors import ProjectError
from while_pipeline.messages import decode_json, json_text
from while_pipeline.project import DATABASE
from while_pipeline.snapshot import read_snapshot, snapshot_path
from while_pipeline.tables import grade, simulate, train, watch
from while_pipeline.tables.base import CutTable, Table, table_name
from while_pipeline.train.names import CutName
from while_pipeline.train.publication import refusal
from while_pipeline.train.trl.examples import examples
from while_pipeline.train.trl.settings import Method

Row = dict[str, Any]

DayReader = Callable[[type[Table]], pl.DataFrame]
"""Gives a table's rows of one day."""


_TURN = pl.col("scenario_id").rank("dense").over("pass_rate", "tool_condition")
"""Kinds of fault take turns."""


class _Kind(NamedTuple):
    table: type[CutTable]
    method: Method
    """The method that trains on the cut: what it refuses is not exported."""
    order: tuple[str | pl.Expr, ...]
    """What orders rows of an equal pass rate."""


CUTS: Final[Mapping[CutName, _Kind]] = MappingProxyType(
    {
        "sft": _Kind(train.Sft, "sft", ("scenario_id",)),
        "sft_random": _Kind(train.SftRandom, "sft", ("scenario_id",)),
        "dpo": _Kind(train.Dpo, "dpo", ("scenario_id",)),
        "grpo": _Kind(train.Grpo, "grpo", (_TURN, "tool_condition", "scenario_id", "rollout_id")),
        "reward_model": _Kind(train.RewardModel, "reward", ("scenario_id", "rollout_id")),
    }
)

_JSON = ("messages", "tools", "prompt", "chosen", "rejected")


@dataclass(frozen=True)
class CutRows:
    """The rows of a published cut and what the manifest says of them."""

    cut: CutName
    day: str
    """ISO date of the rollouts."""
    rows: list[Row]
    """Easy to hard; messages and tools decoded, arguments as objects."""
    scenarios: Mapping[str, Row]
    """The day's scenarios by id, as `simulate.scenarios` has them."""
    document: str
    """The policy document."""
    policy_version: str
    judge: str
    checks: tuple[str, ...]
    """Checks of the publication gate that the cut passed."""

    @property
    def own(self) -> str:
        """Texts of the business itself, see `privileged.scan`."""
        return f"{self.document}\n{json_text(self.rows[0]['tools'])}"

    @property
    def source(self) -> str:
        """Where the rows come from, for errors."""
        return f"{table_name(CUTS[self.cut].table)} of {self.day}"


def snapshot_of(data: Path, day: dt.date) -> DayReader:
    """Reads a day from the published snapshot of a data folder.

    Raises:
        SnapshotError: nothing has been published yet; when it reads.
    """

    def of(model: type[Table]) -> pl.DataFrame:
        # A date's own text cannot be anything else than a date.
        sql = f"SELECT * FROM {table_name(model)} WHERE day = DATE '{day.isoformat()}'"
        return read_snapshot(snapshot_path(data / DATABASE), sql)

    return of


def read_cut(of: DayReader, day: dt.date, cut: CutName) -> CutRows:
    """Read a day's cut.

    Args:
        of: Reads the day's tables.
        day: The rollouts' day.
        cut: Which cut.

    Raises:
        ProjectError: the day was not run, the publication gate refused the cut or has not looked at it, or a
            row is one that no trainer may get: see `examples`.
    """
    kind = CUTS[cut]
    source = f"{table_name(kind.table)} of {day}"
    agent = of(watch.Agent)
    if agent.is_empty():
        raise ProjectError(
            source, "day", day.isoformat(), f"it was not run: `while-pipeline run --day {day}`"
        )
    checks, found = of(train.Publication), of(kind.table)
    if found.is_empty():
        raise ProjectError(source, "rows", 0, "the cut is empty; `train.why_dropped` says what dropped each")
    if (refused := refusal(checks, cut, found)) is not None:
        raise ProjectError(source, "publication", cut, f"{refused}; `while-pipeline run --day {day}`")
    order = [pl.col("pass_rate").neg(), *kind.order]
    rows = [decoded(row) for row in found.sort(order).iter_rows(named=True)]
    examples(kind.method, rows, source)
    scenarios = of(simulate.Scenarios).drop("day")
    row = agent.row(0, named=True)
    return CutRows(
        cut=cut,
        day=day.isoformat(),
        rows=rows,
        scenarios={one["scenario_id"]: one for one in scenarios.iter_rows(named=True)},
        document=row["policy_document"],
        policy_version=row["policy_version"],
        judge=", ".join(of(grade.Grades)["judge"].unique().sort()),
        checks=tuple(checks.filter((pl.col("cut") == cut) & pl.col("passed"))["check"].sort()),
    )


def by_scenario(rows: list[Row]) -> list[list[Row]]:
    """The rows of each scenario, in the order in which the scenarios come first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["scenario_id"], []).append(row)
    return list(groups.values())


def decoded(row: Row) -> Row:
    """A row of a cut with its messages and tools read from JSON."""
    return {name: decode_json(value) if name in _JSON else value for name, value in row.items()}
