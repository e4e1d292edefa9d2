"""The `openai` format: JSON lines as OpenAI and the hosts that copy its fine-tuning API take them.

Arguments are JSON text here, as in the chat API itself. Rows have no other keys: those hosts refuse them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from while_pipeline.messages import json_text
from while_pipeline.train.exports.placed import Placed
from while_pipeline.train.names import CutName
from while_pipeline.train.published import CutRows, Row

USAGE: Final[Mapping[CutName, str]] = {
    "sft": "For supervised fine-tuning: `messages`, `tools`, `parallel_tool_calls`.",
    "sft_random": "For supervised fine-tuning: `messages`, `tools`, `parallel_tool_calls`.",
    "dpo": "For preference fine-tuning: `input`, `preferred_output`, `non_preferred_output`.",
}


def rows_for(cut: CutRows) -> list[Placed]:
    """The rows of a cut in OpenAI's shape."""
    parallel = any(_several_calls(row) for row in cut.rows)
    make = _dpo if cut.cut == "dpo" else _sft
    return [Placed(row["task_id"], row["split"], make(row, parallel)) for row in cut.rows]


def _sft(row: Row, parallel: bool) -> Row:
    return _asked(row["messages"], row["tools"], parallel)


def _dpo(row: Row, parallel: bool) -> Row:
    return {
        "input": _asked(row["prompt"], row["tools"], parallel),
        "preferred_output": _messages(row["chosen"]),
        "non_preferred_output": _messages(row["rejected"]),
    }


def _asked(messages: Sequence[Row], tools: Sequence[Row], parallel: bool) -> Row:
    return {"messages": _messages(messages), "tools": list(tools), "parallel_tool_calls": parallel}


def _messages(messages: Sequence[Row]) -> list[Row]:
    return [
        message | {"tool_calls": calls} if (calls := _calls(message)) else message for message in messages
    ]


def _calls(message: Row) -> list[Row]:
    return [
        call | {"function": call["function"] | {"arguments": json_text(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]


def _several_calls(row: Row) -> bool:
    """Whether the agent makes several calls in one turn anywhere in a row; the cut's rows say it alike."""
    columns = ("messages", "prompt", "chosen", "rejected")
    return any(len(m.get("tool_calls") or ()) > 1 for name in columns for m in row.get(name) or ())
