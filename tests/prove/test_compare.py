import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.arms import GAIN, LOSS, MIXED, SAME
from tests.example import SHARED
from while_pipeline.prove.compare import Comparison, compare_files
from while_pipeline.prove.delta_report import answer, delta_markdown
from while_pipeline.prove.graded_files import GradedFileError
from while_pipeline.prove.verdict import Verdict, promotable

AIRLINE = SHARED / "tau-bench" / "gpt-4o-airline.json"
beside = pytest.mark.skipif(
    not AIRLINE.exists(), reason="the tau-bench results are not beside the repository"
)


def rows(passes: Mapping[str, Sequence[int]], k: int = 4, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "task_id": f"{category}-{i}",
            "sample": sample,
            "passed": sample < count,
            "category": category,
            **more,
        }
        for category, counts in passes.items()
        for i, count in enumerate(counts)
        for sample in range(k)
    ]


def arms(passes: Mapping[str, Sequence[tuple[int, int]]]) -> list[list[dict[str, Any]]]:
    return [rows({name: [pair[arm] for pair in tasks] for name, tasks in passes.items()}) for arm in (0, 1)]


def written(folder: Path, name: str, attempts: Sequence[Any]) -> Path:
    path = folder / name
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in attempts))
    return path


def compared(
    folder: Path, before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], **options: Any
) -> Comparison:
    return compare_files(written(folder, "a.jsonl", before), written(folder, "b.jsonl", after), **options)


def verdicts(found: Comparison) -> dict[str, str]:
    return dict(found.delta.select("scope", "verdict").iter_rows())


# -- real trajectories --------------------------------------------------------------------------------------


def halves(folder: Path) -> tuple[Path, Path]:
    """The published trajectories by trial: 0 and 1, and 2 and 3, of the same policy."""
    played = json.loads(AIRLINE.read_text())
    for name, trials in (("a.json", (0, 1)), ("b.json", (2, 3))):
        (folder / name).write_text(json.dumps([one for one in played if one["trial"] in trials]))
    return folder / "a.json", folder / "b.json"


@beside
def test_a_policy_against_itself_shows_no_difference(tmp_path: Path) -> None:
    found = compare_files(*halves(tmp_path))
    (overall,) = found.delta.to_dicts()
    assert (overall["before"], overall["after"], overall["n_tasks"]) == (
        pytest.approx(0.43),
        pytest.approx(0.41),
        50,
    )
    assert overall["verdict"] == Verdict.NO_DIFFERENCE
    assert overall["n_unknown"] == 0
    assert answer(found.delta, found.about).startswith(
        "No difference could be shown: b.json passes 41 of 100"
    )


@beside
def test_the_same_file_twice_changes_no_task(tmp_path: Path) -> None:
    a, _ = halves(tmp_path)
    assert compare_files(a, a).delta["reason"].to_list() == ["none of 50 tasks changed"]


@beside
def test_real_trajectories_spoilt_in_one_category_are_named_though_the_total_rises(tmp_path: Path) -> None:
    played = [one for one in json.loads(AIRLINE.read_text()) if one["trial"] < 2]
    before = [{**one, "category": "spoilt" if one["task_id"] % 5 == 0 else "kept"} for one in played]
    before = [{**one, "reward": 1.0} if one["category"] == "spoilt" else one for one in before]
    after = [{**one, "reward": float(one["category"] == "kept")} for one in before]
    found = compared(tmp_path, before, after)
    overall = found.delta.row(0, named=True)
    assert (overall["verdict"], overall["after"] > overall["before"]) == (Verdict.BETTER, True)
    agreed, why = promotable(found.delta)
    assert not agreed
    assert "but spoilt is worse" in why
    assert answer(found.delta, found.about).startswith("Not to be promoted: `spoilt` got worse (0 of 100")


# -- what files say -----------------------------------------------------------------------------------------


def test_each_category_has_its_verdict(tmp_path: Path) -> None:
    found = compared(tmp_path, *arms({"up": GAIN, "down": LOSS, "even": MIXED}))
    assert verdicts(found) == {
        "overall": Verdict.NO_DIFFERENCE,
        "down": Verdict.WORSE,
        "even": Verdict.NO_DIFFERENCE,
        "up": Verdict.BETTER,
    }


def test_a_file_keeps_its_name_at_the_head_of_a_sentence(tmp_path: Path) -> None:
    found = compared(tmp_path, *arms({"x": GAIN}))
    assert answer(found.delta, found.about).startswith(
        "b.jsonl is better: it passes 75 of 100 attempts where a.jsonl"
    )


def test_what_could_not_be_used_is_listed_with_number_and_place(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    after[0]["passed"] = "yes"
    found = compare_files(
        written(tmp_path, "a.jsonl", [*before, "{broken"]),
        written(tmp_path, "b.jsonl", [*after, {"passed": 1}]),
    )
    text = delta_markdown("Title", found.delta, found.about)
    assert "- Attempts that are absent or have no verdict: 1." in text
    assert "- 1 of 81 rows of a.jsonl: no JSON (" in text
    assert "left out (first: a.jsonl:81)." in text
    assert "- 1 of 81 rows of b.jsonl: passed is a JSON string, expected true or false: kept" in text
    assert "(first: b.jsonl:1)." in text
    assert "no task_id or task: left out (first: b.jsonl:81)." in text
    assert found.delta["verdict"][0] == Verdict.BETTER


def test_one_task_is_too_few(tmp_path: Path) -> None:
    found = compared(tmp_path, *arms({"x": [(0, 4)]}))
    assert found.delta["verdict"][0] == Verdict.TOO_FEW


def test_unequal_numbers_of_attempts_are_counted_and_many_missing_are_not_comparable(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    few = compared(tmp_path, before, after[1:])
    assert (few.delta["n_unknown"][0], few.delta["k"][0], few.delta["verdict"][0]) == (1, 3, Verdict.BETTER)
    many = compared(tmp_path, before, [row for row in after if row["sample"] < 2 or row["task_id"] < "x-15"])
    assert many.delta["verdict"][0] == Verdict.NOT_COMPARABLE
    assert "(tasks have 2 to 4 rows)" in many.delta["reason"][0]


def test_other_tasks_and_other_judges_are_not_comparable(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    fewer = compared(tmp_path, before, after[4:])
    assert fewer.delta["reason"][0] == "other tasks: 1 only before, 0 only after"
    judged = [[{**row, "judge": judge} for row in arm] for judge, arm in (("j1", before), ("j2", after))]
    assert compared(tmp_path, *judged).delta["reason"][0].startswith("other judge: 20 of 20 tasks")


def test_a_judge_nobody_names_is_a_caution(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    silent = compared(tmp_path, before, after)
    assert any("do not name the judge" in said for said in silent.about.cautions)
    named = compared(tmp_path, *([{**row, "judge": "j"} for row in arm] for arm in (before, after)))
    assert not named.about.cautions


def test_rows_numbered_by_their_order_are_a_caution(tmp_path: Path) -> None:
    unnumbered = [
        [{k: v for k, v in row.items() if k != "sample"} for row in arm] for arm in arms({"x": GAIN})
    ]
    found = compared(tmp_path, *unnumbered)
    assert found.delta["verdict"][0] == Verdict.BETTER
    assert any("twice counts twice" in said for said in found.about.cautions)


def test_guards_are_held_and_a_guard_nobody_measured_is_an_error(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    harmed = [{**row, "findings": ["leak"] if row["sample"] < 2 else []} for row in after]
    clean = [{**row, "findings": []} for row in before]
    assert verdicts(compared(tmp_path, clean, harmed, guards=["leak"]))["leak"] == Verdict.WORSE
    with pytest.raises(
        GradedFileError, match=r"a guard on leak needs `findings` in the rows, and a\.jsonl has"
    ):
        compared(tmp_path, before, harmed, guards=["leak"])


def test_a_task_that_moved_to_another_category_is_an_error(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    moved = [{**row, "category": "y"} if row["task_id"] == "x-3" else row for row in after]
    with pytest.raises(GradedFileError, match=r"task x-3 is in category x in a\.jsonl and in y in b\.jsonl"):
        compared(tmp_path, before, moved)


def test_a_category_named_like_the_whole_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GradedFileError, match="'overall' is the name of the scope over all tasks"):
        compared(tmp_path, *arms({"overall": GAIN}))


def test_whole_re_runs_measure_the_noise(tmp_path: Path) -> None:
    before, after = arms({"x": [(2, 1)] * 20})
    assert compared(tmp_path, before, after).delta["verdict"][0] == Verdict.WORSE
    runs = [written(tmp_path, f"run{n}.jsonl", rows({"x": [2] * 16 + [n] * 4})) for n in (1, 3)]
    found = compared(tmp_path, before, after, reruns=runs)
    # Means of .5, .45 and .55: a spread of .05 with 2 degrees of freedom.
    assert found.delta["noise"][0] == pytest.approx(4.302653 * 0.05 * 2**0.5, abs=1e-6)
    assert found.delta["verdict"].to_list() == [Verdict.INSIDE_NOISE] * 2
    assert "The noise is that between 3 whole runs of a.jsonl." in found.about.facts


def test_a_re_run_of_something_else_is_an_error(tmp_path: Path) -> None:
    before, after = arms({"x": SAME})
    other = written(tmp_path, "other.jsonl", before[4:])
    with pytest.raises(
        GradedFileError, match=r"other\.jsonl is no re-run of a\.jsonl: it has other tasks, 0 more and 1"
    ):
        compared(tmp_path, before, after, reruns=[other, other])
    judged = written(tmp_path, "judged.jsonl", [{**row, "judge": "another"} for row in before])
    with pytest.raises(GradedFileError, match=r"judged\.jsonl is no re-run of a\.jsonl: it has other judges"):
        compared(tmp_path, before, after, reruns=[judged, judged])
    same = written(tmp_path, "same.jsonl", before)
    with pytest.raises(GradedFileError, match=r"same\.jsonl is no re-run of a\.jsonl: it is the same run"):
        compared(tmp_path, before, after, reruns=[same, same])


def test_one_re_run_is_too_few_and_three_are_said_to_be_few(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    runs = [written(tmp_path, f"run{n}.jsonl", rows({"x": [n] * 20})) for n in (0, 2, 3, 4)]
    with pytest.raises(GradedFileError, match="Give --rerun twice or more"):
        compared(tmp_path, before, after, reruns=runs[:1])
    few = compared(tmp_path, before, after, reruns=runs[:3]).about.cautions
    assert any("The noise rests on 4 runs" in caution for caution in few)
    assert not any(
        "rests on" in line for line in compared(tmp_path, before, after, reruns=runs).about.cautions
    )


def test_a_task_is_in_the_category_that_either_file_names(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    silent = [{key: value for key, value in row.items() if key != "category"} for row in after]
    assert compared(tmp_path, before, silent).delta["scope"].to_list() == ["overall", "x"]


def test_a_guard_that_neither_file_ever_broke_is_a_caution(tmp_path: Path) -> None:
    before, after = ([{**row, "findings": ["leak"]} for row in side] for side in arms({"x": GAIN}))
    cautions = compared(tmp_path, before, after, guards=["leek"]).about.cautions
    assert any("leek is found in neither file" in caution and "leak" in caution for caution in cautions)
    with pytest.raises(GradedFileError, match="a guard is named twice"):
        compared(tmp_path, before, after, guards=["leak", "leak"])


def test_what_a_file_says_by_halves_is_counted(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    half = [
        {**row, "findings": [], "passed": None, "reward": 0.5} if row["task_id"] == "x-0" else row
        for row in after
    ]
    silent = [{**row, "passed": None} if row["task_id"] == "x-1" else row for row in half]
    found = compared(tmp_path, [{**row, "findings": []} for row in before], silent, guards=["leak"]).about
    assert any("4 rewards of b.jsonl lie between 0 and 1" in caution for caution in found.cautions)
    assert any(
        "1 tasks, since no attempt in b.jsonl has a verdict (first: x-1)" in one for one in found.left_out
    )
    assert any("76 of 80 attempts of b.jsonl say nothing of findings" in one for one in found.left_out)


def test_equal_numbers_in_two_files_are_not_taken_for_equal_luck(tmp_path: Path) -> None:
    before, _ = arms({"x": MIXED})
    assert compared(tmp_path, before, before).delta["noise"][0] > 0.05


def test_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    before, after = arms({"x": GAIN})
    for name, attempts in (("old", before), ("new", after)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, "a.jsonl", attempts)
    about = compare_files(tmp_path / "old" / "a.jsonl", tmp_path / "new" / "a.jsonl").about
    assert (about.before, about.after) == (str(tmp_path / "old/a.jsonl"), str(tmp_path / "new/a.jsonl"))


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    before, after = arms({"up": GAIN, "even": MIXED})
    turned = compared(tmp_path, before[::-1], after[::-1]).delta
    assert turned.equals(compared(tmp_path, before, after).delta)
    assert isinstance(turned, pl.DataFrame)
