"""Turns that are sampled with a kept cache are those of a model that reads everything anew."""

from random import Random
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the extra `train`: make setup-train")
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from while_pipeline.train.trl.turns import Turns

VOCABULARY, END, PAD = 40, 1, 0
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": PAD,
    "eos_token_id": END,
}


def llama() -> Any:
    torch.manual_seed(3)
    return LlamaForCausalLM(LlamaConfig(**SHAPE)).double().eval()


def forgetful() -> Any:
    torch.manual_seed(3)
    return MistralForCausalLM(MistralConfig(sliding_window=8, **SHAPE)).double().eval()


def alone(model: Any, context: list[int], turn_tokens: int) -> list[int]:
    """The likeliest turn, everything read anew and no padding."""
    turn: list[int] = []
    while len(turn) < turn_tokens:
        turn.append(int(model(input_ids=torch.tensor([context + turn])).logits[0, -1].argmax()))
        if turn[-1] == END:
            break
    return turn


@pytest.mark.parametrize("made", [llama, forgetful])
@pytest.mark.parametrize("shared", [0, 1, 9])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_conversations_that_grow_and_end_go_on_as_each_would_alone(made: Any, shared: int, seed: int) -> None:
    rng = Random(seed)
    words = lambda n: [rng.randrange(2, VOCABULARY) for _ in range(n)]  # noqa: E731
    model, common = made(), words(shared)
    contexts = [common + words(rng.randint(1, 7)) for _ in range(5)]
    turns = Turns(model, contexts, ends=frozenset({END}), pad=PAD, turn_tokens=6)
    asked = list(range(5))
    lengths = set()
    while asked:
        said = turns.sample(asked, [contexts[one] for one in asked], temperature=0.0)
        for one, turn in zip(asked, said, strict=True):
            assert turn == alone(model, contexts[one], 6)
            lengths.add(len(turn))
            contexts[one] += turn + words(rng.randint(1, 9))
        asked = [one for one in asked if rng.random() < 0.8]
    assert lengths


def test_one_conversation_that_says_the_same_as_another_is_no_special_case() -> None:
    model = llama()
    turns = Turns(model, [[5, 6], [5, 6]], ends=frozenset({END}), pad=PAD, turn_tokens=4)
    first, second = turns.sample([0, 1], [[5, 6], [5, 6]], temperature=0.0)
    assert first == second == alone(model, [5, 6], 4)


def test_what_was_read_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = llama()
    read: list[int] = []
    forward = model.forward

    def counted(*args: Any, **how: Any) -> Any:
        read.append(how["input_ids"].numel())
        return forward(*args, **how)

    monkeypatch.setattr(model, "forward", counted)
    contexts = [[7] * 50 + [8], [7] * 50 + [9]]
    turns = Turns(model, contexts, ends=frozenset({END}), pad=PAD, turn_tokens=3)
    assert sum(read) == 50
    for _ in range(4):
        said = turns.sample([0, 1], contexts, temperature=0.0)
        contexts = [context + turn + [5, 6] for context, turn in zip(contexts, said, strict=True)]
    # Each token once, but for the two that fill the row whose turn was shorter.
    assert sum(read) <= 50 + 2 * (len(contexts[0]) - 50) + 8
