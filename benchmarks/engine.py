"""How fast the engine plays, grades and stores, on the shipped example: python benchmarks/engine.py.

One process, one run: rollouts per second played, graded, and stored, each on top of the one before.
"""

import platform
import random
import tempfile
import time
from pathlib import Path

import duckdb
import polars as pl

from resources.warehouse import Warehouse
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.project import REPOSITORY, load_project
from while_pipeline.simulate.axes import grid_of, situation
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.night import Night
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.tables import simulate
from while_pipeline.tables.base import frame

SCENARIOS, K, DAY = 1_000, 4, "2026-03-02"


def main() -> None:
    """Print the figures with the versions they were measured on."""
    project = load_project(REPOSITORY / "examples" / "telecom")
    writer, weights = ScenarioWriter(project.tools, project.policy_document), base_weights()
    agent = EmbeddedAgent(weights)

    start = time.perf_counter()
    scenarios = _scenarios(writer)
    written = time.perf_counter()
    rollouts = list(
        play(
            scenarios,
            agent,
            project.tools,
            project.policy_document,
            samples=range(K),
            seed=1,
            policy_version=weights.version,
        )
    )
    played = time.perf_counter()
    graded = grade(rollouts, project.tools, project.policy_document, RulesJudge())
    judged = time.perf_counter()
    night = Night(agent, project.tools, project.policy_document, policy_version=weights.version, seed=1)
    rows = frame(simulate.Rollouts, DAY, [row for row, _ in night.rows(rollouts)])
    with tempfile.TemporaryDirectory() as folder:
        Warehouse(database=str(Path(folder) / "bench.duckdb")).replace_slice(simulate.Rollouts, DAY, rows)
    stored = time.perf_counter()

    n = len(rollouts)
    print(f"{platform.python_version()}, duckdb {duckdb.__version__}, polars {pl.__version__}, one process")
    print(f"scenarios written    {SCENARIOS / (written - start):>8,.0f} a second")
    print(f"rollouts played      {n / (played - written):>8,.0f} a second")
    print(f"  and graded         {n / (judged - written):>8,.0f} a second")
    print(f"  and stored         {n / (stored - written):>8,.0f} a second")
    print(f"passed               {sum(one.passed is True for one in graded) / n:>8.3f}")


def _scenarios(writer: ScenarioWriter) -> list[Scenario]:
    grid, rng = grid_of(writer.tools, writer.document, 7), random.Random(1)
    rows: list[tuple[str, ...]] = []
    while len(rows) < SCENARIOS:
        row = tuple(rng.choice(values) for values in grid.axes.values())
        if grid.allowed(row):
            rows.append(row)
    return [writer.write(situation(row), seed) for seed, row in enumerate(rows)]


if __name__ == "__main__":
    main()
