"""Reading the published snapshot of the warehouse with SQL.

The database itself locks out every other process while a run writes, so people and tools read a copy that
each run publishes. What belongs here: where the copy is and how it is opened. Making it belongs to
`resources.warehouse`.
"""

from pathlib import Path

import duckdb
import polars as pl

_READABLE = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
"""DuckDB parses SHOW, DESCRIBE and SUMMARIZE as SELECT."""

_SEALED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
"""A query sees the snapshot's tables and nothing else: no file, no network, no Python variable."""


class SnapshotError(Exception):
    """The snapshot cannot answer: it is not there yet, or it was asked to do more than read."""


def snapshot_path(database: Path) -> Path:
    """Where the snapshot of `database` is published: beside it, `while.duckdb` as `while.snapshot.duckdb`."""
    return database.with_name(f"{database.stem}.snapshot.duckdb")


def read_snapshot(path: Path, sql: str) -> pl.DataFrame:
    """Answer one reading statement (SELECT, SHOW, DESCRIBE, SUMMARIZE, EXPLAIN) from the snapshot at `path`.

    The file may be replaced by a new snapshot at any moment: a query under way keeps the one it opened.

    Raises:
        SnapshotError: no snapshot has been published yet, or `sql` is not exactly one reading statement.
        duckdb.Error: the statement is wrong, or it reaches for a file or the network.
    """
    if not path.exists():
        raise SnapshotError(
            f"There is no snapshot at {path} yet. Every finished run publishes one: "
            f"`while-pipeline run --day YYYY-MM-DD`."
        )
    with duckdb.connect(path, read_only=True, config=_SEALED) as connection:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type not in _READABLE:
            kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
            raise SnapshotError(
                f"The snapshot is read-only and answers one SELECT, SHOW, DESCRIBE, SUMMARIZE or EXPLAIN at "
                f"a time; this is {kinds}. Only runs write tables."
            )
        found: pl.DataFrame = connection.sql(statements[0]).pl()
    return found
