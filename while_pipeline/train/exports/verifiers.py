"""The `verifiers` format: a package with a task set, to be installed where a model is trained or tried.

What belongs here: the package's files. What its classes do is in `play`, which is imported there.
"""

from collections.abc import Mapping
from typing import Final

from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json
from while_pipeline.project import Project
from while_pipeline.train.exports.folder import Content
from while_pipeline.train.exports.placed import Placed
from while_pipeline.train.exports.trl import group_figures
from while_pipeline.train.names import CutName
from while_pipeline.train.published import CutRows, by_scenario

TOOLS, DOCUMENT = "tools.json", "policy.md"
"""Files beside the tasks: what all of them share."""

USAGE: Final[Mapping[CutName, str]] = {
    "grpo": (
        "A package for `verifiers` (v1): `pip install .`, then `vf-eval NAME` with the name in "
        "`pyproject.toml` and `--env.agent.runtime.type subprocess`, for nothing that the model writes is "
        "run. A task is a scenario: the model talks to the scripted customer, and its calls change the mock "
        "world. The reward is the project's own grading by outcome and conduct rules, whoever judged the "
        "day. `--env.taskset.split valid` plays the tasks that are kept aside."
    ),
}

_INIT = '''"""Scenarios of {day} as a `verifiers` task set."""

from pathlib import Path

from while_pipeline.train.exports.play import ScenarioHarness, ScenarioTaskset


class Tasks(ScenarioTaskset):
    """The tasks in this folder."""

    FOLDER = Path(__file__).parent


__all__ = ["ScenarioHarness", "Tasks"]
'''

_PYPROJECT = """[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "Customer-service scenarios of {day}, played in their world."
requires-python = ">=3.11"
dependencies = ["verifiers>=0.4,<0.5", "while-pipeline"]

[tool.hatch.build.targets.wheel]
packages = ["{module}"]
"""


def require_own_world(project: Project) -> None:
    """See that the project's world can leave with the scenarios.

    Raises:
        ProjectError: it is the user's own class, or it answers with what real traffic answered.
    """
    world = project.settings.world
    if world.plays != "mock" or world.recorded:
        key, value = ("plays", world.plays) if world.plays != "mock" else ("recorded", world.recorded)
        raise ProjectError(
            str(project.root / "while.yaml"),
            f"world.{key}",
            value,
            "a verifiers package plays the mock world alone, and takes no recorded answers along",
        )


def module_of(cut: CutRows) -> str:
    """Name of the package's module."""
    return f"while_tasks_{cut.day.replace('-', '_')}"


def rows_for(cut: CutRows) -> list[Placed]:
    """One row per scenario: all that playing it needs, the answer key included."""
    return [
        Placed(
            group[0]["task_id"],
            group[0]["split"],
            {"scenario": cut.scenarios[group[0]["scenario_id"]], **group_figures(group)},
        )
        for group in by_scenario(cut.rows)
    ]


def package_files(cut: CutRows) -> list[Content]:
    """The package around the rows."""
    module = module_of(cut)
    name = module.replace("_", "-")
    texts = {
        "pyproject.toml": _PYPROJECT.format(name=name, module=module, day=cut.day),
        f"{module}/__init__.py": _INIT.format(day=cut.day),
        f"{module}/{TOOLS}": canonical_json(cut.rows[0]["tools"]),
        f"{module}/{DOCUMENT}": cut.document,
    }
    return [Content(path, text.encode()) for path, text in texts.items()]
