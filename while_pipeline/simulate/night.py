"""One night of simulation: search with probes, then the rest of every group."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from while_pipeline.agents.protocol import Agent, AsyncAgent
from while_pipeline.grade.grader import grade, transcript_of
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import Arm
from while_pipeline.simulate.arms import Choice, Chooser
from while_pipeline.simulate.detect import observe, realised, signature
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.mutate import mutated
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.rows import Row, rollout_rows, scenario_row
from while_pipeline.simulate.scenario import Scenario, ScenarioWriter
from while_pipeline.simulate.search import SearchResult, search
from while_pipeline.simulate.user_world import WorldFactory
from while_pipeline.tools import Tool


class Night:
    """Plays one agent: its tools, its policy document, whoever answers for it."""

    def __init__(
        self,
        agent: Agent | AsyncAgent,
        tools: Sequence[Tool],
        document: PolicyDocument,
        *,
        policy_version: str,
        seed: int,
        worlds: WorldFactory | None = None,
    ) -> None:
        """Every rollout is drawn from `seed` and its own scenario and sample, so order does not matter.

        `worlds` makes the world of an episode; the mock world by default.
        """
        self._agent, self._tools, self._document = agent, tuple(tools), document
        self._by_name = {tool.name: tool for tool in tools}
        self._version, self._seed, self._worlds = policy_version, seed, worlds

    def search(
        self,
        chooser: Chooser,
        writer: ScenarioWriter,
        *,
        budget: int,
        batch_size: int,
        phrasings: int = 1,
    ) -> SearchResult:
        """Write scenarios and probe each once; see `search.search`."""

        def write(choice: Choice, arm: Arm) -> Scenario:
            if choice.parent is not None and choice.operator is not None:
                mutant = mutated(choice.parent, choice.operator, choice.seed)
                assert mutant is not None, "a chosen operator applies"
                return mutant
            return writer.write(choice.cell, choice.seed, arm, choice.phrasing)

        return search(chooser, write, self._probe, budget=budget, batch_size=batch_size, phrasings=phrasings)

    def _probe(self, scenarios: Sequence[Scenario]) -> Iterator[tuple[Rollout, str, tuple[str, ...], bool]]:
        """Probes are judged by the rules whoever the judge is: searching must not cost model calls twice."""
        for graded in grade(self.play(scenarios, range(1)), self._tools, self._document, RulesJudge()):
            transcript = transcript_of(graded.rollout.played, self._by_name, self._document)
            shown = realised(graded.rollout.scenario.situation, observe(transcript))
            yield graded.rollout, signature(transcript), tuple(shown), graded.passed is False

    def play(self, scenarios: Iterable[Scenario], samples: range) -> Iterator[Rollout]:
        """Play samples of scenarios, in order."""
        return play(
            scenarios,
            self._agent,
            self._tools,
            self._document,
            samples=samples,
            seed=self._seed,
            policy_version=self._version,
            worlds=self._worlds,
        )

    def rows(self, rollouts: Iterable[Rollout]) -> Iterator[tuple[Row, list[Row]]]:
        """Rows of `simulate.rollouts` and `simulate.steps` per rollout."""
        return rollout_rows(rollouts, self._by_name, self._document)


def scenario_rows(found: SearchResult) -> list[Row]:
    """Rows of `simulate.scenarios`."""
    return [
        {
            "arm": p.scenario.arm,
            "batch": p.batch,
            "spot_id": p.choice.spot_id,
            "operator": p.choice.operator,
            "parent_id": p.choice.parent.scenario_id if p.choice.parent else None,
            **scenario_row(p.scenario),
        }
        for p in found.probed
    ]


def search_rows(found: SearchResult) -> list[dict[str, Any]]:
    """Rows of `simulate.search`."""
    return [asdict(entry) for entry in found.log]
