"""What every asset shares: one spec per stored table, one way to store it, one check that it is as declared.

Global policy over all assets (group, kinds, owners, descriptions, code version, metadata) is here, once.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import pandera.errors
import polars as pl

from resources.partitions import daily_partitions
from resources.warehouse import Warehouse
from while_pipeline import __version__
from while_pipeline.tables.base import Table, descriptions, row_meaning, sql_columns, table_name, validate

# Checks of one partition are in preview in Dagster 1.13; without partitions_def a check reads every day.
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

PARTITIONS = daily_partitions()
POOL = "warehouse"
"""One writer to DuckDB: its pool has one slot."""
OWNERS = ["team:while-pipeline"]
PREVIEW_ROWS, PREVIEW_TEXT = 5, 60
"""A preview is for recognising a table, not for reading it; metadata lives in Dagster's event log."""


def key_of(model: type[Table]) -> dg.AssetKey:
    """Asset key of a table: its schema and its name."""
    return dg.AssetKey(table_name(model).split("."))


def table_assets(
    *models: type[Table], deps: Sequence[type[Table] | dg.AssetSpec] = ()
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Declare the assets that one function stores."""
    keys = [key_of(dep) if isinstance(dep, type) else dep.key for dep in deps]

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        specs = [_spec(model, keys, function.__doc__ or "") for model in models]
        return dg.multi_asset(
            name=table_name(models[0]).replace(".", "_"), specs=specs, partitions_def=PARTITIONS, pool=POOL
        )(function)

    return decorate


def _spec(model: type[Table], deps: Sequence[dg.AssetKey], how: str) -> dg.AssetSpec:
    key = key_of(model)
    return dg.AssetSpec(
        key=key,
        deps=deps,
        group_name=key.path[0],
        kinds={"duckdb", "polars"},
        owners=OWNERS,
        description=f"{row_meaning(model)}\n\n{inspect.cleandoc(how)}",
        code_version=__version__,
        metadata={"dagster/table_name": table_name(model), "dagster/column_schema": _column_schema(model)},
    )


def _column_schema(model: type[Table]) -> dg.TableSchema:
    comments = descriptions(model)
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=name,
                type=kind.removesuffix(" NOT NULL"),
                description=comments[name],
                constraints=dg.TableColumnConstraints(nullable=not kind.endswith(" NOT NULL")),
            )
            for name, kind in sql_columns(model).items()
        ]
    )


def store(
    day: str,
    warehouse: Warehouse,
    frames: Mapping[type[Table], pl.DataFrame],
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[dg.MaterializeResult[Any]]:
    """Replace the day's slice of every table in one transaction and report each.

    `metadata` goes to the first table. The data version is the content: an unchanged re-run does not make
    what depends on it stale.
    """
    warehouse.replace_slices(day, frames)
    for i, (model, made) in enumerate(frames.items()):
        extra = {**(metadata or {})} if i == 0 else {}
        yield dg.MaterializeResult(
            asset_key=key_of(model),
            data_version=dg.DataVersion(warehouse.digest(model, day)),
            metadata={"dagster/partition_row_count": made.height, "preview": preview(made), **extra},
        )


def preview(made: pl.DataFrame) -> dg.MarkdownMetadataValue:
    """The first rows as a Markdown table, long values clipped."""
    if made.is_empty():
        return dg.MetadataValue.md("No rows.")
    shown = made.drop("day").head(PREVIEW_ROWS)
    lines = ["| " + " | ".join(shown.columns) + " |", "|" + " --- |" * shown.width]
    lines += ["| " + " | ".join(map(_clipped, row)) + " |" for row in shown.iter_rows()]
    return dg.MetadataValue.md("\n".join(lines))


def _clipped(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    text = " ".join(text.replace("|", "\\|").split())
    return text if len(text) <= PREVIEW_TEXT else text[: PREVIEW_TEXT - 1] + "…"


def declared_check(model: type[Table]) -> dg.AssetChecksDefinition:
    """A blocking check that the stored slice is what the table's model declares."""

    @dg.asset_check(
        asset=key_of(model),
        name="as_declared",
        blocking=True,
        partitions_def=PARTITIONS,
        description="The stored rows of the day hold to the table's columns, types and checks.",
    )
    def as_declared(context: dg.AssetCheckExecutionContext, warehouse: Warehouse) -> dg.AssetCheckResult:
        held = warehouse.read(model, context.partition_key)
        try:
            validate(model, held)
        except pandera.errors.SchemaErrors as error:
            return dg.AssetCheckResult(passed=False, metadata={"failures": dg.MetadataValue.text(str(error)[:2000])})
        return dg.AssetCheckResult(passed=True, metadata={"rows": held.height})

    return as_declared
