"""Conduct rules about calls: tools that exist, arguments that are whole and come from somewhere."""

import re
from functools import lru_cache

from while_pipeline.grade.conduct.seen import LONGEST, Found, called
from while_pipeline.grade.grounding import Known, grounded
from while_pipeline.ids import canonical_json
from while_pipeline.patterns import REMEMBERED
from while_pipeline.tools import Tool, ToolKind, is_identifier
from while_pipeline.transcript import Transcript

LONG_NUMBER = 6
"""Digits from which nobody knows a number by heart: it was given, or made up."""

_PLACEHOLDER = re.compile(
    r"(?:<[\w .-]+>|\[[\w .-]+\]|your[_ ].+|user@example\.com|xxx+|n/?a|string|example|placeholder)",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")


def undeclared_tool(t: Transcript) -> Found:
    """A call of a tool the agent was not given."""
    for step in t.steps:
        if step.call.name not in t.tools:
            yield called(step, step.call.name)


def broken_arguments(t: Transcript) -> Found:
    """Arguments that are not a JSON object."""
    for step in t.steps:
        if step.call.arguments is None:
            yield called(step, f"{step.call.name}: {(step.call.raw or '')[:LONGEST]}")


def placeholder_argument(t: Transcript) -> Found:
    """An argument that stands for a value instead of being one."""
    for step in t.steps:
        tool = t.tools.get(step.call.name)
        for name, value in (step.call.arguments or {}).items():
            stands_for = isinstance(value, str) and _stands_for_a_value(value, name)
            if stands_for and (tool is None or not tool.free_text(name)):
                yield called(step, f"{step.call.name}.{name} = {value!r}", name, value)


def ungrounded_argument(t: Transcript) -> Found:
    """A value nobody gave, in a call that names a record, changes one, or looks one up by a long number."""
    for step in t.steps:
        tool = t.tools.get(step.call.name)
        if tool is None:
            continue
        checked = {
            name: value
            for name, value in (step.call.arguments or {}).items()
            if _names_records(tool, name)
            or (tool.writes and not tool.free_text(name))
            or (tool.kind is ToolKind.SEARCH and _is_long_number(value))
        }
        known = Known(t, step) if checked else None
        for name, value in checked.items():
            if known is not None and not grounded(value, known, _names_records(tool, name)):
                evidence = f"{step.call.name}.{name} = {canonical_json(value)[:LONGEST]}"
                yield called(step, evidence, name, value)


def _names_records(tool: Tool, parameter: str) -> bool:
    return is_identifier(parameter) or parameter in tool.references


def _is_long_number(value: object) -> bool:
    """A phone or card number, say; a date or a price may have been worked out."""
    return (
        isinstance(value, str)
        and sum(map(str.isdigit, value)) >= LONG_NUMBER
        and not _DATE.fullmatch(value.strip())
    )


@lru_cache(maxsize=REMEMBERED)
def _stands_for_a_value(text: str, name: str) -> bool:
    text = text.strip()
    return _PLACEHOLDER.fullmatch(text) is not None or text.lower() == name.lower()
