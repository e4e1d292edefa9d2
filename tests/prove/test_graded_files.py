import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from while_pipeline.prove.graded_files import GradedFile, GradedFileError, read_graded


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def read(folder: Path, *rows: Any) -> GradedFile:
    return read_graded(lines(folder / "a.jsonl", *rows))


def excluded(file: GradedFile) -> list[tuple[str, int, str]]:
    return [(one.reason, one.count, one.example) for one in file.exclusions]


GOOD = {"task_id": "t0", "sample": 0, "passed": True}


def test_every_name_of_a_field_is_known(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {"task_id": "t", "sample": 0, "passed": True},
        {"task": "t", "trial": 1, "reward": 1.0},
        {"task": "t", "rollout_id": "r", "score": 0},
        {"task_id": 7, "rollout": 0, "reward": 0.999999, "category": "c", "judge": "j"},
        {"metadata": {"task": "t", "trial": 2, "reward": 1}, "messages": []},
    )
    assert file.attempts["task_id"].to_list() == ["t", "t", "t", "7", "t"]
    assert file.attempts["sample"].to_list() == ["0", "1", "r", "0", "2"]
    assert file.attempts["passed"].to_list() == [True, True, False, True, True]
    assert file.attempts.select("category", "judge").row(3) == ("c", "j")
    assert (excluded(file), file.n_records, file.numbered) == ([], 5, True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("NaN", "reward is NaN"),
        ("Infinity", "reward is infinite"),
        ("-Infinity", "reward is infinite"),
        ("1e999", "reward is infinite"),
        ('"1.0"', "reward is a JSON string"),
        ("true", "reward is true"),
        ("null", "reward is null"),
        ("[1]", "reward is a JSON array"),
        ("1.5", "reward is above 1"),
        ("-0.1", "reward is below 0"),
    ],
)
def test_a_value_that_is_no_reward_is_no_verdict_and_the_attempt_stays(
    tmp_path: Path, value: str, said: str
) -> None:
    bad = f'{{"task_id": "t", "sample": 1, "reward": {value}}}'
    file = read(tmp_path, GOOD, bad, bad.replace('"sample": 1', '"sample": 2'))
    assert file.attempts["passed"].to_list() == [True, None, None]
    expected = "" if value == "null" else ", expected a number in [0, 1]"
    reason = f"{said}{expected}: kept as an attempt without a verdict"
    assert excluded(file) == [(reason, 2, "a.jsonl:2")]


@pytest.mark.parametrize("value", [2, 0.5, "true", float("nan")])
def test_passed_is_true_or_false_and_nothing_else(tmp_path: Path, value: Any) -> None:
    file = read(tmp_path, GOOD, {**GOOD, "sample": 1, "passed": value, "reward": 1})
    assert file.attempts["passed"].to_list() == [True, None]
    assert "expected true or false" in file.exclusions[0].reason


def test_1_is_passed_and_a_reward_counts_where_passed_is_null(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {**GOOD, "passed": 1},
        {**GOOD, "sample": 1, "passed": 0},
        {**GOOD, "sample": 2, "passed": None, "reward": 1},
    )
    assert file.attempts["passed"].to_list() == [True, False, True]
    assert not file.exclusions


def test_rewards_between_failure_and_a_pass_are_failures_and_counted(tmp_path: Path) -> None:
    file = read(tmp_path, *({"task_id": "t", "sample": i, "reward": i / 4} for i in range(5)))
    assert file.attempts["passed"].to_list() == [False] * 4 + [True]
    assert file.n_partial == 3


def test_a_whole_number_may_be_written_as_a_decimal(tmp_path: Path) -> None:
    file = read(tmp_path, {**GOOD, "task_id": 9.0})
    assert file.attempts["task_id"].to_list() == ["9"]


def test_attempts_within_an_object_are_pointed_at(tmp_path: Path) -> None:
    with pytest.raises(GradedFileError, match="if the attempts are in 'results', let the file be that list"):
        read(tmp_path, {"model": "m", "results": [GOOD]})


def test_an_attempt_that_says_nothing_of_its_result_has_no_verdict(tmp_path: Path) -> None:
    file = read(tmp_path, {"task_id": "t", "sample": 0})
    assert excluded(file)[0][0].startswith("neither passed nor reward nor score: kept")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"passed": True}, "no task_id or task: left out"),
        ({"task_id": None, "passed": True}, "no task_id or task: left out"),
        ({"task_id": "", "passed": True}, "no task_id or task: left out"),
        ({"task_id": True, "passed": True}, "task_id is true, expected text or a whole number: left out"),
        (
            {"task_id": 0.5, "passed": True},
            "task_id is a number that is not whole, expected text or a whole number: left out",
        ),
        (
            {"task_id": "t", "sample": [1]},
            "sample is a JSON array, expected text or a whole number: left out",
        ),
        ({"task_id": "t", "passed": True}, "no sample, trial, rollout_id or rollout, which other rows have"),
        ("{broken", "no JSON (Expecting property name"),
        ("[" * 100_000, "no JSON ("),
        ("17", "a JSON number where an object was expected: left out"),
    ],
)
def test_a_row_that_cannot_be_placed_is_left_out_and_named(tmp_path: Path, row: Any, said: str) -> None:
    file = read(tmp_path, GOOD, "", row)
    assert (file.attempts.height, file.n_records) == (1, 2)
    ((reason, count, place),) = excluded(file)
    assert reason.startswith(said)
    assert (count, place) == (1, "a.jsonl:3")


def test_rows_without_sample_numbers_are_numbered_per_task_in_file_order(tmp_path: Path) -> None:
    rows = [{"task": task, "passed": True} for task in ("a", "b", "a")]
    file = read(tmp_path, *rows)
    assert not file.numbered
    assert file.attempts.select("task_id", "sample").rows() == [("a", "0"), ("b", "0"), ("a", "1")]


def test_an_attempt_that_is_there_twice_is_an_error_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(
        GradedFileError, match=r"a\.jsonl:3: sample 0 of task t0 is in line 1 too; 2 rows repeat"
    ):
        read(tmp_path, GOOD, {**GOOD, "sample": 1}, GOOD, {**GOOD, "passed": False})


def test_a_task_in_two_categories_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GradedFileError, match="task t0 is in category b, and in a before"):
        read(tmp_path, {**GOOD, "category": "a"}, {**GOOD, "sample": 1, "category": "b"})


@pytest.mark.parametrize("text", ["", "\n", "[]", "{}", '{"task": 0.5}', "no json at all"])
def test_a_file_without_an_attempt_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(GradedFileError, match=r"a\.json holds no attempt"):
        read_graded(tmp_path / "a.json")


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\x1f\x8bnot gzip")
    with pytest.raises(GradedFileError, match="cannot be opened"):
        read_graded(tmp_path / "a.jsonl")
    with pytest.raises(GradedFileError, match="cannot be opened: the name ends in none of"):
        read_graded(tmp_path / "a.csv")


def test_arrays_objects_and_packed_files_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "array.json").write_text(json.dumps([GOOD, {**GOOD, "sample": 1}], indent=1))
    (tmp_path / "one.json").write_text(json.dumps(GOOD, indent=1))
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    names = {"array.json": 2, "one.json": 1, "packed.jsonl.gz": 1}
    assert {name: read_graded(tmp_path / name).attempts.height for name in names} == names


@pytest.mark.parametrize(
    "found", [["leak", "loops"], [{"rule": "loops"}, {"rule": "leak"}], '["loops","leak"]']
)
def test_findings_are_a_list_of_rules_in_any_of_three_forms(tmp_path: Path, found: Any) -> None:
    assert read(tmp_path, {**GOOD, "findings": found}).attempts["findings"][0] == '["leak","loops"]'


@pytest.mark.parametrize("found", ["leak", 3, [1], [{"name": "leak"}]])
def test_other_findings_are_unknown_and_named(tmp_path: Path, found: Any) -> None:
    file = read(tmp_path, {**GOOD, "findings": found})
    assert file.attempts["findings"][0] is None
    assert excluded(file)[0][0] == "findings is no list of rule ids: unknown for this attempt"


BYE = {"role": "user", "content": "Bye."}
WORDS = {"role": "assistant", "content": "Done."}
CALL = {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c"}]}


@pytest.mark.parametrize(
    ("row", "answered", "truncated"),
    [
        ({}, None, None),
        ({"messages": []}, None, None),
        ({"messages": [BYE]}, False, None),
        ({"messages": [BYE, WORDS]}, True, None),
        ({"traj": [WORDS, BYE]}, True, None),
        ({"messages": [BYE, CALL]}, False, None),
        ({"messages": [WORDS, {"role": "tool", "content": "ok"}]}, False, None),
        ({"finish_reason": "length"}, None, True),
        ({"finish_reason": "stop", "ended": "max_turns"}, None, True),
        ({"ended": "satisfied"}, None, False),
        ({"messages": [WORDS], "answered": False, "truncated": True}, False, True),
    ],
)
def test_how_a_conversation_ended_is_read_where_the_row_tells(
    tmp_path: Path, row: dict[str, Any], answered: bool | None, truncated: bool | None
) -> None:
    found = read(tmp_path, {**GOOD, **row}).attempts.row(0, named=True)
    assert (found["answered"], found["truncated"]) == (answered, truncated)


def test_names_that_no_table_can_hold_lose_what_cannot_be_held(tmp_path: Path) -> None:
    assert read(tmp_path, '{"task_id": "t\\ud800", "passed": true}').attempts["task_id"][0] == "t?"
