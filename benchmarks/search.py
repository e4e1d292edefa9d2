"""Whether the five arms find planted rare failures faster than uniform sampling: python benchmarks/search.py.

A sound agent is made to fail, always, where the conversation shows a planted conjunction: 20 pairs on the
three largest axes, 20 triples of tool, condition and stance, and 20 more in clusters of four that share tool
and condition. Each seed plants anew and is searched with the same budget three times: by drawing situations
evenly, by the arms without traffic, and by the arms when traffic showed half of the scattered triples once.
Differences are paired by seed. A wait is in scenarios; a plant never found waits the whole budget.

Then what choosing itself costs over 20,000 scenarios that are neither written nor played.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, count, pairwise
from statistics import fmean

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.agents.protocol import Reply
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.project import REPOSITORY, Project, load_project
from while_pipeline.prove.intervals import t_interval
from while_pipeline.records import Arm, Message, Situation
from while_pipeline.simulate.arms import Choice, Chooser
from while_pipeline.simulate.axes import AXES, NONE, STANCES, Grid, grid_of
from while_pipeline.simulate.cells import Spot
from while_pipeline.simulate.detect import observe
from while_pipeline.simulate.night import Night
from while_pipeline.simulate.plan import plan
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.simulate.search import search
from while_pipeline.tools import Tool
from while_pipeline.transcript import Transcript

SEEDS, BUDGET, BATCH, LONG = 20, 600, 40, 20_000
PLANTS, CLUSTER, SHOWN = 20, 4, 10
"""Plants of each kind, size of a cluster, scattered triples that the traffic showed."""
MARK = "Consider it done, case "
ORDINARY = ("success", "exists", "fresh", "ordinary", NONE)

Plant = tuple[tuple[str, str], ...]
"""(axis, value) of a planted conjunction."""


def sound_weights() -> Weights:
    """A policy that makes the sound choice everywhere, and retries what may clear."""
    sure = 60.0
    heads = {
        head: {option: {BIAS: sure if option == options[0] else 0.0} for option in options}
        for head, options in HEADS.items()
    }
    retry = {"retryable": 2 * sure, "spent": -4 * sure}
    fault = {"retry": retry, "report": {BIAS: sure}, "hide": {}, "claim": {}}
    return Weights(weights={**heads, "fault": fault})


class Planted:
    """Sound, but where the conversation shows a planted conjunction it only claims that all is done."""

    def __init__(self, plants: Sequence[Plant], tools: Sequence[Tool], document: PolicyDocument) -> None:
        self._inner, self._plants = EmbeddedAgent(sound_weights()), plants
        self._by_name, self._document = {tool.name: tool for tool in tools}, document

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Answer as the sound policy does, or with the numbers of the plants that were met."""
        reply = self._inner.respond(messages, tools, seed)
        if reply.message.tool_calls:
            return reply
        seen = observe(Transcript(messages, self._by_name, self._document))
        met = [i for i, plant in enumerate(self._plants) if all(v in seen[axis] for axis, v in plant)]
        if not met:
            return reply
        return Reply(message=Message(role="assistant", content=f"{MARK}{'-'.join(map(str, met))}."))


class Uniform(Chooser):
    """Draws every situation evenly, whichever arm is asked."""

    def choose(self, arm: Arm, rows: int) -> list[Choice]:
        """Rows of the open arm."""
        return super().choose("open_ended", rows)


def planted(grid: Grid, rng: random.Random) -> list[Plant]:
    """Pairs, scattered triples, clustered triples; each possible, none with an ordinary value."""

    def draw(*axes: str) -> Plant:
        while True:
            plant = tuple((axis, rng.choice(grid.axes[axis])) for axis in axes)
            possible = all(grid.allowed_pair(*a, *b) for a, b in combinations(plant, 2))
            if possible and not any(value in ORDINARY for _, value in plant):
                return plant

    large = list(combinations(("tool", "policy_rule", "stance"), 2))
    pairs = [draw(*rng.choice(large)) for _ in range(PLANTS)]
    scattered = [draw("tool", "tool_condition", "stance") for _ in range(PLANTS)]
    shared = [draw("tool", "tool_condition") for _ in range(PLANTS // CLUSTER)]
    clustered = [
        (*pair, ("stance", stance)) for pair in shared for stance in rng.sample(STANCES[1:], CLUSTER)
    ]
    return [*pairs, *scattered, *clustered]


def spots_of(plants: Sequence[Plant]) -> list[Spot]:
    """Traffic that had three conversations at each of these triples, one of them failed."""
    return [
        Spot(spot_id=str(i), share=1 / len(plants), n=3, failures=1, **dict(plant))
        for i, plant in enumerate(plants)
    ]


def waits(project: Project, chooser: Chooser, plants: Sequence[Plant], seed: int) -> list[int]:
    """Search once: per plant the number of the scenario that first met it, or the budget."""
    tools, document = project.tools, project.policy_document
    agent = Planted(plants, tools, document)
    night = Night(agent, tools, document, policy_version="planted", seed=seed)
    result = night.search(chooser, ScenarioWriter(tools, document), budget=BUDGET, batch_size=BATCH)
    first = [BUDGET] * len(plants)
    for i, one in enumerate(result.probed):
        for number in _met(one.rollout.messages):
            first[number] = min(first[number], i)
    return first


def _met(messages: Sequence[Message]) -> Iterator[int]:
    for message in messages:
        _, _, numbers = (message.content or "").partition(MARK)
        if message.role == "assistant" and numbers:
            yield from map(int, numbers.rstrip(".").split("-"))


def main(seeds: int = SEEDS) -> None:
    """Print one table."""
    project = load_project(REPOSITORY / "examples" / "telecom")
    grid = grid_of(project.tools, project.policy_document, project.settings.seed)
    array = plan(grid, [])[1]
    started = time.process_time()
    even: list[list[int]] = []
    arms: list[list[int]] = []
    steered: list[list[int]] = []
    for seed in range(seeds):
        plants = planted(grid, random.Random(seed))
        spots = spots_of(plants[PLANTS : PLANTS + SHOWN])
        even.append(waits(project, Uniform(grid, array, [], seed), plants, seed))
        arms.append(waits(project, Chooser(grid, array, [], seed), plants, seed))
        steered.append(waits(project, Chooser(grid, array, spots, seed), plants, seed))
    spent = time.process_time() - started
    print(f"{len(array)} situations in the array, {BUDGET} scenarios, {seeds} seeds, {spent:.0f} s of CPU\n")
    print("| planted | measure | arms | uniform | difference | 95 % interval |")
    print("| --- | --- | --- | --- | --- | --- |")
    _report("pairs", arms, even, range(PLANTS))
    _report("triples", arms, even, range(PLANTS, 2 * PLANTS))
    _report("triples in clusters", arms, even, range(2 * PLANTS, 3 * PLANTS))
    _report("triples the traffic showed", steered, even, range(PLANTS, PLANTS + SHOWN))
    print(
        f"\nchoosing, us of CPU per scenario in each quarter of {LONG:,}: {_choosing(project, grid, array)}"
    )


def _report(name: str, arms: list[list[int]], even: list[list[int]], plants: range) -> None:
    both = [([a[i] for i in plants], [u[i] for i in plants]) for a, u in zip(arms, even, strict=True)]
    measures: dict[str, Callable[[list[int]], float]] = {
        f"share found in {BUDGET // 2}": lambda one: fmean(wait < BUDGET // 2 for wait in one),
        f"share found in {BUDGET}": lambda one: fmean(wait < BUDGET for wait in one),
        "wait, first": min,
        "wait, mean": fmean,
    }
    for measure, of in measures.items():
        values = [(of(a), of(u)) for a, u in both]
        low, high = t_interval([a - u for a, u in values])
        a, u = fmean(a for a, _ in values), fmean(u for _, u in values)
        print(f"| {name} | {measure} | {a:.3g} | {u:.3g} | {a - u:+.3g} | [{low:.3g}, {high:.3g}] |")


def _choosing(project: Project, grid: Grid, array: Sequence[Situation]) -> str:
    """Cost of a search whose writing and playing are stand-ins: half fail, one in four behaves anew."""
    writer = ScenarioWriter(project.tools, project.policy_document)
    one, two = (writer.write(array[0], seed) for seed in (1, 2))
    agent = EmbeddedAgent(sound_weights())
    night = Night(agent, project.tools, project.policy_document, policy_version="p", seed=1)
    rollout = next(iter(night.play([one], range(1))))
    numbers, marks = count(), [time.process_time()]

    def write(choice: Choice, arm: Arm) -> Scenario:
        number = next(numbers)
        own = {"scenario_id": str(number), "situation": choice.cell, "arm": arm}
        return (one if number % 2 else two).model_copy(update=own)

    def probe(scenarios: Sequence[Scenario]) -> Iterator[tuple[Rollout, str, tuple[str, ...], bool]]:
        for scenario in scenarios:
            number = int(scenario.scenario_id)
            yield rollout, str(number // 4), AXES, number % 2 == 0
            if (number + 1) % (LONG // 4) == 0:
                marks.append(time.process_time())

    search(Chooser(grid, array, [], 1), write, probe, budget=LONG, batch_size=BATCH)
    return ", ".join(f"{(b - a) / (LONG // 4) * 1e6:.0f}" for a, b in pairwise(marks))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
