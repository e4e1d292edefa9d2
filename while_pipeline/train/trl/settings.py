"""What a user may set when a checkpoint is trained, and what comes back.

What belongs here: the records between the command and the trainers; nothing here needs the extra.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from while_pipeline.constants import DPO_BETA, GRPO_BETA
from while_pipeline.train.names import CutName

Method = Literal["sft", "dpo", "grpo", "reward"]

METHODS: Final[tuple[Method, ...]] = ("sft", "dpo", "grpo", "reward")

CUTS: Final[dict[Method, CutName]] = {"sft": "sft", "dpo": "dpo", "grpo": "grpo", "reward": "reward_model"}
"""The cut each method trains on."""

LEARNING_RATES: Final[dict[Method, float]] = {"sft": 2e-5, "dpo": 1e-6, "grpo": 1e-6, "reward": 1e-5}
"""Of a full fine-tune: imitation may move far, a preference overshoots within a few steps."""

BETAS: Final[dict[Method, float]] = {"dpo": DPO_BETA, "grpo": GRPO_BETA}
"""How closely the methods that compare hold the model to the one it started from."""

LORA_GAIN: Final = 10.0
"""Adapters start at zero and hold a few hundredths of the weights: ten times the learning rate is usual."""


class TrlSettings(BaseModel):
    """How a checkpoint is trained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Path
    """Folder of the checkpoint to start from: weights, config, tokenizer."""
    lora: bool = False
    """Train adapters of rank 16 on every linear layer instead of all weights: gradients and the optimizer's
    state are theirs alone. What is saved has them merged, so that any server takes it."""
    epochs: Annotated[float, Field(gt=0)] = 1.0
    """Passes over the rows, where `max_steps` does not say otherwise."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Optimizer steps; empty is what `epochs` makes."""
    batch: Annotated[int, Field(ge=1)] = 4
    """Rows per optimizer step, taken one at a time, so that memory does not depend on it. Of GRPO: scenarios,
    each played `k` times."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Empty is the method's own, see `LEARNING_RATES`."""
    beta: Annotated[float, Field(ge=0)] | None = None
    """Pull towards the model it started from (DPO, GRPO); empty is the method's own, see `BETAS`. TRL's own
    default for GRPO is 0: nothing holds the model then, and nothing is known of how far it went."""
    max_length: Annotated[int, Field(ge=8)] | None = None
    """Tokens a row may have; empty is what the longest needs. A row is never cut: too small is an error that
    says how much is needed."""
    k: Annotated[int, Field(ge=2)] = 8
    """Samples per scenario in GRPO."""
    turn_tokens: Annotated[int, Field(ge=1)] = 512
    """Tokens an agent's turn may have when GRPO plays; a longer one is cut, and counts as the agent's own."""
    save_every: Annotated[int, Field(ge=1)] = 50
    """Steps between checkpoints to resume from; the last two are kept."""
    resume: bool = False
    """Go on from the last checkpoint in the folder that is written to."""
    chat_template: Path | None = None
    """Jinja file to use instead of the model's own template."""
    seed: int = 0
    """Decides the order of the rows, what is dropped out and what is sampled."""

    def rate(self, method: Method) -> float:
        """The learning rate of a method."""
        usual = LEARNING_RATES[method] * (LORA_GAIN if self.lora else 1.0)
        return self.learning_rate or usual

    def closeness(self, method: Method) -> float:
        """`beta`, with the method's own where it is empty."""
        return BETAS[method] if self.beta is None else self.beta


@dataclass(frozen=True)
class Checked:
    """What was seen of the rows after the trainer's own tokenising."""

    n_rows: int
    """Rows kept; as many as were sent, or the check has refused."""
    n_tokens: int
    """Tokens of all rows, prompts included; a preference counts both answers."""
    n_trained: int
    """Tokens with a label: what the loss is over. 0 for GRPO, whose answers are not there yet."""
    longest: int
    """Tokens of the longest row: the smallest `max_length` that cuts nothing."""
    template: str
    """Where the chat template came from."""


@dataclass(frozen=True)
class LossPoint:
    """One point of the loss curve."""

    step: int
    """Optimizer steps done."""
    loss: float
    """Mean training loss of the step; of GRPO it says little, see `reward`."""
    reward: float | None
    """Mean reward of the rollouts of the step (GRPO), else None."""
    kl: float | None
    """Mean over the tokens of log-probability under the model less that under the one it started from, in
    nats, estimated without bias and never below 0 (GRPO); None for other methods and without `beta`."""


@dataclass(frozen=True)
class TrainResult:
    """A trained checkpoint and how it came to be."""

    method: Method
    folder: Path
    """The checkpoint, ready to be served."""
    parent: str
    """Hash of the files of the checkpoint it started from."""
    version: str
    """Hash of its files, as `while-pipeline candidate --checkpoint` computes it."""
    steps: int
    """Optimizer steps, those before a resume included."""
    resumed_from: int | None
    """Step it went on from; None when it began anew."""
    curve: tuple[LossPoint, ...]
    """Of this run; the points before a resume included."""
    checked: Checked

    def summary(self) -> dict[str, object]:
        """The result without its path, for a file beside the weights or an asset's metadata."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "folder"}
