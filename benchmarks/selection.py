"""What choosing rows is worth, and what each way of fitting gains: python benchmarks/selection.py [NIGHTS].

Each night the base policy plays 240 random training scenarios of the example eight times. Four policies are
fitted to the cuts of it: to the selected rows, to as many rows drawn at random from the same scenarios, to
the pairs, and to the groups. All play the same sealed tasks, four times each, with the same luck.
"""

import random
import sys
import time
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

import polars as pl

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import Weights, base_weights
from while_pipeline.constants import MIN_CHANGED_TASKS
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.grade.rows import grade_row
from while_pipeline.project import REPOSITORY, load_project
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.held_out import draw_held_out
from while_pipeline.prove.trials import Arm, trial_rows
from while_pipeline.settings import TrainSettings
from while_pipeline.simulate.axes import grid_of, situation
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rows import rollout_rows, scenario_row
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.tables import grade as grade_tables
from while_pipeline.tables import prove, simulate, train, watch
from while_pipeline.tables.base import frame
from while_pipeline.train.cuts import Cut, Cutter
from while_pipeline.train.fit_rows import Learnt, Lesson, learn
from while_pipeline.train.rows import candidates_from, sealed_prompts
from while_pipeline.watch.agent import agent_row

DAY = "2026-03-02"
NIGHTS, SCENARIOS, K = 5, 240, 8
SEALED, SEALED_K = 240, 4
PROJECT = load_project(REPOSITORY / "examples" / "telecom")
TOOLS, DOCUMENT, SEED = PROJECT.tools, PROJECT.policy_document, PROJECT.settings.seed
GRID, WRITER = grid_of(TOOLS, DOCUMENT, SEED), ScenarioWriter(TOOLS, DOCUMENT)
BASE, JUDGE = base_weights(), RulesJudge()
METHODS = {"sft_random": "sft", "sft": "sft", "dpo": "dpo", "grpo": "grpo"}
"""Method by cut."""
MODELS = {"sft_random": train.SftRandom, "sft": train.Sft, "dpo": train.Dpo, "grpo": train.Grpo}


@dataclass(frozen=True)
class Arrived:
    """A policy fitted to one night's cut, and what it does on the sealed tasks."""

    learnt: Learnt
    passed: float | None
    """Share of the rows learnt from whose rollout passed; None for pairs."""
    seconds: float
    trials: pl.DataFrame


def main(nights: int = NIGHTS) -> None:
    """Fit, play and print both tables."""
    found = [night(number) for number in range(nights)]
    rate = _share(before_rows()["passed"])
    print(f"{nights} nights, {SEALED} sealed tasks, {SEALED_K} samples; the base policy passes {rate:.3f}\n")
    print("| fitted to | rows | of them passed | KL, nats | fit | pass@1, nights | gain | 95 % interval |")
    print("| --- | ---: | ---: | ---: | ---: | --- | ---: | --- |")
    for cut in METHODS:
        print(_line(cut, [one[cut] for one in found]))
    print("\n| night | selected less random | 95 % interval | sign-flip p | verdict |")
    print("| ---: | ---: | --- | ---: | --- |")
    for number, one in enumerate(found, 1):
        row = compared(one["sft_random"].trials, one["sft"].trials)
        print(
            f"| {number} | {row['difference']:+.3f} | [{row['low']:+.3f}, {row['high']:+.3f}] "
            f"| {row['p_sign_flip']:.4f} | {row['verdict']} |"
        )


def _line(cut: str, arrived: list[Arrived]) -> str:
    first = arrived[0]
    row = compared(before_rows(), first.trials)
    rates = [_share(one.trials["passed"]) for one in arrived]
    passed = "" if first.passed is None else f"{first.passed:.2f}"
    return (
        f"| {cut} | {first.learnt.n_rows} | {passed} | {first.learnt.moves[0].kl:.3f} "
        f"| {fmean(one.seconds for one in arrived):.2f} s "
        f"| {fmean(rates):.3f}, from {min(rates):.3f} to {max(rates):.3f} "
        f"| {row['difference']:+.3f} | [{row['low']:+.3f}, {row['high']:+.3f}] |"
    )


def night(number: int) -> dict[str, Arrived]:
    """Play, cut, fit and play again."""
    rng = random.Random(number)
    rows = (tuple(rng.choice(values) for values in GRID.axes.values()) for _ in iter(int, 1))
    cells = (situation(row) for row in rows if GRID.allowed(row) and GRID.for_training(row))
    scenarios = [
        WRITER.write(cell, number * SCENARIOS + i) for i, cell in zip(range(SCENARIOS), cells, strict=False)
    ]
    agent = EmbeddedAgent(BASE)
    played = list(
        play(scenarios, agent, TOOLS, DOCUMENT, samples=range(K), seed=number, policy_version=BASE.version)
    )
    graded = grade(played, TOOLS, DOCUMENT, JUDGE)
    by_name = {tool.name: tool for tool in TOOLS}
    rollouts = frame(simulate.Rollouts, DAY, [row for row, _ in rollout_rows(played, by_name, DOCUMENT)])
    grades = frame(grade_tables.Grades, DAY, [grade_row(one, JUDGE) for one in graded])
    asked = pl.DataFrame([scenario_row(one) for one in scenarios]).unique("scenario_id")
    cutter = Cutter(candidates_from(rollouts, grades, asked), TOOLS, DOCUMENT.text, sealed_prompts(sealed()))
    cuts = {
        "sft_random": cutter.sft_random(),
        "sft": cutter.sft(),
        "dpo": cutter.dpo(),
        "grpo": cutter.grpo(),
    }
    return {name: _arrived(name, cut, rollouts) for name, cut in cuts.items()}


def _arrived(name: str, cut: Cut, rollouts: pl.DataFrame) -> Arrived:
    rows = frame(MODELS[name], DAY, cut.rows)
    agents = frame(watch.Agent, DAY, [agent_row(PROJECT, BASE)])
    start = time.perf_counter()
    settings = TrainSettings.model_validate({"method": METHODS[name]})
    learnt = learn(Lesson(agents, rows, rollouts, TOOLS), settings)
    seconds = time.perf_counter() - start
    passed = rows.filter(split="train")["reward"] == 1 if "reward" in rows.columns else None
    share = None if passed is None else _share(passed)
    return Arrived(learnt, share, seconds, trials("after", learnt.fit.weights))


def _share(yes: pl.Series) -> float:
    return float(yes.sum()) / len(yes)


def compared(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any]:
    """The overall row of the delta report, whatever the arms were called."""
    arms = [rows.with_columns(arm=pl.lit(arm)) for arm, rows in (("before", before), ("after", after))]
    return paired_delta(pl.concat(arms), min_changed=MIN_CHANGED_TASKS).row(0, named=True)


@cache
def sealed() -> pl.DataFrame:
    """The sealed tasks as their rows."""
    return pl.DataFrame([scenario_row(one) for one in tasks()])


@cache
def tasks() -> list[Scenario]:
    """The sealed tasks."""
    return draw_held_out(GRID, WRITER, tasks=SEALED, seed=SEED, day=DAY)


def trials(arm: str, weights: Weights) -> pl.DataFrame:
    """A policy on the sealed tasks."""
    arms = {arm: Arm(weights.version, EmbeddedAgent(weights))}
    return frame(prove.Trials, DAY, trial_rows(tasks(), arms, TOOLS, DOCUMENT, JUDGE, k=SEALED_K, seed=SEED))


@cache
def before_rows() -> pl.DataFrame:
    """The base policy on the sealed tasks."""
    return trials("before", BASE)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
