"""Tables of `train`: the cuts, why the rest was left out, the publication gate and the policies."""

import datetime as dt
from typing import ClassVar, get_args

from while_pipeline.agents.policy import HEADS
from while_pipeline.tables.base import CutTable, MovedTable, StagedTable, Table, column
from while_pipeline.train.names import CUT_NAMES, FORMAT_NAMES
from while_pipeline.train.publication import Stops


class Sft(StagedTable):
    """One row is a conversation to imitate: the best rollout of its scenario."""

    scenario_id: str = column("Scenario; one row each.", unique=True)
    row_id: str = column("Content hash of the row.", unique=True)
    rollout_id: str = column("Rollout it is.", unique=True)
    messages: str = column("Messages, system message first; arguments are objects.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    reward: float = column("Reward.", ge=0, le=1)


class SftRandom(Sft):
    """One row is a rollout drawn at random from a scenario of the SFT cut, passed or not.

    As many rows as that cut has: what training on them gives is what its selection must beat.
    """


class Dpo(StagedTable):
    """One row is a preference: two answers to the same prompt, cut at the first turn that differs."""

    scenario_id: str = column("Scenario both rollouts are of; one row each.", unique=True)
    row_id: str = column("Content hash of the row.", unique=True)
    chosen_rollout_id: str = column("Rollout that passed.")
    rejected_rollout_id: str = column("Rollout that failed.")
    prompt: str = column("The shared prefix, system message first.", json=True)
    chosen: str = column("The preferred assistant message.", json=True)
    rejected: str = column("The other assistant message.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    margin: float = column("Difference of the rewards.", gt=0, le=1)


class Grpo(CutTable):
    """One row is a rollout of a group kept whole, with its advantage."""

    scenario_id: str = column("Scenario: the group.")
    rollout_id: str = column("Rollout.", unique=True)
    tool_condition: str = column("Fault of the scenario: kinds take turns.")
    prompt: str = column("Messages before the first assistant turn.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    reward: float = column("Reward.", ge=0, le=1)
    passed: bool = column("Whether the rollout passed.")
    advantage: float = column("(pass - mean) / standard deviation within the group.")


class RewardModel(StagedTable):
    """One row is a graded rollout: conversation and reward."""

    rollout_id: str = column("Rollout.", unique=True)
    messages: str = column("Messages, system message first.", json=True)
    tools: str = column("Tools in OpenAI shape.", json=True)
    reward: float = column("Reward.", ge=0, le=1)
    passed: bool = column("Whether the rollout passed.")


class WhyDropped(Table):
    """One row is a rollout and a cut, with the first gate that dropped it, or `kept`."""

    rollout_id: str = column("Rollout.")
    cut: str = column("Cut.", isin=list(CUT_NAMES))
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
    stops: str = column(
        "What a refusal holds back: all cuts of the day, this cut alone, or nothing (worth a look).",
        isin=list(get_args(Stops)),
    )
    n_rows: int = column("Rows checked.", ge=0)
    n_refused: int = column("Rows refused; of a check of groups, groups.", ge=0)
    detail: str = column("What was refused, with an example.")
    rows_hash: str = column("Hash of the cut's rows that were checked.")
    examples: str = column("The first rows refused, each with the reason.", json=True)

    class Config:
        """One row a cut and check."""

        unique: ClassVar[list[str]] = ["cut", "check"]


class Exports(Table):
    """One row is a cut and a format: the folder of files that was written, or why none was."""

    cut: str = column("Cut.", isin=list(CUT_NAMES))
    format: str = column("Format.", isin=list(FORMAT_NAMES))
    folder: str = column("Where it is, or would be, within the data folder.")
    manifest_id: str = column("Id of its manifest, a hash of all in it; null without.", nullable=True)
    n_train: int = column("Rows of the files on the training side of the split.", ge=0)
    n_valid: int = column("Rows of the files on the validation side.", ge=0)
    files: str = column("Name, rows, bytes and SHA-256 of each file.", json=True)
    refused: str = column("Why nothing was written; null when it was.", nullable=True)

    class Config:
        """One row a cut and format."""

        unique: ClassVar[list[str]] = ["cut", "format"]


class Policies(MovedTable):
    """One row is a policy version: the candidate fitted on this day's cut."""

    parent: str = column("Policy it was fitted from.")
    method: str = column("How it was fitted: the cut it was fitted to.", isin=["sft", "dpo", "grpo"])
    data_hash: str = column("Hash of the training rows' ids.")
    n_rows: int = column("Training rows.", ge=0)
    n_decisions: int = column("Decisions learnt from; of a pair, those of the turn where it parts.", ge=1)
    loss_before: float = column("What the method minimises, under the parent.")
    loss_after: float = column("The same under the fitted policy.")
    n_valid: int = column("Rows of the cut on the validation side of its split: nothing learnt.", ge=0)
    valid_before: float = column(
        "What the method minimises, on those rows, under the parent; null without any.", nullable=True
    )
    valid_after: float = column("The same under the fitted policy.", nullable=True)
    n_stale: int = column("Training rollouts that another policy played than the parent.", ge=0)
    versions_behind: int = column(
        "Changes of the serving policy since the oldest of them; null when a version never served.",
        nullable=True,
        ge=0,
    )
    days_behind: int = column(
        "Days since the policy of the oldest of them served last; null when a version never served.",
        nullable=True,
        ge=0,
    )
    settings: str = column("Settings of the fit.", json=True)
    weights: str = column("The weights.", json=True)

    class Config:
        """One row a policy."""

        unique: ClassVar[list[str]] = ["policy_version"]


class PolicyHeads(MovedTable):
    """One row is a decision of the policy and how the fit moved it; null where it learnt nothing."""

    head: str = column("Kind of decision.", isin=list(HEADS))
    n_wanted: int = column("Decisions to make likelier.", ge=0)
    n_unwanted: int = column("Decisions to make less likely.", ge=0)

    class Config:
        """One row a policy and head."""

        unique: ClassVar[list[str]] = ["policy_version", "head"]


class Registered(Table):
    """One row is a model trained elsewhere, registered as the candidate of a day."""

    policy_version: str = column(
        "Id of who answers: server, model, weights and how it samples. Weights are the checkpoint's hash; "
        "without one, the registration's own day and name.",
        unique=True,
    )
    name: str = column("What people call it.")
    model: str = column("The model's name as its server knows it.")
    base_model: str = column("Model it was trained from; null when nobody said.", nullable=True)
    parent: str = column(
        "Policy it was trained from, as told; null where that is none of here.", nullable=True
    )
    method: str = column("How it was trained, as told.")
    endpoint: str = column("Where it is served and how it is asked, without a key.", json=True)
    data_hash: str = column("Id of the manifest of its training data; null when untold.", nullable=True)
    data_day: dt.date = column("Day of the cut in that manifest; null when untold.", nullable=True)
    data_cut: str = column("Name of that cut; null when untold.", nullable=True)
    checkpoint: str = column("Where its weights lie, as told; null when untold.", nullable=True)
    weights_hash: str = column("SHA-256 over the files of the checkpoint; null without.", nullable=True)
    architecture: str = column(
        "Kind and sizes of the network, as its checkpoint's config says; null where it says none.",
        nullable=True,
    )
    tools_hash: str = column("Content hash of the tools it was registered for.")
    policy_document_hash: str = column("Content hash of the policy document it was registered for.")

    class Config:
        """A day has one candidate."""

        unique: ClassVar[list[str]] = ["day"]
