"""What a sentence means to the embedded agent: which tool it asks for, which policy rule it puts in play.

Compiled once per agent (tools and policy document); a sentence is read once, however often it is seen.
"""

import re
from dataclasses import dataclass, field

from while_pipeline.policy_document import (
    PolicyDocument,
    PolicyRule,
    asks_about_rules,
    sentences,
)
from while_pipeline.tools import Tool, ToolKind, words_of

MATCH = 0.75
"""Share of a tool's name words a sentence must have to ask for it."""
CACHED_SENTENCES = 20_000
"""Bounds memory; a night has more sentences than this, but they come in runs."""

_GRAMMAR = frozenset({
    "by", "for", "to", "of", "from", "with", "the", "a", "an", "my", "all", "at", "in", "on",
})  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    """What one sentence asks for and which rules it touches."""

    tool: Tool | None
    rules: tuple[PolicyRule, ...]


@dataclass
class Lexicon:
    """The vocabulary of one agent."""

    tools: tuple[Tool, ...]
    document: PolicyDocument
    _read: dict[str, Meaning] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Precompute name words and neighbours."""
        self.by_name = {tool.name: tool for tool in self.tools}
        self._words = [
            (tool, frozenset(words_of(tool.name)) - _GRAMMAR or frozenset(words_of(tool.name)))
            for tool in self.tools
            if tool.kind is not ToolKind.TRANSFER
        ]
        self._neighbours = {tool.name: self._nearest(tool) for tool in self.tools}

    def sentences(self, text: str) -> list[Meaning]:
        """Meanings of a text's sentences, in order."""
        return [self._meaning(sentence) for sentence in sentences(text)]

    def neighbour(self, tool: Tool) -> Tool:
        """The tool most easily taken for `tool`; itself when there is no other."""
        return self._neighbours[tool.name]

    def _meaning(self, sentence: str) -> Meaning:
        known = self._read.get(sentence)
        if known is None:
            if len(self._read) >= CACHED_SENTENCES:
                self._read.clear()
            known = self._read[sentence] = self._compute(sentence)
        return known

    def _compute(self, sentence: str) -> Meaning:
        rules = self.document.in_play(sentence)
        return Meaning(None if rules or asks_about_rules(sentence) else self._tool(sentence), rules)

    def _tool(self, sentence: str) -> Tool | None:
        """The tool whose name a sentence says most fully; the longest name wins a tie."""
        said = frozenset(re.findall(r"[a-z0-9]+", sentence.lower()))
        scored = [((len(words & said) / len(words), len(words)), tool) for tool, words in self._words]
        score, tool = max(scored, key=lambda pair: pair[0], default=((0.0, 0), None))
        return tool if score[0] >= MATCH else None

    def _nearest(self, tool: Tool) -> Tool:
        own = set(words_of(tool.name))
        others = [t for t, _ in self._words if t.name != tool.name]
        return max(others, key=lambda t: len(own & set(words_of(t.name))), default=tool)
