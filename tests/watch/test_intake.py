import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.example import DAY, PROJECT
from while_pipeline.project import Project
from while_pipeline.tables import watch
from while_pipeline.tables.base import frame
from while_pipeline.watch.intake import Intake, read_day

MAIL, CARD = "ada.lovelace@example.com", "4111 1111 1111 1111"


def _chat(content: str = "Hello.", **more: Any) -> dict[str, Any]:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "get_bill", "arguments": '{"bill_id": "BILL-1"}'},
    }
    broken = {"id": "c2", "type": "function", "function": {"name": "pay_bill", "arguments": '{"bill_id": '}}
    return {
        "messages": [
            {"role": "user", "content": content},
            {"role": "assistant", "content": None, "tool_calls": [call, broken]},
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": '{"status": "ok", "bill": {"bill_id": "BILL-1"}}',
            },
            {"role": "assistant", "content": "There it is."},
        ],
        **more,
    }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return replace(PROJECT, root=tmp_path)


def _write(project: Project, name: str, *lines: object, day: str = DAY) -> None:
    path = project.traffic_folder / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text(text, encoding="utf-8")


def _fits(read: Intake) -> None:
    frame(watch.Conversations, DAY, read.conversations)
    frame(watch.Steps, DAY, read.steps)
    frame(watch.Rejects, DAY, read.rejects)


def test_a_day_is_read_into_rows_that_fit_their_tables(project: Project) -> None:
    _write(project, "a.jsonl", _chat("One."), _chat("Two.", model="m"))
    _write(project, "deeper/b.jsonl", _chat("Three."))
    _write(project, "notes.txt", "not traffic")
    read = read_day(project, DAY)
    _fits(read)
    assert (read.files, len(read.conversations), read.rejects, read.notes) == (2, 3, [], [])
    assert [c["source"] for c in read.conversations] == [f"{DAY}/a.jsonl"] * 2 + [f"{DAY}/deeper/b.jsonl"]
    assert {(c["n_messages"], c["n_tool_calls"]) for c in read.conversations} == {(4, 2)}


def test_only_the_days_own_folder_is_read(project: Project) -> None:
    _write(project, "a.jsonl", _chat("One."))
    _write(project, "a.jsonl", _chat("Two."), day="2026-03-03")
    assert len(read_day(project, DAY).conversations) == 1


def test_steps_are_flattened_one_row_per_call_with_its_result(project: Project) -> None:
    _write(project, "a.jsonl", _chat())
    read = read_day(project, DAY)
    (conversation,) = read.conversations
    assert {step["conversation_id"] for step in read.steps} == {conversation["conversation_id"]}
    good, broken = read.steps
    assert (good["step"], good["turn"], good["call_id"], good["tool"]) == (0, 1, "c1", "get_bill")
    assert (json.loads(good["arguments"]), good["raw_arguments"], good["status"]) == (
        {"bill_id": "BILL-1"},
        None,
        "ok",
    )
    assert (broken["step"], broken["call_id"], broken["tool"]) == (1, "c2", "pay_bill")
    assert (broken["arguments"], broken["raw_arguments"]) == (None, '{"bill_id": ')
    assert (broken["result"], broken["status"]) == (None, "unknown")


def test_what_cannot_be_read_is_kept_with_its_reason_and_the_rest_is_read(project: Project) -> None:
    _write(project, "a.jsonl", _chat(), "{not json", {"hello": "world"})
    _write(project, "b.json.gz", "this is not gzip, nor JSON")
    read = read_day(project, DAY)
    _fits(read)
    assert len(read.conversations) == 1
    rejected = [(r["source"], r["line"]) for r in read.rejects]
    assert rejected == [(f"{DAY}/a.jsonl", 2), (f"{DAY}/a.jsonl", 3), (f"{DAY}/b.json.gz", None)]
    assert all(r["reason"] for r in read.rejects)
    assert "hello" in read.rejects[1]["reason"]


def test_personal_data_reaches_no_row_of_conversations_steps_or_rejects(project: Project) -> None:
    said = f"I am {MAIL} and my card is {CARD}."
    _write(project, "a.jsonl", _chat(said), {"wrong": said}, f"{{broken {said}", {MAIL: 1})
    read = read_day(project, DAY)
    assert (len(read.conversations), len(read.rejects)) == (1, 3)
    stored = json.dumps([read.conversations, read.steps, read.rejects])
    assert MAIL not in stored
    assert CARD not in stored
    assert "<email:" in read.conversations[0]["messages"]
    assert all("<email:" in r["reason"] + r["excerpt"] for r in read.rejects)


def test_redaction_can_be_switched_off(project: Project) -> None:
    settings = project.settings
    traffic = settings.traffic.model_copy(update={"redact": False})
    plain = replace(project, settings=settings.model_copy(update={"traffic": traffic}))
    _write(plain, "a.jsonl", _chat(MAIL), {"wrong": MAIL})
    read = read_day(plain, DAY)
    assert MAIL in read.conversations[0]["messages"]
    assert MAIL in read.rejects[0]["excerpt"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_day_without_traffic_says_so(project: Project, exists: bool) -> None:
    if exists:
        (project.traffic_folder / DAY).mkdir(parents=True)
    read = read_day(project, DAY)
    _fits(read)
    assert (read.files, read.conversations, read.steps, read.rejects) == (0, [], [], [])
    (note,) = read.notes
    assert DAY in note
    assert "no traffic" in note


def test_reading_again_gives_the_same_rows(project: Project) -> None:
    _write(project, "a.jsonl", _chat("One."), "{not json", _chat(MAIL))
    assert read_day(project, DAY) == read_day(project, DAY)


def test_conversations_that_began_on_another_day_are_kept_and_counted() -> None:
    read = read_day(PROJECT, DAY)
    assert (bool(read.conversations), read.notes) == (True, [])
    folder = PROJECT.traffic_folder
    settings = PROJECT.settings
    far = settings.model_copy(
        update={
            "traffic": settings.traffic.model_copy(
                update={"folder": str(folder), "timezone": "Pacific/Kiritimati"}
            )
        }
    )
    moved = read_day(replace(PROJECT, settings=far), DAY)
    assert len(moved.conversations) == len(read.conversations)
    (note,) = moved.notes
    count = int(note.split()[0])
    assert 0 < count <= len(moved.conversations)
