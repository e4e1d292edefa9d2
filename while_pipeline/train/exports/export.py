"""One export from a stored cut to a folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, get_args

import polars as pl

from while_pipeline.errors import ProjectError
from while_pipeline.train.card import dataset_card
from while_pipeline.train.curriculum import Split
from while_pipeline.train.exports import openai, trl, verifiers, verl
from while_pipeline.train.exports.encode import jsonl, parquet
from while_pipeline.train.exports.folder import CARD, MANIFEST, Content, require_free, write_folder
from while_pipeline.train.exports.placed import Placed
from while_pipeline.train.manifest import Manifest, exported_file, make_manifest
from while_pipeline.train.names import CutName, FormatName
from while_pipeline.train.privileged import disguised, scan
from while_pipeline.train.published import CUTS, CutRows, Row
from while_pipeline.train.trl.run import check_rows, missing_extra
from while_pipeline.train.trl.settings import Checked
from while_pipeline.train.trl.template import Template


@dataclass(frozen=True)
class _Format:
    rows: Callable[[CutRows], list[Placed]]
    encode: Callable[[Sequence[Row]], bytes]
    suffix: str
    usage: Mapping[CutName, str]
    """What the card says of each cut that the format has a shape for."""
    below: Callable[[CutRows], str] = lambda _: ""
    """Folder of the rows' files within the export."""
    around: Callable[[CutRows], list[Content]] = lambda _: []
    """Files beside those of the rows."""


_FORMATS: Final[Mapping[FormatName, _Format]] = {
    "trl": _Format(trl.rows_for, jsonl, "jsonl", trl.USAGE),
    "openai": _Format(openai.rows_for, jsonl, "jsonl", openai.USAGE),
    "verl": _Format(verl.rows_for, partial(parquet, schema=verl.SCHEMA), "parquet", verl.USAGE),
    "verifiers": _Format(
        verifiers.rows_for,
        jsonl,
        "jsonl",
        verifiers.USAGE,
        below=lambda cut: f"{verifiers.module_of(cut)}/",
        around=verifiers.package_files,
    ),
}


TEMPLATE = "chat_template.jinja"


@dataclass(frozen=True)
class Exported:
    """An export that was written."""

    folder: Path
    manifest: Manifest
    checked: Checked | None
    """What TRL's own tokenising made of the rows; None when it was not asked."""
    unchecked: str | None
    """Why it was not asked; None when it was, and for formats that are not TRL's."""


def export(cut: CutRows, form: FormatName, folder: Path, tokenizer: Path | None = None) -> Exported:
    """Write a cut in a format to a folder, with its manifest and card.

    Args:
        cut: What is written.
        form: The format.
        folder: A new folder, or one with an earlier export of the same cut, format and day.
        tokenizer: Folder of the tokenizer to hold a `trl` export against; None holds it against none.

    Raises:
        ProjectError: the format has no shape for the cut, the folder holds something else, the bytes hold
            personal data or a secret, or the trainer would not train on the rows as they are. Nothing is
            written then.
    """
    shape = _shape(cut.cut, form)
    require_free(folder, cut.cut, form, cut.day)
    placed = shape.rows(cut)
    if all(one.split == "valid" for one in placed):
        raise ProjectError(cut.source, "split", "valid", "every row is kept aside: none is left to train on")
    contents = _contents(shape, cut, placed)
    for content in contents:
        if found := scan(content.content, cut.own):
            raise ProjectError(
                f"{cut.source}, {content.name}", "content", disguised(found[:3]), "personal data or a secret"
            )
    checked, template, unchecked = _checked(cut, placed, tokenizer) if form == "trl" else (None, None, None)
    usage = shape.usage[cut.cut]
    if template is not None and not template.own:
        contents.append(Content(TEMPLATE, template.text.encode()))
        usage += (
            f"\n\nThe rows were held against `{TEMPLATE}` ({template.origin}). Train with it: "
            f"`chat_template_path` of the trainer's config, or `tokenizer.chat_template`."
        )
    manifest = make_manifest(
        cut.cut,
        form,
        cut.day,
        pl.DataFrame([(one.task_id, one.split) for one in placed], schema=["task_id", "split"], orient="row"),
        [exported_file(one.name, one.content, one.split, one.rows) for one in contents],
        policy_version=cut.policy_version,
        judge=cut.judge,
        checks=cut.checks,
    )
    card = f"{dataset_card(manifest)}\n## How to train on it\n\n{usage}\n"
    about = (
        Content(MANIFEST, f"{manifest.model_dump_json(indent=2)}\n".encode()),
        Content(CARD, card.encode()),
    )
    write_folder(folder, (*contents, *about))
    return Exported(folder, manifest, checked, unchecked)


def cuts_of(form: FormatName) -> tuple[CutName, ...]:
    """The cuts that a format has a shape for."""
    return tuple(_FORMATS[form].usage)


def _shape(cut: CutName, form: FormatName) -> _Format:
    shape = _FORMATS[form]
    if cut not in shape.usage:
        known = ", ".join(name for name, other in _FORMATS.items() if cut in other.usage)
        raise ProjectError(f"format {form}", "cut", cut, f"it has no shape for this cut; take {known}")
    return shape


def _contents(shape: _Format, cut: CutRows, placed: Sequence[Placed]) -> list[Content]:
    """A file per side of the split that has rows, and what the format puts around them."""
    sides: tuple[Split, ...] = get_args(Split)
    rows = {side: [one.row for one in placed if one.split == side] for side in sides}
    held = [
        Content(f"{shape.below(cut)}{side}.{shape.suffix}", shape.encode(rows[side]), side, len(rows[side]))
        for side in sides
        if rows[side]
    ]
    return [*held, *shape.around(cut)]


def _checked(
    cut: CutRows, placed: Sequence[Placed], tokenizer: Path | None
) -> tuple[Checked | None, Template | None, str | None]:
    if tokenizer is None:
        return None, None, "no tokenizer was named (--tokenizer)"
    if missing := missing_extra():
        return None, None, f"the extra `train` is not installed: {', '.join(missing)}"
    rows = [one.row for one in placed]
    return *check_rows(CUTS[cut.cut].method, rows, tokenizer, cut.source), None
