"""The four cuts: training sets selected from graded rollouts, and why each rollout is in or out.

A cut never distorts what was measured: groups are kept whole, and every rollout is accounted for once per
cut with the first gate that dropped it. What may leave the house is decided in `publication`.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from while_pipeline.constants import GRPO_BAND
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.messages import to_openai
from while_pipeline.records import Message
from while_pipeline.tools import Tool
from while_pipeline.train.decontaminate import SealedPrompts

KEPT = "kept"

Row = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A graded rollout as the cuts see it."""

    rollout_id: str
    scenario_id: str
    task_id: str
    sample: int
    messages: tuple[Message, ...]
    reward: float | None
    passed: bool | None
    signature: str
    words: int

    @property
    def prompt(self) -> str:
        """The customer's first message."""
        return self.messages[0].content or ""


@dataclass(frozen=True)
class Cut:
    """Rows of one cut, and per rollout the first gate that dropped it (or `kept`) with what it saw."""

    name: str
    rows: list[Row]
    fate: dict[str, tuple[str, str]]


class Cutter:
    """Makes the cuts of one day's rollouts."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        tools: Sequence[Tool],
        document_text: str,
        sealed: SealedPrompts,
    ) -> None:
        """Cut from `candidates`; rows that copy a sealed prompt are left out of every cut."""
        self._candidates = sorted(candidates, key=lambda c: (c.scenario_id, c.sample))
        self._tools = canonical_json([tool.openai() for tool in tools])
        self._system = {"role": "system", "content": document_text}
        self._sealed = sealed
        self._looked_up: dict[str, str | None] = {}

    def sft(self) -> Cut:
        """The best rollout of each scenario, picks spread over behaviour signatures."""
        fate = self._gate(lambda c: None if c.passed else ("did not pass", f"reward {c.reward}"))
        used: Counter[str] = Counter()
        rows: list[Row] = []
        for group in self._groups(fate):
            best = min(group, key=lambda c: (used[c.signature], c.sample))
            used[best.signature] += 1
            fate |= {
                c.rollout_id: ("another row of its scenario", best.rollout_id) for c in group if c is not best
            }
            fate[best.rollout_id] = (KEPT, "")
            row = {"messages": self._json(best.messages), "tools": self._tools}
            rows.append(
                {
                    "row_id": content_id("sft", best.rollout_id, row),
                    "rollout_id": best.rollout_id,
                    "scenario_id": best.scenario_id,
                    "task_id": best.task_id,
                    "reward": best.reward,
                    **row,
                }
            )
        return Cut("sft", rows, fate)

    def dpo(self) -> Cut:
        """One pair per scenario: a pass and a failure of nearest length, cut where they first differ."""
        fate = self._gate()
        rows: list[Row] = []
        for group in self._groups(fate):
            pairs = [(a, b) for a in group for b in group if a.passed and (a.reward or 0) > (b.reward or 0)]
            if not pairs:
                fate |= {c.rollout_id: ("no contrast in its scenario", "") for c in group}
                continue
            usable = [(a, b, at) for a, b in pairs if (at := _first_difference(a, b)) is not None]
            if not usable:
                fate |= {c.rollout_id: ("the pair differs in no assistant turn", "") for c in group}
                continue
            chosen, rejected, at = min(
                usable, key=lambda p: (abs(p[0].words - p[1].words), p[0].sample, p[1].sample)
            )
            fate |= {c.rollout_id: ("not in the pair of nearest length", "") for c in group}
            fate |= {c.rollout_id: (KEPT, "") for c in (chosen, rejected)}
            row = {
                "prompt": self._json(chosen.messages[:at]),
                "chosen": canonical_json([training_message(chosen.messages[at])]),
                "rejected": canonical_json([training_message(rejected.messages[at])]),
                "tools": self._tools,
            }
            rows.append(
                {
                    "row_id": content_id("dpo", chosen.rollout_id, rejected.rollout_id, row),
                    "scenario_id": chosen.scenario_id,
                    "task_id": chosen.task_id,
                    "chosen_rollout_id": chosen.rollout_id,
                    "rejected_rollout_id": rejected.rollout_id,
                    "margin": (chosen.reward or 0.0) - (rejected.reward or 0.0),
                    **row,
                }
            )
        return Cut("dpo", rows, fate)

    def grpo(self) -> Cut:
        """Whole groups whose pass rate lies in the band: identical honest replies are samples, not copies."""
        fate = self._gate()
        incomplete = {c.scenario_id for c in self._candidates if fate.get(c.rollout_id)}
        low, high = GRPO_BAND
        rows: list[Row] = []
        for group in self._groups(fate):
            rate = statistics.fmean(bool(c.passed) for c in group)
            if group[0].scenario_id in incomplete:
                fate |= {c.rollout_id: ("its group lost a sample", "") for c in group}
            elif len(group) < 2 or not low <= rate <= high:
                fate |= {
                    c.rollout_id: ("its group is outside the band", f"pass rate {rate:.3f}") for c in group
                }
            else:
                fate |= {c.rollout_id: (KEPT, "") for c in group}
                rows += [self._grpo_row(c, a, rate) for c, a in zip(group, advantages(group), strict=True)]
        return Cut("grpo", rows, fate)

    def _grpo_row(self, c: Candidate, advantage: float, rate: float) -> Row:
        return {
            "rollout_id": c.rollout_id,
            "scenario_id": c.scenario_id,
            "task_id": c.task_id,
            "prompt": self._json(c.messages[:1]),
            "tools": self._tools,
            "reward": c.reward,
            "passed": c.passed,
            "pass_rate": rate,
            "advantage": advantage,
        }

    def reward_model(self) -> Cut:
        """Every graded rollout."""
        fate = self._gate()
        rows: list[Row] = [
            {
                "rollout_id": c.rollout_id,
                "task_id": c.task_id,
                "messages": self._json(c.messages),
                "tools": self._tools,
                "reward": c.reward,
            }
            for group in self._groups(fate)
            for c in group
        ]
        kept = {row["rollout_id"]: (KEPT, "") for row in rows}
        return Cut("reward_model", rows, fate | kept)

    def _gate(
        self, own: Callable[[Candidate], tuple[str, str] | None] = lambda _: None
    ) -> dict[str, tuple[str, str]]:
        """The gates every cut shares, in order, then the cut's own."""
        fate: dict[str, tuple[str, str]] = {}
        for c in self._candidates:
            if c.passed is None or c.reward is None:
                fate[c.rollout_id] = ("no verdict", "lost, or the judge gave none")
            elif broken := _broken_call(c):
                fate[c.rollout_id] = ("arguments are not a JSON object", broken)
            elif copied := self._copied(c.prompt):
                fate[c.rollout_id] = ("near copy of a sealed prompt", copied)
            elif dropped := own(c):
                fate[c.rollout_id] = dropped
        return fate

    def _copied(self, prompt: str) -> str | None:
        """The sealed task a prompt copies; the samples of a scenario share their prompt."""
        if prompt not in self._looked_up:
            self._looked_up[prompt] = self._sealed.copied(prompt)
        return self._looked_up[prompt]

    def _groups(self, fate: Mapping[str, tuple[str, str]]) -> list[list[Candidate]]:
        """Candidates not dropped yet, by scenario, in order."""
        groups: dict[str, list[Candidate]] = defaultdict(list)
        for c in self._candidates:
            if c.rollout_id not in fate:
                groups[c.scenario_id].append(c)
        return list(groups.values())

    def _json(self, messages: Sequence[Message]) -> str:
        return canonical_json([self._system, *map(training_message, messages)])


def advantages(group: Sequence[Candidate]) -> list[float]:
    """(pass - mean) / population standard deviation: 2 passes of 8 give +1.7321 and -.5774.

    A group that agrees has no advantage anywhere: zeros.
    """
    passes = [float(bool(c.passed)) for c in group]
    mean, spread = statistics.fmean(passes), statistics.pstdev(passes)
    return [(p - mean) / spread if spread else 0.0 for p in passes]


def training_message(message: Message) -> Row:
    """A message as chat templates want it: arguments are an object, not a string."""
    out = to_openai(message)
    for call, made in zip(out.get("tool_calls", ()), message.tool_calls, strict=True):
        call["function"]["arguments"] = made.arguments
    return out


def why_dropped(cuts: Iterable[Cut]) -> list[Row]:
    """Rows of `train.why_dropped`: every rollout once per cut."""
    return [
        {"rollout_id": rollout, "cut": cut.name, "gate": gate, "detail": detail}
        for cut in cuts
        for rollout, (gate, detail) in sorted(cut.fate.items())
    ]


def _broken_call(c: Candidate) -> str | None:
    calls = [call for message in c.messages for call in message.tool_calls if call.arguments is None]
    return f"{calls[0].name}: {(calls[0].raw or '')[:80]}" if calls else None


def _first_difference(a: Candidate, b: Candidate) -> int | None:
    """Index of the first message that says something else, when it is an assistant turn in both."""
    for i, (left, right) in enumerate(zip(a.messages, b.messages, strict=False)):
        if _substance(left) != _substance(right):
            return i if left.role == right.role == "assistant" else None
    return None


def _substance(message: Message) -> tuple[str, str, list[tuple[str, Any]]]:
    """A message without its call ids: models draw those anew for every answer."""
    return message.role, message.content or "", [(call.name, call.arguments) for call in message.tool_calls]
