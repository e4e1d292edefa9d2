"""Reading what a model wrote; none of it needs the extra."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from while_pipeline.train.trl.game import read_turn

NAMES = st.text(min_size=1)
VALUES = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text())


def written(name: str, arguments: object) -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=3))
def test_calls_are_read_back_as_they_were_written(calls: list[tuple[str, dict[str, object]]]) -> None:
    text = "\n".join(written(*call) for call in calls)
    assume(text.count("</tool_call>") == len(calls))  # a model that writes the end mark ends its call
    message = read_turn(text, 3)
    assert [(call.name, call.arguments) for call in message.tool_calls] == calls
    assert [call.id for call in message.tool_calls] == [f"call_3_{i}" for i in range(len(calls))]
    assert message.content is None


def test_words_before_a_call_are_the_content_and_thoughts_are_not() -> None:
    message = read_turn("<think>a bill?</think>\nOne moment. " + written("get_bill", {}), 0)
    assert message.content == "One moment."
    assert message.tool_calls[0].arguments == {}


def test_arguments_that_are_text_of_an_object_are_that_object_and_other_text_is_kept_raw() -> None:
    good, bad = read_turn(written("f", '{"a": 1}') + written("f", "oops"), 0).tool_calls
    assert good.arguments == {"a": 1}
    assert (bad.arguments, bad.raw) == (None, "oops")


@pytest.mark.parametrize(
    "text",
    ["<tool_call>{oops</tool_call>", '<tool_call>{"arguments": {}}</tool_call>', "<tool_call>[]</tool_call>"],
)
def test_a_call_without_a_name_is_words(text: str) -> None:
    message = read_turn(text, 0)
    assert message.tool_calls == ()
    assert message.content == text


def test_nothing_is_an_empty_reply() -> None:
    assert read_turn("", 0).content == ""
