"""What is published: the figures as CSV files, and the page and the picture that are made of them alone."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from benchmarks.calibration.cells import Effort, Row
from benchmarks.calibration.drift import Drift
from benchmarks.calibration.nights import Looks
from benchmarks.calibration.picture import draw
from benchmarks.calibration.rates import Rate
from benchmarks.calibration.report import page

DIGITS = 5
"""Decimals of a figure: finer than any standard error, and a share of 20,000 samples is exact."""


class Figures(NamedTuple):
    """All that was simulated."""

    cells: list[Row]
    nights: list[Looks]
    promotions: list[Drift]
    rates: list[Rate]


RECORDS: dict[str, type[Any]] = {"cells": Row, "nights": Looks, "promotions": Drift, "rates": Rate}
"""What a row of each file is."""


def path_of(folder: Path, name: str) -> Path:
    """Where figures are published."""
    return folder / f"calibration_{name}.csv"


def write(folder: Path, figures: Figures) -> None:
    """Write the figures, then what is made of them."""
    for name, rows in figures._asdict().items():
        _frame(rows).write_csv(path_of(folder, name))
    show(folder)


def read(folder: Path) -> Figures:
    """Read the published figures."""
    return Figures(
        *(
            [record(**row) for row in pl.read_csv(path_of(folder, name)).iter_rows(named=True)]
            for name, record in RECORDS.items()
        )
    )


def show(folder: Path) -> None:
    """Write page and picture anew from the published figures."""
    figures = read(folder)
    (folder / "calibration.md").write_text(page(*figures, Effort()), encoding="utf-8")
    draw(figures.cells, folder / "calibration.png")


def _frame(rows: Sequence[Any]) -> pl.DataFrame:
    return pl.DataFrame([dataclasses.asdict(row) for row in rows]).with_columns(
        pl.col(pl.Float64).round(DIGITS)
    )
