"""The judge: one verdict per rollout, by the conduct rules themselves or by a model behind an endpoint.

What belongs here: what is put before any judge and what it says, and the rules as a judge. What does not:
the model (`endpoint_judge`), whether a judge can be trusted (`trust`), and how its verdict becomes a reward
(`grader`).
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

from while_pipeline.grade import conduct
from while_pipeline.grade.outcome import Outcome
from while_pipeline.grade.rubric import Kind
from while_pipeline.ids import content_id
from while_pipeline.records import Finding, Record
from while_pipeline.transcript import Transcript

NoVerdict = Literal[
    "not asked",
    "no answer",
    "refused",
    "cut off",
    "empty",
    "unparsable",
    "out of range",
    "missing",
    "doubled",
]
"""Why there is no verdict. `not asked`: the outcome is unknown (a lost rollout, say), so no verdict would
decide anything. `no answer`: the server gave none. `missing`, `doubled`: a criterion or a rollout was.
"""


class Criterion(Record):
    """What a judge said of one criterion of its rubric."""

    criterion: str
    """The criterion's name in the rubric."""
    kind: Kind
    score: float
    """In [0, 1]; of a hard criterion 1 where it holds and 0 where not."""
    reason: str


class Verdict(Record):
    """What a judge said of one rollout."""

    clean: bool | None
    """Right and well done; None is no verdict, neither pass nor fail."""
    reason: str
    criteria: tuple[Criterion, ...] = ()
    """Empty without a verdict, and where the judge has no written rubric."""
    model: str | None = None
    """The model that answered, as its server names it; None where none did."""
    no_verdict: NoVerdict | None = None
    """Why there is no verdict; `reason` has the details."""


Choice = Literal["first", "second", "tie"]


class Preference(Record):
    """Which of two rollouts a judge prefers; `first` and `second` speak of the pair as it was given."""

    choice: Choice | None
    """What both orders said; a tie where they disagree; None where one of them gave no verdict."""
    forward: Choice | None
    """What was said when the first was shown first; None is no verdict."""
    backward: Choice | None
    """What was said when the second was shown first."""
    reason: str

    @classmethod
    def of(cls, forward: Choice | None, backward: Choice | None, reason: str) -> "Preference":
        """Weigh what both orders said."""
        choice = None if None in (forward, backward) else forward if forward == backward else "tie"
        return cls(choice=choice, forward=forward, backward=backward, reason=reason)


@dataclass(frozen=True)
class Case:
    """What is put before the judge."""

    transcript: Transcript
    findings: tuple[Finding, ...]
    outcome: Outcome
    group: str
    """The scenario: cases of one group are attempts at the same thing."""


class Judge(Protocol):
    """Gives verdicts, in the order of the cases."""

    @property
    def identity(self) -> str:
        """Hash of all that the judge brings itself; the policy document and the tools come with the case."""
        ...

    @property
    def rubric(self) -> str | None:
        """Hash of the written rubric; None without one."""
        ...

    @property
    def settings(self) -> str | None:
        """Who is asked and how, as JSON; None where nobody is."""
        ...

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        """Judge every case."""
        ...

    def preferences(self, pairs: Sequence[tuple[Case, Case]]) -> list[Preference]:
        """Say of every pair which is better, asked in both orders."""
        ...


class RulesJudge:
    """Clean is: the outcome is right and no conduct rule found anything."""

    rubric = None
    settings = None

    @cached_property
    def identity(self) -> str:
        """Hash of the rules, as they are written."""
        folder = Path(inspect.getfile(conduct)).parent
        written = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))]
        return f"rules-{content_id(written)[:8]}"

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        """Judge every case."""
        return [self._verdict(case) for case in cases]

    def _verdict(self, case: Case) -> Verdict:
        if case.outcome.ok is None:
            return Verdict(clean=None, reason=case.outcome.reason, no_verdict="not asked")
        if not case.outcome.ok:
            return Verdict(clean=False, reason=case.outcome.reason)
        found = sorted({finding.rule for finding in case.findings})
        return Verdict(clean=not found, reason=", ".join(found) or "no rule found anything")

    def preferences(self, pairs: Sequence[tuple[Case, Case]]) -> list[Preference]:
        """Prefer clean to not clean, and a right outcome to a wrong one; else a tie."""
        return [self._preference(*pair) for pair in pairs]

    def _preference(self, first: Case, second: Case) -> Preference:
        verdicts = [self._verdict(case) for case in (first, second)]
        silent = [verdict.reason for verdict in verdicts if verdict.clean is None]
        if silent:
            return Preference.of(None, None, silent[0])
        ranks = [(v.clean, case.outcome.ok) for v, case in zip(verdicts, (first, second), strict=True)]
        said: Choice = "tie" if ranks[0] == ranks[1] else "first" if ranks[0] > ranks[1] else "second"
        # The rules read one rollout at a time, so that the order cannot matter.
        return Preference.of(said, said, "; ".join(verdict.reason for verdict in verdicts))
