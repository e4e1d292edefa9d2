"""Graded rollouts as the cuts see them, made by hand."""

from typing import Any

from while_pipeline.records import Message, ToolCall
from while_pipeline.tables import train
from while_pipeline.tools import parse_tools
from while_pipeline.train.cuts import Candidate, Cut, Cutter
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.privileged import Hidden

TOOLS = parse_tools([{"name": "get_bill", "parameters": {"type": "object", "properties": {}}}], "test")
DAY = "2026-03-02"
NOTHING_HIDDEN = Hidden()
CUTS = {
    "sft": train.Sft,
    "sft_random": train.SftRandom,
    "dpo": train.Dpo,
    "grpo": train.Grpo,
    "reward_model": train.RewardModel,
}


def user(text: str) -> Message:
    return Message(role="user", content=text)


def agent(text: str | None, *calls: ToolCall) -> Message:
    return Message(role="assistant", content=text, tool_calls=calls)


def call(bill: str = "B-1", call_id: str = "1") -> ToolCall:
    return ToolCall(id=call_id, name="get_bill", arguments={"bill_id": bill})


def tool(text: str, call_id: str = "1") -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id)


def candidate(
    scenario: str = "s",
    sample: int = 0,
    reward: float | None = 1.0,
    *said: Message,
    opening: str = "Hi",
    signature: str = "x",
    task: str | None = None,
    tool_condition: str = "success",
    hidden: Hidden = NOTHING_HIDDEN,
) -> Candidate:
    return Candidate(
        rollout_id=f"{scenario}-{sample}",
        scenario_id=scenario,
        task_id=task or f"task of {scenario}",
        sample=sample,
        messages=(user(opening), *(said or (agent(f"answer {sample}"),))),
        reward=reward,
        passed=None if reward is None else reward == 1.0,
        signature=signature,
        tool_condition=tool_condition,
        hidden=hidden,
    )


def group(passes: int, of: int, scenario: str = "s", **fields: Any) -> list[Candidate]:
    return [candidate(scenario, i, 1.0 if i < passes else 0.0, **fields) for i in range(of)]


def cutter(*candidates: Candidate, sealed: dict[str, str] | None = None) -> Cutter:
    return Cutter(candidates, TOOLS, "The rules.", SealedPrompts(sealed or {}))


def gates(cut: Cut) -> dict[str, str]:
    return {rollout: gate for rollout, (gate, _) in cut.fate.items()}


LOOK = (agent(None, call()), tool("open"))
"""A call with its answer."""
BROKEN = ToolCall(id="1", name="get_bill", arguments=None, raw="{oops")
