"""The user's agent as a Dagster resource."""

from pathlib import Path
from typing import Any

import dagster as dg

from while_pipeline.project import Project, load_project


class ProjectResource(dg.ConfigurableResource[Any]):
    """The project folder and the data folder of this deployment."""

    root: str
    """Folder with while.yaml."""
    data: str
    """Folder everything is written to."""

    def load(self) -> Project:
        """The project, validated whole.

        Raises:
            ProjectError: naming file, key, value and mend.
        """
        return load_project(Path(self.root))

    @property
    def data_folder(self) -> Path:
        """Folder everything is written to."""
        return Path(self.data)
