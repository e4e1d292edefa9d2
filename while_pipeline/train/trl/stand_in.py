"""TRL's trainers around a model of one narrow layer: what tokenising alone needs.

Needs the extra `train`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

from while_pipeline.train.trl.backend import dataset_of, load_tokenizer, quiet
from while_pipeline.train.trl.check import check, check_prompts, fitting_length, longest
from while_pipeline.train.trl.examples import Row
from while_pipeline.train.trl.settings import Checked, Method, TrlSettings
from while_pipeline.train.trl.template import Template


def tokenised(
    method: Method, rows: Sequence[Row], folder: Path, work: Path, max_length: int | None
) -> tuple[Checked, Template]:
    """Check rows after the trainer's own tokenising; see `check_rows` of `run`."""
    quiet()
    settings = TrlSettings(model=folder, max_length=max_length)
    tokenizer, template = load_tokenizer(settings, marked=method == "sft")
    length = fitting_length(longest(method, rows, tokenizer, template), settings, None)
    if method == "grpo":
        return check_prompts(rows, tokenizer, template, rendered=False), template
    shared: dict[str, Any] = {
        "output_dir": str(work),
        "max_length": length,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
    )
    common: dict[str, Any] = {"train_dataset": dataset_of(method, rows), "processing_class": tokenizer}
    if method == "sft":
        args = SFTConfig(assistant_only_loss=True, **shared)
        trainer = SFTTrainer(model=LlamaForCausalLM(config), args=args, **common)
    elif method == "dpo":
        models = {"model": LlamaForCausalLM(config), "ref_model": LlamaForCausalLM(config)}
        trainer = DPOTrainer(**models, args=DPOConfig(**shared), **common)
    else:
        model = LlamaForSequenceClassification(config)
        trainer = RewardTrainer(model=model, args=RewardConfig(**shared), **common)
    return check(method, rows, trainer.train_dataset, tokenizer, template, length), template
