"""`while-pipeline export`: a day's cut as the files that a trainer takes."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from while_pipeline.train.names import CUT_NAMES, FORMAT_NAMES

if TYPE_CHECKING:
    from while_pipeline.train.exports.export import Exported
    from while_pipeline.train.names import CutName, FormatName

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option("--day", required=True, type=click.DateTime(["%Y-%m-%d"]), help="The rollouts' day.")
@click.option("--cut", required=True, type=click.Choice(CUT_NAMES))
@click.option("--format", "form", required=True, type=click.Choice(FORMAT_NAMES))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to write; data/exports/DAY/CUT-FORMAT by default.",
)
@click.option("--tokenizer", type=_FOLDER, help="Hold a trl export against this folder's tokenizer.")
def export(
    day: dt.datetime, cut: "CutName", form: "FormatName", out: Path | None, tokenizer: Path | None
) -> None:
    """Write a cut that the publication gate passed as files, with a manifest and a dataset card.

    The folder appears whole or not at all; an earlier export of the same cut, format and day is replaced.

    With --tokenizer (and the extra `train`) TRL's own tokens are held against the rows: all of them kept,
    labels on the agent's turns alone, the last one an end token. What fails writes nothing, exit code 2.
    """
    if tokenizer and form != "trl":
        raise click.UsageError("--tokenizer goes with --format trl: the other formats are not TRL's to read.")
    from while_pipeline.project import data_root, load_project, project_root
    from while_pipeline.snapshot import SnapshotError
    from while_pipeline.train.exports.day import folder_of
    from while_pipeline.train.exports.export import export as exported
    from while_pipeline.train.exports.verifiers import require_own_world
    from while_pipeline.train.published import read_cut, snapshot_of

    if form == "verifiers":
        require_own_world(load_project(project_root()))
    data = data_root()
    try:
        rows = read_cut(snapshot_of(data, day.date()), day.date(), cut)
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error
    folder = out or folder_of(data, rows.day, cut, form)
    _say(exported(rows, form, folder, tokenizer))


def _say(found: "Exported") -> None:
    for file in found.manifest.files:
        click.echo(f"{found.folder / file.name}: {file.rows} rows, {file.bytes:,} bytes")
    if found.checked is not None:
        seen = found.checked
        click.echo(
            f"Checked after TRL's tokenising: {seen.n_rows} rows kept, {seen.n_trained} of "
            f"{seen.n_tokens} tokens trained, the longest row has {seen.longest}; template: {seen.template}"
            if seen.n_trained
            # The answers of GRPO are not there yet.
            else f"Checked: {seen.n_rows} prompts render with their tools, {seen.n_tokens} tokens, the "
            f"longest has {seen.longest}; template: {seen.template}"
        )
    if found.unchecked is not None:
        click.echo(f"Not checked after TRL's tokenising: {found.unchecked}")
