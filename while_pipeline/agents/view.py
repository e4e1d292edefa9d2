"""What the embedded agent reads out of the visible conversation: requests, values, results, permissions.

Pure reading; what to do about it is decided in `embedded`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from while_pipeline.agents import phrases
from while_pipeline.agents.lexicon import Lexicon
from while_pipeline.agents.policy import RETRYABLE
from while_pipeline.lazy import lazy
from while_pipeline.messages import decode_json, steps
from while_pipeline.policy_document import PolicyRule, RuleKind
from while_pipeline.records import Message, Step
from while_pipeline.tools import Tool, ToolKind, is_identifier, words_of

_YES = re.compile(r"\b(yes|yeah|yep|sure|go ahead|please do|ok(ay)?|confirm(ed)?)\b", re.IGNORECASE)
_NO = re.compile(r"^\s*(no|stop|don't|do not)\b", re.IGNORECASE)
_IDENTIFIED = re.compile(r"\bborn\b|date of birth|\bdob\b", re.IGNORECASE)
_GENERAL = re.compile(
    r"what can you help|which requests|what this chat is for|what (?:could|can) you do for me|my options|"
    r"how does this work|(?:what|which) (?:would|do) you (?:suggest|recommend)|what is possible|"
    r"walk me through|what should i know",
    re.IGNORECASE,
)
_PUSHES = re.compile(
    r"\bexceptions?\b|\bhalfway\b|\bbend\b|\bleeway\b|without asking|\b(?:your|the) (?:notes|instructions)\b",
    re.IGNORECASE,
)
"""Words of who wants the agent to do other than it is told to."""

_FAULTS = RETRYABLE | {"permission_denied"}
"""Statuses that no other values would change."""
_REMEMBERED = 4096
"""Texts that are read once: the samples of a scenario hear the same words, turn after turn."""


class UnanswerableError(ValueError):
    """A conversation that no agent could go on with: whoever sent it put it together wrongly."""


class View:
    """One reading of a conversation."""

    def __init__(self, messages: Sequence[Message], lexicon: Lexicon) -> None:
        """Read `messages`, without their system message, in the words of `lexicon`.

        Raises:
            UnanswerableError: no customer speaks, the last word is not the customer's or a tool's, or a tool
                answers though nothing was called.
        """
        if not messages:
            raise UnanswerableError("the conversation is empty")
        self.lexicon, self.messages = lexicon, messages
        self.document, self.tools, self.by_name = lexicon.document, lexicon.tools, lexicon.by_name
        self.last = self.messages[-1]
        self.user_texts: list[str] = []
        self.agent_texts: list[str] = []
        self._spoken = -1
        for i, message in enumerate(messages):
            if message.role == "user":
                self.user_texts.append(message.content or "")
            elif message.role == "assistant" and message.content:
                self.agent_texts.append(message.content)
                self._spoken = i
        self._values: dict[str, dict[str, Any]] = {}
        if not self.user_texts:
            raise UnanswerableError("no customer speaks in the conversation")
        if self.last.role not in ("user", "tool"):
            raise UnanswerableError(
                f"the last message is of role {self.last.role}; only a customer or a tool is answered"
            )
        if self.last.role == "tool" and not self.steps:
            raise UnanswerableError("the last message is a tool's, and nothing was called")

    @lazy
    def steps(self) -> list[Step]:
        """Tool calls so far, with their results."""
        return steps(self.messages)

    @lazy
    def fresh_steps(self) -> list[Step]:
        """Steps made since the agent last said something."""
        return [step for step in self.steps if step.turn > self._spoken]

    @property
    def verified(self) -> bool:
        """Whether the customer has told who they are."""
        return any(map(_identifies, self.user_texts))

    def agreed_to(self, question: str) -> bool:
        """Whether the customer's last word was a yes to this very question of the agent."""
        asked = bool(self.agent_texts) and question in self.agent_texts[-1]
        return asked and _agrees(self.user_texts[-1])

    @property
    def strays(self) -> bool:
        """Whether the customer asks for something the agent has nothing to do with."""
        return self.last.role == "user" and self.lexicon.is_off_topic(self.user_texts[-1])

    @property
    def asks_generally(self) -> bool:
        """Whether the customer wants to know what the agent does."""
        return bool(_GENERAL.search(self.user_texts[-1]))

    @property
    def pushes(self) -> bool:
        """Whether the customer wants the agent to leave its rules."""
        return bool(_PUSHES.search(self.user_texts[-1]))

    @property
    def failure_told(self) -> bool:
        """Whether the customer answers to being told that something did not work."""
        return bool(self.agent_texts) and phrases.tells_failure(self.agent_texts[-1])

    def asked_for(self, parameter: str) -> bool:
        """Whether the agent has asked for this parameter before."""
        asked = [text.partition(phrases.ASK)[2] for text in self.agent_texts if phrases.ASK in text]
        return any(re.search(rf"\b{' '.join(words_of(parameter))}\b", text) for text in asked)

    def agreed_values(self, tool: Tool) -> dict[str, Any]:
        """Values of the agent's question about this very call that the customer's last word said yes to."""
        last = self.agent_texts[-1] if self.agent_texts else ""
        start = last.find(phrases.about_to(" ".join(words_of(tool.name))))
        if start < 0 or not self.agreed_to(last):
            return {}
        heard = {p: slot.hear(last[start:]) for p, slot in self.lexicon.slots[tool.name].items()}
        return {p: v for p, v in heard.items() if v is not None}

    @property
    def work_begun(self) -> bool:
        """Whether the agent has asked about a request before: who asks was settled, or skipped, by then."""
        openers = (phrases.CLARIFY, phrases.MAY_CONTINUE)
        return any("?" in text and not text.endswith(openers) for text in self.agent_texts)

    def asked(self, question: str) -> bool:
        """Whether the agent has asked this very question before."""
        return any(question in text for text in self.agent_texts)

    @lazy
    def requests(self) -> list[Tool]:
        """Tools the customer's sentences ask for, in order, each once."""
        meant = [m.tool for text in self.user_texts for m in self.lexicon.sentences(text) if m.tool]
        return list({tool.name: tool for tool in meant}.values())

    def rule_in_play(self, kind: RuleKind) -> PolicyRule | None:
        """The first rule of `kind` that a sentence not yet answered puts in play."""
        for rule in self._rules_in_play:
            if rule.kind is kind:
                return rule
        return None

    @lazy
    def _rules_in_play(self) -> list[PolicyRule]:
        asked = self.user_texts[-1] if self.last.role == "user" else ""
        return [rule for meaning in self.lexicon.sentences(asked) for rule in meaning.rules]

    def values(self, tool: Tool) -> dict[str, Any]:
        """Values of the tool's required parameters that were said; identifiers also from results."""
        found = self._values.get(tool.name)
        if found is None:
            heard = {p: self._value(tool, p) for p in tool.required}
            found = self._values[tool.name] = {p: v for p, v in heard.items() if v is not None}
        return dict(found)

    def _value(self, tool: Tool, parameter: str) -> Any:
        if tool.free_text(parameter):
            return f"Customer asked to {' '.join(words_of(tool.name))}."
        slot = self.lexicon.slots[tool.name][parameter]
        for text in reversed(self.user_texts):
            value = slot.hear(text)
            if value is not None:
                return value
        if not is_identifier(parameter):  # the amount of one record is not that of another
            return None
        results = [s.result for s in reversed(self.steps) if s.status == "ok" and s.result]
        return next((v for result in results if (v := _find(result, parameter)) is not None), None)

    @lazy
    def pending(self) -> Tool | None:
        """The first request not yet acted on; nothing is left to do once the customer was handed over."""
        called = (self.by_name.get(step.call.name) for step in self.steps)
        if any(tool is not None and tool.kind is ToolKind.TRANSFER for tool in called):
            return None
        return next((tool for tool in self.requests if not self._settled(tool)), None)

    def _settled(self, tool: Tool) -> bool:
        """Whether the request was acted on with the values known now (or mistaken for its neighbour).

        Other values than those of a call that failed for another reason would fail as well.
        """
        if not self.steps:
            return False
        last = next((step for step in reversed(self.steps) if step.call.name == tool.name), None)
        if last is not None and last.status in _FAULTS:
            return True
        arguments = self.values(tool)
        neighbour = self.lexicon.neighbour(tool)
        other = None if any(asked is neighbour for asked in self.requests) else neighbour.name
        return any(
            s.call.name == other or (s.call.name == tool.name and _same_call(s, tool, arguments))
            for s in self.steps
        )

    @lazy
    def results(self) -> list[str]:
        """What came of everything done since the last words; a later call of a tool replaces its answer."""
        last = {step.call.name: step.position for step in self.steps}
        return [
            phrases.succeeded(step, self.by_name[step.call.name])
            for step in self.fresh_steps
            if step.status in ("ok", "stale")
            and step.call.name in self.by_name
            and step.position == last[step.call.name]
        ]


def _same_call(step: Step, tool: Tool, arguments: dict[str, Any]) -> bool:
    made = step.call.arguments or {}
    return all(made.get(p) == v for p, v in arguments.items() if not tool.free_text(p))


@lru_cache(maxsize=_REMEMBERED)
def _agrees(text: str) -> bool:
    return bool(_YES.search(text)) and not _NO.search(text)


@lru_cache(maxsize=_REMEMBERED)
def _identifies(text: str) -> bool:
    return bool(_IDENTIFIED.search(text))


@lru_cache(maxsize=_REMEMBERED)
def _find(result: str, key: str) -> Any:
    """First scalar under `key` anywhere in a JSON result."""
    try:
        found = [decode_json(result)]
    except ValueError:
        return None
    for value in found:  # grows as it goes: the outermost first
        if isinstance(value, dict):
            if key in value and not isinstance(value[key], dict | list):
                return value[key]
            found += value.values()
        elif isinstance(value, list):
            found += value
    return None
