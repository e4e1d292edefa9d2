"""Our covering arrays beside allpairspy and covertable: rows, seconds, and whether every pair is there.

    python benchmarks/covering.py --python OTHER_VENV/bin/python

The others run in their own environment (`pip install allpairspy covertable`), one after the other, each as it
comes. Whether an array is complete is asked of duckdb, for all three, in one statement that knows nothing of
how a row was made.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import duckdb
import polars as pl

from while_pipeline.simulate.covering import cover

SHAPES = ((8, 6, 6, 5, 5, 3), (5, 5, 10, 6, 5, 5), (3, 2, 10, 6, 5, 5), (30, 16, 10, 6, 6, 5))
"""Two reference grids of 530 and 381 pairs between two that are harder; the last is 30 tools by 16 rules."""

MISSING = """
WITH here AS (
    SELECT DISTINCT a.axis AS axis_a, a.value AS value_a, b.axis AS axis_b, b.value AS value_b
    FROM cells a JOIN cells b ON a.row_number = b.row_number AND a.axis < b.axis
)
SELECT count(*), count(*) FILTER (here.axis_a IS NULL)
FROM domain a JOIN domain b ON a.axis < b.axis
LEFT JOIN here ON (axis_a, value_a, axis_b, value_b) = (a.axis, a.value, b.axis, b.value)
"""

Grid = list[list[str]]


@dataclass(frozen=True)
class Array:
    """One generator's answer to one grid."""

    rows: list[list[str]]
    seconds: float
    """CPU seconds."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", required=True, help="a Python with allpairspy and covertable")
    python = parser.parse_args().python
    grids = [
        [[f"{axis}.{value}" for value in range(size)] for axis, size in enumerate(shape)] for shape in SHAPES
    ]
    arrays = {"while_pipeline": [_ours(grid) for grid in grids], **_others(python, grids)}
    print("\n".join(_table(grids, arrays)))
    print(f"\nPython {platform.python_version()}, duckdb {duckdb.__version__}, one process, CPU seconds.")


def missing(grid: Grid, rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Count the pairs of a grid, and those that no row holds, in SQL."""
    cells = [(number, axis, value) for number, row in enumerate(rows) for axis, value in enumerate(row)]
    domain = [(axis, value) for axis, values in enumerate(grid) for value in values]
    with duckdb.connect() as connection:
        connection.register("cells", pl.DataFrame(cells, ["row_number", "axis", "value"], orient="row"))
        connection.register("domain", pl.DataFrame(domain, ["axis", "value"], orient="row"))
        pairs, lost = connection.execute(MISSING).fetchall()[0]
    return pairs, lost


def _ours(grid: Grid) -> Array:
    axes = {str(number): tuple(values) for number, values in enumerate(grid)}
    start = time.process_time()
    rows = cover(axes)
    return Array([list(row) for row in rows], time.process_time() - start)


def _others(python: str, grids: list[Grid]) -> dict[str, list[Array]]:
    script = Path(__file__).with_name("covering_others.py")
    ran = subprocess.run(
        [python, str(script)], input=json.dumps(grids), capture_output=True, text=True, check=False
    )
    if ran.returncode:
        sys.exit(f"{script.name} failed in {python}:\n{ran.stderr}")
    answer = json.loads(ran.stdout)
    return {
        f"{package} {one['version']}": [Array(**array) for array in one["arrays"]]
        for package, one in answer.items()
    }


def _table(grids: list[Grid], arrays: dict[str, list[Array]]) -> Iterator[str]:
    yield "| axes | pairs | fewest rows possible | " + " | ".join(arrays) + " |"
    yield "| --- | ---: | ---: |" + " ---: |" * len(arrays)
    for number, grid in enumerate(grids):
        sizes = [len(values) for values in grid]
        shape = ", ".join(map(str, sizes))
        # Two axes alone need a row for each of their pairs.
        bound = prod(sorted(sizes)[-2:])
        counted = {name: missing(grid, of[number].rows) for name, of in arrays.items()}
        pairs = next(iter(counted.values()))[0]
        cells = [
            f"{len(of[number].rows)} rows, {of[number].seconds:.3f} s"
            + (f", {counted[name][1]} pairs missing" if counted[name][1] else "")
            for name, of in arrays.items()
        ]
        yield f"| {shape} | {pairs:,} | {bound} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
