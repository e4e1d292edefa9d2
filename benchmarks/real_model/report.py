"""What came out, as Markdown: pass@1 of every arm, and the paired differences by kind of task."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from while_pipeline.constants import MIN_CHANGED_TASKS
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.pass_at import rate_interval


def rates(trials: dict[str, pl.DataFrame]) -> Iterator[str]:
    """One line per arm: pass@1 with its interval over tasks."""
    yield "| who plays | pass@1 | 95 % interval | cut off |"
    yield "| --- | ---: | --- | ---: |"
    for name, rows in trials.items():
        shares = rows.group_by("task_id", maintain_order=True).agg(pl.col("passed").mean())["passed"]
        low, high = rate_interval(shares.to_numpy())
        rate = shares.mean()
        cut = rows["truncated"].sum()
        yield f"| {name} | {rate:.3f} | [{low:.3f}, {high:.3f}] | {cut} of {rows.height} |"


def difference(before: pl.DataFrame, after: pl.DataFrame) -> Iterator[str]:
    """The rows of `prove.delta` for two arms: overall and per kind of task."""
    arms = [rows.with_columns(arm=pl.lit(arm)) for arm, rows in (("before", before), ("after", after))]
    yield "| tasks | n | before | after | difference | 95 % interval | sign-flip p | verdict |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | ---: | --- |"
    for row in paired_delta(pl.concat(arms), min_changed=MIN_CHANGED_TASKS).iter_rows(named=True):
        if row["before"] is not None:
            yield (
                f"| {row['scope']} | {row['n_tasks']} | {row['before']:.3f} | {row['after']:.3f} "
                f"| {row['difference']:+.3f} | [{row['low']:+.3f}, {row['high']:+.3f}] "
                f"| {row['p_sign_flip']:.4f} | {row['verdict']} |"
            )


def costs(out: Path) -> Iterator[str]:
    """What playing and training took."""
    for path in sorted(out.glob("*.json")):
        spent: dict[str, Any] = json.loads(path.read_text())
        yield (
            f"- {path.stem} played {spent['turns']} turns: {spent['written']:,} tokens written, "
            f"{spent['read']:,} read, {spent['minutes']:.1f} minutes"
        )
    for path in sorted(out.glob("train-*/minutes.json")):
        told = json.loads((path.parent / "training.json").read_text())
        yield (
            f"- {path.parent.name}: {told['steps']} steps, {told['checked']['n_tokens']:,} tokens an epoch, "
            f"{told['checked']['n_trained']:,} of them trained, loss {told['curve'][0]['loss']:.3f} to "
            f"{told['curve'][-1]['loss']:.3f}, {json.loads(path.read_text()):.1f} minutes"
        )
