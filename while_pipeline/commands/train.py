"""`while-pipeline train`: an open-weight checkpoint is trained on a cut, by TRL."""

import datetime as dt
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from while_pipeline.train.trl.data import TrainingRows
    from while_pipeline.train.trl.game import Game
    from while_pipeline.train.trl.settings import Method, TrainResult, TrlSettings

_FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)


@click.command()
@click.option("--method", required=True, type=click.Choice(("sft", "dpo", "grpo", "reward")))
@click.option("--model", required=True, type=_FOLDER, help="Folder of the checkpoint to start from.")
@click.option("--data", "export", type=_FOLDER, help="Exported cut (--format trl); it names its day.")
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="A day's cut as it is stored, instead.")
@click.option(
    "--out", required=True, type=click.Path(resolve_path=True, path_type=Path), help="New folder to write to."
)
@click.option(
    "--lora", is_flag=True, help="Train adapters instead of all weights; they are merged at the end."
)
@click.option("--epochs", default=1.0, show_default=True, help="Passes over the rows.")
@click.option("--max-steps", type=int, help="Optimizer steps, whatever --epochs says.")
@click.option("--batch", default=4, show_default=True, help="Rows (GRPO: scenarios) per optimizer step.")
@click.option("--learning-rate", type=float, help="The method's own by default.")
@click.option("--beta", type=float, help="Pull towards --model in DPO and GRPO; the method's own by default.")
@click.option("--max-length", type=int, help="Tokens of a row; what the longest needs by default.")
@click.option("--k", default=8, show_default=True, help="Samples per scenario in GRPO.")
@click.option("--turn-tokens", default=512, show_default=True, help="Tokens of an agent's turn in GRPO.")
@click.option("--save-every", default=50, show_default=True, help="Steps between checkpoints to resume from.")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint in --out.")
@click.option(
    "--chat-template", type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)
)
@click.option("--seed", default=0, show_default=True)
def train(method: "Method", export: Path | None, day: dt.datetime | None, out: Path, **given: object) -> None:
    """Train an open-weight checkpoint on a cut; needs the extra `train`.

    Before the first step the trainer's own tokens are held against the rows: all of them kept, labels on the
    agent's turns alone, the last one an end token, nothing cut. Otherwise nothing is written, exit code 2.

    GRPO plays the scenarios of the rows' day anew, in the project's worlds; its reward is the project's own
    grading.
    """
    if (export is None) == (day is None):
        raise click.UsageError("Name either --data or --day.")
    from while_pipeline.train.trl.run import require_extra
    from while_pipeline.train.trl.run import train as trained

    require_extra()
    settings = _settings(given)
    rows = _rows(method, export, day)
    log = _log()
    result = trained(method, rows.rows, settings, out, log, _game(method, rows), rows.source)
    _say(result, export)


def _settings(given: dict[str, object]) -> "TrlSettings":
    from pydantic import ValidationError

    from while_pipeline.train.trl.settings import TrlSettings

    try:
        return TrlSettings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise click.UsageError(f"--{option} = {first['input']}: {first['msg']}") from None


def _rows(method: "Method", export: Path | None, day: dt.datetime | None) -> "TrainingRows":
    from while_pipeline.project import data_root
    from while_pipeline.snapshot import SnapshotError
    from while_pipeline.train.trl.data import exported_rows, stored_rows

    if export is not None:
        return exported_rows(export, method)
    assert day is not None, "one of both is named"
    try:
        return stored_rows(data_root(), day.date(), method)
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error


def _game(method: "Method", rows: "TrainingRows") -> "Game | None":
    if method != "grpo":
        return None
    from resources.models import Models
    from while_pipeline.project import data_root, load_project, project_root
    from while_pipeline.snapshot import SnapshotError
    from while_pipeline.train.trl.data import game_of

    project, data = load_project(project_root()), data_root()
    judge = Models(data=str(data)).judge(project)
    try:
        return game_of(project, data, dt.date.fromisoformat(rows.day), judge)
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error


def _log() -> logging.Logger:
    """A logger whose lines go to standard output as they are."""
    log = logging.getLogger("while_pipeline.train")
    log.setLevel(logging.INFO)
    log.propagate = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers = [handler]
    return log


def _say(result: "TrainResult", export: Path | None) -> None:
    first, last = result.curve[0], result.curve[-1]
    figure = f"loss {first.loss:.4f} to {last.loss:.4f}"
    if first.reward is not None and last.reward is not None:
        figure = f"reward {first.reward:.3f} to {last.reward:.3f}"
    click.echo(f"Steps: {result.steps}, {figure}. The checkpoint: {result.folder}")
    if result.method == "reward":
        return
    manifest = f" --manifest {export / 'manifest.json'}" if export else ""
    click.echo(
        "To serve it, and to prove it against the policy that serves:\n"
        f"  while-pipeline serve --checkpoint {result.folder} --port 8001\n"
        f"  while-pipeline candidate --endpoint http://127.0.0.1:8001/v1 --model {result.folder} "
        f"--method {result.method} --checkpoint {result.folder}{manifest}"
    )
