"""Trials of two arms as the tests of the proof use them: frames made of pass counts per task."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

SCHEMA = pl.Schema(
    {
        "task_id": pl.String(),
        "category": pl.String(),
        "arm": pl.String(),
        "sample": pl.Int64(),
        "passed": pl.Boolean(),
        "judge": pl.String(),
        "customer": pl.String(),
    }
)


def trials(
    passes: Mapping[str, Sequence[tuple[int, int]]], k: int = 4, k_after: int | None = None
) -> pl.DataFrame:
    """Rollouts of each category's tasks from (passes before, passes after)."""
    rows = [
        {
            "task_id": f"{category}-{i}",
            "category": category,
            "arm": arm,
            "sample": sample,
            "passed": sample < count,
            "judge": "j",
            "customer": "c",
        }
        for category, tasks in passes.items()
        for i, counts in enumerate(tasks)
        for arm, count, samples in zip(("before", "after"), counts, (k, k_after or k), strict=True)
        for sample in range(samples)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def from_differences(d: Sequence[float], k: int = 4) -> list[tuple[int, int]]:
    return [(max(0, -round(x * k)), max(0, round(x * k))) for x in d]


def overall(delta: pl.DataFrame) -> dict[str, Any]:
    return scope(delta, "overall")


def scope(delta: pl.DataFrame, name: str) -> dict[str, Any]:
    return delta.row(by_predicate=pl.col("scope") == name, named=True)


GAIN = [(1, 3)] * 20
LOSS = [(3, 1)] * 20
SAME = [(2, 2)] * 20
MIXED = [(1, 2), (2, 1)] * 10


def forget(data: pl.DataFrame, unknown: pl.Expr) -> pl.DataFrame:
    return data.with_columns(passed=pl.when(~unknown).then("passed"))


def finding(data: pl.DataFrame, *found: tuple[str, pl.Expr]) -> pl.DataFrame:
    """Rollouts with the rules that found something in them."""
    rules = [pl.when(where).then(pl.lit(rule)) for rule, where in found]
    listed = pl.concat_list(rules).list.drop_nulls() if rules else pl.lit([], pl.List(pl.String))
    text = pl.format('["{}"]', listed.list.join('","')).str.replace('[""]', "[]", literal=True)
    return data.with_columns(findings=text)


IN_AFTER = pl.col("arm") == "after"
FIRST_TWO = pl.col("sample") < 2
