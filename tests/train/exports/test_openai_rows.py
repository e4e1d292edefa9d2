"""What OpenAI-style hosts are given."""

import copy
import json

from tests.train.exports.stored import cut_of, rows_of
from while_pipeline.train.exports import openai
from while_pipeline.train.published import Row


def calls_of(messages: list[Row]) -> list[Row]:
    return [call for message in messages for call in message.get("tool_calls", ())]


def test_arguments_are_json_text_and_all_else_is_as_it_was() -> None:
    sent = rows_of("sft")
    before = copy.deepcopy(sent)
    made = [one.row for one in openai.rows_for(cut_of("sft", sent))]
    assert any(calls_of(row["messages"]) for row in made)
    for row, was in zip(made, sent, strict=True):
        assert set(row) == {"messages", "tools", "parallel_tool_calls"}
        assert all(isinstance(call["function"]["arguments"], str) for call in calls_of(row["messages"]))
        for call in calls_of(row["messages"]):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        assert (row["messages"], row["tools"]) == (was["messages"], was["tools"])
    assert sent == before


def test_a_preference_is_an_input_and_two_outputs() -> None:
    sent = rows_of("dpo")
    for one, was in zip(openai.rows_for(cut_of("dpo", sent)), sent, strict=True):
        assert set(one.row) == {"input", "preferred_output", "non_preferred_output"}
        assert set(one.row["input"]) == {"messages", "tools", "parallel_tool_calls"}
        assert one.row["input"]["messages"][-1]["role"] == "user"
        assert isinstance(calls_of(one.row["preferred_output"])[0]["function"]["arguments"], str)
        assert one.row["non_preferred_output"] == was["rejected"]


def test_parallel_calls_are_allowed_when_a_turn_of_the_cut_has_several() -> None:
    rows = rows_of("sft")
    assert not any(one.row["parallel_tool_calls"] for one in openai.rows_for(cut_of("sft", rows)))
    turn = next(m for m in rows[0]["messages"] if m.get("tool_calls"))
    turn["tool_calls"] = [*turn["tool_calls"], *turn["tool_calls"]]
    assert all(one.row["parallel_tool_calls"] for one in openai.rows_for(cut_of("sft", rows)))
