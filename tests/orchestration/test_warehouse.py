import datetime as dt
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pandera.errors
import polars as pl
import pytest

import resources.warehouse
from resources.warehouse import StoredSchemaError, Warehouse, WarehouseLockedError
from while_pipeline.snapshot import read_snapshot
from while_pipeline.tables.base import Table, column, frame, polars_schema, table_name

DAY = "2026-03-02"
NEXT_DAY = "2026-03-03"
ROOT = Path(__file__).parents[2]


class Rollouts(Table):
    """One rollout of a test."""

    rollout_id: str = column("Id.", unique=True)
    reward: float = column("Reward in [0, 1].", ge=0, le=1)
    note: str = column("What's unknown is null.", nullable=True)
    steps: str = column("Steps.", json=True, nullable=True)


class Grades(Table):
    """One grade of a test."""

    rollout_id: str = column("Id.")
    passed: bool = column("Verdict, null when there is none.", nullable=True)


def rollouts(day: str = DAY, *ids: str, reward: float = 0.5) -> pl.DataFrame:
    rows = [{"rollout_id": i, "reward": reward, "note": None, "steps": None} for i in ids]
    return frame(Rollouts, day, rows)


def grades(day: str = DAY, *ids: str) -> pl.DataFrame:
    return frame(Grades, day, [{"rollout_id": i, "passed": None} for i in ids])


def ids(made: pl.DataFrame) -> list[str]:
    return made["rollout_id"].to_list()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(database=str(tmp_path / "data" / "while.duckdb"))


@contextmanager
def another_process(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `code` in a Python of its own, ready once it has printed a line."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def hold_open(path: str) -> str:
    return f"import duckdb, time; c = duckdb.connect({path!r}); print('ready', flush=True); time.sleep(60)"


def overwrite_for_ever(database: str) -> None:
    """Write both tables again and again, each time under another reward; for a process that gets killed."""
    many = [f"r{i}" for i in range(5000)]
    for turn in range(10**6):
        made = rollouts(DAY, *many, reward=turn % 2)
        Warehouse(database=database).replace_slices(DAY, {Rollouts: made, Grades: grades(DAY, *many)})
        if turn == 1:
            print("ready", flush=True)


# Writing and reading


def test_what_is_written_is_read_back_typed_and_in_order(warehouse: Warehouse) -> None:
    made = frame(
        Rollouts,
        DAY,
        [
            {"rollout_id": "b", "reward": 1.0, "note": "é 'q'", "steps": '[{"tool":"x"}]'},
            {"rollout_id": "a", "reward": 0.0, "note": None, "steps": None},
        ],
    )
    warehouse.replace_slice(Rollouts, DAY, made)
    assert warehouse.read(Rollouts, DAY).equals(made)
    assert warehouse.read(Rollouts, DAY).schema == polars_schema(Rollouts)


def test_a_day_is_replaced_whole_and_other_days_stay(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a", "b"))
    warehouse.replace_slice(Rollouts, NEXT_DAY, rollouts(NEXT_DAY, "c"))
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "d"))
    assert ids(warehouse.read(Rollouts, DAY)) == ["d"]
    assert ids(warehouse.read(Rollouts)) == ["d", "c"]
    assert ids(warehouse.read(Rollouts, before=NEXT_DAY)) == ["d"]
    assert ids(warehouse.read(Rollouts, before=DAY)) == []


def test_writing_the_same_slice_again_changes_nothing(warehouse: Warehouse) -> None:
    made = rollouts(DAY, "a", "b")
    warehouse.replace_slice(Rollouts, DAY, made)
    first = warehouse.digest(Rollouts, DAY)
    warehouse.replace_slice(Rollouts, DAY, made)
    assert warehouse.read(Rollouts).equals(made)
    assert warehouse.digest(Rollouts, DAY) == first


def test_columns_in_another_order_do_not_swap(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    turned = (
        rollouts(DAY, "b")
        .with_columns(note=pl.lit("note"))
        .select("note", "rollout_id", "steps", "reward", "day")
    )
    warehouse.replace_slice(Rollouts, DAY, turned)
    assert warehouse.read(Rollouts, DAY).row(0, named=True) == {
        "day": dt.date(2026, 3, 2), "rollout_id": "b", "reward": 0.5, "note": "note", "steps": None
    }  # fmt: skip


def test_an_all_null_column_keeps_its_type_for_the_next_slice(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    warehouse.replace_slice(Rollouts, NEXT_DAY, rollouts(NEXT_DAY, "b").with_columns(note=pl.lit("said")))
    assert warehouse.read(Rollouts)["note"].to_list() == [None, "said"]


def test_an_empty_frame_makes_a_typed_table(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts())
    types = warehouse.query(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'rollouts'"
    )
    assert dict(types.rows()) == {
        "day": "DATE", "rollout_id": "VARCHAR", "reward": "DOUBLE", "note": "VARCHAR", "steps": "JSON"
    }  # fmt: skip


def test_a_table_never_written_reads_as_an_empty_typed_frame(warehouse: Warehouse) -> None:
    for made in (
        warehouse.read(Rollouts),
        warehouse.read(Rollouts, DAY),
        warehouse.read(Rollouts, before=DAY),
    ):
        assert made.is_empty()
        assert made.schema == polars_schema(Rollouts)


def test_chosen_rows_of_a_day_come_in_the_order_they_were_written(warehouse: Warehouse) -> None:
    made = rollouts(DAY, *"hgfedcba")
    warehouse.replace_slices(DAY, {Rollouts: made})
    warehouse.replace_slice(Rollouts, NEXT_DAY, rollouts(NEXT_DAY, "a", "z"))
    found = warehouse.read_of(Rollouts, DAY, "rollout_id", ["a", "c", "g", "z"])
    assert found.equals(made.filter(pl.col("rollout_id").is_in(["a", "c", "g"])))
    assert ids(found) == ["g", "c", "a"]


@pytest.mark.parametrize("chosen", [["z"], []])
def test_a_choice_of_no_row_is_an_empty_typed_frame_written_or_not(
    warehouse: Warehouse, chosen: list[str]
) -> None:
    for _ in range(2):
        found = warehouse.read_of(Rollouts, DAY, "rollout_id", chosen)
        assert (found.height, found.schema) == (0, polars_schema(Rollouts))
        warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))


def test_comments_are_stored_on_the_table_and_each_column(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts())
    tables = warehouse.query("SELECT comment FROM duckdb_tables()")
    columns = warehouse.query(
        "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'rollouts'"
    )
    assert tables.item() == "One rollout of a test."
    assert dict(columns.rows())["note"] == "What's unknown is null."
    assert columns["comment"].null_count() == 0


def test_json_columns_answer_json_questions(warehouse: Warehouse) -> None:
    made = rollouts(DAY, "a").with_columns(steps=pl.lit('[{"tool":"refund"}]'))
    warehouse.replace_slice(Rollouts, DAY, made)
    answer = warehouse.query(
        f"SELECT steps->0->>'tool' AS tool FROM {table_name(Rollouts)} WHERE reward > ?", [0.1]
    )
    assert answer.item() == "refund"


# All or nothing


def test_a_refused_frame_leaves_every_table_untouched(warehouse: Warehouse) -> None:
    warehouse.replace_slices(DAY, {Grades: grades(DAY, "a"), Rollouts: rollouts(DAY, "a")})
    wrong = rollouts(DAY, "b").with_columns(reward=pl.lit(3.0))
    with pytest.raises(pandera.errors.SchemaErrors, match="reward"):
        warehouse.replace_slices(DAY, {Grades: grades(DAY, "b"), Rollouts: wrong})
    assert ids(warehouse.read(Grades)) == ids(warehouse.read(Rollouts)) == ["a"]


def test_rows_of_another_day_are_refused(warehouse: Warehouse) -> None:
    with pytest.raises(ValueError, match=f"2026-03-03 in the slice of {DAY}"):
        warehouse.replace_slice(Rollouts, DAY, rollouts(NEXT_DAY, "a"))
    assert warehouse.read(Rollouts).is_empty()


def test_an_error_inside_the_transaction_rolls_all_of_it_back(warehouse: Warehouse) -> None:
    warehouse.replace_slices(DAY, {Grades: grades(DAY, "a"), Rollouts: rollouts(DAY, "a")})
    not_json = rollouts(DAY, "b").with_columns(steps=pl.lit("{oops"))
    with pytest.raises(duckdb.ConversionException):
        warehouse.replace_slices(DAY, {Grades: grades(DAY, "b"), Rollouts: not_json})
    assert ids(warehouse.read(Grades)) == ids(warehouse.read(Rollouts)) == ["a"]


@pytest.mark.slow
def test_a_process_killed_while_writing_leaves_whole_slices(warehouse: Warehouse) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        "import test_warehouse; test_warehouse.overwrite_for_ever(sys.argv[1])"
    )
    with another_process(code, warehouse.database) as child:
        time.sleep(0.33)
        child.kill()
    left = warehouse.query(
        "SELECT count(*) AS rows, count(DISTINCT reward) AS versions, "
        "(SELECT count(*) FROM test_warehouse.grades) AS grades FROM test_warehouse.rollouts"
    )
    assert left.row(0) == (5000, 1, 5000)


# Tables of an older version


def older(**columns: Any) -> type[Table]:
    """`Rollouts` as an earlier version declared it."""
    kinds = {name: kind for name, (kind, _) in columns.items()}
    fields = {name: field for name, (_, field) in columns.items()}
    body = {"__doc__": "An older row.", "__annotations__": kinds, "__module__": __name__, **fields}
    return type("Rollouts", (Table,), body)


def test_a_new_nullable_column_is_added_and_old_rows_read_as_unknown(warehouse: Warehouse) -> None:
    before = older(rollout_id=(str, column("Id.")), reward=(float, column("Reward.")))
    warehouse.replace_slice(before, DAY, frame(before, DAY, [{"rollout_id": "a", "reward": 0.5}]))
    assert warehouse.read(Rollouts)["note"].to_list() == [None]
    warehouse.replace_slice(Rollouts, NEXT_DAY, rollouts(NEXT_DAY, "b").with_columns(note=pl.lit("said")))
    assert warehouse.read(Rollouts)["note"].to_list() == [None, "said"]
    assert warehouse.read(Rollouts).schema == polars_schema(Rollouts)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"rollout_id": (str, column("Id."))}, r"reward \(stored: absent; model: DOUBLE NOT NULL\)"),
        (
            {"rollout_id": (str, column("Id.")), "reward": (str, column("Reward."))},
            r"reward \(stored: VARCHAR NOT NULL; model: DOUBLE NOT NULL\)",
        ),
        (
            {
                "rollout_id": (str, column("Id.")),
                "reward": (float, column("Reward.")),
                "gone": (str, column("Gone.", nullable=True)),
            },
            r"gone \(stored: VARCHAR; model: absent\)",
        ),
    ],
)
def test_any_other_difference_is_one_error_that_names_the_columns(
    warehouse: Warehouse, columns: dict[str, Any], named: str
) -> None:
    before = older(**columns)
    warehouse.replace_slice(before, DAY, frame(before, DAY, []))
    with pytest.raises(StoredSchemaError, match=rf"test_warehouse\.rollouts .*{named}.*Drop or alter"):
        warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    with pytest.raises(StoredSchemaError, match=named):
        warehouse.read(Rollouts)


# Connections


def test_the_file_is_free_again_after_an_exception(warehouse: Warehouse) -> None:
    with pytest.raises(ZeroDivisionError), warehouse.connect():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), warehouse.get_connection():
        raise ZeroDivisionError
    # Another configuration in the same process is refused while any connection is still open.
    duckdb.connect(warehouse.database, config={"threads": 1}).close()


def test_a_locked_file_is_named_with_its_holder_and_the_mend(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    monkeypatch.setattr(resources.warehouse, "LOCK_WAIT_S", 0.2)
    with another_process(hold_open(warehouse.database)) as holder:
        with pytest.raises(WarehouseLockedError) as caught, warehouse.connect():
            pass
        for told in (warehouse.database, "client", "while.snapshot.duckdb", f"PID {holder.pid}"):
            assert told in str(caught.value)


def test_a_short_lock_is_waited_for(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    code = hold_open(warehouse.database).replace("sleep(60)", "sleep(0.5)")
    with another_process(code):
        assert ids(warehouse.read(Rollouts)) == ["a"]


def test_no_extension_is_ever_downloaded(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection, pytest.raises(duckdb.Error, match="not found"):
        connection.execute("LOAD ducklake")


# Digests


def test_a_digest_does_not_depend_on_the_order_of_rows(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Grades, DAY, grades(DAY, "a", "b", "c"))
    straight = warehouse.digest(Grades, DAY)
    warehouse.replace_slice(Grades, DAY, grades(DAY, "c", "a", "b"))
    assert ids(warehouse.read(Grades)) == ["c", "a", "b"]
    assert warehouse.digest(Grades, DAY) == straight


def test_a_digest_tells_any_other_content_apart(warehouse: Warehouse) -> None:
    unlike = [
        grades(DAY),
        grades(DAY, "a"),
        grades(DAY, "a", "a"),
        grades(DAY, "a", "a", "a"),
        grades(DAY, "b"),
        grades(DAY, "a").with_columns(passed=pl.lit(False)),
        grades(DAY, "a").with_columns(passed=pl.lit(True)),
        grades(DAY, 'a"'),
    ]
    digests = [warehouse.digest(Grades, DAY)]
    for made in unlike:
        warehouse.replace_slice(Grades, DAY, made)
        digests.append(warehouse.digest(Grades, DAY))
    assert digests[0] == digests[1], "no table and no rows are the same content"
    assert len(set(digests)) == len(unlike)


# Views and the snapshot


def test_views_are_made_replaced_and_skipped_until_their_tables_are_there(warehouse: Warehouse) -> None:
    views = {
        "lineage.row": f"SELECT rollout_id FROM {table_name(Rollouts)}",
        "prove.latest": "SELECT count(*) AS n FROM lineage.row",
    }
    assert warehouse.create_views(views) == []
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    assert warehouse.create_views(views) == ["lineage.row", "prove.latest"]
    assert warehouse.create_views({"prove.latest": "SELECT count(*) + 1 AS n FROM lineage.row"}) == [
        "prove.latest"
    ]
    assert warehouse.query("SELECT n FROM prove.latest").item() == 2


@pytest.mark.parametrize(
    "select", ["SELECT nonsense FROM duckdb_tables()", "SELECT no_function(1)", "SELEC 1"]
)
def test_a_view_that_is_wrong_is_an_error(warehouse: Warehouse, select: str) -> None:
    with pytest.raises(duckdb.Error):
        warehouse.create_views({"prove.latest": select})


def test_the_snapshot_carries_tables_views_comments_and_all_schemas(warehouse: Warehouse) -> None:
    made = rollouts(DAY, "a", "b")
    warehouse.replace_slice(Rollouts, DAY, made)
    warehouse.create_views({"watch.map": f"SELECT * FROM {table_name(Rollouts)}"})
    snapshot = warehouse.publish()
    assert snapshot == Path(warehouse.database).with_name("while.snapshot.duckdb")
    assert read_snapshot(snapshot, "SELECT * FROM watch.map").equals(made)
    comments = read_snapshot(snapshot, "SELECT comment FROM duckdb_tables() WHERE table_name = 'rollouts'")
    assert comments.item() == "One rollout of a test."
    schemas = read_snapshot(snapshot, "SELECT schema_name FROM duckdb_schemas() WHERE NOT internal")
    assert {"watch", "simulate", "grade", "train", "prove", "lineage"} <= set(schemas.to_series())


def test_a_view_older_than_its_tables_newest_column_does_not_stop_the_snapshot(warehouse: Warehouse) -> None:
    before = older(rollout_id=(str, column("Id.")), reward=(float, column("Reward.")))
    warehouse.replace_slice(before, DAY, frame(before, DAY, [{"rollout_id": "a", "reward": 0.5}]))
    warehouse.create_views({"watch.map": f"SELECT * FROM {table_name(Rollouts)}"})
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    assert read_snapshot(warehouse.publish(), f"SELECT * FROM {table_name(Rollouts)}").height == 1


def test_the_snapshot_is_readable_while_a_writer_holds_the_database(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    snapshot = warehouse.publish()
    with another_process(hold_open(warehouse.database)):
        assert read_snapshot(snapshot, f"SELECT rollout_id FROM {table_name(Rollouts)}").item() == "a"


def test_publishing_again_replaces_the_snapshot_and_leaves_nothing_else(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "a"))
    snapshot = warehouse.publish()
    snapshot.with_suffix(".fresh").write_bytes(b"left by a crash")
    warehouse.replace_slice(Rollouts, DAY, rollouts(DAY, "b"))
    with duckdb.connect(snapshot, read_only=True) as reader:
        warehouse.publish()
        old = reader.execute(f"SELECT rollout_id FROM {table_name(Rollouts)}").fetchone()
    assert old == ("a",), "an open reader keeps the snapshot that it opened"
    assert read_snapshot(snapshot, f"SELECT rollout_id FROM {table_name(Rollouts)}").item() == "b"
    assert sorted(p.name for p in snapshot.parent.iterdir()) == ["while.duckdb", "while.snapshot.duckdb"]
