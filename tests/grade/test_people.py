from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from while_pipeline.errors import ProjectError
from while_pipeline.grade.controls import LABELS
from while_pipeline.grade.gold import read_gold
from while_pipeline.grade.people import HumanGold, human_gold

GRADED = {
    "rollout_id": pl.String,
    "scenario_id": pl.String,
    "sample": pl.Int64,
    "task_id": pl.String,
    "judge": pl.String,
    "verdict": pl.Boolean,
    "length": pl.Int64,
}


def graded(*rollouts: tuple[str, str, int, bool | None], judge: str = "j1") -> pl.DataFrame:
    """(rollout, scenario, sample, verdict) of one judge."""
    rows = [(r, s, n, f"task of {s}", judge, verdict, 12) for r, s, n, verdict in rollouts]
    return pl.DataFrame(rows, schema=GRADED, orient="row")


STORED = graded(("r1", "s1", 0, True), ("r2", "s1", 1, False), ("r3", "s2", 0, None))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gold.csv"


def held(path: Path, text: str, stored: pl.DataFrame = STORED, judge: str = "j1") -> HumanGold:
    path.write_text(text)
    return human_gold(read_gold(path), stored, judge)


def labels_of(found: HumanGold) -> Sequence[tuple[object, ...]]:
    return found.labels.select("rollout_id", "gold", "verdict").rows()


def test_labels_by_rollout_id_stand_beside_the_judges_verdicts(path: Path) -> None:
    found = held(path, "rollout_id,label\nr1,pass\nr2,pass\nr3,fail\n")
    assert dict(found.labels.schema) == LABELS
    assert found.labels.rows() == [
        ("r1", "task of s1", True, True, 12, ""),
        ("r2", "task of s1", True, False, 12, ""),
        ("r3", "task of s2", False, None, 12, ""),
    ]
    assert found[1:] == (1, None, 0, 0, 0)


def test_labels_by_scenario_and_sample_name_the_same_rollouts(path: Path) -> None:
    found = held(path, "label,sample,scenario_id\npass,0,s1\nfail,01,s1\n")
    assert labels_of(found) == [("r1", True, True), ("r2", False, False)]


def test_of_several_annotators_the_majority_is_gold_and_evens_are_no_label(path: Path) -> None:
    found = held(
        path,
        "rollout_id,annotator,label\n"
        "r1,ann,pass\nr1,bob,pass\nr1,cyd,fail\n"
        "r2,ann,fail\nr2,bob,pass\n"
        "r3,ann,fail\n",
    )
    assert labels_of(found) == [("r1", True, True), ("r3", False, None)]
    assert (found.n_annotators, found.n_tied) == (3, 1)


def test_alpha_is_over_all_that_annotators_labelled_stored_or_not(path: Path) -> None:
    rows = [("u1", "11"), ("u2", "11"), ("u3", "00"), ("u4", "10")]
    text = "rollout_id,annotator,label\n" + "".join(
        f"{unit},{who},{label}\n" for unit, given in rows for who, label in zip("ab", given, strict=True)
    )
    # One unit of four disagrees, and of the eight labels five are 1 and three are 0.
    assert held(path, text).alpha == pytest.approx(1 - (8 - 1) * 1 / (5 * 3))


def test_labels_of_rollouts_that_are_not_stored_are_counted(path: Path) -> None:
    found = held(path, "rollout_id,label\nr1,pass\nr8,pass\nr9,fail\n")
    assert (found.labels.height, found.n_unmatched) == (1, 2)


def test_labels_of_rollouts_that_another_judge_graded_are_counted_and_not_used(path: Path) -> None:
    stored = pl.concat([STORED, graded(("r4", "s4", 0, True), judge="j0")])
    found = held(path, "rollout_id,label\nr1,pass\nr4,pass\n", stored)
    assert (labels_of(found), found.n_other_judge) == ([("r1", True, True)], 1)
    assert held(path, "rollout_id,label\nr1,pass\nr4,pass\n", stored, judge="j0").n_other_judge == 1


def test_every_labelled_rollout_is_counted_once(path: Path) -> None:
    stored = pl.concat([STORED, graded(("r4", "s4", 0, True), judge="j0")])
    found = held(
        path,
        "rollout_id,annotator,label\nr1,a,1\nr1,b,0\nr2,a,1\nr4,a,1\nr4,b,0\nr9,a,1\nr9,b,0\n",
        stored,
    )
    assert (found.labels.height, found.n_tied, found.n_other_judge, found.n_unmatched) == (1, 1, 1, 1)


def test_a_key_that_names_several_rollouts_is_an_error_that_names_them(path: Path) -> None:
    stored = pl.concat([STORED, graded(("r5", "s1", 0, True))])
    with pytest.raises(ProjectError) as caught:
        held(path, "scenario_id,sample,label\ns2,0,pass\ns1,0,pass\n", stored)
    assert (caught.value.key, caught.value.value) == ("line 3, scenario_id, sample", "s1 0")
    assert "it names 2 rollouts (r1, r5); name the one that was read by its `rollout_id`" in str(caught.value)
