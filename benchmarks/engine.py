"""How fast the engine writes, plays, grades and stores, and whether it stays so: python benchmarks/engine.py.

On the shipped example, at 1,000, 10,000 and 100,000 rollouts, through the shards the pipeline plays in. First
in one process, each stage timed within it; then in one process per core, and the tables are compared.
`--full`: 1,000,000 too, in one process per core, writing the scenarios included. Peak memory is of the whole
run so far, so it is read in rising order.
"""

import argparse
import platform
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import duckdb
import polars as pl

from resources.warehouse import Warehouse
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.grade.grader import grade as grade_rollouts
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import conduct_rows, grade_row
from while_pipeline.project import REPOSITORY, load_project
from while_pipeline.simulate.axes import grid_of, situation
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.simulate.shards import SHARD, Frames, Player, Shard, Terms, cut, paths_by_table
from while_pipeline.simulate.workers import POOL_FROM, Site, finish_shards, processes_for
from while_pipeline.tables import grade, simulate
from while_pipeline.tables.base import frame, polars_schema, table_name

DAY = "2026-03-02"
PROJECT = load_project(REPOSITORY / "examples" / "telecom")
WEIGHTS = base_weights()
TABLES = (simulate.Rollouts, simulate.Steps, grade.Conduct, grade.Grades)
UNPROBED = pl.DataFrame(schema=polars_schema(simulate.Probes))


@dataclass
class Graded:
    """Makes a shard's tables, grades included, and adds up where this process's time goes, in seconds."""

    played: float = 0.0
    graded: float = 0.0

    def __call__(self, player: Player, shard: Shard) -> Frames:
        """Play and grade."""
        start = time.perf_counter()
        rollouts = player.play(shard)
        played = time.perf_counter()
        judge = RulesJudge()
        graded = grade_rollouts(rollouts, PROJECT.tools, PROJECT.policy_document, judge)
        self.played += played - start
        self.graded += time.perf_counter() - played
        return {
            **player.frames(rollouts),
            grade.Conduct: frame(
                grade.Conduct, DAY, conduct_rows({one.rollout.rollout_id: one.findings for one in graded})
            ),
            grade.Grades: frame(grade.Grades, DAY, [grade_row(one, judge) for one in graded]),
        }


@dataclass(frozen=True)
class Took:
    """What one run of a night took."""

    seconds: float
    """Played, graded and stored."""
    stages: Graded
    digests: list[str] = field(repr=False)


def shards(rollouts: int, terms: Terms) -> Iterator[Shard]:
    """Write the scenarios of a night, situations drawn evenly, and cut it."""
    writer, rng = ScenarioWriter(PROJECT.tools, PROJECT.policy_document), random.Random(1)
    grid = grid_of(writer.tools, writer.document, 7)
    rows = (tuple(rng.choice(values) for values in grid.axes.values()) for _ in iter(int, 1))
    cells = (situation(row) for row in rows if grid.allowed(row))
    scenarios = (
        scenario_row(writer.write(cell, seed))
        for seed, cell in zip(range(rollouts // terms.k), cells, strict=False)
    )
    while part := list(islice(scenarios, max(1, SHARD // terms.k))):
        yield from cut(terms, pl.DataFrame(part), UNPROBED)


def run(night: Iterable[Shard], terms: Terms, processes: int) -> Took:
    """Play, grade and store a night in a new database; a night that is not cut yet is written on the way."""
    stages = Graded()
    with tempfile.TemporaryDirectory() as folder:
        site = Site(terms, partial(EmbeddedAgent, WEIGHTS), Path(folder) / "shards", stages)
        warehouse = Warehouse(database=str(Path(folder) / "bench.duckdb"))
        start = time.perf_counter()
        files = paths_by_table(site.folder, finish_shards(site, night, processes))
        warehouse.load_shards(DAY, {table: files[table_name(table)] for table in TABLES})
        seconds = time.perf_counter() - start
        return Took(seconds, stages, [warehouse.digest(table, DAY) for table in TABLES])


def peak_mib(who: int) -> float:
    """Most memory that was resident at once, of this process or of its largest child, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit / 2**20


def main() -> None:
    """Print the figures with the versions they were measured on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=8, help="rollouts per scenario")
    parser.add_argument("--full", action="store_true", help="1,000,000 rollouts too")
    asked = parser.parse_args()
    terms = Terms(
        day=DAY,
        tools=tuple(tool.model_dump() for tool in PROJECT.tools),
        policy_document=PROJECT.policy_document.text,
        policy_version=WEIGHTS.version,
        seed=1,
        k=asked.k,
        first=asked.k,
    )
    print(f"Python {platform.python_version()}, duckdb {duckdb.__version__}, polars {pl.__version__}")
    print(f"k = {asked.k}; figures are a second, but for the last three columns\n")
    print("| rollouts | processes | scenarios written | played | and graded | and stored ", end="")
    print("| ms each | MiB, here | MiB, largest child |")
    print("|" + " ---: |" * 9)
    for size in (1_000, 10_000, 100_000):
        start = time.perf_counter()
        night = list(shards(size, terms))
        written = size // terms.k / (time.perf_counter() - start)
        alone = run(night, terms, 1)
        played, graded = alone.stages.played, alone.stages.played + alone.stages.graded
        rates = f"{written:,.0f} | {size / played:,.0f} | {size / graded:,.0f}"
        _line(size, 1, rates, alone)
        many = processes_for(size, None)
        if size >= POOL_FROM and many > 1:
            together = run(night, terms, many)
            assert together.digests == alone.digests, "the tables differ by the number of processes"
            _line(size, many, " |  | ", together)
    if asked.full:
        size, many = 1_000_000, processes_for(1_000_000, None)
        _line(size, many, " |  | ", run(shards(size, terms), terms, many))


def _line(size: int, processes: int, rates: str, took: Took) -> None:
    memory = f"{peak_mib(resource.RUSAGE_SELF):,.0f} | {peak_mib(resource.RUSAGE_CHILDREN):,.0f}"
    stored, each = f"{size / took.seconds:,.0f}", f"{took.seconds / size * 1000:.3f}"
    print(f"| {size:,} | {processes} | {rates} | {stored} | {each} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
