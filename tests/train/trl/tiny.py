"""A checkpoint made on the spot, and training rows of the example to train it on.

The tokenizer is trained on the example's own conversations, so that they are short in it. No assertion
belongs here; what needs the extra is imported when it is called.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.example import BASE, BY_NAME, rollouts, scenarios
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Message
from while_pipeline.simulate.rollout import system_message
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.simulate.user_world import Worlds
from while_pipeline.train.cuts import training_message
from while_pipeline.train.trl.game import Game

CHATML_WITHOUT_TOOLS = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% endif %}"
)
"""Like the template of a small chat model: it knows no tools, and no call without text."""

Row = dict[str, Any]

TOOLS = tuple(BY_NAME[name] for name in ("get_customer_profile", "get_data_usage"))
DOCUMENT = read_policy_document("You help customers of a phone company. Be brief.")
"""Two of the example's tools and few words, so that conversations are short."""

OFFERED = [tool.openai() for tool in TOOLS]
SYSTEM = training_message(system_message(DOCUMENT))


@cache
def graded() -> tuple[Graded, ...]:
    """The base policy on six scenarios, four times each."""
    writer = ScenarioWriter(TOOLS, DOCUMENT)
    played = rollouts(EmbeddedAgent(BASE), scenarios(6, writer=writer), range(4), writer)
    return tuple(grade(played, TOOLS, DOCUMENT, RulesJudge()))


def talk(messages: tuple[Message, ...]) -> list[Row]:
    """Messages as a training row has them, read back from JSON: no two rows share a list."""
    return json.loads(json.dumps([SYSTEM, *map(training_message, messages)]))  # type: ignore[no-any-return]


def sft_rows(count: int = 4) -> list[Row]:
    """Conversations with tool calls."""
    calling = [one for one in graded() if any(m.tool_calls for m in one.rollout.messages)]
    return [{"messages": talk(one.rollout.messages), "tools": OFFERED} for one in calling[:count]]


def dpo_rows(count: int = 3) -> list[Row]:
    """Two answers to the customer's opening: a call, and words that promise one."""
    rows = []
    for row in sft_rows(count):
        at = next(i for i, message in enumerate(row["messages"]) if message.get("tool_calls"))
        rejected = {"role": "assistant", "content": "I will look into that tomorrow."}
        rows.append(
            {
                "prompt": row["messages"][:at],
                "chosen": [row["messages"][at]],
                "rejected": [rejected],
                "tools": OFFERED,
            }
        )
    return rows


def solved() -> Graded:
    """The shortest conversation with a tool call that passed."""
    passed = [one for one in graded() if one.passed and any(m.tool_calls for m in one.rollout.messages)]
    return min(passed, key=lambda one: len(json.dumps(talk(one.rollout.messages))))


def reward_rows() -> list[Row]:
    """Every graded rollout."""
    return [
        {
            "messages": talk(one.rollout.messages),
            "tools": OFFERED,
            "reward": one.reward,
            "task_id": one.rollout.scenario.task_id,
        }
        for one in graded()
    ]


def grpo_rows() -> list[Row]:
    """The scenarios as prompts, one row a sample."""
    return [
        {
            "scenario_id": one.rollout.scenario.scenario_id,
            "prompt": talk(one.rollout.messages[:1]),
            "tools": OFFERED,
        }
        for one in graded()
    ]


def game() -> Game:
    """The scenarios of `grpo_rows`, in their worlds."""
    held = {one.rollout.scenario.scenario_id: one.rollout.scenario for one in graded()}
    return Game(held, TOOLS, DOCUMENT, RulesJudge(), Worlds(TOOLS))


def make_tokenizer(folder: Path, template: str = CHATML_WITHOUT_TOOLS, end: str = "<|im_end|>") -> Path:
    """Train a byte-level BPE tokenizer of 1,500 tokens on the example and save it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([json.dumps([row["messages"], OFFERED]) for row in sft_rows()], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=end, pad_token="<|endoftext|>")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def make_model(folder: Path, *, context: int = 8192) -> Path:
    """A random Llama of two layers beside a tokenizer, the same every time."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    make_tokenizer(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
