"""The forest plot of a delta report: before and after of each row, and the difference with its interval.

Drawing belongs here; the figures are those of the table, the words those of `delta_report`.
"""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from while_pipeline.prove.delta_report import VERDICTS, points, scope_name
from while_pipeline.prove.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40
"""Rows drawn: what fits on a screen. The table holds all of them."""

_NAME = 36
"""Characters of a row's name: longer ones would leave no room for the plot, and stand in the table."""

_COLOURS = 32
"""Of the picture: six verdicts, two greys, and their edges."""

_INK, _FAINT = "#222222", "#bbbbbb"
_LOOKS: Mapping[str, tuple[str, str]] = {
    Verdict.BETTER: ("#1b7837", "^"),
    Verdict.WORSE: ("#b2182b", "v"),
    Verdict.NO_DIFFERENCE: ("#555555", "o"),
    Verdict.INSIDE_NOISE: ("#7a6f9b", "s"),
    Verdict.NOT_COMPARABLE: ("#c77700", "x"),
    Verdict.TOO_FEW: ("#7a7a7a", "D"),
}
"""Colour and marker of a verdict; the verdict itself stands beside it in words."""


def forest_png(title: str, delta: pl.DataFrame) -> bytes:
    """Draw a delta report as PNG.

    Two panels: on the left the rates before (hollow) and after (filled), on the right the difference with its
    interval, and the verdict in words. Rows that cannot be compared have no difference. The same table gives
    the same bytes with the same version of matplotlib.

    Args:
        title: Above the plot.
        delta: What `paired_delta` returned; beyond `MOST_ROWS` rows the last ones are left to the table.
    """
    # Imported here because it takes half a second, and most of the engine draws nothing.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    rows = delta.head(MOST_ROWS).to_dicts()
    figure = Figure(figsize=(10, 1.5 + 0.33 * len(rows)), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    rates, differences = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.25))
    _rates(rates, rows)
    _differences(differences, rows)
    _name(rates, rows)
    figure.suptitle(title, fontsize=12, color=_INK)
    left_out = delta.height - len(rows)
    if left_out:
        figure.supxlabel(f"{left_out} more rows: see the table", fontsize=9, color=_INK)
    drawn, out = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="rgba")
    picture = Image.frombytes("RGBA", canvas.get_width_height(), drawn.getvalue()).convert("RGB")
    # Few colours make a file of a quarter of the size, and it travels in the event log.
    picture.quantize(_COLOURS).save(out, "PNG", optimize=True)
    return out.getvalue()


def _rates(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    for y, row in enumerate(rows):
        colour, _ = _LOOKS[row["verdict"]]
        known = [rate for rate in (row["before"], row["after"]) if rate is not None]
        axes.plot([100 * rate for rate in known], [y] * len(known), color=_FAINT, linewidth=2, zorder=1)
        if row["before"] is not None:
            axes.plot(100 * row["before"], y, "o", color=colour, markerfacecolor="white", markersize=7)
        if row["after"] is not None:
            axes.plot(100 * row["after"], y, "o", color=colour, markersize=7)
    axes.set_xlim(-3, 103)
    axes.set_xlabel("of 100: before (hollow), after (filled)", fontsize=9)


def _differences(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    axes.axvline(0, color=_INK, linewidth=1, zorder=0)
    for y, row in enumerate(rows):
        colour, marker = _LOOKS[row["verdict"]]
        if row["difference"] is not None:
            axes.plot([100 * row["low"], 100 * row["high"]], [y, y], color=colour, linewidth=2)
            axes.plot(100 * row["difference"], y, marker, color=colour, markersize=7)
        axes.annotate(
            f"{points(row['difference']):>6}  {VERDICTS[row['verdict']]}".strip(),
            (1.02, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=9,
            color=colour,
            weight="bold" if row["kind"] == "overall" else "normal",
            annotation_clip=False,
        )
    reach = max(
        (100 * abs(b) for row in rows for b in (row["low"], row["high"]) if b is not None), default=10
    )
    axes.set_xlim(-1.08 * max(reach, 1), 1.08 * max(reach, 1))
    axes.set_xlabel("difference in points, with its interval", fontsize=9)


def _name(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    """Label the rows, the first one on top; lines part the whole, the categories and the guards."""
    labels = [f"{_cut(scope_name(row))} ({row['n_tasks']})" for row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=9)
    axes.get_yticklabels()[0].set_fontweight("bold")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    kinds = [row["kind"] for row in rows]
    for panel in axes.figure.axes:
        panel.tick_params(axis="x", labelsize=9)
        panel.grid(axis="x", color="#eeeeee", zorder=0)
        panel.set_axisbelow(True)
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
        panel.tick_params(axis="y", length=0)
        for y in range(1, len(kinds)):
            if kinds[y] != kinds[y - 1]:
                panel.axhline(y - 0.5, color=_FAINT, linewidth=0.8, linestyle=":")


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
