"""Tables of `watch`: the agent as it is, its real traffic, and the map of what it handles well."""

from typing import ClassVar

from while_pipeline.tables.base import PlacedTable, StepTable, Table, column


class Agent(Table):
    """One row is the agent that serves a day: its documents, tools and policy version."""

    policy_version: str = column("Policy that serves the day: the one promoted last before it.")
    plays: str = column("Who plays the agent.", isin=["embedded", "endpoint", "callable"])
    model: str = column("Model name, callable or `embedded`.")
    policy_document: str = column("Full text of the policy document.")
    policy_document_hash: str = column("Content hash of the policy document.")
    n_rules: int = column("Rules found in the policy document.", ge=0)
    tools: str = column("Tools in OpenAI shape.", json=True)
    tools_hash: str = column("Content hash of the tools.")
    n_tools: int = column("Number of tools.", ge=1)
    weights: str = column(
        "Weights of the embedded policy; null for any other agent.", json=True, nullable=True
    )
    endpoint: str = column(
        "Endpoint of the promoted model that was trained elsewhere, without a key; null where while.yaml "
        "says who plays.",
        json=True,
        nullable=True,
    )

    class Config:
        """One agent a day."""

        unique: ClassVar[list[str]] = ["day"]


class Conversations(Table):
    """One row is a real conversation, whole, with personal data replaced by pseudonyms."""

    conversation_id: str = column("The source's own id, or a content hash.", unique=True)
    source: str = column("File it came from, relative to the traffic folder.")
    dialect: str = column("How it was written down.")
    messages: str = column("All messages in OpenAI chat form.", json=True)
    n_messages: int = column("Number of messages.", ge=0)
    n_tool_calls: int = column("Number of tool calls.", ge=0)
    model: str = column("Model the traffic names.", nullable=True)
    agent_name: str = column("Agent the traffic names.", nullable=True)
    started_at_ns: int = column("First event, Unix nanoseconds; null without a clock.", nullable=True)
    ended_at_ns: int = column("Last event, Unix nanoseconds; null without a clock.", nullable=True)
    task: str = column("The source's own task id.", nullable=True)
    trial: int = column("The source's own trial number.", nullable=True)
    reward: float = column("Outcome the traffic itself carries.", nullable=True)
    incomplete: str = column("Why the record is known to be partial.", nullable=True)


class Steps(StepTable):
    """One row is a tool call of a real conversation with its result."""

    conversation_id: str = column("Conversation the call is part of.")
    call_id: str = column("Id of the call, unique within its turn only.")

    class Config:
        """A step is named by its conversation and position."""

        unique: ClassVar[list[str]] = ["conversation_id", "step"]


class Rejects(Table):
    """One row is a file or record that could not be read, with the reason."""

    source: str = column("File, relative to the traffic folder.")
    line: int = column("1-based line or record; null when the whole file is meant.", nullable=True)
    reason: str = column("Why it could not be read.")
    excerpt: str = column("Its first characters, with personal data replaced.")


class Situations(PlacedTable):
    """One row is a real conversation placed on the six axes and graded by the conduct rules."""

    conversation_id: str = column("The conversation.", unique=True)
    category: str = column("Task category: the kind of request.")
    n_hard: int = column("Hard conduct findings.", ge=0)
    n_style: int = column("Style findings.", ge=0)
    findings: str = column("Rules that found something, with evidence.", json=True)
    failed: bool = column("Hard finding, or an outcome below 1; null when nothing tells.", nullable=True)
    signature: str = column("Behaviour signature.")


class WeakSpots(Table):
    """One row is a task category x tool x tool condition x stance with how often the agent fails there."""

    spot_id: str = column("Hash of the four values.", unique=True)
    category: str = column("Task category.")
    tool: str = column("Tool.")
    tool_condition: str = column("Tool condition.")
    stance: str = column("Stance.")
    n: int = column("Graded conversations in the window.", ge=1)
    failures: int = column("Failed ones.", ge=0)
    rate: float = column("Failure rate.", ge=0, le=1)
    low: float = column("Lower 95 % Wilson bound of the rate.", ge=0, le=1)
    high: float = column("Upper 95 % Wilson bound of the rate.", ge=0, le=1)
    state: str = column(
        "Against the window before.", isin=["new", "persistent", "improving", "solved", "uncertain"]
    )
    priority: float = column("Rank weight: failures beyond chance, more for hard evidence.", ge=0)
    share: float = column("Share of the night's steered budget.", ge=0, le=1)
