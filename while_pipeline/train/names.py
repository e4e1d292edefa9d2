"""Names of the cuts and of the formats they are exported in."""

from typing import Final, Literal, get_args

CutName = Literal["sft", "sft_random", "dpo", "grpo", "reward_model"]
CUT_NAMES: Final[tuple[CutName, ...]] = get_args(CutName)

FormatName = Literal["trl", "openai", "verl", "verifiers"]
FORMAT_NAMES: Final[tuple[FormatName, ...]] = get_args(FormatName)
