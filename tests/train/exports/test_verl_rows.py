"""What verl is given."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.train.exports.stored import SCENARIOS, cut_of, rows_of
from while_pipeline.train.exports import verl
from while_pipeline.train.exports.export import export
from while_pipeline.train.exports.prompts import tools_text


def test_a_row_has_the_columns_of_verl_and_an_index_per_side(tmp_path: Path) -> None:
    folder = export(cut_of("grpo"), "verl", tmp_path / "out").folder
    for side in ("train", "valid"):
        table = pq.read_table(folder / f"{side}.parquet")
        assert table.column_names == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
        rows = table.to_pylist()
        assert [row["extra_info"]["index"] for row in rows] == list(range(len(rows)))
        assert {row["extra_info"]["split"] for row in rows} == {side}
        assert {row["extra_info"]["need_tools_kwargs"] for row in rows} == {False}


def test_the_ground_truth_is_the_answer_key_of_the_scenario() -> None:
    for one in verl.rows_for(cut_of("grpo")):
        scenario = SCENARIOS[one.row["extra_info"]["scenario_id"]]
        assert one.row["reward_model"]["style"] == "rule"
        assert json.loads(one.row["reward_model"]["ground_truth"]) == scenario.key.model_dump(mode="json")


def test_a_prompt_is_what_the_agent_sees_and_nothing_of_the_answer_key() -> None:
    sent = {row["scenario_id"]: row for row in rows_of("grpo")}
    for one in verl.rows_for(cut_of("grpo")):
        was = sent[one.row["extra_info"]["scenario_id"]]
        system, user = one.row["prompt"]
        assert system["content"] == f"{was['prompt'][0]['content']}\n\n{tools_text(was['tools'])}"
        assert user == {"role": "user", "content": was["prompt"][1]["content"]}


def test_the_group_is_counted_as_it_was_measured() -> None:
    figures = [one.row["extra_info"] for one in verl.rows_for(cut_of("grpo"))]
    assert [(row["n_passed"], row["n_samples"]) for row in figures] == [(1, 4), (3, 4)]
