"""The picture of the grid: a dot for every cell, by method."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.calibration.cells import METHODS, RULE, Row, of_method
from benchmarks.calibration.truths import FAMILIES

SHOWN = {RULE: "ours", "t": "plain t", "percentile": "percentile\nbootstrap", "bca": "BCa\nbootstrap"}
COLOURS = dict(zip(FAMILIES, ("#3b6ea5", "#c8553d", "#5a8f53"), strict=True))
SPREAD = 0.34
"""Half of the width that a method's dots take."""


def draw(rows: list[Row], path: Path) -> None:
    """Write the picture as PNG: coverage of every cell, and false "better" of every null cell."""
    assert set(SHOWN) <= set(METHODS)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
    _dots(left, rows, "coverage")
    left.axhline(95, color="black", linewidth=0.8)
    left.axhline(93, color="black", linewidth=0.8, linestyle=":")
    left.set_title("How often the 95 % interval holds the truth\nOne dot per cell; at least 93 % is wanted")
    left.set_ylabel("% of simulated samples")
    _dots(right, [row for row in rows if row.effect == 0], "better")
    right.axhline(5, color="black", linewidth=0.8, linestyle=":")
    right.set_title(
        'How often a candidate that is not better is called "better"\n5 % is the most that is wanted'
    )
    for family, colour in COLOURS.items():
        right.plot([], [], "o", color=colour, markersize=4, label=family)
    right.legend(title="family of truths", frameon=False)
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)


def _dots(axes: Axes, rows: list[Row], field: str) -> None:
    """Dots side by side in the grid's order, so that a truth's cells stand together."""
    for place, method in enumerate(SHOWN):
        ours = list(of_method(rows, method))
        across = place + np.linspace(-SPREAD, SPREAD, len(ours))
        heights = [100 * getattr(row, field) for row in ours]
        axes.scatter(across, heights, s=5, c=[COLOURS[row.family] for row in ours], linewidths=0)
    axes.set_xticks(range(len(SHOWN)), list(SHOWN.values()))
    axes.spines[["top", "right"]].set_visible(False)
