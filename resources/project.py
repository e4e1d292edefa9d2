"""The user's agent as a Dagster resource."""

from pathlib import Path
from typing import Any

import dagster as dg

from while_pipeline.project import Project, load_project


class ProjectResource(dg.ConfigurableResource[Any]):
    """The project folder of this deployment."""

    root: str
    """Folder with while.yaml."""

    def load(self) -> Project:
        """The project, validated whole.

        Raises:
            ProjectError: naming file, key, value and mend.
        """
        return load_project(Path(self.root))
