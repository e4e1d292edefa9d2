"""What the arms share: a night of the embedded agent in a shop of four tools, its cuts, the sealed tasks.

The system text, four tool schemas and all, has some 470 tokens of the model's: longer would be slow on a CPU.
"""

import random
from functools import cache
from pathlib import Path

import polars as pl

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import grade_row
from while_pipeline.project import load_project
from while_pipeline.prove.held_out import draw_held_out
from while_pipeline.simulate.axes import grid_of, situation
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rows import rollout_rows, scenario_row
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.tables import grade as grade_tables
from while_pipeline.tables import simulate, train
from while_pipeline.tables.base import frame
from while_pipeline.train.cuts import Cutter
from while_pipeline.train.published import decoded
from while_pipeline.train.rows import candidates_from, sealed_prompts
from while_pipeline.train.trl.examples import Row

DAY = "2026-03-02"
SCENARIOS, SCENARIOS_K = 240, 8
TASKS, K = 64, 4
PROJECT = load_project(Path(__file__).parent / "project")
TOOLS, DOCUMENT, SEED = PROJECT.tools, PROJECT.policy_document, PROJECT.settings.seed
TEACHER, JUDGE = base_weights(), RulesJudge()
_GRID, _WRITER = grid_of(TOOLS, DOCUMENT, SEED), ScenarioWriter(TOOLS, DOCUMENT)


@cache
def tasks() -> list[Scenario]:
    """The sealed tasks."""
    return draw_held_out(_GRID, _WRITER, tasks=TASKS, seed=SEED, day=DAY)


def rows_to_learn() -> dict[str, list[Row]]:
    """Training side of the SFT cut and of its random twin, by cut: as many rows, of the same scenarios."""
    rng = random.Random(SEED)
    drawn = (tuple(rng.choice(values) for values in _GRID.axes.values()) for _ in iter(int, 1))
    cells = (situation(row) for row in drawn if _GRID.allowed(row) and _GRID.for_training(row))
    scenarios = [_WRITER.write(cell, number) for number, cell in zip(range(SCENARIOS), cells, strict=False)]
    played = list(
        play(
            scenarios,
            EmbeddedAgent(TEACHER),
            TOOLS,
            DOCUMENT,
            samples=range(SCENARIOS_K),
            seed=SEED,
            policy_version=TEACHER.version,
        )
    )
    graded = grade(played, TOOLS, DOCUMENT, JUDGE)
    by_name = {tool.name: tool for tool in TOOLS}
    rollouts = frame(simulate.Rollouts, DAY, [row for row, _ in rollout_rows(played, by_name, DOCUMENT)])
    grades = frame(grade_tables.Grades, DAY, [grade_row(one, JUDGE) for one in graded])
    asked = pl.DataFrame([scenario_row(one) for one in scenarios]).unique("scenario_id")
    sealed = sealed_prompts(pl.DataFrame([scenario_row(one) for one in tasks()]))
    cutter = Cutter(candidates_from(rollouts, grades, asked), TOOLS, DOCUMENT.text, sealed)
    cuts = {
        "sft": frame(train.Sft, DAY, cutter.sft().rows),
        "sft_random": frame(train.SftRandom, DAY, cutter.sft_random().rows),
    }
    return {
        name: [decoded(row) for row in rows.filter(split="train").iter_rows(named=True)]
        for name, rows in cuts.items()
    }
