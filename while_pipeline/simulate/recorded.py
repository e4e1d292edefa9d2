"""Answers of real tools, read from traffic, that lend the mock world their fields.

A recorded answer is an example, not the world's state: what the world knows itself always counts first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from while_pipeline.ids import canonical_json, content_id, seed_of
from while_pipeline.messages import decode_json, result_status
from while_pipeline.simulate.answers import Fields
from while_pipeline.tools import Tool, is_identifier

_OWN = frozenset({"status", "error", "message", "success", "ok", "count", "stale", "as_of", "reference"})
"""Fields the mock world decides itself."""


class Recorded:
    """Exemplars by tool, built once from `watch.steps`; read-only from then on."""

    def __init__(self, steps: Iterable[tuple[str, str | None, str | None]], tools: Sequence[Tool]) -> None:
        """Keep the good answers among `steps`: (tool, arguments as JSON text, result) as traffic has them.

        Steps of unknown tools, of tools that write, without a result or with an error are passed over.
        """
        known = {tool.name: tool for tool in tools}
        self._answers: dict[tuple[str, str], Fields] = {}
        self._shapes: dict[str, list[Fields]] = {}
        for name, arguments, result in steps:
            tool = known.get(name)
            if tool is None or tool.writes or result is None or result_status(result) != "ok":
                continue
            answer = _decoded(result)
            if isinstance(answer, dict) and arguments is not None:
                self._answers.setdefault((name, _same_text(arguments)), answer)
            shape = _record_of(answer, tool)
            if shape and shape not in self._shapes.setdefault(name, []):
                self._shapes[name].append(shape)

    @property
    def identity(self) -> str:
        """Hash of all exemplars."""
        return content_id([[*key, answer] for key, answer in self._answers.items()], self._shapes)

    def answer(self, tool: str, arguments: Mapping[str, Any]) -> Fields | None:
        """The recorded answer to an identical call, None when there is none."""
        return self._answers.get((tool, canonical_json(arguments)))

    def fields(self, tool: str, key: str) -> Fields:
        """Fields of the record `key` as the tool's answers have them: the same for the same id, or none."""
        shapes = self._shapes.get(tool)
        return shapes[seed_of("recorded", tool, key) % len(shapes)] if shapes else {}


def _same_text(arguments: str) -> str:
    value = _decoded(arguments)
    return canonical_json(value) if isinstance(value, dict) else arguments


def _decoded(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return None


def _record_of(answer: Any, tool: Tool) -> Fields:
    """The fields of one record in an answer: under the entity's name, in a list, or the answer itself."""
    if isinstance(answer, dict):
        inner = [
            answer[name] for name in (tool.entity, f"{tool.entity}s", "results", "result") if name in answer
        ]
        answer = next((value for value in inner if isinstance(value, dict | list)), answer)
    if isinstance(answer, list):
        answer = next((value for value in answer if isinstance(value, dict)), {})
    if not isinstance(answer, dict):
        return {}
    return {f: v for f, v in answer.items() if f not in _OWN and not is_identifier(f)}
