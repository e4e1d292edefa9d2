import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from while_pipeline.watch.read import SUFFIXES
from while_pipeline.watch.signature import (
    NO_TRAFFIC,
    REMEMBERED_DAYS,
    Scan,
    Seen,
    last_change_ns,
    scan,
    traffic_files,
    traffic_signature,
)

DAY = "2026-03-02"
SECOND = 10**9
NOW = 1_700_000_000 * SECOND
LATER = NOW + 60 * SECOND
LONG_AGO = NOW - 3600 * SECOND
"""The time of every file that a test gives no other."""


def put(folder: Path, name: str, text: str = "{}\n", mtime_ns: int = LONG_AGO) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def look(folder: Path, before: Scan | None = None, now_ns: int = NOW) -> Scan:
    """A look whose memory went through JSON, as a cursor does."""
    seen = Seen.model_validate_json(before.seen.model_dump_json()) if before else Seen()
    return scan(folder, seen, now_ns)


def test_each_day_folder_gets_a_signature_oldest_day_first(tmp_path: Path) -> None:
    put(tmp_path, "2026-03-03/a.jsonl", "three")
    put(tmp_path, "2026-03-02/a.jsonl", "two")
    found = look(tmp_path)
    assert list(found.signatures) == ["2026-03-02", "2026-03-03"]
    assert len(set(found.signatures.values())) == 2
    assert (found.held, found.ignored) == ({}, {})


def test_touching_or_rewriting_the_same_content_changes_no_signature(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl", "same")
    first = look(tmp_path)
    put(tmp_path, f"{DAY}/a.jsonl", "same", LONG_AGO + SECOND)
    assert look(tmp_path, first).signatures == first.signatures


@pytest.mark.parametrize("change", ["append", "same size", "add", "remove", "rename"])
def test_changed_content_changes_the_signature_of_its_day_only(tmp_path: Path, change: str) -> None:
    put(tmp_path, f"{DAY}/a.jsonl", "one")
    put(tmp_path, f"{DAY}/b.jsonl", "two")
    put(tmp_path, "2026-03-03/a.jsonl", "one")
    first = look(tmp_path)
    match change:
        case "append":
            put(tmp_path, f"{DAY}/a.jsonl", "one more", LONG_AGO + SECOND)
        case "same size":
            put(tmp_path, f"{DAY}/a.jsonl", "eno", LONG_AGO + SECOND)
        case "add":
            put(tmp_path, f"{DAY}/c.jsonl")
        case "remove":
            (tmp_path / DAY / "b.jsonl").unlink()
        case "rename":
            (tmp_path / DAY / "b.jsonl").rename(tmp_path / DAY / "c.jsonl")
    second = look(tmp_path, look(tmp_path, first), LATER)
    assert second.signatures[DAY] != first.signatures[DAY]
    assert second.signatures["2026-03-03"] == first.signatures["2026-03-03"]


def test_a_file_of_the_same_size_and_time_is_not_read_again(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl", "one")
    put(tmp_path, f"{DAY}/b.jsonl", "two")
    first = look(tmp_path)
    put(tmp_path, f"{DAY}/a.jsonl", "eno")
    assert look(tmp_path, first).signatures == first.signatures
    # Nor is it when another file of its day changed.
    put(tmp_path, f"{DAY}/b.jsonl", "owt", LONG_AGO + SECOND)
    second = look(tmp_path, first)
    put(tmp_path, f"{DAY}/a.jsonl", "one")
    assert second.signatures[DAY] == traffic_signature(tmp_path, DAY) != first.signatures[DAY]


def test_a_file_written_a_moment_ago_holds_its_day_until_it_has_settled(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl")
    put(tmp_path, f"{DAY}/b.jsonl", mtime_ns=NOW - 2 * SECOND)
    first = look(tmp_path)
    assert first.signatures == {}
    assert first.held == {DAY: "b.jsonl was written less than 5 s ago"}
    assert list(look(tmp_path, first, NOW + 3 * SECOND).signatures) == [DAY]


def test_a_file_that_grew_since_the_last_look_holds_its_day_once_more(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl", "one")
    first = look(tmp_path)
    put(tmp_path, f"{DAY}/a.jsonl", "one two", NOW + 20 * SECOND)
    second = look(tmp_path, first, NOW + 30 * SECOND)
    assert (second.signatures, second.held) == ({}, {DAY: "a.jsonl changed its size since the last look"})
    third = look(tmp_path, second, NOW + 60 * SECOND)
    assert third.signatures == {DAY: traffic_signature(tmp_path, DAY)}


def test_a_file_from_a_machine_whose_clock_is_ahead_is_not_held_until_then(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl", mtime_ns=NOW + 3600 * SECOND)
    assert list(look(tmp_path).signatures) == [DAY]


def test_a_file_that_changes_while_it_is_read_holds_its_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, f"{DAY}/a.jsonl", "one")
    opened = Path.open

    def open_and_append(self: Path, mode: str) -> object:
        with opened(self, "a") as file:
            file.write("more")
        return opened(self, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_and_append)
        first = look(tmp_path)
    assert (first.signatures, first.held) == ({}, {DAY: "a.jsonl changed while it was read"})
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    second = look(tmp_path, first)
    assert look(tmp_path, second).signatures == {DAY: traffic_signature(tmp_path, DAY)}


def test_an_unreadable_file_holds_its_day_but_the_day_can_still_be_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, f"{DAY}/a.jsonl")
    readable = traffic_signature(tmp_path, DAY)

    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    assert look(tmp_path).held == {DAY: "a.jsonl cannot be read: Permission denied"}
    assert traffic_signature(tmp_path, DAY) not in (readable, NO_TRAFFIC)


def test_bad_names_are_ignored_with_the_reason_and_hide_nothing(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl")
    for name in (
        "2026-3-2/a.jsonl",
        "20260302/a.jsonl",
        "2026-02-30/a.jsonl",
        "inbox/a.jsonl",
        "loose.jsonl",
    ):
        put(tmp_path, name)
    put(tmp_path, f"{DAY}/notes.txt")
    put(tmp_path, f"{DAY}/deeper.jsonl/a.jsonl")
    found = look(tmp_path)
    assert list(found.signatures) == [DAY]
    assert {name: why.split(";")[0] for name, why in found.ignored.items()} == {
        "2026-02-30": "not a day",
        "2026-3-2": "not a day",
        "20260302": "not a day",
        "inbox": "not a day",
        "loose.jsonl": "a file",
        f"{DAY}/deeper.jsonl": "not a file",
        f"{DAY}/notes.txt": f"the name ends in none of {', '.join(SUFFIXES)}",
    }


def test_a_name_that_is_no_text_is_ignored_and_does_not_break_the_cursor(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl")
    try:
        put(tmp_path, f"{DAY}/{os.fsdecode(bytes([255]))}.jsonl")
    except OSError:
        pytest.skip("this file system takes no such name")
    found = look(tmp_path)
    assert found.ignored == {f"{DAY}/\\udcff.jsonl": "the name is not UTF-8; rename the file"}
    assert Scan.model_validate_json(found.model_dump_json()) == found


def test_hidden_and_unfinished_files_and_dead_links_are_passed_over_in_silence(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl")
    alone = look(tmp_path).signatures
    for name in (".DS_Store", ".a.jsonl.swp", "b.jsonl.tmp", "b.jsonl.gz.part"):
        put(tmp_path, f"{DAY}/{name}")
    put(tmp_path, ".git/HEAD")
    (tmp_path / DAY / "dead.jsonl").symlink_to(tmp_path / "nowhere")
    found = look(tmp_path)
    assert (found.signatures, found.held, found.ignored) == (alone, {}, {})
    assert traffic_files(tmp_path, DAY) == [tmp_path / DAY / "a.jsonl"]


def test_a_day_folder_that_cannot_be_opened_hides_no_other_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, f"{DAY}/a.jsonl")
    put(tmp_path, "2026-03-03/a.jsonl")
    listed = Path.iterdir

    def refuse(self: Path) -> object:
        if self.name == DAY:
            raise PermissionError(13, "Permission denied", str(self))
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    found = look(tmp_path)
    assert list(found.signatures) == ["2026-03-03"]
    assert found.ignored == {DAY: "cannot be opened: Permission denied"}


def test_a_folder_that_does_not_exist_and_a_day_without_files_have_no_traffic(tmp_path: Path) -> None:
    (tmp_path / DAY).mkdir()
    assert look(tmp_path).signatures == look(tmp_path / "nowhere").signatures == {}
    assert traffic_signature(tmp_path, DAY) == traffic_signature(tmp_path, "2026-03-03") == NO_TRAFFIC
    assert traffic_files(tmp_path, "2026-03-03") == []


def test_deleting_traffic_that_was_worked_through_asks_for_nothing(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl")
    first = look(tmp_path)
    shutil.rmtree(tmp_path / DAY)
    second = look(tmp_path, first)
    assert (second.signatures, second.held, second.seen.days) == ({}, {}, {})


@pytest.mark.parametrize("limit", [{"max_files": 2}, {"max_bytes": 7}])
def test_a_look_hashes_no_more_than_it_may_and_the_next_goes_on(
    tmp_path: Path, limit: Mapping[str, int]
) -> None:
    for number in range(5):
        put(tmp_path, f"{DAY}/{number}.jsonl", "5 byt")
    seen, looks = Seen(), 0
    while DAY not in (found := scan(tmp_path, seen, NOW, **limit)).signatures:
        assert found.held[DAY].endswith("waits its turn: enough was read in this look")
        seen, looks = found.seen, looks + 1
    assert looks == 2
    assert found.signatures[DAY] == traffic_signature(tmp_path, DAY)


def test_one_file_larger_than_a_look_may_read_is_read_all_the_same(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl", "x" * 100)
    assert list(scan(tmp_path, Seen(), NOW, max_bytes=1).signatures) == [DAY]


def test_old_days_are_remembered_in_one_line_and_still_notice_late_files(tmp_path: Path) -> None:
    days = [f"2026-03-{number:02}" for number in range(1, REMEMBERED_DAYS + 3)]
    for day in days:
        put(tmp_path, f"{day}/a.jsonl", day)
    first = look(tmp_path)
    assert [day for day in days if not first.seen.days[day].files] == days[:2]
    put(tmp_path, f"{days[0]}/a.jsonl", days[0][::-1])
    assert look(tmp_path, first).signatures == first.signatures, "the unchanged old day was read again"
    put(tmp_path, f"{days[0]}/late.jsonl")
    second = look(tmp_path, first)
    assert [day for day in days if second.signatures[day] != first.signatures[day]] == days[:1]


def test_the_last_change_of_a_day_is_that_of_its_newest_file_or_of_its_folder(tmp_path: Path) -> None:
    put(tmp_path, f"{DAY}/a.jsonl", mtime_ns=LONG_AGO)
    os.utime(tmp_path / DAY, ns=(LONG_AGO, LONG_AGO - SECOND))
    assert last_change_ns(tmp_path, DAY) == LONG_AGO
    put(tmp_path, f"{DAY}/moved_in.jsonl", mtime_ns=LONG_AGO - SECOND)
    assert last_change_ns(tmp_path, DAY) > LONG_AGO


contents = st.dictionaries(st.sampled_from("abcde"), st.text("xy{}\n", max_size=4), min_size=1)


@settings(max_examples=60, deadline=None)
@given(contents, contents)
def test_two_days_have_one_signature_exactly_when_names_and_contents_agree(
    one: dict[str, str], other: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for day, files in {"2026-03-01": one, "2026-03-02": other}.items():
            for stem, text in files.items():
                put(folder, f"{day}/{stem}.jsonl", text)
        first, second = scan(folder, Seen(), NOW).signatures.values()
        assert (first == second) == (one == other)
        assert first == traffic_signature(folder, "2026-03-01")
