"""The delta report as files: Markdown and the forest plot beside it.

Writing belongs here; the text is `delta_report`'s, the picture `forest`'s.
"""

import base64
import os
from pathlib import Path
from typing import NamedTuple

import polars as pl

from while_pipeline.prove.delta_report import Compared, delta_markdown
from while_pipeline.prove.forest import forest_png


class Written(NamedTuple):
    """Where a report lies."""

    text: Path
    picture: Path


def write_delta(folder: Path, name: str, title: str, delta: pl.DataFrame, about: Compared) -> Written:
    """Write NAME.md and NAME.png into a folder, which is made; readers see a file whole or not at all.

    Args:
        folder: Where the files go.
        name: Their name without its ending.
        title: Heading of the text and of the picture.
        delta: What `paired_delta` returned.
        about: What was compared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = Written(folder / f"{name}.md", folder / f"{name}.png")
    _put(written.picture, forest_png(title, delta))
    _put(written.text, delta_markdown(title, delta, about, written.picture.name).encode())
    return written


def data_uri(picture: Path) -> str:
    """A PNG as an address that holds it, for Markdown that is shown far from the file."""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _put(path: Path, data: bytes) -> None:
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    os.replace(aside, path)
