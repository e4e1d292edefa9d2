"""Training with TRL's trainers: load, check, train, save.

What belongs here: everything between rows and a saved checkpoint. Needs the extra `train`; `train` in
`while_pipeline.train.trl.run` is the door that says so where it is missing.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, Features, Json, List, Value, disable_progress_bars
from peft import LoraConfig, TaskType
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PrinterCallback,
    TrainerCallback,
)
from transformers.utils import logging as transformers_logging
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RewardConfig,
    RewardTrainer,
    SFTConfig,
    SFTTrainer,
)

from while_pipeline.errors import ProjectError
from while_pipeline.train.trl.check import check, check_prompts, end_tokens, fitting_length, longest
from while_pipeline.train.trl.examples import Row
from while_pipeline.train.trl.game import Game
from while_pipeline.train.trl.player import Player
from while_pipeline.train.trl.rewards import Rollouts, graded_reward
from while_pipeline.train.trl.settings import LossPoint, Method, TrlSettings
from while_pipeline.train.trl.template import CHATML, CHATML_TURNS, Template, Tokenizer, choose_template

LORA_RANK = 16
"""Peft's default is 8; 16 on every linear layer is 3.6 % of the weights of a model of 135 million."""

_COLUMNS: Mapping[Method, tuple[str, ...]] = {
    "sft": ("messages", "tools"),
    "dpo": ("prompt", "chosen", "rejected", "tools"),
    "reward": ("chosen", "rejected", "tools"),
}


def dataset_of(method: Method, rows: Sequence[Row]) -> Dataset:
    """The rows as a data set whose messages and tools stay as they are.

    With inferred types every tool call gets the arguments of all others, filled with null, and is trained on
    like that.
    """
    if method == "grpo":
        return Dataset.from_list([{"prompt": row["scenario_id"]} for row in rows])
    types: dict[str, Any] = {name: List(Json()) for name in _COLUMNS[method]}
    if "margin" in rows[0]:
        types["margin"] = Value("float64")
    return Dataset.from_list(list(rows), features=Features(types))


class Session:
    """One training: a checkpoint, its tokenizer and template, and the trainer that moves it."""

    def __init__(
        self,
        method: Method,
        rows: Sequence[Row],
        settings: TrlSettings,
        work: Path,
        log: logging.Logger,
        game: Game | None,
    ) -> None:
        """Load the checkpoint and tokenise the rows; nothing is written yet.

        Raises:
            ProjectError: the folder holds no checkpoint, or a row would not be trained on as it is.
        """
        quiet()
        self._method, self._settings, self._log = method, settings, log
        self.tokenizer, self.template = load_tokenizer(settings, marked=method in ("sft", "grpo"))
        self.config = _config(settings.model)
        context = getattr(self.config, "max_position_embeddings", None)
        needed = longest(method, rows, self.tokenizer, self.template)
        length = fitting_length(needed, settings, context)
        if method == "grpo":
            self.checked = check_prompts(rows, self.tokenizer, self.template, rendered=True)
        self.trainer = self._made(dataset_of(method, rows), work, length, game)
        if method != "grpo":
            made = self.trainer.train_dataset
            self.checked = check(method, rows, made, self.tokenizer, self.template, length)

    def _made(self, dataset: Dataset, work: Path, length: int, game: Game | None) -> Any:
        """The method's trainer."""
        settings, shared = self._settings, self._arguments(work)
        common: dict[str, Any] = {
            "model": self._model(),
            "train_dataset": dataset,
            "processing_class": self.tokenizer,
            "peft_config": self._adapters(),
            "callbacks": [Progress(self._log)],
        }
        if self._method == "sft":
            args = SFTConfig(max_length=length, assistant_only_loss=True, **shared)
            trainer = SFTTrainer(args=args, **common)
        elif self._method == "dpo":
            trainer = DPOTrainer(
                args=DPOConfig(max_length=length, beta=settings.closeness("dpo"), **shared), **common
            )
        elif self._method == "reward":
            trainer = RewardTrainer(args=RewardConfig(max_length=length, **shared), **common)
        else:
            assert game is not None, "GRPO plays scenarios"
            trainer = GRPOTrainer(
                args=GRPOConfig(
                    num_generations=settings.k,
                    max_completion_length=length,
                    beta=settings.closeness("grpo"),
                    **shared | {"gradient_accumulation_steps": settings.batch * settings.k},
                ),
                reward_funcs=graded_reward,
                rollout_func=Rollouts(self._player(game), game, settings.seed),
                **common,
            )
        # It prints every figure as a Python dict beside the log.
        trainer.remove_callback(PrinterCallback)
        return trainer

    def _arguments(self, work: Path) -> dict[str, Any]:
        settings, gpu = self._settings, torch.cuda.is_available()
        return {
            "output_dir": str(work),
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": settings.batch,
            "num_train_epochs": settings.epochs,
            "max_steps": settings.max_steps or -1,
            "learning_rate": settings.rate(self._method),
            "logging_steps": 1,
            "logging_first_step": True,
            "save_steps": settings.save_every,
            "save_total_limit": 2,
            "seed": settings.seed,
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": not gpu,
            "bf16": halved(),
            # Recomputing halves memory where it is scarce, on a GPU, and costs a fifth of the time.
            "gradient_checkpointing": gpu,
        }

    def _model(self) -> Any:
        kind = AutoModelForSequenceClassification if self._method == "reward" else AutoModelForCausalLM
        extra = {"num_labels": 1} if self._method == "reward" else {}
        # Steps of a full fine-tune are smaller than bf16 can hold, adapters have their own float32.
        narrow = self._settings.lora and torch.cuda.is_available() and halved()
        dtype = torch.bfloat16 if narrow else torch.float32
        model = kind.from_pretrained(self._settings.model, dtype=dtype, local_files_only=True, **extra)
        model.config.pad_token_id = self.tokenizer.pad_token_id
        return model

    def _adapters(self) -> LoraConfig | None:
        if not self._settings.lora:
            return None
        task = TaskType.SEQ_CLS if self._method == "reward" else TaskType.CAUSAL_LM
        return LoraConfig(
            task_type=task,
            r=LORA_RANK,
            lora_alpha=2 * LORA_RANK,
            target_modules="all-linear",
        )

    def _player(self, game: Game) -> Player:
        context = getattr(self.config, "max_position_embeddings", None) or 2**31
        return Player(
            self.tokenizer,
            self.template,
            game,
            ends=end_tokens(self.tokenizer),
            turn_tokens=self._settings.turn_tokens,
            context=context,
        )

    def run(self, resume_from: Path | None) -> tuple[LossPoint, ...]:
        """Train; gives the loss curve, of an earlier part too."""
        self.trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
        return tuple(
            LossPoint(int(entry["step"]), float(entry["loss"]), entry.get("reward"), entry.get("kl"))
            for entry in self.trainer.state.log_history
            if "loss" in entry
        )

    @property
    def steps(self) -> int:
        """Optimizer steps done."""
        return int(self.trainer.state.global_step)

    def save(self, folder: Path) -> None:
        """Write weights, config, tokenizer and template; adapters are merged into the weights."""
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        if self._settings.lora:
            model = model.merge_and_unload()
        model.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)


class Progress(TrainerCallback):
    """Says every fiftieth of the steps how far it is, and the first and last."""

    def __init__(self, log: logging.Logger) -> None:
        """Say it to `log`."""
        self._log = log

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """One line of a step's figures."""
        if not logs or "loss" not in logs:
            return
        step, last = state.global_step, state.max_steps
        if step in (1, last) or step % max(1, last // 50) == 0:
            reward = f", reward {logs['reward']:.3f}" if "reward" in logs else ""
            self._log.info("step %d of %d: loss %.4f%s", step, last, float(logs["loss"]), reward)


def quiet() -> None:
    """Silence the libraries' progress bars, notes and deprecations: a run's own log says how far it is."""
    disable_progress_bars()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl)\b")
    warnings.filterwarnings("ignore", message="You are using 'rollout_func'")


def halved() -> bool:
    """Whether matrices are multiplied in bf16: where the machine does so itself, it takes half the time."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def load_tokenizer(settings: TrlSettings, *, marked: bool) -> tuple[Tokenizer, Template]:
    """The checkpoint's tokenizer, with the chat template it is trained with.

    Raises:
        ProjectError: the folder holds no tokenizer, or no template does.
    """
    folder = settings.model
    if not (folder / "tokenizer_config.json").is_file():
        raise ProjectError(str(folder), "model", folder.name, "it holds no tokenizer (tokenizer_config.json)")
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    template = choose_template(tokenizer, marked=marked, given=settings.chat_template)
    tokenizer.chat_template = template.text
    if template.text == CHATML.read_text(encoding="utf-8"):
        tokenizer.response_template = CHATML_TURNS
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, template


def _config(folder: Path) -> Any:
    if not (folder / "config.json").is_file():
        raise ProjectError(str(folder), "model", folder.name, "it holds no checkpoint (config.json)")
    return AutoConfig.from_pretrained(folder, local_files_only=True)
