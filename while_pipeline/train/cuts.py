"""The cuts: training sets selected from graded rollouts, and why each rollout is in or out.

A cut never distorts what was measured: groups are kept whole, and every rollout is accounted for once per
cut with the first gate that dropped it. Rows come easy to hard, by the pass rate of their group. What may
leave the house is decided in `publication`.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from while_pipeline.constants import GRPO_BAND
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.messages import arguments_text, to_openai
from while_pipeline.records import Message
from while_pipeline.tools import Tool
from while_pipeline.train.curriculum import split_of, stage_of
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.privileged import Hidden, disguised, personal_data_in, told

KEPT = "kept"

Row = dict[str, Any]
Fate = tuple[str, str]
"""The gate that dropped a rollout, or `KEPT`, and what it saw."""


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
    tool_condition: str
    """The fault its scenario schedules, `success` for none."""
    hidden: Hidden

    @property
    def prompt(self) -> str:
        """The customer's first message."""
        return self.messages[0].content or ""


@dataclass(frozen=True)
class Cut:
    """Rows of one cut, and per rollout the first gate that dropped it (or `kept`) with what it saw."""

    name: str
    rows: list[Row]
    fate: dict[str, Fate]


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
        self._offered = frozenset(tool.name for tool in tools)
        self._system = {"role": "system", "content": document_text}
        self._sealed = sealed
        self._looked_up: dict[str, str | None] = {}
        self._rates = _pass_rates(self._candidates)

    def sft(self) -> Cut:
        """The best rollout of each scenario, picks spread over behaviour signatures."""
        fate = self._gate(
            self._undeclared, lambda c: None if c.passed else ("did not pass", f"reward {c.reward}")
        )
        used: Counter[str] = Counter()

        def pick(group: Sequence[Candidate]) -> Candidate:
            best = min(group, key=lambda c: (used[c.signature], c.sample))
            used[best.signature] += 1
            return best

        return self._one_each("sft", fate, pick)

    def sft_random(self) -> Cut:
        """Of each scenario in the SFT cut one rollout at random, passed or not: what selecting must beat.

        The draw is by content hash, among the rollouts the SFT cut could have seen.
        """
        solved = {row["scenario_id"] for row in self.sft().rows}
        fate = self._gate(
            self._undeclared,
            lambda c: None if c.scenario_id in solved else ("its scenario is not in the sft cut", ""),
        )
        return self._one_each(
            "sft_random", fate, lambda group: min(group, key=lambda c: content_id("random", c.rollout_id))
        )

    def _one_each(
        self, name: str, fate: dict[str, Fate], pick: Callable[[Sequence[Candidate]], Candidate]
    ) -> Cut:
        rows: list[Row] = []
        for group in self._groups(fate):
            picked = pick(group)
            fate |= {c.rollout_id: ("another row of its scenario", picked.rollout_id) for c in group}
            fate[picked.rollout_id] = (KEPT, "")
            row = {"messages": self._json(_to_last_turn(picked.messages)), "tools": self._tools}
            rows.append(
                {
                    "row_id": content_id(name, picked.rollout_id, row),
                    "rollout_id": picked.rollout_id,
                    **self._place(picked),
                    "reward": picked.reward,
                    **row,
                }
            )
        return Cut(name, rows, fate)

    def dpo(self) -> Cut:
        """One pair per scenario, a pass and a failure, cut where they first differ.

        Of all pairs the one whose two answers there are nearest in length: a difference in length is what a
        trainer learns first.
        """
        fate = self._gate(self._undeclared)
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
            chosen, rejected, at = min(usable, key=_distance)
            fate |= {c.rollout_id: ("not in the pair of nearest length", "") for c in group}
            fate |= {c.rollout_id: (KEPT, "") for c in (chosen, rejected)}
            rows.append(self._pair(chosen, rejected, at))
        return Cut("dpo", rows, fate)

    def _pair(self, chosen: Candidate, rejected: Candidate, at: int) -> Row:
        row = {
            "prompt": self._json(chosen.messages[:at]),
            "chosen": canonical_json([training_message(chosen.messages[at])]),
            "rejected": canonical_json([training_message(rejected.messages[at])]),
            "tools": self._tools,
        }
        return {
            "row_id": content_id("dpo", chosen.rollout_id, rejected.rollout_id, row),
            **self._place(chosen),
            "chosen_rollout_id": chosen.rollout_id,
            "rejected_rollout_id": rejected.rollout_id,
            "margin": (chosen.reward or 0.0) - (rejected.reward or 0.0),
            **row,
        }

    def grpo(self) -> Cut:
        """Whole groups whose pass rate lies in the band: identical honest replies are samples, not copies.

        The kinds of fault take turns, so that no stretch of the cut is all timeouts.
        """
        fate = self._gate()
        incomplete = {c.scenario_id for c in self._candidates if fate.get(c.rollout_id)}
        low, high = GRPO_BAND
        kinds: dict[str, list[list[Candidate]]] = defaultdict(list)
        for group in self._groups(fate):
            first = group[0]
            rate = self._rates[first.scenario_id]
            if first.scenario_id in incomplete:
                fate |= {c.rollout_id: ("its group lost a sample", "") for c in group}
            elif len(group) < 2 or not low <= rate <= high:
                fate |= {
                    c.rollout_id: ("its group is outside the band", f"pass rate {rate:.3f}") for c in group
                }
            else:
                fate |= {c.rollout_id: (KEPT, "") for c in group}
                kinds[first.tool_condition].append(group)
        rows = [
            self._sample(c, advantage)
            for group in _in_turn([kinds[kind] for kind in sorted(kinds)])
            for c, advantage in zip(group, advantages(group), strict=True)
        ]
        return Cut("grpo", rows, fate)

    def _sample(self, c: Candidate, advantage: float) -> Row:
        return {
            "rollout_id": c.rollout_id,
            **{name: value for name, value in self._place(c).items() if name != "stage"},
            "tool_condition": c.tool_condition,
            "prompt": self._json(c.messages[:1]),
            "tools": self._tools,
            "reward": c.reward,
            "passed": c.passed,
            "advantage": advantage,
        }

    def reward_model(self) -> Cut:
        """Every graded rollout, up to the agent's last turn."""
        fate = self._gate(self._undeclared)
        rows: list[Row] = [
            {
                "rollout_id": c.rollout_id,
                **self._place(c),
                "messages": self._json(_to_last_turn(c.messages)),
                "tools": self._tools,
                "reward": c.reward,
                "passed": c.passed,
            }
            for group in self._groups(fate)
            for c in group
        ]
        kept = {row["rollout_id"]: (KEPT, "") for row in rows}
        return Cut("reward_model", rows, fate | kept)

    def _place(self, c: Candidate) -> Row:
        """Where a row stands: what it is of, its side of the split, and how far the policy is."""
        rate = self._rates[c.scenario_id]
        return {
            "scenario_id": c.scenario_id,
            "task_id": c.task_id,
            "split": split_of(c.task_id),
            "pass_rate": rate,
            "stage": stage_of(rate),
        }

    def _gate(self, *own: Callable[[Candidate], Fate | None]) -> dict[str, Fate]:
        """The gates every cut shares, in order, then the cut's own."""
        fate = dict(self._refused)
        for gate in own:
            left = (c for c in self._candidates if c.rollout_id not in fate)
            fate |= {c.rollout_id: dropped for c in left if (dropped := gate(c))}
        return fate

    def _undeclared(self, c: Candidate) -> Fate | None:
        called = (call.name for message in c.messages for call in message.tool_calls)
        strange = next((name for name in called if name not in self._offered), None)
        return None if strange is None else ("calls a tool that is not there", strange)

    @cached_property
    def _refused(self) -> dict[str, Fate]:
        """Rollouts that no cut takes."""
        return {c.rollout_id: fate for c in self._candidates if (fate := self._refusal(c)) is not None}

    def _refusal(self, c: Candidate) -> Fate | None:
        if c.passed is None or c.reward is None:
            return "no verdict", "lost, or the judge gave none"
        if broken := _broken_call(c):
            return "arguments are not a JSON object", broken
        if copied := self._copied(c.prompt):
            return "near copy of a sealed prompt", copied
        said = [self._system, *map(training_message, c.messages)]
        if secret := told(said, c.hidden):
            return "tells what only the simulator knows", secret
        if found := personal_data_in(said[1:], own=f"{self._system['content']}\n{self._tools}"):
            return "personal data or a secret", disguised(found)
        return None

    def _copied(self, prompt: str) -> str | None:
        """The sealed task a prompt copies; the samples of a scenario share their prompt."""
        if prompt not in self._looked_up:
            self._looked_up[prompt] = self._sealed.copied(prompt)
        return self._looked_up[prompt]

    def _groups(self, fate: Mapping[str, Fate]) -> list[list[Candidate]]:
        """Candidates not dropped yet, by scenario, easy to hard."""
        groups: dict[str, list[Candidate]] = defaultdict(list)
        for c in self._candidates:
            if c.rollout_id not in fate:
                groups[c.scenario_id].append(c)
        return [groups[scenario] for scenario in sorted(groups, key=lambda s: (-self._rates[s], s))]

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


def _to_last_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Up to the agent's last turn with words or a call: the turn limit may cut after customer or tool."""
    turns = [at for at, m in enumerate(messages) if m.role == "assistant" and _says_something(m)]
    return messages[: turns[-1] + 1] if turns else messages


def _says_something(message: Message) -> bool:
    return bool((message.content or "").strip() or message.tool_calls)


def _pass_rates(candidates: Iterable[Candidate]) -> dict[str, float]:
    """Share of the graded rollouts of each scenario that passed, as measured: before any gate."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for c in candidates:
        if c.passed is not None:
            groups[c.scenario_id].append(c.passed)
    return {scenario: statistics.fmean(passes) for scenario, passes in groups.items()}


def _in_turn(queues: Sequence[Sequence[list[Candidate]]]) -> list[list[Candidate]]:
    """One of each queue, then the next of each, until all are empty."""
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _broken_call(c: Candidate) -> str | None:
    calls = [call for message in c.messages for call in message.tool_calls if call.arguments is None]
    return f"{calls[0].name}: {(calls[0].raw or '')[:80]}" if calls else None


def _distance(pair: tuple[Candidate, Candidate, int]) -> tuple[int, int, int]:
    chosen, rejected, at = pair
    lengths = [_length(c.messages[at]) for c in (chosen, rejected)]
    return abs(lengths[0] - lengths[1]), chosen.sample, rejected.sample


def _length(message: Message) -> int:
    """Characters the agent wrote: words, names of tools and arguments."""
    calls = sum(len(call.name) + len(arguments_text(call)) for call in message.tool_calls)
    return len(message.content or "") + calls


def _first_difference(a: Candidate, b: Candidate) -> int | None:
    """Index of the first message that says something else, when it is an assistant turn in both."""
    for i, (left, right) in enumerate(zip(a.messages, b.messages, strict=False)):
        if _substance(left) != _substance(right):
            return i if left.role == right.role == "assistant" else None
    return None


def _substance(message: Message) -> tuple[str, str, list[tuple[str, Any]]]:
    """A message without its call ids: models draw those anew for every answer."""
    return message.role, message.content or "", [(call.name, call.arguments) for call in message.tool_calls]
