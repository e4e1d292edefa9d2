import re
from pathlib import Path

import pytest

from while_pipeline.errors import ProjectError
from while_pipeline.grade.gold import CLEAN, DEFECTIVE, Gold, read_gold


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gold.csv"


def read(path: Path, text: str | bytes) -> Gold:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_gold(path)


@pytest.mark.parametrize("word", [*CLEAN, *DEFECTIVE])
def test_every_word_of_the_set_is_a_label_in_any_case(path: Path, word: str) -> None:
    for written in (word, word.upper(), f" {word.title()} "):
        (label,) = read(path, f"rollout_id,label\nr1,{written}\n").labels
        assert label.clean is (word in CLEAN)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffrollout_id,label\nr1,pass\n",
        "rollout_id,label\r\nr1,pass\r\n",
        '\n\n"rollout_id", label \n\n"r1",pass\n,\n',
    ],
    ids=["byte order mark", "Windows line ends", "quotes, spaces and blank lines"],
)
def test_a_file_may_come_from_a_spreadsheet(path: Path, text: str) -> None:
    assert [label[1:] for label in read(path, text).labels] == [(("r1",), "", True)]


def test_a_label_that_one_annotator_gave_twice_counts_once(path: Path) -> None:
    assert len(read(path, "rollout_id,annotator,label\nr1,ann,pass\nr1,ann,yes\nr1,bob,pass\n").labels) == 2


def test_the_ids_to_look_for_are_those_of_the_key(path: Path) -> None:
    by_id = read(path, "rollout_id,annotator,label\nr1,a,1\nr1,b,1\nr2,a,1\n")
    assert (by_id.rollout_ids, by_id.scenario_ids) == (["r1", "r2"], [])
    by_scenario = read(path, "scenario_id,sample,label\ns1,0,1\ns1,1,1\n")
    assert (by_scenario.rollout_ids, by_scenario.scenario_ids) == ([], ["s1"])


WRONG = {
    "empty": ("", "file", "it is empty"),
    "blank": ("\n \n", "file", "it is empty"),
    "header alone": ("rollout_id,label\n", "file", "it holds no labels"),
    "not UTF-8": ("rollout_id,label\nr\u00e9,pass\n".encode("latin-1"), "file", "it is not UTF-8 text"),
    "UTF-16": ("rollout_id,label\nr1,pass\n".encode("utf-16"), "file", "it is not UTF-8 text"),
    "broken quote": ('rollout_id,label\n"r1"x,pass\n', "line 2", "it is not CSV"),
    "no key": ("label\npass\n", "line 1, columns", "a column is missing"),
    "half a key": ("scenario_id,label\ns1,pass\n", "line 1, columns", "a column is missing"),
    "no label column": ("rollout_id,annotator\nr1,ann\n", "line 1, columns", "a column is missing"),
    "two keys": ("rollout_id,sample,label\nr1,0,pass\n", "line 1, columns", "name each rollout one way"),
    "unknown column": ("rollout_id,label,note\nr1,pass,x\n", "line 1, column", "the columns are"),
    "semicolons": ("rollout_id;label\nr1;pass\n", "line 1, column", "separated by commas"),
    "column twice": ("rollout_id,label,label\nr1,pass,pass\n", "line 1, column", "the columns are"),
    "unknown value": ("rollout_id,label\nr1,pass\nr2,maybe\n", "line 3, label", "write one of pass, passed"),
    "empty label": ("rollout_id,label\nr1,\n", "line 2, label", "it is empty"),
    "empty key": ("rollout_id,label\n,pass\n", "line 2, rollout_id", "it is empty"),
    "empty annotator": ("rollout_id,label,annotator\nr1,pass,\n", "line 2, annotator", "it is empty"),
    "short row": ("rollout_id,annotator,label\nr1,pass\n", "line 2", "it has 2 fields, the header 3"),
    "long row": ("rollout_id,label\nr1,pass,x\n", "line 2", "it has 3 fields, the header 2"),
    "sample no number": ("scenario_id,sample,label\ns1,first,pass\n", "line 2, sample", "whole number"),
    "sample below 0": ("scenario_id,sample,label\ns1,-1,pass\n", "line 2, sample", "whole number"),
    "sample in other digits": (
        "scenario_id,sample,label\ns1,\u0661,pass\n",
        "line 2, sample",
        "whole number",
    ),
    "nobody twice": ("rollout_id,label\nr1,pass\nr1,fail\n", "line 3, rollout_id", "otherwise on line 2"),
    "somebody twice": (
        "rollout_id,annotator,label\nr1,ann,pass\nr1,bob,fail\nr1,ann,fail\n",
        "line 4, rollout_id",
        "ann labelled it otherwise on line 2",
    ),
}


@pytest.mark.parametrize(("text", "key", "mend"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_file_line_value_and_mend(
    path: Path, text: str | bytes, key: str, mend: str
) -> None:
    with pytest.raises(ProjectError, match=re.escape(mend)) as caught:
        read(path, text)
    assert (caught.value.source, caught.value.key) == (str(path), key)


def test_the_wrong_value_itself_is_shown(path: Path) -> None:
    with pytest.raises(ProjectError, match="line 2, label = 'maybe'"):
        read(path, "rollout_id,label\nr1,maybe\n")


def test_a_file_that_is_not_there_or_is_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="it does not exist; mend or unset"):
        read_gold(tmp_path / "nothing.csv")
    with pytest.raises(ProjectError, match="it cannot be read"):
        read_gold(tmp_path)
