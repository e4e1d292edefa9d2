"""A rubric is a setting of grading alone: another one grades the same rollouts anew and plays nothing."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.endpoint_server import EndpointServer
from tests.orchestration.conftest import DAYS, Pipeline
from while_pipeline.tables import grade, simulate
from while_pipeline.tables.base import table_name

pytestmark = pytest.mark.slow

_, DAY, _ = DAYS
MILD = "# Hard criteria\n- Nobody is insulted.\n"
STRICT = "# Hard criteria\n- Every answer rhymes.\n"


def answered(request: dict[str, Any]) -> str:
    """Nobody is insulted, and nothing rhymes."""
    mild = "insulted" in request["messages"][0]["content"]
    return json.dumps({"hard_1": {"reason": "As it reads.", "holds": mild}})


@pytest.fixture
def server() -> Iterator[EndpointServer]:
    with EndpointServer(answered) as serving:
        yield serving


@pytest.fixture
def judged(worked: Pipeline, server: EndpointServer, tmp_path: Path) -> Pipeline:
    """The days as they were played, under a project whose judge is a model."""
    root = tmp_path / "project"
    shutil.copytree(worked.root, root)
    settings = yaml.safe_load((root / "while.yaml").read_text())
    endpoint = {"base_url": server.base_url, "model": "judge"}
    settings["judge"] = {"plays": "endpoint", "endpoint": endpoint, "rubric": "rubric.md"}
    (root / "while.yaml").write_text(yaml.safe_dump(settings))
    return Pipeline(root, worked.data)


def regraded(pipeline: Pipeline, rubric: str) -> dict[str, str]:
    """Content hashes of the day's tables after its grades were made by a rubric."""
    (pipeline.root / "rubric.md").write_text(rubric)
    ran = pipeline.run(DAY, grade.Grades)
    assert ran.errors == {}
    assert ran.stored.keys() == {"grade.grades"}
    return pipeline.digests(DAY)


def test_another_rubric_regrades_without_playing_anything_and_the_old_one_is_not_paid_for_again(
    judged: Pipeline, server: EndpointServer
) -> None:
    grades = table_name(grade.Grades)
    before = judged.digests(DAY)
    mild = regraded(judged, MILD)
    by_mild, calls = judged.warehouse.read(grade.Grades, DAY), len(server.asked)
    strict = regraded(judged, STRICT)
    by_strict = judged.warehouse.read(grade.Grades, DAY)

    assert 0 < calls <= judged.warehouse.read(simulate.Rollouts, DAY).height
    assert len(server.asked) == 2 * calls
    assert {name for name in before if len({before[name], mild[name], strict[name]}) > 1} == {grades}
    assert by_mild["verdict"].to_list() == [True] * by_mild.height
    assert by_strict["verdict"].to_list() == [False] * by_strict.height
    for column in ("judge", "rubric"):
        assert by_mild[column].n_unique() == by_strict[column].n_unique() == 1
        assert by_mild[column][0] != by_strict[column][0]

    assert regraded(judged, MILD) == mild
    assert len(server.asked) == 2 * calls


def test_the_grades_say_in_the_ui_what_the_judge_read_and_how_often_it_was_silent(judged: Pipeline) -> None:
    (judged.root / "rubric.md").write_text(MILD)
    metadata = judged.run(DAY, grade.Grades).stored["grade.grades"]
    assert metadata["rubric"].value == MILD.strip().replace("- ", "- hard_1: ")
    assert metadata["judge"].value == judged.warehouse.read(grade.Grades, DAY)["judge"][0]
    assert metadata["no_verdict"].value == 0.0
    assert metadata["no_verdict_n"].value == judged.warehouse.read(grade.Grades, DAY).height
