"""What every asset shares: one spec per stored table, one way to store it, one check that it is as declared.

Global policy over all assets (group, kinds, owners, descriptions, code version, metadata) is here, once.
"""

import inspect
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
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
Stored = Iterator[dg.MaterializeResult[Any]]
"""What an asset function gives: one result per table it stored."""
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
        return dg.multi_asset(
            name=table_name(models[0]).replace(".", "_"),
            specs=[_spec(model, keys, function.__doc__ or "") for model in models],
            check_specs=[_declared_spec(model) for model in models],
            partitions_def=PARTITIONS,
            pool=POOL,
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
) -> Stored:
    """Replace the day's slice of every table in one transaction, read it back, and report each.

    `metadata` goes to the first table. The data version is the content: an unchanged re-run does not make
    what depends on it stale.
    """
    with warehouse.connect():
        warehouse.replace_slices(day, frames)
        versions = {model: warehouse.digest(model, day) for model in frames}
        broken = {model: _broken(model, warehouse.read(model, day), made) for model, made in frames.items()}
    extra = dict(metadata or {})
    for model, made in frames.items():
        yield _result(model, made.height, versions[model], made, broken[model], extra)
        extra = {}


def store_files(
    day: str,
    warehouse: Warehouse,
    files: Mapping[type[Table], Sequence[Path]],
    metadata: Mapping[str, Any] | None = None,
) -> Stored:
    """Replace the day's slice of every table by Parquet files; see `store`.

    For slices too large to hold: their frames were validated one by one when they were written, so what is
    compared here is how many rows they say they hold and how many are stored.
    """
    said = {model: sum(map(_rows_of, paths)) for model, paths in files.items()}
    with warehouse.connect():
        held = warehouse.load_shards(day, files)
        versions = {model: warehouse.digest(model, day) for model in files}
        heads = {model: warehouse.read(model, day, rows=PREVIEW_ROWS) for model in files}
    extra = dict(metadata or {})
    for model, head in heads.items():
        broken = _miscounted(said[model], held[model])
        yield _result(model, held[model], versions[model], head, broken, extra)
        extra = {}


def store_parts(
    day: str,
    warehouse: Warehouse,
    model: type[Table],
    parts: Iterable[pl.DataFrame],
    figures: Callable[[], Mapping[str, Any]] = dict,
) -> Stored:
    """Replace the day's slice of a table by frames, one after the other; see `store_files`.

    A frame is on disk before the next one is made, and nothing is stored before the last one is. `figures`
    gives the metadata once the slice is stored.
    """
    folder = Path(warehouse.database).parent / "parts" / table_name(model) / day
    # Left by a run that was killed: nothing goes on from it.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        files = [_put(part, folder / f"{i}.parquet") for i, part in enumerate(parts)]
        for stored in store_files(day, warehouse, {model: files}):
            yield stored._replace(metadata={**(stored.metadata or {}), **figures()})
    finally:
        shutil.rmtree(folder)


def _put(part: pl.DataFrame, path: Path) -> Path:
    part.write_parquet(path)
    return path


def _rows_of(path: Path) -> int:
    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def _result(
    model: type[Table],
    rows: int,
    version: str,
    head: pl.DataFrame,
    broken: str | None,
    extra: Mapping[str, Any],
) -> dg.MaterializeResult[Any]:
    return dg.MaterializeResult(
        asset_key=key_of(model),
        data_version=dg.DataVersion(version),
        metadata={"dagster/partition_row_count": rows, "preview": preview(head), **extra},
        check_results=[_declared_result(model, rows, broken)],
    )


def _declared_spec(model: type[Table]) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        name="as_declared",
        asset=key_of(model),
        blocking=True,
        description="What was read back is what was written and holds to the table's model.",
    )


def _declared_result(model: type[Table], rows: int, broken: str | None) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key_of(model),
        check_name="as_declared",
        passed=broken is None,
        metadata={"rows": rows, "failures": broken or "none"},
    )


def _broken(model: type[Table], held: pl.DataFrame, made: pl.DataFrame) -> str | None:
    """Why the stored slice is not the frame that was to be stored; None when it is."""
    if miscounted := _miscounted(made.height, held.height):
        return miscounted
    try:
        validate(model, held)
    except pandera.errors.SchemaErrors as error:
        return str(error)[:2000]
    return None


def _miscounted(written: int, stored: int) -> str | None:
    return None if written == stored else f"{written} rows were written, {stored} are stored"


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
