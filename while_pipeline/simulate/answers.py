"""What a world's answers say: refusals, faults, outdated copies. Pure functions of tool and arguments.

The state behind the answers belongs to `world`.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from while_pipeline.ids import canonical_json
from while_pipeline.tools import Tool, is_identifier, words_of

Fields = dict[str, Any]
"""The fields of a record, or of an answer. Never changed in place: worlds that forked share them."""

_ECHOES = frozenset(
    {"string", "value", "example", "user@example.com", "unknown", "n/a", "none", "null", "todo"}
)
_MAY_BE_EMPTY = re.compile(r"\b(?:empty|none|if any|optional|zero or more)\b", re.IGNORECASE)
_FAULT_TEXT = {
    "timeout": "The request timed out before the system answered.",
    "rate_limited": "Too many requests; try again in a moment.",
    "permission_denied": "This account has no permission for that action.",
}


_PAGES = (
    '{"status":"ok","ENTITY":{"ENTITY_id":"',
    '{"status":"ok","data":[{"type":"ENTITY","attributes":{"',
    "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1>",
    '{"upstream":"<html><body>Service temporarily down</body></html>","retry',
)
"""Answers as gateways and crashed services begin them; none of them is JSON wherever it ends."""
_SHORTEST = 10
"""Characters at which a broken answer still shows what it was going to be."""
_OLDEST_YEAR, _OLD_DAYS = 2020, 4 * 365
"""An old copy is of a day before any that a scenario speaks of."""
_OLD_SHARE = 0.83
"""Of an amount, what an old copy gives: no round share, or it might be another amount of the same world."""


def refused(code: str, message: str) -> Fields:
    """An error as tools answer it."""
    return {"error": code, "message": message}


def not_found(noun: str | None, parameter: str, value: str) -> Fields:
    """The answer to an id that names nothing."""
    return refused(
        "not_found", f"No {(noun or 'record').replace('_', ' ')} with {parameter} {value} was found."
    )


def no_such_tool(name: str) -> Fields:
    """The answer to a call of a tool that does not exist."""
    return refused("unknown_tool", f"There is no tool named {name}.")


def refusal(tool: Tool, arguments: Mapping[str, Any] | None) -> Fields | None:
    """Why arguments are not taken, naming the parameter; None when they are.

    Refused is what is no object (None), what the schema does not accept, a value that only repeats it
    (`order_id`, `string`), and a required list of entries without one, unless its description speaks of none.
    """
    if arguments is None:
        return refused("invalid_argument", "The arguments are not a JSON object.")
    problem = tool.validator.problem(arguments)
    if problem is not None:
        path, message = problem
        where = ".".join(map(str, path)) or next(
            (p for p in tool.required if p not in arguments), "arguments"
        )
        return refused("invalid_argument", f"{where}: {message}")
    for parameter, value in arguments.items():
        if value == [] and _asks_for_entries(tool, parameter):
            return refused("invalid_argument", f"{parameter}: at least one entry is needed.")
        listed = "enum" in tool.properties.get(parameter, {})
        if isinstance(value, str) and not (listed or tool.free_text(parameter)) and _echoes(parameter, value):
            hint = f"{parameter}: {value!r} is not a value; ask the customer for it."
            return refused("invalid_argument", hint)
    return None


def faulty(condition: str, entity: str, act: Callable[[], Fields], draw: int) -> str:
    """The answer of a tool that fails in the way of `condition`.

    Only a stale tool acts: its answer is an old copy. A broken answer (`malformed`) and an error leave
    everything as it was. `draw`, any number, decides where an answer breaks off and how old a copy is.
    """
    if condition == "stale":
        return canonical_json(_outdated(act(), draw))
    if condition == "malformed":
        return _broken(entity, draw)
    return canonical_json(refused(condition, _FAULT_TEXT[condition]))


def _broken(entity: str, draw: int) -> str:
    """An answer that breaks off somewhere, holding nothing that could be told: a record, or an error page."""
    whole = _PAGES[draw % len(_PAGES)].replace("ENTITY", entity)
    return whole[: _SHORTEST + draw // len(_PAGES) % (len(whole) - _SHORTEST)]


def same(stored: Any, asked: Any) -> bool:
    """Whether a search value meets a stored one; case and outer spaces of texts do not count."""
    if isinstance(stored, str) and isinstance(asked, str):
        return stored.strip().lower() == asked.strip().lower()
    return canonical_json(stored) == canonical_json(asked)


def _asks_for_entries(tool: Tool, parameter: str) -> bool:
    schema = tool.properties.get(parameter, {})
    asked = parameter in tool.required and schema.get("type") == "array"
    return asked and not _MAY_BE_EMPTY.search(str(schema.get("description", "")))


@lru_cache(maxsize=16_384)
def _echoes(parameter: str, value: str) -> bool:
    """Whether a value only repeats the schema or a stock example instead of naming something."""
    low = value.strip().lower()
    shape = low.strip("<>[]{}")
    return not low or low in _ECHOES or words_of(shape) == words_of(parameter) or shape.startswith("your_")


def _outdated(answer: Fields, draw: int) -> Fields:
    """The answer as an old copy would give it: flagged, with a status and amounts that no longer hold.

    An error is an error however old.
    """
    if "error" in answer:
        return answer

    def old(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [old(name, item) for item in value]
        if isinstance(value, dict):
            return {f: old(f, v) for f, v in value.items()} | {"status": "superseded"}
        if type(value) in (int, float) and name != "count" and not is_identifier(name):
            return value + 1 if type(value) is int else round(value * _OLD_SHARE, 2)
        return value

    aged = {name: old(name, value) for name, value in answer.items()}
    then = date(_OLDEST_YEAR, 1, 1) + timedelta(days=draw % _OLD_DAYS)
    return {**aged, "stale": True, "as_of": f"{then}T00:00:00Z"}
