"""Loading Parquet shards into the warehouse: all of a day or none of it, in order, each key once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import duckdb
import polars as pl
import pytest

from resources.warehouse import StoredSchemaError, Warehouse
from while_pipeline.tables.base import Table, column, frame, polars_schema

DAY = "2026-03-02"
NEXT_DAY = "2026-03-03"


class Rollouts(Table):
    """One rollout of a test."""

    rollout_id: str = column("Id.", unique=True)
    reward: float = column("Reward in [0, 1].", ge=0, le=1)
    note: str = column("What's unknown is null.", nullable=True)
    decisions: str = column("Decisions.", json=True)


class Steps(Table):
    """One step of a test."""

    rollout_id: str = column("Id.")
    step: int = column("Position.")

    class Config:
        """A step is named by its rollout and position."""

        unique: ClassVar[list[str]] = ["rollout_id", "step"]


def rollouts(*ids: str, day: str = DAY) -> pl.DataFrame:
    return frame(
        Rollouts, day, [{"rollout_id": i, "reward": 0.5, "note": None, "decisions": '[{"a":1}]'} for i in ids]
    )


def steps(*named: tuple[str, int]) -> pl.DataFrame:
    return frame(Steps, DAY, [{"rollout_id": i, "step": n} for i, n in named])


def files(folder: Path, *frames: pl.DataFrame) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{len(list(folder.iterdir())) + i}.parquet" for i in range(len(frames))]
    for path, made in zip(paths, frames, strict=True):
        made.write_parquet(path)
    return paths


def ids(warehouse: Warehouse, day: str = DAY) -> Sequence[str]:
    return warehouse.read(Rollouts, day)["rollout_id"].to_list()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(database=str(tmp_path / "data" / "while.duckdb"))


def test_shards_are_stored_as_a_slice_is_in_the_order_of_files_and_rows(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    whole = rollouts(*[f"{i:05}" for i in range(9_999, -1, -1)])
    paths = files(tmp_path, *whole.iter_slices(1_500))
    assert warehouse.load_shards(DAY, {Rollouts: paths}) == {Rollouts: 10_000}
    assert warehouse.read(Rollouts, DAY).equals(whole)
    assert warehouse.read(Rollouts, DAY).schema == polars_schema(Rollouts)
    loaded = warehouse.digest(Rollouts, DAY)
    warehouse.replace_slice(Rollouts, DAY, whole)
    assert warehouse.digest(Rollouts, DAY) == loaded


def test_a_day_is_replaced_whole_and_other_days_stay(warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.replace_slice(Rollouts, DAY, rollouts("a", "b"))
    warehouse.replace_slice(Rollouts, NEXT_DAY, rollouts("c", day=NEXT_DAY))
    assert warehouse.load_shards(DAY, {Rollouts: files(tmp_path, rollouts("d"), rollouts("a"))}) == {
        Rollouts: 2
    }
    assert (ids(warehouse), ids(warehouse, NEXT_DAY)) == (["d", "a"], ["c"])
    assert warehouse.load_shards(DAY, {Rollouts: []}) == {Rollouts: 0}
    assert (ids(warehouse), ids(warehouse, NEXT_DAY)) == ([], ["c"])


def test_columns_in_another_order_do_not_swap(warehouse: Warehouse, tmp_path: Path) -> None:
    made = rollouts("a").with_columns(note=pl.lit("said"))
    warehouse.load_shards(DAY, {Rollouts: files(tmp_path, made.select(reversed(made.columns)))})
    assert warehouse.read(Rollouts, DAY).equals(made)


@pytest.mark.parametrize("folder", ["a*b", "what?", "[ab]", "day=2026-03-03", "it's"])
def test_a_folder_of_any_name_is_a_folder(warehouse: Warehouse, tmp_path: Path, folder: str) -> None:
    files(tmp_path / "aXb", rollouts("stray"))
    warehouse.load_shards(DAY, {Rollouts: files(tmp_path / folder, rollouts("a"))})
    assert ids(warehouse) == ["a"]


def spoilt_bytes(folder: Path) -> list[Path]:
    (folder / "broken.parquet").write_bytes(b"PAR1")
    return [folder / "broken.parquet"]


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (
            lambda f: files(f, rollouts("b"), rollouts("c", "b")),
            ValueError,
            r"1 values of \(\"rollout_id\"\)",
        ),
        (lambda f: files(f, rollouts("b"), rollouts("c", day=NEXT_DAY)), ValueError, "1 rows of another day"),
        (lambda f: files(f, rollouts("b").drop("reward")), duckdb.Error, "NOT NULL"),
        (lambda f: files(f, rollouts("b").with_columns(extra=1)), duckdb.Error, "extra"),
        (lambda f: files(f, rollouts("b").with_columns(decisions=pl.lit("{no"))), duckdb.Error, "JSON"),
        (lambda f: [*files(f, rollouts("b")), f / "gone.parquet"], duckdb.Error, "gone"),
        (spoilt_bytes, duckdb.Error, "broken.parquet"),
    ],
    ids=[
        "a key twice",
        "another day",
        "column missing",
        "column too many",
        "no JSON",
        "no file",
        "no Parquet",
    ],
)
def test_shards_that_are_wrong_leave_every_table_as_it_was(
    warehouse: Warehouse,
    tmp_path: Path,
    spoil: Callable[[Path], list[Path]],
    error: type[Exception],
    said: str,
) -> None:
    warehouse.replace_slices(DAY, {Rollouts: rollouts("a"), Steps: steps(("a", 0))})
    folder = tmp_path / "shards"
    folder.mkdir()
    wrong = spoil(folder)
    with pytest.raises(error, match=said):
        warehouse.load_shards(DAY, {Steps: files(tmp_path / "steps", steps(("b", 0))), Rollouts: wrong})
    assert ids(warehouse) == ["a"]
    assert warehouse.read(Steps, DAY).equals(steps(("a", 0)))


def test_a_key_of_several_columns_is_the_columns_together(warehouse: Warehouse, tmp_path: Path) -> None:
    fine = files(tmp_path, steps(("a", 0), ("a", 1)), steps(("b", 0)))
    assert warehouse.load_shards(DAY, {Steps: fine}) == {Steps: 3}
    with pytest.raises(ValueError, match=r"1 values of \(\"rollout_id\", \"step\"\)"):
        warehouse.load_shards(DAY, {Steps: files(tmp_path, steps(("a", 0)), steps(("a", 0)))})


def test_a_table_of_other_columns_is_refused(warehouse: Warehouse, tmp_path: Path) -> None:
    with warehouse.connect() as connection:
        connection.execute("CREATE SCHEMA test_load_shards")
        connection.execute("CREATE TABLE test_load_shards.rollouts (day DATE NOT NULL, reward VARCHAR)")
    with pytest.raises(StoredSchemaError, match="reward"):
        warehouse.load_shards(DAY, {Rollouts: files(tmp_path, rollouts("a"))})
