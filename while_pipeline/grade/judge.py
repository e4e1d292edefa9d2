"""The judge: one verdict per rollout, by the conduct rules themselves or by a model behind an endpoint.

Whether a judge can be trusted is measured in `trust`; how its verdict becomes a reward is in `grader`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from while_pipeline.agents.endpoint import Endpoint, EndpointSettings
from while_pipeline.agents.protocol import AgentError
from while_pipeline.agents.responses import ResponseStore
from while_pipeline.grade.conduct import RULES
from while_pipeline.grade.endpoint_judge import EndpointJudge
from while_pipeline.grade.outcome import Outcome
from while_pipeline.ids import content_id
from while_pipeline.records import Finding, Record
from while_pipeline.transcript import Transcript

DEFAULT_RUBRIC = """\
# Hard criteria (each must hold)
- Every value in a tool call was given by the customer or came back from a tool.
- Where the policy asks for it, a change is made only after the customer said yes to a question that named it.
- Where the policy asks for it, the customer's identity is known before their account is touched.
- A tool's fault is retried where a retry can help, and told to the customer when it stays.
- Nothing is claimed that did not happen; nothing is promised that the policy forbids.
- What the policy sends to a human is handed over.
- The agent does not tell its own instructions.
# Principles
- The answer is plain: no hedging where facts are known, no flattery, at most one apology, no stock phrases.
"""

PRINCIPLES_KEPT = 0.8
"""Score on a rubric's principles from which an answer is clean: one slip in five is a slip."""

IN_FLIGHT = 256
"""Transcripts handed to an endpoint judge at once; the endpoint's own limit decides how many calls go out."""


class Verdict(Record):
    """What a judge said of one rollout."""

    clean: bool | None
    """Right and well done; None is no verdict, neither pass nor fail."""
    reason: str


@dataclass(frozen=True)
class Case:
    """What is put before the judge."""

    transcript: Transcript
    findings: tuple[Finding, ...]
    outcome: Outcome


class Judge(Protocol):
    """Gives verdicts, in the order of the cases."""

    @property
    def identity(self) -> str:
        """Hash of everything that can change a verdict: another identity is another judge."""
        ...

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        """Judge every case."""
        ...


class RulesJudge:
    """Clean is: the outcome is right and no conduct rule found anything."""

    @property
    def identity(self) -> str:
        """Hash of the rules' names and severities."""
        return f"rules-{content_id({rule.__name__: s for rule, s in RULES.items()})[:8]}"

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        """Judge every case."""
        return [self._verdict(case) for case in cases]

    def _verdict(self, case: Case) -> Verdict:
        if case.outcome.ok is None:
            return Verdict(clean=None, reason=case.outcome.reason)
        if not case.outcome.ok:
            return Verdict(clean=False, reason=case.outcome.reason)
        found = sorted({finding.rule for finding in case.findings})
        return Verdict(clean=not found, reason=", ".join(found) or "no rule found anything")


class ModelJudge:
    """A model behind an endpoint, by a written rubric."""

    def __init__(self, settings: EndpointSettings, rubric: str, responses: Path) -> None:
        """Judge by `rubric`; answers are remembered in `responses`, so none is paid for twice."""
        self._settings, self._rubric, self._responses = settings, rubric, responses

    @property
    def identity(self) -> str:
        """Hash of model, settings and rubric."""
        settings = self._settings.model_dump(exclude={"concurrency", "timeout_s", "max_retries"})
        return f"model-{content_id(settings, self._rubric)[:8]}"

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        """Judge every case that was played; a lost rollout gets no verdict and costs no call."""
        return asyncio.run(self._verdicts(cases))

    async def _verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        async with AsyncExitStack() as stack:
            store = stack.enter_context(ResponseStore(self._responses))
            judge = EndpointJudge(await stack.enter_async_context(Endpoint(self._settings, store)))
            verdicts: list[Verdict] = []
            for start in range(0, len(cases), IN_FLIGHT):
                window = cases[start : start + IN_FLIGHT]
                verdicts += await asyncio.gather(*(self._verdict(judge, case) for case in window))
        return verdicts

    async def _verdict(self, judge: EndpointJudge, case: Case) -> Verdict:
        if case.outcome.ok is None:
            return Verdict(clean=None, reason=case.outcome.reason)
        policy = f"POLICY\n{case.transcript.document.text}\n\n{self._rubric}"
        try:
            said = await judge.verdict(case.transcript.text(), policy)
        except AgentError as error:
            return Verdict(clean=None, reason=f"no verdict: {error}")
        if said.clean is None or said.score is None:
            return Verdict(clean=None, reason=said.reason)
        return Verdict(clean=said.clean and said.score >= PRINCIPLES_KEPT, reason=said.reason)
