"""What is seen of the rows after the trainer's own tokenising."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.train.trl import tiny
from while_pipeline.errors import ProjectError
from while_pipeline.train.trl.check import IGNORED, check, check_prompts, end_tokens, longest
from while_pipeline.train.trl.examples import Row, examples
from while_pipeline.train.trl.run import check_rows
from while_pipeline.train.trl.settings import Method
from while_pipeline.train.trl.template import Template, choose_template, render

pytest.importorskip("trl", reason="needs the extra `train`: make setup-train")
from datasets import Dataset
from transformers import AutoTokenizer

from while_pipeline.train.trl.backend import dataset_of

ROWS = {"sft": tiny.sft_rows, "dpo": tiny.dpo_rows, "reward": tiny.reward_rows}


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    return AutoTokenizer.from_pretrained(base)


@pytest.fixture(scope="module")
def template(tokenizer: Any) -> Template:
    return choose_template(tokenizer, marked=True)


# -- the trainers' own tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", list(ROWS))
def test_every_trainer_keeps_every_row_as_it_was_sent(base: Path, method: Method) -> None:
    rows = ROWS[method]()
    checked, _ = check_rows(method, rows, base, "rows")
    assert checked.n_rows == len(examples(method, rows, "rows"))
    assert 0 < checked.n_trained <= checked.n_tokens
    assert checked.longest <= checked.n_tokens


def test_supervised_labels_are_a_small_part_of_the_tokens_and_a_reward_models_are_all(base: Path) -> None:
    supervised, _ = check_rows("sft", tiny.sft_rows(), base, "rows")
    assert supervised.n_trained < supervised.n_tokens / 4
    whole, _ = check_rows("reward", tiny.reward_rows(), base, "rows")
    assert whole.n_trained == whole.n_tokens


def test_labels_of_a_pair_are_its_two_answers(base: Path, tokenizer: Any) -> None:
    rows = tiny.dpo_rows(1)
    (call,), (words,) = rows[0]["chosen"], rows[0]["rejected"]
    function = call["tool_calls"][0]["function"]
    inside = json.dumps({"name": function["name"], "arguments": function["arguments"]})
    said = [f"<tool_call>\n{inside}\n</tool_call>", words["content"]]
    lengths = [len(tokenizer(text + "<|im_end|>")["input_ids"]) for text in said]
    assert check_rows("dpo", rows, base, "rows")[0].n_trained == sum(lengths)


@pytest.mark.parametrize("method", list(ROWS))
def test_a_length_that_would_cut_is_refused_with_the_one_that_is_needed(base: Path, method: Method) -> None:
    needed = check_rows(method, ROWS[method](), base, "rows")[0].longest
    assert check_rows(method, ROWS[method](), base, "rows", max_length=needed)[0].longest == needed
    with pytest.raises(ProjectError, match=f"the longest row has {needed} tokens"):
        check_rows(method, ROWS[method](), base, "rows", max_length=needed - 1)


@pytest.mark.parametrize("method", list(ROWS))
def test_a_model_that_does_not_stop_at_the_end_of_a_turn_is_refused(tmp_path: Path, method: Method) -> None:
    folder = tiny.make_tokenizer(tmp_path, end="<|endoftext|>")
    with pytest.raises(ProjectError, match=r"last label = '<\|im_end\|>': not an end token"):
        check_rows(method, ROWS[method](), folder, "rows")


def test_end_tokens_are_the_tokenizers_and_those_of_the_generation_settings(tmp_path: Path) -> None:
    folder = tiny.make_tokenizer(tmp_path, end="<|endoftext|>")
    made = AutoTokenizer.from_pretrained(folder)
    ids = made.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])
    assert end_tokens(made) == {ids[0]}
    (folder / "generation_config.json").write_text(f'{{"eos_token_id": {ids}}}')
    assert end_tokens(made) == set(ids)
    assert check_rows("sft", tiny.sft_rows(), folder, "rows")[0].n_rows == 4


# -- what goes wrong without an error -----------------------------------------------------------------------


def tokenised(tokenizer: Any, template: Template, rows: list[Row]) -> list[dict[str, Any]]:
    made = []
    for row in rows:
        encoded = tokenizer.apply_chat_template(
            row["messages"],
            tools=row["tools"],
            chat_template=template.text,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        pairs = zip(encoded["input_ids"], encoded["assistant_masks"], strict=True)
        labels = [token if marked else IGNORED for token, marked in pairs]
        made.append({"input_ids": encoded["input_ids"], "labels": labels})
    return made


def _drop_a_row(made: list[dict[str, Any]], length: int) -> int:
    made.pop()
    return length


def _mask_everything(made: list[dict[str, Any]], length: int) -> int:
    made[1]["labels"] = [IGNORED] * len(made[1]["labels"])
    return length


def _train_on_everything(made: list[dict[str, Any]], length: int) -> int:
    made[1]["labels"] = made[1]["input_ids"]
    return length


def _forget_the_first_turn(made: list[dict[str, Any]], length: int) -> int:
    labels = made[1]["labels"]
    first = next(i for i, label in enumerate(labels) if label != IGNORED)
    end = next(i for i in range(first, len(labels)) if labels[i] == IGNORED)
    made[1]["labels"] = [IGNORED] * end + labels[end:]
    return length


def _cut(made: list[dict[str, Any]], length: int) -> int:
    made[1] = {name: tokens[: length // 2] for name, tokens in made[1].items()}
    return length // 2


def _lose_the_ends(made: list[dict[str, Any]], length: int) -> int:
    made[1] = {name: tokens[:-1] for name, tokens in made[1].items()}
    return length


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_drop_a_row, "rows kept = 3: 4 were sent"),
        (_mask_everything, "row 2: labels = None"),
        (_train_on_everything, "row 2: labels .* not the agent's turns"),
        (_forget_the_first_turn, "row 2: labels .* not the agent's turns"),
        (_cut, "max_length = .* it cuts the answer"),
        (_lose_the_ends, "row 2: tokens .* not the conversation's"),
    ],
)
def test_what_a_trainer_did_to_a_row_is_named(
    tokenizer: Any, template: Template, spoil: Any, said: str
) -> None:
    rows = tiny.sft_rows()
    made = tokenised(tokenizer, template, rows)
    length = longest("sft", rows, tokenizer, template)
    assert check("sft", rows, made, tokenizer, template, length).n_rows == len(rows)
    with pytest.raises(ProjectError, match=said):
        check("sft", rows, made, tokenizer, template, spoil(made, length))


def test_calls_keep_their_own_arguments_where_inferred_types_fill_them_with_null() -> None:
    def row(name: str, arguments: dict[str, Any]) -> Row:
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"messages": [{"role": "assistant", "tool_calls": [call]}], "tools": tiny.OFFERED}

    rows = [row("get_bill", {"bill_id": "B-1"}), row("pay_bill", {"bill_id": "B-1", "amount": 2.5})]
    assert [dict(kept) for kept in dataset_of("sft", rows)] == rows
    padded = Dataset.from_list(rows, on_mixed_types=None)[0]["messages"][0]["tool_calls"][0]["function"]
    assert padded["arguments"] == {"bill_id": "B-1", "amount": None}


# -- prompts of GRPO ----------------------------------------------------------------------------------------


def test_tools_beside_the_prompt_reach_only_who_renders_them(tokenizer: Any, template: Template) -> None:
    rows = examples("grpo", tiny.grpo_rows(), "rows")
    assert check_prompts(rows, tokenizer, template, rendered=True).n_rows == len(rows)
    with pytest.raises(ProjectError, match=r"row 1: prompt = .*get_customer_profile"):
        check_prompts(rows, tokenizer, template, rendered=False)


def test_tools_in_the_system_text_reach_trls_own_sampling(
    base: Path, tokenizer: Any, template: Template
) -> None:
    rows = tiny.grpo_rows()
    for row in rows:
        head = render(tokenizer, row["prompt"][:1], row["tools"], template.text)
        row["prompt"][0]["content"] = head.removeprefix("<|im_start|>system\n").removesuffix("<|im_end|>")
    checked, _ = check_rows("grpo", rows, base, "rows")
    assert (checked.n_rows, checked.n_trained) == (len(examples("grpo", rows, "rows")), 0)
