"""One rollout, graded: conduct findings, outcome, verdict, and the reward they add up to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from while_pipeline.constants import STYLE_ONLY_REWARD
from while_pipeline.grade.conduct import findings
from while_pipeline.grade.judge import Case, Judge, Verdict
from while_pipeline.grade.outcome import Outcome, outcome
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import Finding
from while_pipeline.simulate.rollout import Played, Rollout
from while_pipeline.tools import Tool
from while_pipeline.transcript import Transcript


@dataclass(frozen=True)
class Graded:
    """A rollout with everything that was found about it."""

    rollout: Rollout
    findings: tuple[Finding, ...]
    outcome: Outcome
    verdict: Verdict
    agent_words: int

    @property
    def reward(self) -> float | None:
        """1 for a clean verdict; half of it for a right outcome spoilt only in style; else 0.

        None without a verdict: an unknown is never turned into a number.
        """
        if self.outcome.ok is None or self.verdict.clean is None:
            return None
        if self.verdict.clean and self.outcome.ok and not self.has_hard_finding:
            return 1.0
        return STYLE_ONLY_REWARD if self.outcome.ok and self._is_style_only else 0.0

    @property
    def passed(self) -> bool | None:
        """Whether the reward is whole; None without a verdict."""
        return None if self.reward is None else self.reward == 1.0

    @property
    def _is_style_only(self) -> bool:
        """Whether all that was found, by rules or by the judge's rubric, is style."""
        broken = any(one.kind == "hard" and one.score < 1 for one in self.verdict.criteria)
        return bool(self.findings or self.verdict.criteria) and not broken and not self.has_hard_finding

    @property
    def has_hard_finding(self) -> bool:
        """Whether any hard rule found something."""
        return any(finding.severity == "hard" for finding in self.findings)

    @property
    def reason(self) -> str:
        """Why the reward is what it is; without a verdict, why there is none."""
        if self.verdict.clean is None:
            return self.verdict.reason
        if self.outcome.ok is not True:
            return self.outcome.reason
        found = ", ".join(sorted({finding.rule for finding in self.findings}))
        return found or self.verdict.reason


def transcript_of(played: Played, tools: Mapping[str, Tool], document: PolicyDocument) -> Transcript:
    """A conversation as graders see it."""
    return Transcript(played.messages, tools, document, played.finish_reason)


def case_of(
    played: Played,
    tools: Mapping[str, Tool],
    document: PolicyDocument,
    found: Sequence[Finding] | None = None,
) -> Case:
    """What a judge is shown of a conversation; `found` are its conduct findings where they are known."""
    transcript = transcript_of(played, tools, document)
    return Case(
        transcript,
        tuple(findings(transcript) if found is None else found),
        outcome(played, transcript),
        group=played.scenario.scenario_id,
    )


def conduct(
    rollouts: Iterable[Rollout], tools: Sequence[Tool], document: PolicyDocument
) -> dict[str, list[Finding]]:
    """Conduct findings by rollout id, in order. Samples that went the same way are read once.

    Args:
        rollouts: What was played.
        tools: The agent's tools.
        document: The policy document.
    """
    by_name = {tool.name: tool for tool in tools}
    made, found = list(rollouts), dict[int, list[Finding]]()
    for rollout in made:
        if id(rollout.played) not in found:
            found[id(rollout.played)] = findings(transcript_of(rollout.played, by_name, document))
    return {rollout.rollout_id: found[id(rollout.played)] for rollout in made}


def grade(
    rollouts: Iterable[Rollout],
    tools: Sequence[Tool],
    document: PolicyDocument,
    judge: Judge,
    known: Mapping[str, Sequence[Finding]] | None = None,
) -> list[Graded]:
    """Grade rollouts, in order. Samples that went the same way are read and judged once.

    Args:
        rollouts: What was played.
        tools: The agent's tools.
        document: The policy document.
        judge: Who gives the verdict.
        known: Conduct findings by rollout id, when they have been computed before.
    """
    by_name = {tool.name: tool for tool in tools}
    made = list(rollouts)
    cases: dict[int, Case] = {}
    for rollout in made:
        if id(rollout.played) not in cases:
            found = None if known is None else known.get(rollout.rollout_id, ())
            cases[id(rollout.played)] = case_of(rollout.played, by_name, document, found)
    verdicts = dict(zip(cases, judge.verdicts(list(cases.values())), strict=True))
    return [_graded(rollout, cases[key], verdicts[key]) for rollout in made for key in (id(rollout.played),)]


def _graded(rollout: Rollout, case: Case, verdict: Verdict) -> Graded:
    return Graded(rollout, case.findings, case.outcome, verdict, case.transcript.agent_words)
