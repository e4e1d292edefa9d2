"""A row as a format writes it."""

from typing import NamedTuple

from while_pipeline.train.curriculum import Split
from while_pipeline.train.published import Row


class Placed(NamedTuple):
    """A row of a file, and where it stands."""

    task_id: str
    split: Split
    row: Row
