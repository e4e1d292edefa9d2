"""The statistics beside whileai's on the same rows, in one run.

    python benchmarks/proof.py --python OTHER_VENV/bin/python

whileai answers in its own environment (`pip install whileai`), through `proof_peer.py`. Reading the rows and
starting Python are not counted. whileai is asked in growing sizes, and no further than a size that would take
it over `--limit` seconds if its time grew no faster than the rows.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from while_pipeline.grade.hack_scan import hack_scan
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.intervals import Floats, sign_flip_p
from while_pipeline.prove.pass_at import pass_table

CATEGORIES = 8
K, K_OF_PASS = 8, 4
ARM_K = 4
"""Rollouts of a task in each arm of a delta."""
LATTICE = 240
"""Common denominator where samples per task differ, as in the delta."""
FEATURES = [f"feature_{number:02}" for number in range(30)]
PERMUTATIONS = 100


class Answer(NamedTuple):
    """What one side said to one job."""

    figure: float
    seconds: float


@dataclass(frozen=True)
class Job:
    """One question to both sides, at growing sizes; the last is the one that counts."""

    what: str
    unit: str
    sizes: Sequence[int]
    bar: float
    """Seconds that ours may take."""
    ask: str
    """Function of `proof_peer.py`."""
    rows: Callable[[int], Sequence[pl.DataFrame]]
    """Tables of a size, given to both sides."""
    ours: Callable[[Sequence[pl.DataFrame]], Answer]


def jobs() -> list[Job]:
    """All questions."""
    flips = "sign-flip p, {}"
    tasks = (100, 1_000, 10_000)
    return [
        Job(f"pass@{K_OF_PASS}", "rows", (10_000, 100_000, 1_000_000), 1, "pass_at", attempts, passes),
        *(
            Job(flips.format(name), "tasks", tasks, 1, "sign_flip", partial(arms, least=low, most=high), flip)
            for name, low, high in (("k = 4", 4, 4), ("k = 16", 16, 16), ("k from 1 to 16", 1, 16))
        ),
        Job("delta report", "tasks", (125, 1_250, 12_500), 1, "delta", arms, delta),
        Job(
            f"hack scan, {len(FEATURES)} features, {PERMUTATIONS} permutations",
            "rows",
            (1_000, 10_000),
            1,
            "hack",
            featured,
            scan,
        ),
    ]


def attempts(size: int) -> list[pl.DataFrame]:
    """Rollouts, K of each task."""
    rng = np.random.default_rng(size)
    task = np.arange(size) // K
    return [_rollouts(task, rng.random(size) < rng.beta(2, 1, task.max() + 1)[task])]


def arms(size: int, *, least: int = ARM_K, most: int = ARM_K) -> list[pl.DataFrame]:
    """Rollouts before and after, from `least` to `most` of each task in either arm."""
    rng = np.random.default_rng(size + most)
    rate = rng.beta(2, 1.5, size)
    made = []
    for lift in (0.0, 0.005):
        task = np.repeat(np.arange(size), rng.integers(least, most + 1, size))
        made.append(_rollouts(task, rng.random(task.size) < rate[task] + lift))
    return made


def featured(size: int) -> list[pl.DataFrame]:
    """Rollouts with an outcome and features, the reward following both."""
    rng = np.random.default_rng(size)
    values = rng.normal(size=(size, len(FEATURES)))
    outcome = rng.random(size) < 0.6
    reward = 0.3 + 0.3 * outcome + 0.05 * rng.normal(size=size) + 0.01 * values[:, 7]
    rows = {name: pl.Series(values[:, number]) for number, name in enumerate(FEATURES)}
    named = _rollouts(np.arange(size) // K, None)
    return [named.with_columns(reward=pl.Series(reward), outcome=pl.Series(outcome), **rows)]


def passes(tables: Sequence[pl.DataFrame]) -> Answer:
    """All of pass@k, pass^k and headroom up to K, overall and by category, with intervals."""
    graded = tables[0].with_columns(passed=pl.col("reward") == 1)
    start = time.perf_counter()
    found = pass_table(graded, range(1, K + 1))
    seconds = time.perf_counter() - start
    overall = found.filter(scope="overall", metric="pass@", k=K_OF_PASS)
    return Answer(overall["value"].item(), seconds)


def flip(tables: Sequence[pl.DataFrame]) -> Answer:
    """The exact test of the task differences."""
    rates = [_by_task(table) for table in tables]
    start = time.perf_counter()
    p = sign_flip_p(rates[1] - rates[0], LATTICE)
    return Answer(p, time.perf_counter() - start)


def delta(tables: Sequence[pl.DataFrame]) -> Answer:
    """The whole report, by category."""
    sides = [
        table.with_columns(arm=pl.lit(arm), sample=pl.int_range(pl.len()).over("task_id"))
        for arm, table in zip(("before", "after"), tables, strict=True)
    ]
    trials = pl.concat(sides).with_columns(
        passed=pl.col("reward") == 1, judge=pl.lit("judge"), customer=pl.lit("customer")
    )
    start = time.perf_counter()
    found = paired_delta(trials)
    return Answer(found["difference"][0], time.perf_counter() - start)


def scan(tables: Sequence[pl.DataFrame]) -> Answer:
    """Scan the reward, and what the outcome does not explain of it; the figure is the largest plain rho."""
    start = time.perf_counter()
    found = hack_scan(tables[0], FEATURES, ["outcome"], permutations=PERMUTATIONS, seed=1)
    seconds = time.perf_counter() - start
    assert found.top_rho is not None
    return Answer(found.top_rho, seconds)


class Peer:
    """whileai in its own environment."""

    def __init__(self, python: str, limit: float) -> None:
        self._python, self._limit = python, limit
        self.version = self._ask(ask="release")

    def answers(self, job: Job) -> Iterator[tuple[int, Answer]]:
        """Its answers, size by size, as far as the limit lets it."""
        for size, following in zip(job.sizes, (*job.sizes[1:], None), strict=True):
            answer = self._answer(job, size)
            yield size, answer
            if following and answer.seconds * following / size > self._limit:
                return

    def _answer(self, job: Job, size: int) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, table in enumerate(job.rows(size)):
                files.append(f"{folder}/{number}.jsonl")
                table.write_ndjson(files[-1])
            return Answer(
                **self._ask(
                    ask=job.ask, files=files, k=K_OF_PASS, features=FEATURES, permutations=PERMUTATIONS
                )
            )

    def _ask(self, **job: Any) -> Any:
        script = Path(__file__).with_name("proof_peer.py")
        ran = subprocess.run(
            [self._python, str(script)], input=json.dumps(job), capture_output=True, text=True, check=False
        )
        if ran.returncode:
            sys.exit(f"{script.name} failed in {self._python}:\n{ran.stderr}")
        return json.loads(ran.stdout)


def _rollouts(task: np.ndarray[Any, Any], passed: np.ndarray[Any, Any] | None) -> pl.DataFrame:
    made = pl.DataFrame({"number": task}).select(
        task_id=pl.format("task-{}", "number"),
        category=pl.format("category-{}", pl.col("number") % CATEGORIES),
    )
    return made if passed is None else made.with_columns(reward=pl.Series(passed).cast(pl.Int64))


def _by_task(table: pl.DataFrame) -> Floats:
    means = table.group_by("task_id", maintain_order=True).agg(pl.col("reward").mean())
    return means["reward"].to_numpy()


def _line(job: Job, peer: Peer) -> str:
    ours = {size: job.ours(job.rows(size)) for size in job.sizes}
    theirs = dict(peer.answers(job))
    largest, reached = job.sizes[-1], max(theirs)
    short = "" if reached == largest else f" at {reached:,} {job.unit}"
    figures = f"{ours[reached].figure:.4f}, {theirs[reached].figure:.4f}"
    return (
        f"| {job.what} | {largest:,} {job.unit} | {job.bar:g} s | {ours[largest].seconds:.3f} s "
        f"| {theirs[reached].seconds:.3g} s{short} | {ours[reached].seconds:.3f} s | {figures} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", required=True, help="a Python with whileai")
    parser.add_argument("--limit", type=float, default=120, help="seconds whileai may take for one answer")
    given = parser.parse_args()
    peer = Peer(given.python, given.limit)
    heads = (
        "statistic",
        "size",
        "bar",
        "while_pipeline",
        f"whileai {peer.version}",
        "ours there",
        "both say",
    )
    print("| " + " | ".join(heads) + " |")
    print("| --- |" + " ---: |" * (len(heads) - 1), flush=True)
    for job in jobs():
        print(_line(job, peer), flush=True)
    print(f"\n{os.cpu_count()} cores, Python {platform.python_version()}, polars {pl.__version__}")


if __name__ == "__main__":
    main()
