"""Checkpoints that the tests of training start from, made once a process."""

import logging
from pathlib import Path

import pytest

from tests.train.trl import tiny

LOG = logging.getLogger("tests.train.trl")


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a tokenizer."""
    pytest.importorskip("trl", reason="needs the extra `train`: make setup-train")
    import torch

    # Two processes with two threads each on two cores wait for each other more than they work.
    torch.set_num_threads(1)
    return tiny.make_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def tuned(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after it has learnt one conversation nearly by heart."""
    from while_pipeline.train.trl.run import train
    from while_pipeline.train.trl.settings import TrlSettings

    row = {"messages": tiny.talk(tiny.solved().rollout.messages), "tools": tiny.OFFERED}
    settings = TrlSettings(model=base, max_steps=90, batch=1, learning_rate=1e-2, save_every=1000)
    return train("sft", [row], settings, tmp_path_factory.mktemp("tuned"), LOG).folder
