"""What a checkpoint plays while it is trained by groups, and how its words are read.

What belongs here: the scenarios with their world and judge, and tool calls as text. Sampling belongs to
`player`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from while_pipeline.grade.judge import Judge
from while_pipeline.messages import decode_json, tool_call
from while_pipeline.policy_document import PolicyDocument
from while_pipeline.records import Message, ToolCall
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.user_world import WorldFactory
from while_pipeline.tools import Tool

_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Game:
    """Everything an episode needs beside the checkpoint."""

    scenarios: Mapping[str, Scenario]
    """By scenario id; those of the training rows at least."""
    tools: tuple[Tool, ...]
    document: PolicyDocument
    judge: Judge
    worlds: WorldFactory


def read_turn(text: str, turn: int) -> Message:
    """Read an agent's turn out of what a model wrote, in the form of Hermes, Qwen and our own template.

    A call that is no JSON object with a name stays text: the customer then sees it, as with a real server.

    Args:
        text: Without its end token.
        turn: Index of the turn, which makes the ids of its calls unique.
    """
    calls: list[ToolCall] = []

    def take(found: re.Match[str]) -> str:
        call = _call(found.group(1), f"call_{turn}_{len(calls)}")
        if call is None:
            return found.group(0)
        calls.append(call)
        return ""

    said = _CALL.sub(take, _THOUGHT.sub("", text)).strip()
    return Message(role="assistant", content=said or (None if calls else ""), tool_calls=tuple(calls))


def _call(body: str, call_id: str) -> ToolCall | None:
    try:
        value = decode_json(body)
        return (
            tool_call(call_id, value.get("name"), value.get("arguments")) if isinstance(value, dict) else None
        )
    except ValueError:
        return None
