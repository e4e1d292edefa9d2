"""What the documents say is tried: their queries run, their files exist, their settings load."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from while_pipeline.project import REPOSITORY
from while_pipeline.settings import Settings
from while_pipeline.snapshot import read_snapshot, snapshot_path

if TYPE_CHECKING:
    from tests.orchestration.conftest import Telecom

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text("utf-8"), re.DOTALL)


@pytest.mark.slow
def test_every_query_of_the_readme_answers_with_rows(telecom: "Telecom") -> None:
    snapshot = snapshot_path(telecom.pipeline.data / "while.duckdb")
    queries = blocks(REPOSITORY / "README.md", "sql")
    assert len(queries) == 5
    for query in queries:
        assert read_snapshot(snapshot, query).height > 0, query


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def test_the_settings_shown_are_the_defaults() -> None:
    (shown, *_rest) = blocks(REPOSITORY / "docs" / "project.md", "yaml")
    stated = yaml.safe_load(shown)
    assert Settings.model_validate(stated) == Settings(name="telecom", seed=7)


def test_every_settings_example_is_valid() -> None:
    for shown in blocks(REPOSITORY / "docs" / "project.md", "yaml")[1:]:
        Settings.model_validate({"name": "shown", **yaml.safe_load(shown)})


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", (REPOSITORY / "README.md").read_text(), re.M))
def test_every_make_target_of_the_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text(), re.M)
