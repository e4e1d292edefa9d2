"""The `verl` format: the Parquet file of verl's reinforcement learning.

Messages of a prompt are texts alone, so that nothing is padded. A conversation with tool calls would be,
which is why the other cuts have no such file: verl reads messages as nested columns.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from while_pipeline.ids import canonical_json
from while_pipeline.train.exports.placed import Placed
from while_pipeline.train.exports.prompts import with_tools
from while_pipeline.train.exports.trl import group_figures
from while_pipeline.train.names import CutName
from while_pipeline.train.published import CutRows, by_scenario

ABILITY: Final = "customer service"

USAGE: Final[Mapping[CutName, str]] = {
    "grpo": (
        "For verl (`data.train_files`): one row is a scenario. `prompt` is the policy document with the "
        "tools, and what the customer opens with; `reward_model.ground_truth` is the scenario's answer key "
        "as JSON, which your reward function gets and no prompt shows. `data_source` names the reward "
        "function to choose. `need_tools_kwargs` is false: the tools take no set-up per row."
    ),
}

_MESSAGE = pa.struct({"role": pa.string(), "content": pa.string()})
SCHEMA: Final = pa.schema(
    {
        "data_source": pa.string(),
        "prompt": pa.list_(_MESSAGE),
        "ability": pa.string(),
        "reward_model": pa.struct({"style": pa.string(), "ground_truth": pa.string()}),
        "extra_info": pa.struct(
            {
                "split": pa.string(),
                "index": pa.int64(),
                "need_tools_kwargs": pa.bool_(),
                "scenario_id": pa.string(),
                "task_id": pa.string(),
                "tools": pa.string(),
                "n_passed": pa.int64(),
                "n_samples": pa.int64(),
            }
        ),
    }
)


def rows_for(cut: CutRows) -> list[Placed]:
    """One row per scenario, numbered within its side of the split."""
    numbers = {"train": 0, "valid": 0}
    made = []
    for group in by_scenario(cut.rows):
        first = group[0]
        side = first["split"]
        key = cut.scenarios[first["scenario_id"]]["answer_key"]
        prompt = with_tools(first["prompt"], first["tools"])
        row = {
            "data_source": "while-pipeline",
            "prompt": [{"role": m["role"], "content": m["content"]} for m in prompt],
            "ability": ABILITY,
            "reward_model": {"style": "rule", "ground_truth": key},
            "extra_info": {
                "split": side,
                "index": numbers[side],
                "need_tools_kwargs": False,
                "scenario_id": first["scenario_id"],
                "task_id": first["task_id"],
                "tools": canonical_json(first["tools"]),
                **group_figures(group),
            },
        }
        numbers[side] += 1
        made.append(Placed(first["task_id"], side, row))
    return made
