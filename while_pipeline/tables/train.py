"""Tables of `train`: the four cuts, why the rest was left out, the publication gate and the policies."""

from typing import ClassVar

from while_pipeline.tables.base import Table, column


class Sft(Table):
    """One row is a conversation to imitate: the best rollout of its scenario."""

    row_id: str = column("Content hash of the row.", unique=True)
    rollout_id: str = column("Rollout it is.", unique=True)
    scenario_id: str = column("Scenario; one row each.", unique=True)
    task_id: str = column("Task.")
    messages: str = column("Messages, system message first; arguments are objects.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    reward: float = column("Reward.", ge=0, le=1)


class Dpo(Table):
    """One row is a preference: two answers to the same prompt, cut at the first turn that differs."""

    row_id: str = column("Content hash of the row.", unique=True)
    scenario_id: str = column("Scenario both rollouts are of.")
    task_id: str = column("Task.")
    chosen_rollout_id: str = column("Rollout that passed.")
    rejected_rollout_id: str = column("Rollout that failed.")
    prompt: str = column("The shared prefix, system message first.", json=True)
    chosen: str = column("The preferred assistant message.", json=True)
    rejected: str = column("The other assistant message.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    margin: float = column("Difference of the rewards.", gt=0, le=1)


class Grpo(Table):
    """One row is a rollout of a group kept whole, with its advantage."""

    rollout_id: str = column("Rollout.", unique=True)
    scenario_id: str = column("Scenario: the group.")
    task_id: str = column("Task.")
    prompt: str = column("Messages before the first assistant turn.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    reward: float = column("Reward.", ge=0, le=1)
    passed: bool = column("Whether the rollout passed.")
    pass_rate: float = column("Pass rate of the group.", ge=0, le=1)
    advantage: float = column("(pass - mean) / standard deviation within the group.")


class RewardModel(Table):
    """One row is a graded rollout: conversation and reward."""

    rollout_id: str = column("Rollout.", unique=True)
    task_id: str = column("Task.")
    messages: str = column("Messages, system message first.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    reward: float = column("Reward.", ge=0, le=1)


class WhyDropped(Table):
    """One row is a rollout and a cut, with the first gate that dropped it, or `kept`."""

    rollout_id: str = column("Rollout.")
    cut: str = column("Cut.", isin=["sft", "dpo", "grpo", "reward_model"])
    gate: str = column("First gate that dropped the rollout; `kept` when it is in the cut.")
    detail: str = column("What the gate saw.")

    class Config:
        """Every rollout is accounted for once per cut."""

        unique: ClassVar[list[str]] = ["rollout_id", "cut"]


class Publication(Table):
    """One row is a check of a cut before anything may train on it."""

    cut: str = column("Cut.")
    check: str = column("Check.")
    passed: bool = column("Whether the cut may be trained on as far as this check goes.")
    n_rows: int = column("Rows checked.", ge=0)
    n_refused: int = column("Rows refused.", ge=0)
    detail: str = column("What was refused, with an example.")

    class Config:
        """One row a cut and check."""

        unique: ClassVar[list[str]] = ["cut", "check"]


class Policies(Table):
    """One row is a policy version: the candidate fitted on this day's cut."""

    policy_version: str = column("Id of the weights.", unique=True)
    parent: str = column("Policy it was fitted from.")
    method: str = column("How it was fitted.", isin=["sft"])
    data_hash: str = column("Hash of the training rows' ids.")
    n_rows: int = column("Training rows.", ge=0)
    n_decisions: int = column("Decisions in them.", ge=0)
    loss_before: float = column("Mean negative log-likelihood of the decisions under the parent.")
    loss_after: float = column("The same under the fitted policy.")
    kl: float = column("Mean KL divergence from the parent over the training contexts, in nats.", ge=0)
    settings: str = column("Settings of the fit.", json=True)
    weights: str = column("The weights.", json=True)
