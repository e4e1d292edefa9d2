from pathlib import Path

import pytest

from while_pipeline.errors import ProjectError
from while_pipeline.grade.rubric import load_rubric, read_rubric

WRITTEN = """\
# How we grade

Be strict.

## Hard criteria (each must hold)

- Nothing is invented:
  neither numbers
  - nor names
* Nobody is insulted.

### On money

1. No refund is promised.

## Principles

What follows is scored.

- The answer is short.

## Notes

Ask Ana when in doubt.
"""


def wrong(text: str) -> ProjectError:
    with pytest.raises(ProjectError) as caught:
        read_rubric(text, "rubric.md")
    assert caught.value.source == "rubric.md"
    return caught.value


def test_list_items_under_the_two_headings_are_the_criteria_deeper_headings_included() -> None:
    rubric = read_rubric(WRITTEN, "rubric.md")
    assert rubric.hard == (
        "Nothing is invented: neither numbers nor names",
        "Nobody is insulted.",
        "No refund is promised.",
    )
    assert rubric.principles == ("The answer is short.",)
    assert rubric.kinds == {"hard_1": "hard", "hard_2": "hard", "hard_3": "hard", "principle_1": "principle"}
    assert list(rubric.kinds) == ["hard_1", "hard_2", "hard_3", "principle_1"]


def test_the_judge_reads_the_whole_file_with_a_name_before_each_criterion() -> None:
    named = (
        WRITTEN.replace("- Nothing", "- hard_1: Nothing")
        .replace("* Nobody", "* hard_2: Nobody")
        .replace("1. No refund", "1. hard_3: No refund")
        .replace("- The answer", "- principle_1: The answer")
    )
    assert read_rubric(WRITTEN, "rubric.md").text == named.strip()


def test_principles_may_be_none() -> None:
    assert read_rubric("# Hard criteria\n- A", "r").principles == ()


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_line_ends(end: str) -> None:
    assert read_rubric(WRITTEN.replace("\n", end), "r") == read_rubric(WRITTEN, "r")


def test_what_other_programs_take_for_a_line_end_does_not_move_a_name() -> None:
    rubric = read_rubric("# Hard criteria\n\nA\u2028B\x0cC\n\n- One\n- Two", "r")
    assert rubric.text.endswith("- hard_1: One\n- hard_2: Two")


def test_another_text_is_another_rubric_and_the_same_text_the_same() -> None:
    same = {read_rubric(WRITTEN, name).hash for name in ("a", "b")}
    changed = [("strict", "kind"), ("insulted", "hurt"), ("Ana", "Bea")]
    others = {read_rubric(WRITTEN.replace(*change), "a").hash for change in changed}
    assert len(same) == 1
    assert len(same | others) == 4


# -- what is wrong is said with its place -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "mend"),
    [
        ("", "hard criteria", "write at least one list item"),
        ("# Principles\n- Short.", "hard criteria", "write at least one list item"),
        ("# Hard criteria\n\nNothing is invented.", "hard criteria", "write at least one list item"),
        ("# Hard criteria\n- A\n-\n- B", "line 3", "write the criterion"),
        ("# Hard criteria\n- A\n- B\n\n# Principles\n-   \n", "line 6", "write the criterion"),
        ("# Hard criteria\n- No lies.\n- B\n- no  lies", "line 4", "the same as line 2"),
        ("# Hard criteria\n- A\n# Principles\n- B\n- A.", "line 5", "the same as line 2"),
        ("- A\n\n# Hard criteria\n- B", "line 1", "under a heading"),
        ("# Hard criteria\n- A\n# Notes\n- B", "line 4", "under a heading"),
        ("# Hard criterion\n- A", "line 2", "under a heading"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(text: str, key: str, mend: str) -> None:
    error = wrong(text)
    assert error.key == key
    assert mend in error.mend


# -- where it comes from ----------------------------------------------------------------------------------


def test_the_built_in_rubric_ships_with_the_package_and_is_sound(tmp_path: Path) -> None:
    rubric = load_rubric(tmp_path, None, "while.yaml")
    assert len(rubric.hard) == 7
    assert rubric.principles


def test_the_projects_own_rubric_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text(WRITTEN)
    assert load_rubric(tmp_path, "mine.md", "while.yaml") == read_rubric(WRITTEN, "mine.md")


def test_a_mistake_in_the_projects_rubric_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("# Hard criteria\n-\n")
    with pytest.raises(ProjectError) as caught:
        load_rubric(tmp_path, "mine.md", "while.yaml")
    assert caught.value.source == str(tmp_path / "mine.md")
    assert caught.value.key == "line 2"


def test_a_rubric_that_cannot_be_read_is_named_by_its_setting(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "latin.md").write_bytes(b"# Hard criteria\n- caf\xe9")
    for name, source, mend in [
        ("none.md", "while.yaml", "does not exist"),
        ("folder.md", "while.yaml", "cannot be read"),
        ("latin.md", str(tmp_path / "latin.md"), "not UTF-8"),
    ]:
        with pytest.raises(ProjectError) as caught:
            load_rubric(tmp_path, name, "while.yaml")
        assert caught.value.source == source
        assert mend in caught.value.mend
