"""Every cut of a day in every format that is asked for."""

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json
from while_pipeline.project import Project
from while_pipeline.train.exports.export import cuts_of, export
from while_pipeline.train.exports.folder import discard
from while_pipeline.train.exports.verifiers import require_own_world
from while_pipeline.train.manifest import Manifest
from while_pipeline.train.names import CUT_NAMES, CutName, FormatName
from while_pipeline.train.published import DayReader, read_cut


def folder_of(data: Path, day: str, cut: CutName, form: FormatName) -> Path:
    """Where an export lies unless somebody names another place."""
    return data / "exports" / day / f"{cut}-{form}"


def export_day(
    of: DayReader, day: dt.date, formats: Iterable[FormatName], project: Project, data: Path
) -> Iterator[dict[str, Any]]:
    """Write each cut in each format that has a shape for it; gives rows of `train.exports`.

    A cut that is refused leaves no earlier export of it behind: nobody shall train on what the day no longer
    stands for.

    Args:
        of: Reads the day's tables.
        day: The rollouts' day.
        formats: The formats.
        project: Whose world goes along with scenarios.
        data: The data folder.
    """
    wanted = tuple(dict.fromkeys(formats))
    for cut in CUT_NAMES:
        for form in (form for form in wanted if cut in cuts_of(form)):
            folder = folder_of(data, day.isoformat(), cut, form)
            row = {"cut": cut, "format": form, "folder": folder.relative_to(data).as_posix()}
            try:
                if form == "verifiers":
                    require_own_world(project)
                manifest = export(read_cut(of, day, cut), form, folder).manifest
            except ProjectError as error:
                discard(folder, cut, form, day.isoformat())
                yield row | _row(None, str(error))
            else:
                yield row | _row(manifest, None)


def _row(manifest: Manifest | None, refused: str | None) -> dict[str, Any]:
    sides = {side.split: side.rows for side in manifest.splits} if manifest else {}
    return {
        "manifest_id": manifest.id if manifest else None,
        "n_train": sides.get("train", 0),
        "n_valid": sides.get("valid", 0),
        "files": canonical_json(
            [file.model_dump(mode="json") for file in manifest.files] if manifest else []
        ),
        "refused": refused,
    }
