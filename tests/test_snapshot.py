from pathlib import Path

import duckdb
import pytest

from while_pipeline.snapshot import SnapshotError, read_snapshot, snapshot_path


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "while.snapshot.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE SCHEMA watch")
        connection.execute("CREATE TABLE watch.steps AS SELECT 'refund' AS tool, 3 AS calls")
    return path


def test_the_snapshot_lies_beside_its_database() -> None:
    assert snapshot_path(Path("/srv/data/while.duckdb")) == Path("/srv/data/while.snapshot.duckdb")


def test_a_select_is_answered(snapshot: Path) -> None:
    assert read_snapshot(snapshot, "SELECT * FROM watch.steps").rows() == [("refund", 3)]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM watch.steps;",
        "SHOW ALL TABLES",
        "DESCRIBE watch.steps",
        "SUMMARIZE watch.steps",
        "EXPLAIN SELECT 1",
    ],
)
def test_a_look_around_is_answered(snapshot: Path, sql: str) -> None:
    assert read_snapshot(snapshot, sql).height > 0


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO watch.steps VALUES ('cancel', 1)",
        "DELETE FROM watch.steps RETURNING *",
        "DROP TABLE watch.steps",
        "CREATE TEMP TABLE t (i INT)",
        "COPY watch.steps TO 'steps.csv'",
        "ATTACH 'other.duckdb'",
        "SET threads = 1",
        "SELECT 1; DROP TABLE watch.steps",
        "",
    ],
)
def test_anything_but_one_reading_statement_is_refused_and_changes_nothing(snapshot: Path, sql: str) -> None:
    before = snapshot.read_bytes()
    with pytest.raises(SnapshotError, match="read-only"):
        read_snapshot(snapshot, sql)
    assert snapshot.read_bytes() == before


@pytest.mark.parametrize("source", ["read_text('{0}')", "read_csv('{0}')", "'{0}'", "glob('{0}')"])
def test_a_query_cannot_read_the_hosts_files(snapshot: Path, tmp_path: Path, source: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("key\nhunter2\n")
    with pytest.raises(duckdb.Error):
        read_snapshot(snapshot, f"SELECT * FROM {source.format(secret)}")


def test_a_query_cannot_read_python_variables(snapshot: Path) -> None:
    with pytest.raises(duckdb.CatalogException):
        read_snapshot(snapshot, "SELECT * FROM statements")


def test_a_missing_snapshot_says_how_to_make_one_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "while.snapshot.duckdb"
    with pytest.raises(SnapshotError, match="while-pipeline run --day"):
        read_snapshot(path, "SELECT 1")
    assert not path.exists()
