"""Prompts of trainers that render no tools of their own: the schemas stand in the system text.

The words are those of our chat template, so that a model that was trained with it reads the same either way.
"""

from collections.abc import Sequence

from while_pipeline.messages import json_text
from while_pipeline.train.published import Row


def with_tools(prompt: Sequence[Row], tools: Sequence[Row]) -> list[Row]:
    """A prompt whose system message, made if there is none, ends with the tools and how to call them."""
    told = [message for message in prompt if message["role"] == "system"]
    others = [message for message in prompt if message["role"] != "system"]
    text = "\n\n".join([*(message["content"] for message in told), tools_text(tools)])
    return [{"role": "system", "content": text}, *others]


def tools_text(tools: Sequence[Row]) -> str:
    """The tools as JSON schemas, and the form of a call."""
    schemas = "\n".join(json_text(tool) for tool in tools)
    return (
        f"# Tools\n\nYou may call these tools, described by JSON schemas:\n<tools>\n{schemas}\n</tools>\n\n"
        'To call one, write:\n<tool_call>\n{"name": "its name", "arguments": {}}\n</tool_call>'
    )
