"""Days of policies as the tables hold them: fits, promotions, decisions by hand, what served.

What a test does not care about is filled.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tests.example import PROJECT
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.policy import BIAS, Weights, base_weights
from while_pipeline.ids import canonical_json
from while_pipeline.project import Project
from while_pipeline.settings import AgentSettings
from while_pipeline.tables.base import Table, frame, polars_schema
from while_pipeline.train.registry import REGISTRY, Registry

BASE = base_weights()
FIRST_DAY = dt.date(2026, 3, 2)
FILLER: dict[Any, Any] = {pl.String: "1", pl.Int64: 1, pl.Float64: 0.5, pl.Boolean: True, pl.Date: FIRST_DAY}
ENDPOINT = EndpointSettings(base_url="http://127.0.0.1:1/v1", model="tuned")


def policy(step: float) -> Weights:
    """The base policy with one weight of its own."""
    weights = base_weights().model_dump()["weights"]
    weights["tool"]["match"][BIAS] = step
    return Weights(weights=weights)


def playing(**agent: Any) -> Project:
    """The example's project with another one who plays."""
    settings = PROJECT.settings.model_copy(update={"agent": AgentSettings.model_validate(agent)})
    return replace(PROJECT, settings=settings)


def nth(number: int) -> dt.date:
    """A day of the history; the first is 0."""
    return FIRST_DAY + dt.timedelta(days=number)


def made(model: type[Table], day: dt.date, *rows: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of a table: nulls where they may be, else filler, where a test gives nothing."""
    schema = model.to_schema().columns
    filler = {
        name: None if schema[name].nullable else FILLER[type(kind)]
        for name, kind in polars_schema(model).items()
        if name != "day"
    }
    return frame(model, day.isoformat(), [{**filler, **row} for row in rows])


@dataclass
class History:
    """What happened, written down day by day."""

    rows: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    weights: dict[str, Weights] = field(default_factory=lambda: {BASE.version: BASE})
    """Of every version that has some here."""

    def add(self, field_name: str, day: dt.date, **row: Any) -> None:
        """Write a row of a field of `Registry`."""
        self.rows.setdefault(field_name, []).append(made(REGISTRY[field_name], day, row))

    def serve(self, day: dt.date, version: str, **row: Any) -> None:
        weights = self.weights.get(version)
        told = {"plays": "embedded", "weights": weights and canonical_json(weights.weights)}
        self.add("agents", day, policy_version=version, **{**told, **row})

    def fit(self, day: dt.date, weights: Weights, parent: str = BASE.version) -> None:
        self.weights[weights.version] = weights
        told = {"method": "sft", "parent": parent, "weights": canonical_json(weights.weights)}
        self.add("policies", day, policy_version=weights.version, **told)

    def register(self, day: dt.date, endpoint: EndpointSettings = ENDPOINT, **row: Any) -> None:
        told = {"model": endpoint.model, "endpoint": canonical_json(endpoint.model_dump())}
        self.add("registered", day, policy_version=endpoint.version, **told, **row)

    def decide(self, day: dt.date, version: str, promoted: bool) -> None:
        """The gate's decision on a day."""
        self.add("promotions", day, candidate=version, promoted=promoted, reason="the figures")

    def by_hand(self, day: dt.date, row: Mapping[str, Any]) -> None:
        self.add("decisions", day, **row)

    def forget(self, field_name: str, day: dt.date) -> None:
        """Take back the rows of a day: it runs again."""
        self.rows[field_name] = [rows.filter(pl.col("day") != day) for rows in self.rows[field_name]]

    def registry(self) -> Registry:
        return Registry(**{name: self.table(name) for name in REGISTRY})

    def table(self, name: str) -> pl.DataFrame:
        empty: Sequence[pl.DataFrame] = [made(REGISTRY[name], FIRST_DAY)]
        return pl.concat([*empty, *self.rows.get(name, [])])


def nights(*outcomes: tuple[Weights, bool]) -> History:
    """Nights in order: each fits a candidate to what serves, and the gate promotes or refuses it."""
    history, serving = History(), BASE.version
    for number, (weights, promoted) in enumerate(outcomes):
        history.serve(nth(number), serving)
        history.fit(nth(number), weights, serving)
        history.decide(nth(number), weights.version, promoted)
        serving = weights.version if promoted else serving
    return history
