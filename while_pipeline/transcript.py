"""A finished conversation as the graders see it: texts, steps, what was said before what."""

from collections.abc import Mapping, Sequence

from while_pipeline.lazy import lazy
from while_pipeline.messages import arguments_text, steps
from while_pipeline.patterns import Pattern
from while_pipeline.policy_document import PolicyDocument, PolicyRule, sentences
from while_pipeline.records import Message, Step
from while_pipeline.tools import Tool, ToolKind


class Transcript:
    """One conversation under one agent's tools and policy document. The system message is not part of it."""

    def __init__(
        self,
        messages: Sequence[Message],
        tools: Mapping[str, Tool],
        document: PolicyDocument,
        finish_reason: str | None = None,
    ) -> None:
        """Take a conversation; `finish_reason` is that of its last assistant turn."""
        self.messages = [m for m in messages if m.role != "system"]
        self.tools, self.document, self.finish_reason = tools, document, finish_reason
        self.agent_texts: list[tuple[int, str]] = []
        """(message index, text) of every assistant message with text; curly apostrophes made straight."""
        self.customer_texts: list[tuple[int, str]] = []
        """(message index, text) of every message of the customer."""
        for i, message in enumerate(self.messages):
            if message.role == "user":
                self.customer_texts.append((i, message.content or ""))
            elif message.role == "assistant" and message.content:
                self.agent_texts.append((i, message.content.replace("\u2019", "'")))

    @lazy
    def steps(self) -> list[Step]:
        """Tool calls with their results, in order."""
        return steps(self.messages)

    @lazy
    def agent_words(self) -> int:
        """Words the agent wrote."""
        return sum(len(text.split()) for _, text in self.agent_texts)

    @lazy
    def replies(self) -> list[tuple[int, str]]:
        """Assistant texts that do not ask anything: what the customer is told."""
        return [(i, text) for i, text in self.agent_texts if not text.rstrip().endswith("?")]

    def heard_before(self, index: int) -> list[str]:
        """Everything the agent could know before message `index`: customer texts and tool results."""
        return [m.content for m in self.messages[:index] if m.content and m.role in ("user", "tool")]

    def customer_before(self, index: int) -> list[str]:
        """The customer's messages before message `index`."""
        return [text for i, text in self.customer_texts if i < index]

    def reply_after(self, index: int) -> str:
        """The assistant texts between message `index` and the customer's next message, joined."""
        end = next((i for i, _ in self.customer_texts if i > index), len(self.messages))
        return " ".join([text for i, text in self.agent_texts if index < i < end])

    @lazy
    def rules_asked(self) -> list[tuple[int, PolicyRule]]:
        """(message index, rule) for every rule that a message of the customer puts in play."""
        return [(i, rule) for i, text in self.customer_texts for rule in self.document.in_play(text)]

    @lazy
    def handed_over(self) -> bool:
        """Whether the customer was given to a human: a transfer tool called, or a transfer announced."""
        called = (self.tools.get(step.call.name) for step in self.steps)
        return any(tool is not None and tool.kind is ToolKind.TRANSFER for tool in called) or any(
            TRANSFERS.search(line) and not REFUSES.search(line)
            for _, text in self.agent_texts
            if TRANSFERS.search(text)
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


REFUSES = Pattern(
    r"\b(cannot|can't|can not|unable|not able|not allowed?|won't|will not|must not|may not)\b",
    signs="can|unable|not|won't",
)
ADMITS = Pattern(
    r"could(?: not|n't)|cannot|can't|unable|not (?:been )?(?:done|possible|able|complete|available)|fail\w*|"
    r"did not|didn't|error|unavailable|timed out|no permission|denied|not allowed|try again later|"
    r"not enough|aren't enough|\ban? (?:issue|problem) with\b",
    signs="could|can|unable|not|fail|didn|error|unavail|timed|permission|denied|again|enough|issue|problem",
)
_LOOKING = (
    r"(?!check|look|review|retriev|verif|locat|receiv|not(?:e|ic)|gather|search|identif|list|provid|explain|"
    r"confirm|find|see|access)"
)
CLAIMS = Pattern(
    rf"\b(?:all done|i was able to {_LOOKING}\w+|"
    rf"(?:(?:i have|i've) (?:now )?(?:successfully )?|successfully ){_LOOKING}(?:\w+ed|paid|sent|made|set)|"
    r"i created|consider it done|request (?:to [^.?!]{1,80} )?is (?:now )?complete)\b",
    signs="all done|i was able|i have|i've|successfully|i created|consider it|complete",
)
"""A change reported as made; looking something up is none."""
NOT_FOUND = Pattern(
    r"could(?: not|n't) (?:be )?find|could(?: not|n't) be found|not found|cannot find|can't find|"
    r"no (?:\w+ ){0,4}found|no (?:such|match\w*|record)|does not exist|doesn't exist",
    signs="find|found|no |exist",
)
ALREADY = Pattern(r"\balready\b", signs="already")
TRANSFERS = Pattern(
    r"(?:transfer|connect|hand)\w* .{0,40}(?:human|colleague|agent|person)", signs="transfer|connect|hand"
)
YES = Pattern(
    r"\b(yes|yeah|yep|sure|go ahead|proceed|please do|ok(ay)?|i (?:confirm|agree)|confirmed|correct|"
    r"sounds good|that works)\b",
    signs="ye|sure|go ahead|proceed|please|ok|confirm|agree|correct|sounds|works",
)
NO = Pattern(r"^\W*(no|nope|stop|don't|do not|not yet|wait)\b", signs="no|stop|don|wait")
IDENTIFIES = Pattern(r"\bborn\b|date of birth|\bdob\b|\bmy (?:full )?name is\b", signs="born|birth|dob|name")
