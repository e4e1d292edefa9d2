"""A checkpoint on the sealed tasks, batched in this process."""

import json
import time
from pathlib import Path

import polars as pl
import torch
from transformers import AutoModelForCausalLM

from benchmarks.real_model import night
from while_pipeline.grade.grader import grade
from while_pipeline.prove.trials import trial_row
from while_pipeline.simulate.user_world import Worlds
from while_pipeline.tables import prove
from while_pipeline.tables.base import frame
from while_pipeline.train.trl.backend import halved, load_tokenizer, quiet
from while_pipeline.train.trl.check import end_tokens
from while_pipeline.train.trl.game import Game
from while_pipeline.train.trl.player import Player
from while_pipeline.train.trl.settings import TrlSettings

TEMPERATURE = 0.2
"""What the model's card recommends."""
TURN_TOKENS = 96
"""The longest turn of the rows has 54."""
CONTEXT = 2048
WIDTH = 64


def trials_of(arm: str, checkpoint: Path, out: Path) -> pl.DataFrame:
    """Rows of `prove.trials`; kept in `out`, with the cost beside them, and not played again."""
    kept, cost = out / f"{arm}.parquet", out / f"{arm}.json"
    if kept.is_file():
        return pl.read_parquet(kept)
    quiet()
    start = time.perf_counter()
    tokenizer, template = load_tokenizer(TrlSettings(model=checkpoint), marked=True)
    dtype = torch.bfloat16 if halved() else torch.float32
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype).eval()
    tasks = night.tasks()
    game = Game(
        {task.scenario_id: task for task in tasks},
        night.TOOLS,
        night.DOCUMENT,
        night.JUDGE,
        Worlds(night.TOOLS),
    )
    player = Player(
        tokenizer,
        template,
        game,
        ends=end_tokens(tokenizer),
        turn_tokens=TURN_TOKENS,
        context=CONTEXT,
        temperature=TEMPERATURE,
    )
    samples = [(task.scenario_id, sample) for task in tasks for sample in range(night.K)]
    traces = player.play(model, samples, seed=night.SEED, version=arm, width=WIDTH)
    graded = grade([trace.rollout() for trace in traces], night.TOOLS, night.DOCUMENT, night.JUDGE)
    rows = frame(prove.Trials, night.DAY, [trial_row("before", one, night.JUDGE) for one in graded])
    figures = {
        "minutes": (time.perf_counter() - start) / 60,
        "written": sum(sum(trace.written) for trace in traces),
        "read": sum(len(trace.prompt) + len(trace.completion) - sum(trace.written) for trace in traces),
        "turns": sum(len(trace.sample.replies) for trace in traces),
    }
    rows.write_parquet(kept)
    cost.write_text(json.dumps(figures))
    return rows
