"""What TRL's trainers are given, and how each of its traps is kept off."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.train.exports.stored import ALL_CUTS, cut_of, lines, rows_of
from tests.train.trl import tiny
from while_pipeline.errors import ProjectError
from while_pipeline.train.exports import trl
from while_pipeline.train.exports.export import export
from while_pipeline.train.exports.prompts import tools_text, with_tools
from while_pipeline.train.names import CutName


def test_sft_rows_are_the_conversations_with_arguments_as_objects() -> None:
    sent = rows_of("sft")
    made = [one.row for one in trl.rows_for(cut_of("sft", sent))]
    assert [row["messages"] for row in made] == [row["messages"] for row in sent]
    calls = [call for row in made for m in row["messages"] for call in m.get("tool_calls", ())]
    assert calls
    assert all(isinstance(call["function"]["arguments"], dict) for call in calls)


@pytest.mark.parametrize("cut", ["sft", "sft_random", "reward_model"])
def test_no_text_is_called_prompt_beside_messages(cut: CutName) -> None:
    assert all("prompt" not in one.row for one in trl.rows_for(cut_of(cut)))


def test_a_preference_has_an_explicit_prompt_and_one_message_a_side() -> None:
    for one in trl.rows_for(cut_of("dpo")):
        assert one.row["prompt"][-1]["role"] != "assistant"
        for side in ("chosen", "rejected"):
            assert [message["role"] for message in one.row[side]] == ["assistant"]


def test_a_group_is_one_prompt_with_the_pass_rate_that_was_measured() -> None:
    made = [one.row for one in trl.rows_for(cut_of("grpo"))]
    assert [(row["n_passed"], row["n_samples"], row["pass_rate"]) for row in made] == [
        (1, 4, 0.25),
        (3, 4, 0.75),
    ]
    assert len({row["scenario_id"] for row in made}) == len(made)


def test_the_tools_of_a_group_stand_in_its_system_text() -> None:
    for one in trl.rows_for(cut_of("grpo")):
        system, *others = one.row["prompt"]
        assert [message["role"] for message in others] == ["user"]
        assert system["content"].startswith(tiny.DOCUMENT.text)
        told = system["content"].partition("<tools>\n")[2].partition("\n</tools>")[0]
        assert [json.loads(line) for line in told.splitlines()] == one.row["tools"]


def test_tools_make_a_system_message_where_there_is_none() -> None:
    made = with_tools([{"role": "user", "content": "Hello"}], tiny.OFFERED)
    assert made == [
        {"role": "system", "content": tools_text(tiny.OFFERED)},
        {"role": "user", "content": "Hello"},
    ]


def test_a_reward_model_gets_pairs_within_a_task_and_each_on_its_side_of_the_split() -> None:
    rows = rows_of("reward_model")
    made = trl.rows_for(cut_of("reward_model", rows))
    talks = {json.dumps(row["messages"]): row for row in rows}
    assert len(made) == 2
    for one in made:
        chosen, rejected = (talks[json.dumps(one.row[side])] for side in ("chosen", "rejected"))
        assert {chosen["task_id"], rejected["task_id"], one.row["task_id"]} == {one.task_id}
        assert (chosen["reward"] - rejected["reward"], one.split) == (one.row["margin"], chosen["split"])


# -- the files, read by the libraries that will ---------------------------------------------------------

datasets_missing = "needs the extra `train`: make setup-train"


@pytest.mark.parametrize("cut", ALL_CUTS)
def test_a_file_loads_without_a_null_that_was_not_there(tmp_path: Path, cut: CutName) -> None:
    datasets = pytest.importorskip("datasets", reason=datasets_missing)
    folder = export(cut_of(cut), "trl", tmp_path / cut).folder
    loaded = datasets.load_dataset(
        "json", data_files=str(folder / "train.jsonl"), cache_dir=str(tmp_path / "c")
    )
    assert list(loaded["train"]) == lines(folder / "train.jsonl")


def test_arguments_of_two_tools_do_not_get_each_others_parameters(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason=datasets_missing)
    rows = rows_of("sft")
    values: list[dict[str, Any]] = [{"a": 1}, {"b": "two"}, {"a": "three", "c": [1, "x"]}, {}]
    for row, arguments in zip(rows, values, strict=True):
        call = next(m for m in row["messages"] if m.get("tool_calls"))["tool_calls"][0]
        call["function"]["arguments"] = arguments
    folder = export(cut_of("sft", rows), "trl", tmp_path / "sft").folder
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "c"))
    found = [
        next(m for m in row["messages"] if m.get("tool_calls"))["tool_calls"][0]["function"]["arguments"]
        for side in ("validation", "train")
        for row in loaded[side]
    ]
    assert found == values


def test_an_explicit_prompt_is_the_one_trl_takes() -> None:
    """Without one TRL looks for it in both answers, and is off by one where one begins with the other."""
    data_utils = pytest.importorskip("trl.data_utils", reason=datasets_missing)
    for one in trl.rows_for(cut_of("dpo")):
        assert data_utils.maybe_extract_prompt(one.row) == one.row


@pytest.mark.parametrize("cut", ["sft", "dpo", "grpo", "reward_model"])
def test_every_row_is_held_against_the_trainers_own_tokens(tmp_path: Path, cut: CutName) -> None:
    pytest.importorskip("trl", reason=datasets_missing)
    tokenizer = tiny.make_tokenizer(tmp_path / "tokenizer")
    found = export(cut_of(cut), "trl", tmp_path / "out", tokenizer)
    assert found.unchecked is None
    assert found.checked is not None
    assert found.checked.n_rows == found.manifest.rows
    assert (found.checked.n_trained > 0) == (cut != "grpo")


def test_a_tokenizer_without_an_end_token_writes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason=datasets_missing)
    tokenizer = tiny.make_tokenizer(tmp_path / "tokenizer", end="<|endoftext|>")
    with pytest.raises(ProjectError, match="not an end token"):
        export(cut_of("sft"), "trl", tmp_path / "out", tokenizer)
    assert not (tmp_path / "out").exists()
