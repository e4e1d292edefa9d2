"""The records that pass between engine steps. Frozen pydantic models: data only, no behaviour.

What belongs here: one model per thing the vocabulary names. What does not: how a thing is stored
(`tables`), read (`watch`), played (`simulate`) or graded (`grade`).
"""

from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

Role = Literal["system", "user", "assistant", "tool"]

Arm = Literal["structured", "llm_guided", "open_ended", "behavior_targeted", "failure_mutation"]

Severity = Literal["hard", "style"]
"""`hard` fails the rollout whatever its outcome; `style` spoils an otherwise right answer."""


class Record(BaseModel):
    """Base of all records: immutable, and a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(Record):
    """One call an assistant asked for."""

    id: str
    """Unique within one assistant turn only: real agents reuse ids across turns."""
    name: str
    arguments: dict[str, Any] | None
    """The decoded object, or None when what came was not a JSON object (see `raw`)."""
    raw: str | None = None
    """The text as received, kept when it did not decode to an object. Never executed, never trained on."""


class Message(Record):
    """One message of a conversation, in the OpenAI chat vocabulary."""

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """On a tool message: the call it answers."""


class Step(NamedTuple):
    """One tool call with its result: what `watch.steps` and `simulate.steps` hold a row of.

    A named tuple, for every turn of every rollout reads the steps so far.
    """

    position: int
    """Among the calls of its conversation."""
    turn: int
    """Index of the assistant message that made the call."""
    call: ToolCall
    result: str | None
    """The tool message's content; None when no result was ever recorded."""
    status: str
    """`ok`, a fault or error code (`timeout`, `not_found`, ...), or `unknown` when there is no result."""


class Conversation(Record):
    """One conversation read from traffic."""

    conversation_id: str
    day: str
    """ISO date of the first event, in the traffic's zone."""
    source: str
    """File it came from, relative to the traffic folder."""
    dialect: str
    messages: tuple[Message, ...]
    model: str | None = None
    agent_name: str | None = None
    started_at_ns: int | None = None
    """Unix nanoseconds, None when the source has no clock."""
    ended_at_ns: int | None = None
    task: str | None = None
    """The source's own task id, when it has one (benchmark trajectories do)."""
    trial: int | None = None
    reward: float | None = None
    """The outcome the traffic itself carries, in [0, 1]; None when it carries none."""
    incomplete: str | None = None
    """Why the record is known to be partial (truncated attribute, dropped spans), or None."""


EXCERPT = 200
"""Characters of an unreadable record that are kept: enough to recognise it."""


class Reject(Record):
    """A file or record that could not be read: kept, with the reason."""

    source: str
    line: int | None
    """1-based line (or record) number, None when the whole file is meant."""
    reason: str
    excerpt: str
    """The first characters of what could not be read."""


class Situation(Record):
    """One point in the space of six axes."""

    tool: str
    """A tool's name, `none`, or two names joined by `+` for several."""
    policy_rule: str
    """A rule id of the policy document, or `none`."""
    stance: str
    world_state: str
    tool_condition: str
    history: str


class Finding(Record):
    """One thing a conduct rule saw, with its evidence."""

    rule: str
    severity: Severity
    message_index: int
    """Among the messages without the system message."""
    evidence: str
    step: int | None = None
    """Position of the tool call it concerns, among the calls of the conversation; None for a text."""
    start: int | None = None
    """First character of what was seen: in the call's arguments as JSON text where `step` is given, else in
    the message's text. None, as `end` is, where the finding is that something is missing."""
    end: int | None = None
    """The character after the last one."""


class Decision(Record):
    """One choice the embedded policy made: a softmax over the options of a head."""

    head: str
    features: tuple[str, ...]
    """Names of the binary features that were on."""
    options: tuple[str, ...]
    choice: str
    logprob: float
    """Natural log of the choice's probability under the policy that made it."""


class Usage(Record):
    """What a model call used; zeros for the embedded agent."""

    input_tokens: int = 0
    output_tokens: int = 0


NO_USAGE = Usage()
