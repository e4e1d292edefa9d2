"""Tables of `simulate`: the plan, the search and what was played."""

from typing import ClassVar, get_args

from while_pipeline.simulate.customer_checks import Blame
from while_pipeline.tables.base import PlacedTable, ScenarioTable, StepTable, Table, column


class Axes(Table):
    """One row is a value of one of the six axes."""

    axis: str = column("Axis name.")
    position: int = column("Position of the value within its axis.", ge=0)
    value: str = column("The value.")
    description: str = column("What the value means: a tool's description, a rule's text.")

    class Config:
        """A value is named by its axis."""

        unique: ClassVar[list[str]] = ["axis", "value"]


class CoveragePlan(PlacedTable):
    """One row is a situation of the pairwise covering array."""

    task_id: str = column("The situation as a task.", unique=True)
    position: int = column("Place in the order of playing.", ge=0)
    planned_before: bool = column("Whether an earlier day already planned it.")
    category: str = column("Task category.")


class Scenarios(ScenarioTable):
    """One row is a situation made concrete: the customer's part, the world's start, the answer key."""

    arm: str = column("Search arm that wrote it.")
    batch: int = column("Batch it was written in.", ge=0)
    spot_id: str = column("Weak spot that asked for it; null when none did.", nullable=True)
    operator: str = column("Operator that mutated a failed scenario into it; null otherwise.", nullable=True)
    parent_id: str = column("Scenario it was mutated from; null when it was written anew.", nullable=True)


class Search(Table):
    """One row is what one arm of the search did in one batch."""

    batch: int = column("Batch.", ge=0)
    arm: str = column("Arm.")
    share: float = column("Share of the batch the arm was given.", ge=0, le=1)
    rows: int = column("Scenarios written.", ge=0)
    new_signatures: int = column("Behaviour signatures never seen before.", ge=0)
    new_pairs: int = column("Axis-value pairs realised for the first time.", ge=0)
    yield_per_row: float = column(
        "(new signatures + new pairs) per row; the batch's mean when it had no row.", ge=0
    )
    failures: int = column("Scenarios whose probe failed.", ge=0)

    class Config:
        """An arm has one row a batch."""

        unique: ClassVar[list[str]] = ["batch", "arm"]


class Rollouts(Table):
    """One row is one full attempt at a scenario."""

    rollout_id: str = column("Content hash of scenario, policy version, sample and seed.", unique=True)
    scenario_id: str = column("Scenario played.")
    task_id: str = column("Task the scenario is of.")
    sample: int = column("0 .. k-1 within the scenario's group.", ge=0)
    seed: int = column("Seed of the rollout.", ge=0)
    policy_version: str = column("Policy that played.")
    messages: str = column("All messages but the system message (see watch.agent).", json=True)
    decisions: str = column("The embedded policy's choices with their log-probabilities.", json=True)
    seeded: str = column("Planted defects drawn: the answer key for whoever grades.", json=True)
    ended: str = column("How it ended.", isin=["satisfied", "transferred", "gone", "max_turns", "lost"])
    lost: str = column("Why it is no evidence about the agent; null when it was played.", nullable=True)
    blame: str = column("Whose doing the ending is.", isin=list(get_args(Blame)))
    world_diff: str = column("What the world's records became.", json=True)
    realised: str = column("Axes whose planned value the trace shows.", json=True)
    signature: str = column("Behaviour signature.")
    n_turns: int = column("Assistant turns.", ge=0)
    n_tool_calls: int = column("Tool calls.", ge=0)
    n_words: int = column("Words the agent wrote.", ge=0)
    n_digits: int = column("Digits the agent wrote.", ge=0)
    n_marks: int = column("Punctuation marks the agent wrote.", ge=0)
    logprob: float = column("Summed natural log-probability; null when a turn's is unknown.", nullable=True)
    finish_reason: str = column("Finish reason of the last turn.", nullable=True)
    input_tokens: int = column("Tokens read.", ge=0)
    output_tokens: int = column("Tokens written.", ge=0)


class Coverage(Table):
    """One row is a pair of values that can meet, for one search arm or (`all`) for the whole night."""

    axis_a: str = column("Axis of the first value.")
    value_a: str = column("First value.")
    axis_b: str = column("Axis of the second value; axes come in their order.")
    value_b: str = column("Second value.")
    arm: str = column("Search arm that played the pair; `all` counts every rollout, none included.")
    planned: bool = column("Whether a situation of tonight's plan holds the pair.")
    played: int = column("Rollouts whose situation holds the pair.", ge=0)
    realised: int = column("Of those, rollouts whose conversation shows both values.", ge=0)

    class Config:
        """A pair has one row an arm."""

        unique: ClassVar[list[str]] = ["axis_a", "value_a", "axis_b", "value_b", "arm"]


class Probes(Rollouts):
    """One row is sample 0 of a scenario, played while searching to measure what the scenario yields."""


class Steps(StepTable):
    """One row is a tool call of a rollout with its result."""

    rollout_id: str = column("Rollout the call is part of.")

    class Config:
        """A step is named by its rollout and position."""

        unique: ClassVar[list[str]] = ["rollout_id", "step"]
