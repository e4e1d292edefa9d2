"""The user's project, loaded whole: settings, documents, tools, labels. Nothing is written here."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from while_pipeline.errors import ProjectError
from while_pipeline.grade.gold import Gold, read_gold
from while_pipeline.grade.rubric import Rubric, load_rubric
from while_pipeline.policy_document import PolicyDocument, read_policy_document
from while_pipeline.settings import SETTINGS_FILE, Settings, load_settings
from while_pipeline.tools import Tool, load_tools

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT_VARIABLE = "WHILE_PROJECT"
DATA_VARIABLE = "WHILE_DATA"
DATABASE = "while.duckdb"
"""The database's name in the data folder."""


@dataclass(frozen=True)
class Project:
    """What the pipeline works for."""

    root: Path
    settings: Settings
    policy_document: PolicyDocument
    tools: tuple[Tool, ...]
    rubric: Rubric
    gold: Gold | None
    """Labels that people gave; None where the settings name no file of them."""

    @property
    def traffic_folder(self) -> Path:
        """Folder with one subfolder of traffic files per day."""
        return self.root / self.settings.traffic.folder


def project_root() -> Path:
    """Folder of the current project: `WHILE_PROJECT`, else the shipped example."""
    named = os.environ.get(PROJECT_VARIABLE)
    return Path(named).expanduser().resolve() if named else REPOSITORY / "examples" / "telecom"


def data_root() -> Path:
    """Folder of everything the pipeline writes: `WHILE_DATA`, else `data/` beside the code."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser().resolve() if named else REPOSITORY / "data"


def load_project(root: Path) -> Project:
    """Load and validate a project folder.

    Raises:
        ProjectError: naming file, key, value and mend of what is wrong.
    """
    settings = load_settings(root)
    if str(root) not in sys.path:
        # `module:function` names a module beside while.yaml too. Last, so that it hides no package.
        sys.path.append(str(root))
    path = root / settings.agent.policy
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ProjectError(
            str(root / "while.yaml"), "agent.policy", settings.agent.policy, f"{path} does not exist"
        ) from error
    except OSError as error:
        raise ProjectError(
            str(root / "while.yaml"),
            "agent.policy",
            settings.agent.policy,
            f"it cannot be read: {error.strerror}",
        ) from error
    except UnicodeDecodeError as error:
        raise ProjectError(str(path), "file", path.name, "it is not UTF-8 text; save it as UTF-8") from error
    if not text.strip():
        raise ProjectError(str(path), "file", path.name, "it is empty; write the rules the agent must follow")
    return Project(
        root,
        settings,
        read_policy_document(text),
        load_tools(settings.agent.tools, root),
        load_rubric(root, settings.judge.rubric, str(root / SETTINGS_FILE)),
        None if settings.judge.gold is None else read_gold(root / settings.judge.gold),
    )
