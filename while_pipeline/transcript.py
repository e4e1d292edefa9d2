"""A finished conversation as the graders see it: texts, steps, what was said before what."""

import re
from collections.abc import Sequence
from functools import cached_property

from while_pipeline.messages import arguments_text, steps
from while_pipeline.policy_document import PolicyDocument, sentences
from while_pipeline.records import Message, Step
from while_pipeline.tools import Tool, ToolKind


class Transcript:
    """One conversation under one agent's tools and policy document. The system message is not part of it."""

    def __init__(
        self,
        messages: Sequence[Message],
        tools: dict[str, Tool],
        document: PolicyDocument,
        finish_reason: str | None = None,
    ) -> None:
        """Take a conversation; `finish_reason` is that of its last assistant turn."""
        self.messages = [m for m in messages if m.role != "system"]
        self.tools, self.document, self.finish_reason = tools, document, finish_reason

    @cached_property
    def steps(self) -> list[Step]:
        """Tool calls with their results, in order."""
        return steps(self.messages)

    @cached_property
    def agent_texts(self) -> list[tuple[int, str]]:
        """(message index, text) of every assistant message with text; curly apostrophes made straight."""
        return [
            (i, m.content.replace("\u2019", "'"))
            for i, m in enumerate(self.messages)
            if m.role == "assistant" and m.content
        ]

    @cached_property
    def agent_words(self) -> int:
        """Words the agent wrote."""
        return sum(len(text.split()) for _, text in self.agent_texts)

    @cached_property
    def replies(self) -> list[tuple[int, str]]:
        """Assistant texts that do not ask anything: what the customer is told."""
        return [(i, text) for i, text in self.agent_texts if not text.rstrip().endswith("?")]

    def before(self, index: int) -> str:
        """Everything the agent could know before message `index`: customer texts and tool results."""
        return "\n".join(m.content or "" for m in self.messages[:index] if m.role in ("user", "tool"))

    def customer_before(self, index: int) -> list[str]:
        """The customer's messages before message `index`."""
        return [m.content or "" for m in self.messages[:index] if m.role == "user"]

    def reply_after(self, index: int) -> str:
        """The assistant texts between message `index` and the customer's next message, joined."""
        end = next((i for i, m in enumerate(self.messages) if i > index and m.role == "user"), None)
        return " ".join(text for i, text in self.agent_texts if i > index and (end is None or i < end))

    @cached_property
    def handed_over(self) -> bool:
        """Whether the customer was given to a human: a transfer tool called, or a transfer announced."""
        called = (self.tools.get(step.call.name) for step in self.steps)
        return any(tool is not None and tool.kind is ToolKind.TRANSFER for tool in called) or any(
            TRANSFERS.search(line) and not REFUSES.search(line)
            for _, text in self.agent_texts
            for line in sentences(text)
        )

    def last_step(self, tool: str) -> Step:
        """The last call of a tool."""
        return [step for step in self.steps if step.call.name == tool][-1]

    def text(self) -> str:
        """The conversation as a judge reads it, one line per message or call."""
        lines: list[str] = []
        for message in self.messages:
            if message.content:
                lines.append(f"{message.role.upper()}: {message.content}")
            lines += [f"CALL: {call.name} {arguments_text(call)}" for call in message.tool_calls]
        return "\n".join(lines)


REFUSES = re.compile(
    r"\b(cannot|can't|can not|unable|not able|not allowed?|won't|will not|must not|may not)\b", re.IGNORECASE
)
ADMITS = re.compile(
    r"could(?: not|n't)|cannot|can't|unable|not (?:been )?(?:done|possible|able|complete|available)|fail\w*|"
    r"did not|didn't|error|unavailable|timed out|no permission|denied|not allowed|try again later|"
    r"not enough|aren't enough|\ban? (?:issue|problem) with\b",
    re.IGNORECASE,
)
_LOOKING = (
    r"(?!check|look|review|retriev|verif|locat|receiv|not(?:e|ic)|gather|search|identif|list|provid|explain|"
    r"confirm|find|see|access)"
)
CLAIMS = re.compile(
    rf"\b(?:all done|i was able to {_LOOKING}\w+|"
    rf"(?:(?:i have|i've) (?:now )?(?:successfully )?|successfully ){_LOOKING}(?:\w+ed|paid|sent|made|set)|"
    r"i created|consider it done|request (?:to [^.?!]{1,80} )?is (?:now )?complete)\b",
    re.IGNORECASE,
)
"""A change reported as made; looking something up is none."""
NOT_FOUND = re.compile(
    r"could(?: not|n't) (?:be )?find|could(?: not|n't) be found|not found|cannot find|can't find|"
    r"no (?:\w+ ){0,4}found|no (?:such|match\w*|record)|does not exist|doesn't exist",
    re.IGNORECASE,
)
ALREADY = re.compile(r"\balready\b", re.IGNORECASE)
TRANSFERS = re.compile(r"(?:transfer|connect|hand)\w* .{0,40}(?:human|colleague|agent|person)", re.IGNORECASE)
YES = re.compile(
    r"\b(yes|yeah|yep|sure|go ahead|proceed|please do|ok(ay)?|i (?:confirm|agree)|confirmed|correct|"
    r"sounds good|that works)\b",
    re.IGNORECASE,
)
NO = re.compile(r"^\W*(no|nope|stop|don't|do not|not yet|wait)\b", re.IGNORECASE)
IDENTIFIES = re.compile(r"\bborn\b|date of birth|\bdob\b|\bmy (?:full )?name is\b", re.IGNORECASE)
