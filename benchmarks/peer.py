"""The engine beside whileai on the same tools and policy document, in one run.

    python benchmarks/peer.py --python OTHER_VENV/bin/python

whileai runs offline in its own environment (`pip install whileai`), through `peer_side.py`. Both sides write
situations, play them with their own embedded agent against their own mock world, grade by their own rules and
store the rows; starting Python is not counted. Speed is asked twice: one process, and one process per core,
each with a seed of its own (whileai has threads, no processes; a user would have to start them).
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from stances import recognised

from resources.warehouse import Warehouse
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.messages import result_status
from while_pipeline.project import REPOSITORY, Project, load_project
from while_pipeline.simulate.axes import STANCES, grid_of, situation
from while_pipeline.simulate.night import Night
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.simulate.world import World, WorldStart
from while_pipeline.tables import simulate
from while_pipeline.tables.base import frame

EXAMPLE = REPOSITORY / "examples" / "telecom"
DAY = "2026-03-02"
K = 8
ONE_TOOL = "get_bill"
TEXTS = 60
"""Texts per stance: about what whileai can write before it runs dry."""
WORLDS, ATTEMPTS = 200, 5
"""Worlds whose fault is retried, and calls made in each."""
PEER_ROWS = 400
"""Its rows a second fall as a run grows, and its default call runs dry soon after."""
PEER_OPTIONS = {
    "its default call": {},
    f"{K} rollouts a scenario": {"mode": "rl", "repeats": K, "repeat_policy": "fixed"},
    f"{K} rollouts a scenario, one at a time": {
        "mode": "rl", "repeats": K, "repeat_policy": "fixed", "concurrency": 1,
    },
}  # fmt: skip
"""Of these its fastest is compared. One at a time is its fastest here: its threads wait for each other."""

BILL, ORDER, LINE = {"bill_id": "BIL-4711"}, {"order_id": "ORD-4711"}, {"line_id": "LIN-4711"}
PAYMENT = BILL | {"method": "card"}
REMEMBERED: dict[str, list[tuple[str, dict[str, str]]]] = {
    "a bill reads otherwise once paid": [("get_bill", BILL), ("pay_bill", PAYMENT), ("get_bill", BILL)],
    "a second payment is answered otherwise": [("pay_bill", PAYMENT), ("pay_bill", PAYMENT)],
    "a second cancellation too": [("cancel_order", ORDER), ("cancel_order", ORDER)],
    "a second suspension too": [("suspend_line", LINE | {"reason": "lost"})] * 2,
}
"""Calls whose last answer must differ from the first, in a world that remembers."""
RECORDS = {
    noun: {key: {field: key, "status": "open", "amount": 30.0}}
    for noun, values in (("bill", BILL), ("order", ORDER), ("line", LINE))
    for field, key in values.items()
}


class Peer:
    """whileai in its own environment."""

    def __init__(self, python: str, project: Project) -> None:
        self._python = python
        self._tools = json.loads((EXAMPLE / "tools.json").read_text())
        self._policy = project.policy_document.text
        self.version = self.ask("release")

    def ask(self, ask: str, tool: str | None = None, **job: Any) -> Any:
        """Run one job of `peer_side.py`, with all tools of the example or with one."""
        tools = [one for one in self._tools if tool in (None, one["function"]["name"])]
        given = {"ask": ask, "tools": tools, "policy": self._policy, "seed": 0, **job}
        script = Path(__file__).with_name("peer_side.py")
        ran = subprocess.run(
            [self._python, str(script)], input=json.dumps(given), capture_output=True, text=True, check=False
        )
        if ran.returncode:
            sys.exit(f"{script.name} failed in {self._python}:\n{ran.stderr}")
        return json.loads(ran.stdout)

    def rate(self, processes: int, options: Mapping[str, Any]) -> float:
        """Rows a second, all processes together."""
        with ThreadPoolExecutor(processes) as pool:
            made = pool.map(
                lambda seed: self.ask("rollouts", budget=PEER_ROWS, seed=seed, options=options),
                range(processes),
            )
            return _together([(one["rows"], one["seconds"]) for one in made])


class Ours:
    """This engine."""

    def __init__(self, project: Project) -> None:
        self._project = project
        weights = base_weights()
        self._night = Night(
            EmbeddedAgent(weights),
            project.tools,
            project.policy_document,
            policy_version=weights.version,
            seed=1,
        )

    def scenarios(self, seed: int, tool: str | None = None, stance: str | None = None) -> Iterator[Scenario]:
        """Scenarios of random situations without end, of all tools or one, of all stances or one."""
        tools = [one for one in self._project.tools if tool in (None, one.name)]
        writer = ScenarioWriter(tools, self._project.policy_document)
        grid, rng = grid_of(tools, self._project.policy_document, 7), random.Random(seed)
        axes = dict(grid.axes) | ({"stance": (stance,)} if stance else {})
        while True:
            row = tuple(rng.choice(values) for values in axes.values())
            if grid.allowed(row):
                yield writer.write(situation(row), rng.randrange(1 << 48))

    def graded_and_stored(self, rows: int, seed: int) -> tuple[int, float]:
        """Write, play, grade and store `rows` rollouts; rows and seconds."""
        start = time.perf_counter()
        played = list(self._night.play(islice(self.scenarios(seed), rows // K), range(K)))
        graded = grade(played, self._project.tools, self._project.policy_document, RulesJudge())
        table = frame(simulate.Rollouts, DAY, [row for row, _ in self._night.rows(played)])
        with tempfile.TemporaryDirectory() as folder:
            warehouse = Warehouse(database=str(Path(folder) / "rows.duckdb"))
            warehouse.replace_slice(simulate.Rollouts, DAY, table)
        return len(graded), time.perf_counter() - start

    def prompts(self, budget: int, tool: str | None) -> int:
        """Distinct openings of `budget` scenarios."""
        return len({one.script.opening for one in islice(self.scenarios(1, tool), budget)})

    def texts(self) -> dict[str, list[str]]:
        """What customers of each stance say in a whole conversation."""
        return {
            stance: [
                " ".join(m.content or "" for m in one.messages if m.role == "user")
                for one in self._night.play(islice(self.scenarios(1, stance=stance), TEXTS), range(1))
            ]
            for stance in STANCES
        }

    def remembers(self, calls: Sequence[tuple[str, Mapping[str, str]]]) -> bool:
        """Whether the last answer differs from the first."""
        world = World(self._project.tools, WorldStart(records=RECORDS))
        answers = [world.call(name, arguments) for name, arguments in calls]
        return result_status(answers[0]) == "ok" and answers[0] != answers[-1]

    def retries(self) -> dict[str, int]:
        """Of first calls that timed out, how many clear within `ATTEMPTS` calls."""
        writer = ScenarioWriter(self._project.tools, self._project.policy_document)
        row = (ONE_TOOL, "none", "ordinary", "exists", "timeout", "fresh")
        counts = {"failed": 0, "cleared": 0}
        for seed in range(WORLDS):
            faults = writer.write(situation(row), seed).world.faults
            world = World(self._project.tools, WorldStart(records=RECORDS, faults=faults))
            answers = [result_status(world.call(ONE_TOOL, BILL)) for _ in range(ATTEMPTS)]
            counts["failed"] += answers[0] == "timeout"
            counts["cleared"] += answers[0] == "timeout" and set(answers) != {"timeout"}
        return counts


def _work(rows: int, seed: int) -> tuple[int, float]:
    """One process's share."""
    return Ours(load_project(EXAMPLE)).graded_and_stored(rows, seed)


def _rate(processes: int, rows: int) -> float:
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return _together(list(pool.map(_work, [rows] * processes, range(processes))))


def _together(made: Sequence[tuple[int, float]]) -> float:
    """Rows a second of processes that ran side by side: all rows over the longest time."""
    return sum(rows for rows, _ in made) / max(seconds for _, seconds in made)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", required=True, help="a Python with whileai")
    parser.add_argument("--rows", type=int, default=20_000, help="our rollouts per process")
    parser.add_argument("--prompts", type=int, default=100_000, help="distinct prompts asked for")
    parser.add_argument("--processes", type=int, default=2, help="processes of the second speed")
    given = parser.parse_args()
    project = load_project(EXAMPLE)
    ours, peer = Ours(project), Peer(given.python, project)

    print(f"| telecom example | while_pipeline | whileai {peer.version} |")
    print("| --- | ---: | ---: |", flush=True)
    for what, mine, its in _lines(ours, peer, given.rows, given.prompts, given.processes):
        print(f"| {what} | {mine} | {its} |", flush=True)
    print(
        f"\n{os.cpu_count()} cores, Python {platform.python_version()}, duckdb {duckdb.__version__}, "
        f"polars {pl.__version__}. "
        f"`python benchmarks/peer.py --python VENV/bin/python --rows {given.rows} --prompts {given.prompts}`"
    )


def _lines(ours: Ours, peer: Peer, rows: int, prompts: int, processes: int) -> Iterator[tuple[str, str, str]]:
    for count in (1, processes):
        rates = {name: peer.rate(count, options) for name, options in PEER_OPTIONS.items()}
        best = max(rates, key=lambda name: rates[name])
        mine = _rate(count, rows)
        what = f"rollouts a second, graded and stored, {count} process{'es' if count > 1 else ''}"
        each = ", ".join(f"{rate:,.0f} ({name})" for name, rate in rates.items())
        yield what, f"{mine:,.0f}, {mine / rates[best]:,.0f} times its fastest", each
    for tool in (ONE_TOOL, None):
        its = peer.ask("prompts", tool, budget=prompts)
        yield (
            f"distinct prompts of {prompts:,} asked for, {'one tool' if tool else 'all tools'}",
            f"{ours.prompts(prompts, tool):,}",
            f"{its['prompts']:,} ({its['stopped']})",
        )
    its_texts = peer.ask("texts", stances=STANCES, budget=TEXTS)
    what = f"stances of {len(STANCES)} that a word count tells apart"
    yield what, str(len(recognised(ours.texts()))), str(len(recognised(its_texts)))
    told = peer.ask("remembers", calls=list(REMEMBERED.values()))
    for (what, calls), its in zip(REMEMBERED.items(), told, strict=True):
        yield what, _yes(ours.remembers(calls)), _yes(its)
    its = peer.ask("retries", call=(ONE_TOOL, BILL), worlds=WORLDS, attempts=ATTEMPTS)
    yield f"timeouts that clear within {ATTEMPTS} equal calls", _of(ours.retries()), _of(its)


def _of(counts: Mapping[str, int]) -> str:
    return f"{counts['cleared']} of {counts['failed']}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    main()
