"""The warehouse: one DuckDB file, one way to open it, one way to write it.

What belongs here: connections, slices, views, the published snapshot. What a table is belongs to
`while_pipeline.tables`; what goes into it, to the engine.
"""

import datetime as dt
import glob
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import polars as pl
from dagster_duckdb import DuckDBResource

from while_pipeline.snapshot import snapshot_path
from while_pipeline.tables.base import Table, ddl, polars_schema, sql_columns, table_name, validate

SCHEMAS = ("watch", "simulate", "grade", "train", "prove", "lineage")
"""The five words, and `lineage` for the views that cross them. All are there in every snapshot."""

LOCK_WAIT_S = 60.0
"""Writes take seconds at most: a minute outlasts any run beside this one; past it, a client was forgotten."""

_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "threads": "2",
    "memory_limit": "1GB",
}
"""Never download, never read a Python variable for a misspelt table. The stock memory limit is 80 % of the
machine; a million rollouts load as fast within 1 GB as within 4."""


_HELD: ContextVar[Mapping[str, duckdb.DuckDBPyConnection]] = ContextVar("held", default=MappingProxyType({}))
"""Open connection by database: what is inside a `with connect()` shares it, another thread does not."""


class WarehouseLockedError(Exception):
    """Another process holds the database file."""


class StoredSchemaError(Exception):
    """A stored table was written by a version whose columns differ from today's model."""


class Warehouse(DuckDBResource):
    """The pipeline's DuckDB database. `connection_config` overrides settings such as threads."""

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the database for reading and writing, and close it whatever happens.

        Open late and leave early: while it is open no other process can open the file, not even to read.
        Opening costs some 50 ms, so inside a `with` every other call uses the connection that is open.

        Raises:
            WarehouseLockedError: the file was still locked after `LOCK_WAIT_S` seconds.
        """
        held = _HELD.get().get(self.database)
        if held is not None:
            yield held
            return
        path = Path(self.database)
        path.parent.mkdir(parents=True, exist_ok=True)
        config = {**_CONFIG, "temp_directory": str(path.parent / "duckdb_temp"), **self.connection_config}
        connection = _open(path, config)
        token = _HELD.set({**_HELD.get(), self.database: connection})
        try:
            yield connection
        finally:
            _HELD.reset(token)
            connection.close()

    @contextmanager
    def get_connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Same as `connect`: the inherited one stays open after an exception."""
        with self.connect() as connection:
            yield connection

    def replace_slices(self, day: str, frames: Mapping[type[Table], pl.DataFrame]) -> None:
        """Replace what is stored for `day` (ISO date) in each table, all of them or none.

        Tables are created when absent. A nullable column new in the model is added to the stored table.

        Raises:
            pandera.errors.SchemaErrors: a frame breaks its model; nothing was written.
            ValueError: a frame holds rows of another day; nothing was written.
            StoredSchemaError: a stored table's columns differ from the model; nothing was written.
        """
        date = dt.date.fromisoformat(day)
        for model, frame in frames.items():
            validate(model, frame)
            if (strays := frame.filter(pl.col("day") != date)).height:
                raise ValueError(
                    f"{table_name(model)}: {strays.height} rows of {strays['day'][0]} in the slice of {day}"
                )
        with self.connect() as connection, _transaction(connection):
            for model, frame in frames.items():
                name = table_name(model)
                _prepare(connection, model)
                connection.execute(f"DELETE FROM {name} WHERE day = ?", [date])
                connection.register("incoming", frame)
                connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM incoming")
                connection.unregister("incoming")

    def replace_slice(self, model: type[Table], day: str, frame: pl.DataFrame) -> None:
        """Replace one table's slice; see `replace_slices`."""
        self.replace_slices(day, {model: frame})

    def load_shards(self, day: str, shards: Mapping[type[Table], Sequence[Path]]) -> dict[type[Table], int]:
        """Replace what is stored for `day` in each table by the rows of Parquet files; rows per table.

        All tables or none. The rows of a table come in the order of its files; no file leaves no rows. A
        file's frame was validated against the model when it was written, so what is looked at here is what
        no single file can show.

        Raises:
            ValueError: a row is of another day, or two rows have the same key; nothing was written.
            StoredSchemaError: a stored table's columns differ from the model; nothing was written.
            duckdb.Error: a file is missing, unreadable, or not of the table's columns; nothing was written.
        """
        date, loaded = dt.date.fromisoformat(day), dict[type[Table], int]()
        with self.connect() as connection, _transaction(connection):
            for model, paths in shards.items():
                name = table_name(model)
                _prepare(connection, model)
                connection.execute(f"DELETE FROM {name} WHERE day = ?", [date])
                if paths:
                    # A path is a pattern to DuckDB, and a folder called `a=b` a column.
                    files = [glob.escape(str(path)) for path in paths]
                    source = "read_parquet(?, hive_partitioning = false)"
                    strays = f"SELECT count(*) FROM {source} WHERE day <> ?"
                    if count := _number(connection, strays, [files, date]):
                        raise ValueError(f"{name}: {count} rows of another day in the shards of {day}")
                    connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM {source}", [files])
                for key in _keys(model):
                    columns = ", ".join(map(_quoted, key))
                    twice = f"SELECT {columns} FROM {name} WHERE day = ? GROUP BY ALL HAVING count(*) > 1"
                    if count := _number(connection, f"SELECT count(*) FROM ({twice})", [date]):
                        raise ValueError(f"{name}: {count} values of ({columns}) stand in more than one row")
                loaded[model] = _number(connection, f"SELECT count(*) FROM {name} WHERE day = ?", [date])
        return loaded

    def read(
        self,
        model: type[Table],
        day: str | None = None,
        *,
        since: str | None = None,
        before: str | None = None,
        rows: int | None = None,
    ) -> pl.DataFrame:
        """Read a table: one day, the days from `since` on, those strictly `before` one, or all.

        `rows` is the most that are read; empty: all.

        Rows come by day, in the order they were written.

        Columns come typed and in the model's order, JSON as text. A table not yet written gives no rows; a
        nullable column that the stored table does not have yet gives nulls.

        Raises:
            StoredSchemaError: the stored table's columns differ from the model.
        """
        bounds = {"day = ?": day, "day >= ?": since, "day < ?": before}
        given = {clause: value for clause, value in bounds.items() if value is not None}
        with self.connect() as connection:
            asked = _select(connection, model, " AND ".join(given) or "true") + " ORDER BY day, rowid"
            limit = "" if rows is None else f" LIMIT {rows}"
            found: pl.DataFrame = connection.sql(asked + limit, params=list(given.values())).pl()
        return found

    def read_day(self, day: str, *models: type[Table]) -> tuple[pl.DataFrame, ...]:
        """Read one day of several tables."""
        with self.connect():
            return tuple(self.read(model, day) for model in models)

    def read_of(self, model: type[Table], day: str, column: str, values: Sequence[str]) -> pl.DataFrame:
        """Read a day's rows whose `column` has one of `values`, in the order they were written; see `read`.

        For a slice too large to hold: rows written together are read without unpacking the rest of the day.
        """
        with self.connect() as connection:
            if not _stored_columns(connection, model):
                return self.read(model, day)
            chosen = f"day = ? AND {_quoted(column)} IN (SELECT unnest(?::VARCHAR[]))"
            span = f"SELECT min(rowid), max(rowid) FROM {table_name(model)} WHERE {chosen}"
            bounds = connection.sql(span, params=[day, values]).pl().row(0)
            # Without the bounds all columns of all rows are unpacked: 1.1 s for 4,000 rollouts of 300,000,
            # and 0.15 s with them.
            rows = _select(connection, model, f"{chosen} AND rowid BETWEEN ? AND ?") + " ORDER BY rowid"
            found: pl.DataFrame = connection.sql(rows, params=[day, values, *bounds]).pl()
        return found

    def query(self, sql: str, params: Sequence[Any] = ()) -> pl.DataFrame:
        """Answer one SELECT, with `?` placeholders for `params`."""
        with self.connect() as connection:
            found: pl.DataFrame = connection.sql(sql, params=list(params)).pl()
        return found

    def digest(self, model: type[Table], day: str) -> str:
        """Hash a day's rows to 20 hex characters, whatever their order; no rows have a digest too.

        It is the SHA-256 of the number of rows and the sum of their MD5 numbers: repeated rows count, and
        nothing is sorted (1M rows: about 3 s). DuckDB's own `hash()` may change between versions.

        Raises:
            StoredSchemaError: the stored table's columns differ from the model.
        """
        with self.connect() as connection:
            rows = _select(connection, model, "day = ?")
            # 96 bits of each MD5: a HUGEINT sum of them cannot overflow below 2**31 rows.
            numbers = f"SELECT (md5_number(to_json(r)::VARCHAR) >> 32)::HUGEINT AS n FROM ({rows}) AS r"
            whole = f"SELECT sha256(concat_ws(' ', count(*), coalesce(sum(n), 0)))[:20] FROM ({numbers})"
            return str(connection.sql(whole, params=[day]).pl().item())

    def create_views(self, statements: Mapping[str, str]) -> list[str]:
        """Create or replace views, each a `schema.view` with its SELECT; return the names created.

        A view over tables that no run has written yet is skipped. Views may build on earlier ones.

        Raises:
            duckdb.Error: a SELECT is wrong in any other way.
        """
        created = []
        with self.connect() as connection:
            for name, select in statements.items():
                schema, _, view = name.partition(".")
                connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
                try:
                    connection.execute(f'CREATE OR REPLACE VIEW "{schema}"."{view}" AS {select}')
                except duckdb.CatalogException as error:
                    if "Table with name" not in str(error):
                        raise
                else:
                    created.append(name)
        return created

    def publish(self) -> Path:
        """Publish a snapshot of tables, views and comments beside the database; return its path.

        It is written aside and renamed into place: a reader has the old one or the new one, whole.
        """
        target = snapshot_path(Path(self.database))
        fresh = target.with_suffix(".fresh")
        for left_by_a_crash in (fresh, fresh.with_name(f"{fresh.name}.wal")):
            left_by_a_crash.unlink(missing_ok=True)
        with self.connect() as connection:
            for schema in SCHEMAS:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            source = connection.sql("SELECT current_database()").pl().item()
            path = str(fresh).replace("'", "''")
            connection.execute(f"ATTACH '{path}' AS published")
            try:
                connection.execute(f'COPY FROM DATABASE "{source}" TO published')
            finally:
                connection.execute("DETACH published")
        os.replace(fresh, target)
        return target


def _open(path: Path, config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return duckdb.connect(path, config=config)
        except duckdb.IOException as error:
            if "lock" not in str(error):
                raise
            if time.monotonic() > deadline:
                raise WarehouseLockedError(
                    f"{path} is still held by another process after {LOCK_WAIT_S:g} s: a run that writes, "
                    f"or a DuckDB client left open. Wait for the run, or close the client and open "
                    f"{snapshot_path(path)} there instead. DuckDB says: {error}"
                ) from error
            time.sleep(0.1)


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _number(connection: duckdb.DuckDBPyConnection, sql: str, params: Sequence[Any]) -> int:
    """The one number that a SELECT gives."""
    row = connection.execute(sql, list(params)).fetchone()
    assert row is not None, "an aggregate gives a row"
    return int(row[0])


def _keys(model: type[Table]) -> list[list[str]]:
    """Columns whose values, together, stand in one row only."""
    schema = model.to_schema()
    single = [[name] for name, field in schema.columns.items() if field.unique]
    return [*single, schema.unique] if schema.unique else single


def _prepare(connection: duckdb.DuckDBPyConnection, model: type[Table]) -> None:
    """Create the table, or add the nullable columns it does not have yet."""
    if stored := _stored_columns(connection, model):
        for column, kind in _new_columns(model, stored).items():
            connection.execute(f'ALTER TABLE {table_name(model)} ADD COLUMN "{column}" {kind}')
    for statement in ddl(model):
        connection.execute(statement)


def _select(connection: duckdb.DuckDBPyConnection, model: type[Table], where: str) -> str:
    """SELECT of a table's rows in the model's columns and types, whatever of it is stored."""
    stored = _stored_columns(connection, model)
    absent = _new_columns(model, stored) if stored else polars_schema(model)
    columns = ", ".join(
        f"CAST({'NULL' if name in absent else _quoted(name)} AS {_read_type(kind)}) AS {_quoted(name)}"
        for name, kind in sql_columns(model).items()
    )
    source = table_name(model) if stored else "(SELECT NULL::DATE AS day, 0 AS rowid WHERE false)"
    return f"SELECT {columns} FROM {source} WHERE {where}"


def _stored_columns(connection: duckdb.DuckDBPyConnection, model: type[Table]) -> dict[str, str]:
    """DuckDB type (with NOT NULL where it holds) per stored column; empty when there is no such table."""
    schema, _, table = table_name(model).partition(".")
    rows = connection.execute(
        "SELECT column_name, data_type || CASE WHEN is_nullable THEN '' ELSE ' NOT NULL' END "
        "FROM duckdb_columns() "
        "WHERE database_name = current_database() AND schema_name = ? AND table_name = ?",
        [schema, table],
    ).fetchall()
    return dict(rows)


def _new_columns(model: type[Table], stored: Mapping[str, str]) -> dict[str, str]:
    """Nullable columns of the model that the stored table lacks; any other difference is an error."""
    declared = sql_columns(model)
    new = {name: kind for name, kind in declared.items() if name not in stored and "NOT NULL" not in kind}
    differing = sorted(
        f"{name} (stored: {stored.get(name, 'absent')}; model: {declared.get(name, 'absent')})"
        for name in (stored.keys() | declared.keys()) - new.keys()
        if stored.get(name) != declared.get(name)
    )
    if differing:
        raise StoredSchemaError(
            f"{table_name(model)} was written by another version of its model. Columns that differ: "
            f"{', '.join(differing)}. Drop or alter the table by hand, or move the database file away; "
            f"then materialise its days again."
        )
    return new


def _read_type(kind: str) -> str:
    return "VARCHAR" if kind.startswith("JSON") else kind.removesuffix(" NOT NULL")


def _quoted(name: str) -> str:
    return f'"{name}"'
