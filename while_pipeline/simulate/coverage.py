"""Which pairs of axis values were planned, played and realised, counted from tables.

A pair is played by a rollout whose scenario's situation holds it, and realised when the conversation shows
both values. What shows a value belongs to `detect`; which pairs are planned to `plan`.
"""

from dataclasses import dataclass
from itertools import combinations

import polars as pl

from while_pipeline.simulate.axes import AXES, Grid
from while_pipeline.simulate.covering import pairs

ALL_ARMS = "all"
"""The row of a pair that counts the rollouts of every arm, none included."""

PLAYED = """
    SELECT s.arm, s.tool, s.policy_rule, s.stance, s.world_state, s.tool_condition, s.history,
        r.realised::VARCHAR AS realised, count(*) AS n
    FROM simulate.rollouts AS r
    JOIN simulate.scenarios AS s USING (day, scenario_id)
    WHERE r.day = ? AND r.lost IS NULL
    GROUP BY ALL
"""
"""A day's rollouts as `coverage_table` counts them: so many of an arm, at a situation, showing these axes."""

_PAIR = ("axis_a", "value_a", "axis_b", "value_b")


@dataclass(frozen=True)
class CoverageCounts:
    """Pairs that were planned, and how many of those were played and realised."""

    planned: int
    played: int
    realised: int

    @property
    def fraction(self) -> float:
        """Share of the planned pairs that were realised, in [0, 1]; 1.0 when none was planned."""
        return self.realised / self.planned if self.planned else 1.0


def coverage_table(grid: Grid, planned: pl.DataFrame, played: pl.DataFrame) -> pl.DataFrame:
    """Count every pair of values that can meet.

    Args:
        grid: The axes and constraints.
        planned: Situations of the night's plan: a column per axis.
        played: Columns `arm`, one per axis, `realised` (JSON list of the axes shown) and `n` (rollouts).

    Returns:
        Columns axis_a, value_a, axis_b, value_b, arm, planned, played, realised. A pair has a row with arm
        `all`, whoever played it or not, and one for each arm that played it.
    """
    rows = played.with_columns(
        pl.col("realised").str.json_decode(pl.List(pl.String)), pl.col("n").cast(pl.Int64)
    ).with_columns(pl.col("realised").list.contains(axis).alias(f"shows_{axis}") for axis in AXES)
    counted = pl.concat(
        rows.group_by(
            pl.lit(a).alias("axis_a"),
            pl.col(a).alias("value_a"),
            pl.lit(b).alias("axis_b"),
            pl.col(b).alias("value_b"),
            "arm",
        ).agg(
            pl.col("n").sum().alias("played"),
            pl.col("n").filter(pl.col(f"shows_{a}") & pl.col(f"shows_{b}")).sum().alias("realised"),
        )
        for a, b in combinations(AXES, 2)
    )
    whole = counted.group_by(_PAIR).agg(pl.col("played", "realised").sum()).with_columns(arm=pl.lit(ALL_ARMS))
    can_meet = pl.DataFrame(
        pairs(grid.axes, grid.allowed_pair), schema=dict.fromkeys(_PAIR, pl.String), orient="row"
    ).with_row_index("place")
    by_arm = can_meet.join(counted, on=_PAIR, how="inner")
    all_arms = can_meet.join(whole, on=_PAIR, how="left").with_columns(
        pl.col("arm").fill_null(ALL_ARMS), pl.col("played", "realised").fill_null(0)
    )
    return (
        pl.concat([all_arms, by_arm.select(all_arms.columns)])
        .join(_pairs_of(planned), on=_PAIR, how="left")
        .with_columns(pl.col("planned").fill_null(value=False))
        .sort("place", pl.col("arm") != ALL_ARMS, "arm")
        .select(*_PAIR, "arm", "planned", "played", "realised")
    )


def _pairs_of(situations: pl.DataFrame) -> pl.DataFrame:
    """The distinct pairs that some situations hold, each marked as planned."""
    return pl.concat(
        situations.select(
            pl.lit(a).alias("axis_a"),
            pl.col(a).alias("value_a"),
            pl.lit(b).alias("axis_b"),
            pl.col(b).alias("value_b"),
            planned=pl.lit(value=True),
        ).unique()
        for a, b in combinations(AXES, 2)
    )


def coverage_counts(table: pl.DataFrame) -> CoverageCounts:
    """Count a `coverage_table`'s planned pairs, and of those the played and the realised ones."""
    planned = table.filter(pl.col("planned"), pl.col("arm") == ALL_ARMS)
    return CoverageCounts(
        planned=planned.height,
        played=planned.filter(pl.col("played") > 0).height,
        realised=planned.filter(pl.col("realised") > 0).height,
    )
