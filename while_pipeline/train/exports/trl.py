"""The `trl` format: JSON lines with the columns that TRL's trainers read.

Arguments are objects: a chat template writes a text as a text, quotes and all. No column is called `prompt`
unless it holds messages: beside `messages` a text of that name breaks TRL.
"""

from collections.abc import Callable, Mapping
from typing import Final

from while_pipeline.train.exports.placed import Placed
from while_pipeline.train.exports.prompts import with_tools
from while_pipeline.train.names import CutName
from while_pipeline.train.published import CutRows, Row, by_scenario
from while_pipeline.train.trl.examples import contrast, contrasts

USAGE: Final[Mapping[CutName, str]] = {
    "sft": "For `trl.SFTTrainer` with `assistant_only_loss=True`: `messages` and `tools`.",
    "sft_random": "For `trl.SFTTrainer` with `assistant_only_loss=True`: `messages` and `tools`.",
    "dpo": (
        "For `trl.DPOTrainer`: `prompt`, `chosen`, `rejected` and `tools`. Both answers are one message of "
        "the agent, so that no tool's output is in the loss."
    ),
    "grpo": (
        "For `trl.GRPOTrainer`: one row is a scenario, and `prompt` what its customer opens with. The "
        "trainer samples its own rollouts; those of the day's policy are counted in `n_passed` of "
        "`n_samples`. The tools stand in the system text too, for this trainer does not render `tools`."
    ),
    "reward_model": (
        "For `trl.RewardTrainer`: `chosen` and `rejected` are whole conversations of one task, `margin` the "
        "difference of their rewards. Each rollout that is worse than its task's best stands against a best; "
        "a task whose rollouts are all worth the same is in no pair."
    ),
}


_IDS = ("row_id", "scenario_id")
_CURRICULUM = ("pass_rate", "stage")
"""How far the policy that played was with the scenario."""


def rows_for(cut: CutRows) -> list[Placed]:
    """The rows of a cut as TRL's trainer of it takes them, with the ids that lead back to it."""
    return _MAKERS[cut.cut](cut)


def _sft(cut: CutRows) -> list[Placed]:
    return [_placed(row, *_IDS, *_CURRICULUM, "reward", "messages", "tools") for row in cut.rows]


def _dpo(cut: CutRows) -> list[Placed]:
    columns = (*_IDS, *_CURRICULUM, "margin", "prompt", "chosen", "rejected", "tools")
    return [_placed(row, *columns) for row in cut.rows]


def _grpo(cut: CutRows) -> list[Placed]:
    return [
        _placed(
            first | group_figures(group) | {"prompt": with_tools(first["prompt"], first["tools"])},
            *("scenario_id", "tool_condition", "pass_rate", "n_passed", "n_samples", "prompt", "tools"),
        )
        for group in by_scenario(cut.rows)
        for first in group[:1]
    ]


def group_figures(group: list[Row]) -> Row:
    """Size and passes of a group of rollouts."""
    return {"n_passed": sum(row["passed"] for row in group), "n_samples": len(group)}


def _pairs(cut: CutRows) -> list[Placed]:
    ids = ("chosen_rollout_id", "rejected_rollout_id")
    return [
        _placed(
            worse | contrast(better, worse) | {ids[0]: better["rollout_id"], ids[1]: worse["rollout_id"]},
            *(*ids, *_CURRICULUM, "margin", "chosen", "rejected", "tools"),
        )
        for better, worse in contrasts(cut.rows)
    ]


_MAKERS: Final[Mapping[CutName, Callable[[CutRows], list[Placed]]]] = {
    "sft": _sft,
    "sft_random": _sft,
    "dpo": _dpo,
    "grpo": _grpo,
    "reward_model": _pairs,
}


def _placed(row: Row, *columns: str) -> Placed:
    return Placed(
        row["task_id"], row["split"], {"task_id": row["task_id"], **{name: row[name] for name in columns}}
    )
