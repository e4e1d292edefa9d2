"""Which chat template is trained with, and what our own renders."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.train.trl import tiny
from while_pipeline.errors import ProjectError
from while_pipeline.train.trl.template import CHATML, agent_spans, choose_template, missing, render

pytest.importorskip("trl", reason="needs the extra `train`: make setup-train")
from transformers import AutoTokenizer
from trl.chat_template_utils import qwen3_chat_template, qwen3_training_chat_template

OURS = CHATML.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    return AutoTokenizer.from_pretrained(base)


def with_template(tokenizer: Any, template: str | None) -> Any:
    made = copy.copy(tokenizer)
    made.chat_template = template
    return made


# -- what ours renders --------------------------------------------------------------------------------------


def spoken(message: dict[str, Any]) -> str:
    """An agent's turn as ChatML with Hermes' tool calls has it, written out by hand."""
    parts = [message["content"]] if message["content"] else []
    for call in message.get("tool_calls", []):
        function = call["function"]
        inside = json.dumps(
            {"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False
        )
        parts.append(f"<tool_call>\n{inside}\n</tool_call>")
    return "\n".join(parts) + "<|im_end|>"


@pytest.mark.parametrize("at", range(len(tiny.graded())))
def test_labels_decode_to_the_agents_turns_exactly(tokenizer: Any, at: int) -> None:
    messages = tiny.talk(tiny.graded()[at].rollout.messages)
    turns = [spoken(message) for message in messages if message["role"] == "assistant"]
    assert agent_spans(tokenizer, messages, tiny.OFFERED, OURS) == turns


def test_tools_and_the_policy_document_stand_in_the_system_message(tokenizer: Any) -> None:
    text = render(tokenizer, tiny.sft_rows(1)[0]["messages"], tiny.OFFERED, OURS)
    system = text.split("<|im_end|>")[0]
    assert system.startswith("<|im_start|>system\n" + tiny.DOCUMENT.text)
    shown = [json.loads(line) for line in system.splitlines() if line.startswith('{"type"')]
    assert shown == tiny.OFFERED


def test_every_start_of_a_conversation_renders_as_its_start(tokenizer: Any) -> None:
    messages = tiny.talk(tiny.solved().rollout.messages)
    whole = render(tokenizer, messages, tiny.OFFERED, OURS)
    for at in range(1, len(messages)):
        asks = messages[at]["role"] == "assistant"
        assert whole.startswith(render(tokenizer, messages[:at], tiny.OFFERED, OURS, prompt=asks))


def test_a_conversation_without_system_message_or_tools_has_none(tokenizer: Any) -> None:
    said = [{"role": "user", "content": "Hi"}]
    assert render(tokenizer, said, [], OURS, prompt=True) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert render(tokenizer, said, tiny.OFFERED, OURS).startswith("<|im_start|>system\n# Tools")


WORDS = st.text(min_size=1).filter(lambda text: text.strip() == text and "<|" not in text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(content=WORDS, arguments=st.dictionaries(WORDS, WORDS | st.integers(-99, 99) | st.none(), max_size=3))
def test_whatever_an_agent_says_is_labelled_and_nothing_else(
    tokenizer: Any, content: str, arguments: dict[str, Any]
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": content, "tool_call_id": "1"},
        {"role": "assistant", "content": content},
    ]
    spans = agent_spans(tokenizer, messages, [], OURS)
    assert spans == [spoken(messages[1]), spoken(messages[3])]


def test_arguments_that_are_text_do_not_render(tokenizer: Any) -> None:
    (row,) = tiny.sft_rows(1)
    message = next(m for m in row["messages"] if m.get("tool_calls"))
    message["tool_calls"][0]["function"]["arguments"] = "{}"
    with pytest.raises(Exception, match="are no object"):
        render(tokenizer, row["messages"], tiny.OFFERED, OURS)


# -- choosing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", [OURS, qwen3_training_chat_template])
def test_a_template_that_does_the_work_is_kept_as_it_is(tokenizer: Any, template: str) -> None:
    chosen = choose_template(with_template(tokenizer, template), marked=True)
    assert (chosen.text, chosen.origin) == (template, "the model's own")


def test_a_template_without_marks_is_kept_where_no_marks_are_needed(tokenizer: Any) -> None:
    qwen = with_template(tokenizer, qwen3_chat_template)
    assert choose_template(qwen, marked=False).text == qwen3_chat_template
    assert choose_template(qwen, marked=True).text == qwen3_training_chat_template


@pytest.mark.parametrize("template", [tiny.CHATML_WITHOUT_TOOLS, None])
@pytest.mark.parametrize("marked", [True, False])
def test_a_small_chat_models_template_is_replaced_by_ours(
    tokenizer: Any, template: str | None, marked: bool
) -> None:
    chosen = choose_template(with_template(tokenizer, template), marked=marked)
    assert chosen.text == OURS
    assert chosen.origin.startswith("our ChatML with tools")


WITHOUT_TOOLS = OURS.replace("{%- if tools -%}", "{%- if false -%}")
WITHOUT_CALLS = OURS.replace("message.tool_calls or []", "[]")
WITHOUT_RESULTS = OURS.replace(
    "{{- (message.content or '') + '<|im_end|>' -}}",
    "{{- (message.content if message.role == 'user' else '') + '<|im_end|>' -}}",
)
WITHOUT_MARKS = OURS.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", "")
MARKED_TOO_MUCH = (
    OURS.replace("{%- generation -%}", "")
    .replace("{%- endgeneration -%}", "")
    .replace(
        "{{- '<|im_start|>' + message.role + '\\n' -}}", "{%- generation -%}<|im_start|>{{ message.role }}\n"
    )
    .replace("    {%- endif -%}\n{%- endfor -%}", "    {%- endgeneration -%}{%- endif -%}\n{%- endfor -%}")
)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (WITHOUT_TOOLS, "tools are dropped"),
        (WITHOUT_CALLS, "tool calls are dropped"),
        (WITHOUT_RESULTS, "tool results are dropped"),
        (WITHOUT_MARKS, "agent turns are not marked"),
        (MARKED_TOO_MUCH, "do not hold the agent's turns"),
        (OURS + "{% if", "does not render"),
    ],
)
def test_what_a_template_lacks_is_named(tokenizer: Any, template: str, said: str, tmp_path: Path) -> None:
    assert template != OURS
    assert said in str(missing(tokenizer, template, marked=True))
    path = tmp_path / "mine.jinja"
    path.write_text(template)
    with pytest.raises(ProjectError, match=said):
        choose_template(tokenizer, marked=True, given=path)


def test_a_given_template_that_does_the_work_is_taken(tokenizer: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(qwen3_training_chat_template)
    chosen = choose_template(tokenizer, marked=True, given=path)
    assert (chosen.text, chosen.origin) == (qwen3_training_chat_template, "mine.jinja")


def test_a_model_that_knows_no_chatml_needs_a_template(tokenizer: Any) -> None:
    class Stranger:
        name_or_path = "stranger"
        chat_template = None

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

    with pytest.raises(ProjectError, match="name a Jinja file with --chat-template"):
        choose_template(Stranger(), marked=True)
