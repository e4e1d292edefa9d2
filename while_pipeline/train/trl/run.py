"""One training from rows to a saved checkpoint: the folder it lives in, resuming, and what it was.

What belongs here: the entry points and the folder. Nothing here needs the extra `train` until it is called.

The folder holds `run.json` (what is trained on what), `checkpoints/` to resume from, and at the end `model/`
(ready to be served) with `training.json` beside it.
"""

import contextlib
import importlib.util
import json
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from while_pipeline.errors import ProjectError
from while_pipeline.ids import content_id
from while_pipeline.train.elsewhere import files_hash
from while_pipeline.train.trl.examples import Row, examples
from while_pipeline.train.trl.game import Game
from while_pipeline.train.trl.settings import BETAS, Checked, Method, TrainResult, TrlSettings
from while_pipeline.train.trl.template import Template

EXTRA = ("torch", "transformers", "trl", "peft", "datasets")
"""What the extra `train` brings."""

MODEL, CHECKPOINTS, RUN, RESULT = "model", "checkpoints", "run.json", "training.json"


def missing_extra() -> list[str]:
    """Packages of the extra `train` that are not installed."""
    return [name for name in EXTRA if importlib.util.find_spec(name) is None]


def require_extra() -> None:
    """Refuse to go on without the extra.

    Raises:
        ProjectError: a package of it is missing.
    """
    if missing := missing_extra():
        raise ProjectError(
            "environment", "packages", missing, "install the extra: pip install 'while-pipeline[train]'"
        )


def train(
    method: Method,
    rows: Sequence[Row],
    settings: TrlSettings,
    out: Path,
    log: logging.Logger,
    game: Game | None = None,
    source: str = "rows",
) -> TrainResult:
    """Train a checkpoint on rows and save it to `out/model`.

    Args:
        method: How.
        rows: Of the method's cut: messages and tools decoded, arguments as objects.
        settings: The checkpoint and how it is trained.
        out: A new folder, or with `settings.resume` the one of a training that was cut short.
        log: Told how far it is; Dagster's own logger will do.
        game: What is played; GRPO needs it, the other methods do not read it.
        source: Where the rows come from, for errors.

    Raises:
        ProjectError: the rows, checkpoint, template or folder will not do; nothing is written then.
    """
    require_extra()
    if settings.beta is not None and method not in BETAS:
        raise ProjectError("settings", "beta", settings.beta, f"`{method}` does not read it; leave it out")
    made = examples(method, rows, source)
    if method == "grpo":
        _playable(made, game, source)
    started = _started(method, made, settings)
    checkpoint = None
    if settings.resume:
        checkpoint = _resumable(out, started)
    else:
        _require_new(out)
    from while_pipeline.train.trl.backend import Session

    try:
        session = Session(method, made, settings, out / CHECKPOINTS, log, game)
    except ProjectError:
        # A trainer makes its folder before its rows can be looked at.
        for folder in (out / CHECKPOINTS, out):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    log.info(
        "%s on %d rows, %d tokens, %d of them trained; template: %s",
        *(method, session.checked.n_rows, session.checked.n_tokens),
        *(session.checked.n_trained, session.checked.template),
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / RUN).write_text(json.dumps(started, indent=2) + "\n", encoding="utf-8")
    curve = session.run(checkpoint)
    unfinished = out / f".{MODEL}"
    shutil.rmtree(unfinished, ignore_errors=True)
    session.save(unfinished)
    result = TrainResult(
        method=method,
        folder=out / MODEL,
        parent=started["parent"],
        version=files_hash(unfinished),
        steps=session.steps,
        resumed_from=int(checkpoint.name.rpartition("-")[2]) if checkpoint else None,
        curve=curve,
        checked=session.checked,
    )
    (out / RESULT).write_text(json.dumps(result.summary(), indent=2) + "\n", encoding="utf-8")
    # Last: a training is finished when its model is there, and then all about it is.
    os.replace(unfinished, out / MODEL)
    return result


def check_rows(
    method: Method, rows: Sequence[Row], tokenizer: Path, source: str, max_length: int | None = None
) -> tuple[Checked, Template]:
    """See what TRL's own tokenising makes of rows, without the checkpoint's weights, and with which template.

    The real trainer is built around a model of one narrow layer, for tokenising does not look at weights.

    Args:
        method: Whose trainer.
        rows: Of the method's cut: messages and tools decoded, arguments as objects.
        tokenizer: Folder of a tokenizer.
        source: Where the rows come from, for errors.
        max_length: Tokens a row may have; None is as many as the longest needs.

    Raises:
        ProjectError: the extra is not installed, or a row would not be trained on as it is.
    """
    require_extra()
    made = examples(method, rows, source)
    from while_pipeline.train.trl.stand_in import tokenised

    with TemporaryDirectory() as folder:
        return tokenised(method, made, tokenizer, Path(folder), max_length)


def _playable(rows: Sequence[Row], game: Game | None, source: str) -> None:
    if game is None:
        raise ProjectError(
            source, "game", None, "GRPO plays the rows' scenarios anew, so it needs a project's day"
        )
    if lost := [row["scenario_id"] for row in rows if row["scenario_id"] not in game.scenarios]:
        raise ProjectError(source, "scenario_id", lost[0], "this scenario is not among those of the day")
    names = {tool.name for tool in game.tools}
    told = {tool["function"]["name"] for tool in rows[0]["tools"]}
    if names != told:
        raise ProjectError(
            source, "tools", sorted(told ^ names), "these are in the rows or in the project, but not in both"
        )


def _started(method: Method, rows: Sequence[Row], settings: TrlSettings) -> dict[str, Any]:
    """What a resumed training must have in common with its beginning."""
    return {
        "method": method,
        "parent": files_hash(settings.model),
        "data": content_id(rows),
        "settings": settings.model_dump(mode="json", exclude={"model", "resume", "save_every"}),
    }


def _require_new(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ProjectError(str(out), "out", out.name, "it is there already: name a new folder, or --resume")


def _resumable(out: Path, started: dict[str, Any]) -> Path | None:
    """The newest whole checkpoint of the same training; None when it was cut short before its first."""
    if not (out / RUN).is_file():
        raise ProjectError(str(out), "resume", out.name, "no training was begun in it")
    if (out / MODEL).exists():
        raise ProjectError(str(out), "resume", out.name, "this training is finished")
    before = json.loads((out / RUN).read_text(encoding="utf-8"))
    for name, value in started.items():
        if before.get(name) != value:
            raise ProjectError(
                str(out / RUN),
                name,
                before.get(name),
                f"now it is {value!r}: another training; name a new folder",
            )
    saved = filter(_whole, (out / CHECKPOINTS).glob("checkpoint-*"))
    return max(saved, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def _whole(checkpoint: Path) -> bool:
    """Whether it was written to its end: the trainer's state is the last file."""
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
