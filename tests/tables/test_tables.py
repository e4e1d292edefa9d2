import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pytest
from pandera.errors import SchemaErrors

from while_pipeline.tables import ALL, grade, prove, simulate, train, watch
from while_pipeline.tables.base import (
    Table,
    column,
    ddl,
    descriptions,
    frame,
    polars_schema,
    row_meaning,
    schema_name,
    sql_columns,
    table_name,
)

DAY = "2026-03-02"
FIVE_WORDS = {"watch", "simulate", "grade", "train", "prove"}
SQL_OF = {
    pl.String: "VARCHAR",
    pl.Int64: "BIGINT",
    pl.Float64: "DOUBLE",
    pl.Boolean: "BOOLEAN",
    pl.Date: "DATE",
}

EVERY_TABLE = pytest.mark.parametrize("model", ALL, ids=table_name)


class Sample(Table):
    """One row is a 'sample', quoted.

    The rest of the docstring is for developers.
    """

    name: str = column("Its name.", unique=True)
    score: float = column("Its score; null is unknown.", nullable=True, ge=0)
    count: int = column("How many.")
    good: bool = column("Whether it is good.")
    detail: str = column("What it is made of.", json=True)


ROW: dict[str, Any] = {"name": "a", "score": None, "count": 1, "good": True, "detail": "{}"}


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})


@pytest.fixture
def con(database: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database: opening one costs 30 ms, taking back what a test did costs nothing."""
    database.begin()
    yield database
    database.rollback()


# -- every table ------------------------------------------------------------------------------------------


def test_the_tables_are_those_of_the_five_words_and_each_has_its_own_name() -> None:
    assert {schema_name(model) for model in ALL} == FIVE_WORDS
    names = [table_name(model) for model in ALL]
    assert len(set(names)) == len(names) >= 20
    assert {watch.Agent, simulate.Probes, grade.Grades, train.Sft, prove.Looks} <= set(ALL)


@EVERY_TABLE
def test_duckdb_makes_the_table_with_a_comment_on_it_and_on_each_column(
    model: type[Table], con: duckdb.DuckDBPyConnection
) -> None:
    for statement in [*ddl(model), *ddl(model)]:
        con.execute(statement)
    schema, _, name = table_name(model).partition(".")
    (comment,) = con.execute(
        "SELECT comment FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", [schema, name]
    ).fetchall()
    assert comment == (row_meaning(model),)
    assert row_meaning(model).startswith("One row is ")
    columns = con.execute(
        "SELECT column_name, comment, data_type, is_nullable FROM duckdb_columns() "
        "WHERE schema_name = ? AND table_name = ? ORDER BY column_index",
        [schema, name],
    ).fetchall()
    assert [c[0] for c in columns] == list(polars_schema(model))
    assert {c[0]: c[1] for c in columns} == descriptions(model)
    assert all(c[1] and c[1].endswith((".", "`")) for c in columns)
    declared = {c[0]: c[2] + ("" if c[3] else " NOT NULL") for c in columns}
    assert declared == sql_columns(model)


@EVERY_TABLE
def test_an_empty_frame_has_its_types_and_the_day_first(model: type[Table]) -> None:
    empty = frame(model, DAY, [])
    assert empty.height == 0
    assert empty.schema == polars_schema(model)
    assert empty.columns[0] == "day"
    assert empty.schema["day"] == pl.Date
    assert pl.Null not in empty.dtypes
    for name, kind in sql_columns(model).items():
        stored = "VARCHAR" if kind.startswith("JSON") else kind.removesuffix(" NOT NULL")
        assert stored == SQL_OF[type(empty.schema[name])]


@EVERY_TABLE
def test_an_empty_frame_goes_into_its_table(model: type[Table], con: duckdb.DuckDBPyConnection) -> None:
    for statement in ddl(model):
        con.execute(statement)
    con.register("made", frame(model, DAY, []))
    con.execute(f"INSERT INTO {table_name(model)} BY NAME SELECT * FROM made")
    assert con.execute(f"SELECT count(*) FROM {table_name(model)}").fetchone() == (0,)


def test_probes_are_rollouts_in_a_table_of_their_own() -> None:
    assert polars_schema(simulate.Probes) == polars_schema(simulate.Rollouts)
    assert table_name(simulate.Probes) == "simulate.probes"
    assert row_meaning(simulate.Probes) != row_meaning(simulate.Rollouts)


# -- what a model says ------------------------------------------------------------------------------------


def test_a_name_is_the_class_in_snake_case_in_the_schema_of_its_module() -> None:
    assert table_name(watch.WeakSpots) == "watch.weak_spots"
    assert table_name(grade.PassAt) == "grade.pass_at"


def test_a_row_means_the_first_line_of_the_docstring_and_quotes_survive(
    con: duckdb.DuckDBPyConnection,
) -> None:
    assert row_meaning(Sample) == "One row is a 'sample', quoted."
    for statement in ddl(Sample):
        con.execute(statement)
    assert con.execute("SELECT comment FROM duckdb_tables()").fetchall() == [
        ("One row is a 'sample', quoted.",)
    ]


def test_columns_say_their_type_json_and_whether_null_means_unknown() -> None:
    assert sql_columns(Sample) == {
        "day": "DATE NOT NULL",
        "name": "VARCHAR NOT NULL",
        "score": "DOUBLE",
        "count": "BIGINT NOT NULL",
        "good": "BOOLEAN NOT NULL",
        "detail": "JSON NOT NULL",
    }


# -- frames -----------------------------------------------------------------------------------------------


def test_a_frame_has_the_day_and_the_types_of_its_table_even_when_all_values_are_null() -> None:
    made = frame(Sample, DAY, [ROW, ROW | {"name": "b"}])
    assert made["day"].to_list() == [dt.date(2026, 3, 2)] * 2
    assert made.schema == polars_schema(Sample)
    assert made["score"].to_list() == [None, None]


def test_a_whole_number_is_a_number() -> None:
    assert frame(Sample, DAY, [ROW | {"score": 1}])["score"].to_list() == [1.0]


@pytest.mark.parametrize(
    "rows",
    [
        [ROW | {"score": -1.0}],
        [ROW | {"name": None}],
        [ROW, ROW],
    ],
    ids=["check", "null", "not unique"],
)
def test_rows_that_break_a_check_are_refused(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(SchemaErrors):
        frame(Sample, DAY, rows)


def test_all_failures_are_named_at_once() -> None:
    with pytest.raises(SchemaErrors) as caught:
        frame(Sample, DAY, [ROW | {"score": -1.0}, ROW | {"detail": None}])
    assert all(name in str(caught.value) for name in ("score", "name", "detail"))


@pytest.mark.parametrize("wrong", [{"count": "many"}, {"count": 1.5}, {"good": "yes"}, {"score": "high"}])
def test_a_value_that_is_not_of_its_columns_type_is_refused_and_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"\.{name}: "):
        frame(Sample, DAY, [ROW | wrong])


def test_a_misspelt_or_missing_column_is_refused_and_named() -> None:
    with pytest.raises(ValueError, match="skore"):
        frame(Sample, DAY, [ROW, ROW | {"name": "b", "skore": 1.0}])
    with pytest.raises(ValueError, match="score"):
        frame(Sample, DAY, [{name: value for name, value in ROW.items() if name != "score"}])


def test_a_uniqueness_over_several_columns_holds() -> None:
    counts = {"rows": 1, "new_signatures": 0, "new_pairs": 0, "failures": 0}
    look = {"batch": 0, "share": 0.5, "yield_per_row": 0.0, **counts}
    assert frame(simulate.Search, DAY, [look | {"arm": "a"}, look | {"arm": "b"}]).height == 2
    with pytest.raises(SchemaErrors):
        frame(simulate.Search, DAY, [look | {"arm": "a"}, look | {"arm": "a"}])
