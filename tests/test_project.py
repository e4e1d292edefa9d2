from pathlib import Path

import pytest

from while_pipeline.errors import ProjectError
from while_pipeline.project import REPOSITORY, data_root, load_project, project_root

POLICY = "- You must never lie to people.\n"
TOOLS = '[{"name": "get_order"}]'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "while.yaml").write_text("name: shop\ntraffic: {folder: chats}\n")
    (tmp_path / "policy.md").write_text(POLICY)
    (tmp_path / "tools.json").write_text(TOOLS)
    return tmp_path


def test_a_project_is_its_settings_its_policy_document_and_its_tools(root: Path) -> None:
    project = load_project(root)
    assert project.settings.name == "shop"
    assert [rule.text for rule in project.policy_document.rules] == ["You must never lie to people."]
    assert [tool.name for tool in project.tools] == ["get_order"]
    assert project.traffic_folder == root / "chats"


def test_the_rubric_is_the_built_in_one_unless_the_project_has_its_own(root: Path) -> None:
    assert len(load_project(root).rubric.hard) == 7
    (root / "while.yaml").write_text("name: shop\njudge: {rubric: rubric.md}\n")
    (root / "rubric.md").write_text("# Hard criteria\n- Nobody is insulted.\n")
    assert load_project(root).rubric.hard == ("Nobody is insulted.",)
    (root / "rubric.md").unlink()
    with pytest.raises(ProjectError, match=r"while\.yaml: judge\.rubric = 'rubric\.md': .* does not exist"):
        load_project(root)


def test_labels_that_people_gave_are_read_with_the_project_and_a_wrong_one_stops_it(root: Path) -> None:
    assert load_project(root).gold is None
    (root / "while.yaml").write_text("name: shop\njudge: {gold: gold.csv}\n")
    (root / "gold.csv").write_text("rollout_id,label\nr1,pass\n")
    gold = load_project(root).gold
    assert gold is not None
    assert gold.rollout_ids == ["r1"]
    (root / "gold.csv").write_text("rollout_id,label\nr1,perhaps\n")
    with pytest.raises(ProjectError, match=r"gold\.csv: line 2, label = 'perhaps': write one of pass"):
        load_project(root)


def test_the_shipped_example_loads() -> None:
    project = load_project(REPOSITORY / "examples" / "telecom")
    assert (project.settings.name, len(project.tools)) == ("telecom", 12)


def test_the_variables_choose_the_project_and_the_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WHILE_PROJECT", raising=False)
    monkeypatch.delenv("WHILE_DATA", raising=False)
    assert (project_root(), data_root()) == (REPOSITORY / "examples" / "telecom", REPOSITORY / "data")
    monkeypatch.setenv("WHILE_PROJECT", str(tmp_path / "mine"))
    monkeypatch.setenv("WHILE_DATA", "~/data")
    assert (project_root(), data_root()) == (tmp_path / "mine", Path.home() / "data")


@pytest.mark.parametrize(
    ("name", "content", "key", "mend"),
    [
        ("policy.md", None, "agent.policy", "does not exist"),
        ("policy.md", b"  \n", "file", "it is empty"),
        ("policy.md", b"\xff\xfe", "file", "not UTF-8"),
        ("tools.json", None, "file", "check agent.tools"),
        ("tools.json", b"[]", "tools", "non-empty JSON array"),
        ("while.yaml", None, "file", "it does not exist"),
    ],
)
def test_what_is_wrong_with_a_project_is_told_by_file_key_and_mend(
    name: str, content: bytes | None, key: str, mend: str, root: Path
) -> None:
    (root / name).unlink()
    if content is not None:
        (root / name).write_bytes(content)
    with pytest.raises(ProjectError) as caught:
        load_project(root)
    assert caught.value.key == key
    assert mend in caught.value.mend
    assert str(root) in str(caught.value)


def test_a_folder_in_place_of_the_policy_document_is_told(root: Path) -> None:
    (root / "policy.md").unlink()
    (root / "policy.md").mkdir()
    with pytest.raises(
        ProjectError, match=r"agent\.policy = 'policy\.md': it cannot be read: Is a directory"
    ):
        load_project(root)
