"""What people decide and register by hand: kept day by day, read by the steps that follow."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import dagster as dg
import polars as pl

from assets.stored import Stored, key_of, store, table_assets
from resources.warehouse import Warehouse
from while_pipeline.tables import prove, train
from while_pipeline.tables.base import Table, frame
from while_pipeline.train.registry import REGISTRY, Registry

by_hand = dg.AssetSpec(
    "by_hand",
    group_name="watch",
    kinds={"shell"},
    owners=["team:while-pipeline"],
    description="What people decide with `while-pipeline promote`, `rollback` and `candidate`.",
)


@table_assets(prove.Decisions, deps=[by_hand])
def decisions(context: dg.AssetExecutionContext, warehouse: Warehouse) -> Stored:
    """Written by `while-pipeline promote` and `rollback`; a run keeps what is there."""
    yield from _kept(context.partition_key, warehouse, prove.Decisions)


@table_assets(train.Registered, deps=[by_hand])
def registered(context: dg.AssetExecutionContext, warehouse: Warehouse) -> Stored:
    """Written by `while-pipeline candidate`; a run keeps what is there."""
    yield from _kept(context.partition_key, warehouse, train.Registered)


def _kept(day: str, warehouse: Warehouse, model: type[Table]) -> Stored:
    # One connection: between reading and writing, nobody may write a row that this would lose.
    with warehouse.connect():
        results = list(store(day, warehouse, {model: warehouse.read(model, day)}))
    yield from results


def registry_of(warehouse: Warehouse, day: str | None = None) -> Registry:
    """What is stored of policies: all of it, or what holds on `day`.

    That is what the days before it came to, and what people decided for it.
    """
    after = (dt.date.fromisoformat(day) + dt.timedelta(days=1)).isoformat() if day else None
    with warehouse.connect():
        return Registry(
            **{
                field: warehouse.read(model, before=after if model is prove.Decisions else day)
                for field, model in REGISTRY.items()
            }
        )


def add_by_hand(
    warehouse: Warehouse, model: type[Table], day: str, row: Mapping[str, Any]
) -> dg.AssetMaterialization:
    """Add a row to those of a day, where it is not among them yet; give what tells Dagster of it."""
    with warehouse.connect():
        made = pl.concat([warehouse.read(model, day), frame(model, day, [row])]).unique(maintain_order=True)
        told = {name: value for name, value in row.items() if isinstance(value, str | bool | int)}
        return _written(warehouse, model, day, made, told)


def clear_by_hand(warehouse: Warehouse, model: type[Table], day: str) -> dg.AssetMaterialization:
    """Take back the rows of a day; give what tells Dagster of it."""
    return _written(warehouse, model, day, frame(model, day, []), {})


def _written(
    warehouse: Warehouse, model: type[Table], day: str, made: pl.DataFrame, told: Mapping[str, Any]
) -> dg.AssetMaterialization:
    with warehouse.connect():
        warehouse.replace_slice(model, day, made)
        version = warehouse.digest(model, day)
    return dg.AssetMaterialization(
        key_of(model),
        partition=day,
        tags={"dagster/data_version": version},
        metadata={"dagster/partition_row_count": made.height, **told},
    )
