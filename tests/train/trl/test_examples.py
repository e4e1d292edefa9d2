"""What is refused before any tokenising; none of it needs the extra."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.train.trl import tiny
from while_pipeline.errors import ProjectError
from while_pipeline.train.trl.examples import Row, examples
from while_pipeline.train.trl.settings import METHODS, Method

ROWS: dict[Method, Callable[[], list[Row]]] = {
    "sft": tiny.sft_rows,
    "dpo": tiny.dpo_rows,
    "grpo": tiny.grpo_rows,
    "reward": tiny.reward_rows,
}


@pytest.mark.parametrize("method", METHODS)
def test_a_trainer_gets_the_columns_it_reads_and_no_others(method: Method) -> None:
    extra = [row | {"day": "2026-03-02", "stage": "train", "prompt_text": "Hi"} for row in ROWS[method]()]
    wanted = {
        "sft": {"messages", "tools"},
        "dpo": {"prompt", "chosen", "rejected", "tools"},
        "grpo": {"scenario_id", "prompt", "tools"},
        "reward": {"chosen", "rejected", "tools", "margin"},
    }
    assert {frozenset(row) for row in examples(method, extra, "rows")} == {frozenset(wanted[method])}


def test_a_string_prompt_beside_messages_is_left_out() -> None:
    (row,) = examples("sft", [tiny.sft_rows(1)[0] | {"prompt": "Hello"}], "rows")
    assert "prompt" not in row


def test_groups_become_one_prompt_per_scenario() -> None:
    rows = tiny.grpo_rows()
    made = examples("grpo", rows, "rows")
    assert [row["scenario_id"] for row in made] == list(dict.fromkeys(row["scenario_id"] for row in rows))
    assert len(made) < len(rows)


def test_graded_rollouts_become_pairs_of_one_task_and_each_worse_one_is_in_a_pair() -> None:
    def row(task: str, reward: float, text: str) -> Row:
        said = [{"role": "user", "content": task}, {"role": "assistant", "content": text}]
        return {"messages": said, "tools": tiny.OFFERED, "reward": reward, "task_id": task}

    graded = [("t1", 1.0, "a"), ("t1", 0.0, "b"), ("t1", 0.5, "c"), ("t1", 1.0, "d"), ("t2", 0.0, "e")]
    said = [
        (pair["chosen"][1]["content"], pair["rejected"][1]["content"], pair["margin"])
        for pair in examples("reward", [row(*one) for one in graded], "rows")
    ]
    assert said == [("a", "b", 1.0), ("d", "c", 0.5)]


def test_a_rollout_that_says_the_same_as_a_best_stands_against_another_or_in_no_pair() -> None:
    good, other = (row["messages"] for row in tiny.sft_rows(2))
    rows = [
        {"task_id": "t", "messages": messages, "tools": tiny.OFFERED, "reward": reward}
        for messages, reward in ((good, 1.0), (good, 0.5), (other, 0.0))
    ]
    (pair,) = examples("reward", rows, "rows")
    assert (pair["chosen"], pair["rejected"]) == (good, other)
    best = {"task_id": "t", "messages": other, "tools": tiny.OFFERED, "reward": 1.0}
    pairs = examples("reward", [*rows[:2], best], "rows")
    assert [(pair["chosen"], pair["rejected"]) for pair in pairs] == [(other, good)]
    with pytest.raises(ProjectError, match="one-sided labels"):
        examples("reward", rows[:2], "rows")


def test_given_pairs_of_a_reward_model_keep_their_prompt_in_both_answers() -> None:
    (pair,) = examples("reward", tiny.dpo_rows(1), "rows")
    (given,) = tiny.dpo_rows(1)
    assert pair["chosen"] == given["prompt"] + given["chosen"]
    assert pair["rejected"] == given["prompt"] + given["rejected"]


def _arguments_as_text(row: Row) -> None:
    message = next(m for m in row["messages"] if m.get("tool_calls"))
    message["tool_calls"][0]["function"]["arguments"] = '{"customer_id": "C-1"}'


def _only_the_customer(row: Row) -> None:
    row["messages"] = [m for m in row["messages"] if m["role"] != "assistant"]


def _another_tool(row: Row) -> None:
    row["tools"] = row["tools"][:1]


def _no_tools(row: Row) -> None:
    del row["tools"]


def _whole_conversations(row: Row) -> None:
    row["chosen"] = [*row["chosen"], {"role": "tool", "content": "{}", "tool_call_id": "1"}]


def _twice_the_same(row: Row) -> None:
    row["rejected"] = row["chosen"]


@pytest.mark.parametrize(
    ("method", "spoil", "said"),
    [
        ("sft", _arguments_as_text, "row 2: arguments"),
        ("sft", _only_the_customer, "no agent turn to learn from"),
        ("sft", _another_tool, "row 2: tools"),
        ("sft", _no_tools, "row 2: tools"),
        ("dpo", _whole_conversations, "it must be one message of the agent"),
        ("dpo", _twice_the_same, "it says the same as `chosen`"),
        ("grpo", _another_tool, "row 2: tools"),
    ],
)
def test_a_broken_row_is_named(method: Method, spoil: Callable[[Row], None], said: str) -> None:
    rows = ROWS[method]()
    if method == "grpo":
        rows = list({row["scenario_id"]: row for row in rows}.values())
    spoil(rows[1])
    with pytest.raises(ProjectError, match=said):
        examples(method, rows, "rows")


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_cut_is_refused(method: Method) -> None:
    with pytest.raises(ProjectError, match="there are no rows to train on"):
        examples(method, [], "rows")


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_one_sided_labels_are_refused(reward: float) -> None:
    rows = [row | {"reward": reward} for row in tiny.reward_rows()]
    with pytest.raises(ProjectError, match="one-sided labels"):
        examples("reward", rows, "rows")


@pytest.mark.parametrize(("passed", "said"), [(True, "passed"), (False, "failed")])
def test_a_group_that_agrees_is_refused(passed: bool, said: str) -> None:
    rows: list[dict[str, Any]] = [row | {"passed": passed} for row in tiny.grpo_rows()]
    with pytest.raises(ProjectError, match=f"all 4 samples {said}: it has no gradient"):
        examples("grpo", rows, "rows")
