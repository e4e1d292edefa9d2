"""A slice that is too large to hold: stored whole from its parts, or not at all."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from assets.stored import store_parts
from resources.warehouse import Warehouse
from while_pipeline.tables.base import Table, column, frame

DAY = "2026-03-02"


class Grades(Table):
    """One grade of a test."""

    rollout_id: str = column("Id.", unique=True)
    passed: bool = column("Verdict, null when there is none.", nullable=True)


def grades(*ids: str) -> pl.DataFrame:
    return frame(Grades, DAY, [{"rollout_id": i, "passed": None} for i in ids])


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(database=str(tmp_path / "while.duckdb"))


def store(
    warehouse: Warehouse, parts: Iterable[pl.DataFrame], figures: Callable[[], Mapping[str, Any]] = dict
) -> tuple[dg.MaterializeResult[Any], Mapping[str, Any]]:
    """Store a day's parts: the result, and its metadata."""
    (stored,) = store_parts(DAY, warehouse, Grades, parts, figures)
    return stored, stored.metadata or {}


def files(warehouse: Warehouse) -> list[Path]:
    return list(Path(warehouse.database).parent.rglob("*.parquet"))


def test_parts_are_stored_as_the_whole_frame_is(warehouse: Warehouse) -> None:
    whole = grades(*"gfedcba")
    stored, metadata = store(warehouse, whole.iter_slices(3))
    assert warehouse.read(Grades, DAY).equals(whole)
    warehouse.replace_slice(Grades, DAY, whole)
    assert stored.data_version == dg.DataVersion(warehouse.digest(Grades, DAY))
    assert metadata["dagster/partition_row_count"] == 7
    assert [check.passed for check in stored.check_results] == [True]
    assert files(warehouse) == []


def test_a_day_of_no_part_is_an_empty_slice(warehouse: Warehouse) -> None:
    warehouse.replace_slice(Grades, DAY, grades("a"))
    _, metadata = store(warehouse, [])
    assert warehouse.read(Grades, DAY).equals(grades())
    assert metadata["dagster/partition_row_count"] == 0


def test_figures_are_of_the_stored_slice(warehouse: Warehouse) -> None:
    def figures() -> dict[str, int]:
        return {"rows": warehouse.read(Grades, DAY).height}

    _, metadata = store(warehouse, [grades("a"), grades("b", "c")], figures)
    assert metadata["rows"] == 3


def test_each_part_is_on_disk_before_the_next_is_made_and_the_database_is_free(warehouse: Warehouse) -> None:
    held = []

    def parts() -> Iterator[pl.DataFrame]:
        for name in "abc":
            held.append(len(files(warehouse)))
            assert not Path(warehouse.database).exists()
            yield grades(name)

    store(warehouse, parts())
    assert held == [0, 1, 2]


def test_a_part_that_cannot_be_made_leaves_the_slice_as_it_was_and_no_file(warehouse: Warehouse) -> None:
    def parts() -> Iterator[pl.DataFrame]:
        yield grades("b")
        raise RuntimeError("the judge is gone")

    warehouse.replace_slice(Grades, DAY, grades("a"))
    with pytest.raises(RuntimeError, match="the judge is gone"):
        store(warehouse, parts())
    assert warehouse.read(Grades, DAY).equals(grades("a"))
    assert files(warehouse) == []


def test_a_key_in_two_parts_is_refused(warehouse: Warehouse) -> None:
    with pytest.raises(ValueError, match="stand in more than one row"):
        store(warehouse, [grades("a"), grades("b", "a")])


def test_what_a_killed_run_left_is_not_stored(warehouse: Warehouse) -> None:
    left = Path(warehouse.database).parent / "parts" / "test_stored.grades" / DAY
    left.mkdir(parents=True)
    grades("a", "b").write_parquet(left / "7.parquet")
    store(warehouse, [grades("c")])
    assert warehouse.read(Grades, DAY).equals(grades("c"))
