import contextlib
import datetime as dt
import errno
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from while_pipeline.ids import content_id
from while_pipeline.messages import messages_json
from while_pipeline.records import Message, ToolCall
from while_pipeline.serve import traffic
from while_pipeline.serve.traffic import Answered, TrafficLog, append_lines
from while_pipeline.watch.read import Traffic, read_traffic

SECOND = 10**9
DOCUMENT = "# Rules\n- Be kind."
SYSTEM = Message(role="system", content=DOCUMENT)
ASKS = Message(role="assistant", tool_calls=(ToolCall(id="a", name="get_bill", arguments={"bill_id": "B"}),))
RESULT = Message(role="tool", content='{"amount":3}', tool_call_id="a")


def _user(text: str) -> Message:
    return Message(role="user", content=text)


def _says(text: str) -> Message:
    return Message(role="assistant", content=text)


def _ns(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).timestamp()) * SECOND


NOON = _ns("2026-03-04T12:00:00+00:00")


def _log(folder: Path, zone: str = "UTC") -> TrafficLog:
    return TrafficLog(folder, "telecom", "p-1", zone, DOCUMENT)


def _answered(
    history: Sequence[Message], answer: Message, came: int = NOON, conversation_id: str | None = None
) -> Answered:
    response_id = content_id(came, messages_json([*history, answer]))
    return Answered(response_id, tuple(history), answer, (came, came + SECOND // 100), conversation_id)


def _turns(
    messages: Sequence[Message], came: int = NOON, conversation_id: str | None = None
) -> list[Answered]:
    """The requests of a conversation, a second apart: one per assistant message."""
    spoken = [i for i, message in enumerate(messages) if message.role == "assistant"]
    return [
        _answered(messages[:i], messages[i], came + n * SECOND, conversation_id) for n, i in enumerate(spoken)
    ]


def _read(folder: Path) -> Traffic:
    return read_traffic(sorted(folder.rglob("*.jsonl")), folder, None)


def _written(folder: Path, *answers: Answered, zone: str = "UTC") -> Traffic:
    log = _log(folder, zone)
    with log:
        for one in answers:
            log.add(one)
    assert log.state == (len(answers), 0, 0, None)
    return _read(folder)


# -- conversations come back --------------------------------------------------------------------------------


def test_the_requests_of_a_conversation_read_back_as_one(tmp_path: Path) -> None:
    said = [_user("My bill?"), ASKS, RESULT, _says("It is 3."), _user("Thanks"), _says("Bye.")]
    traffic = _written(tmp_path, *_turns(said))
    (conversation,) = traffic.conversations
    assert traffic.rejects == ()
    assert conversation.messages == tuple(said)
    assert (conversation.agent_name, conversation.model) == ("telecom", "p-1")
    assert (conversation.day, conversation.incomplete) == ("2026-03-04", None)
    assert conversation.source == "2026-03-04/served-p-1.jsonl"
    assert (conversation.started_at_ns, conversation.ended_at_ns) == (NOON, NOON + 2 * SECOND + SECOND // 100)


def test_conversations_that_run_at_the_same_time_stay_apart(tmp_path: Path) -> None:
    """Two begin with the same words, and no caller gives an id."""
    one = [_user("Hello"), _says("Yes?"), _user("My bill"), _says("It is 3.")]
    two = [_user("Hello"), _says("Yes?"), _user("My plan"), _says("It is blue.")]
    three = [_user("Good day"), _says("Yes?"), _user("My bill"), _says("It is 4.")]
    turns = [_turns(said, NOON + n) for n, said in enumerate((one, two, three))]
    traffic = _written(tmp_path, *(turn for together in zip(*turns, strict=True) for turn in together))
    assert sorted(map(str, (c.messages for c in traffic.conversations))) == sorted(
        map(str, map(tuple, (one, two, three)))
    )


def test_the_callers_own_id_names_the_conversation(tmp_path: Path) -> None:
    said = [_user("Hello"), _says("Yes?"), _user("My bill"), _says("It is 3.")]
    (conversation,) = _written(tmp_path, *_turns(said, conversation_id="c-7")).conversations
    assert (conversation.conversation_id, conversation.messages) == ("c-7", tuple(said))


def test_only_the_projects_own_document_is_left_out(tmp_path: Path) -> None:
    other = Message(role="system", content="Be brief.")
    ours, theirs = [SYSTEM, _user("One"), _says("1")], [other, _user("Two"), _says("2")]
    traffic = _written(tmp_path, *_turns(ours), *_turns(theirs))
    assert {c.messages for c in traffic.conversations} == {tuple(ours[1:]), tuple(theirs)}


# -- days ---------------------------------------------------------------------------------------------------


def test_the_day_is_counted_in_the_projects_zone(tmp_path: Path) -> None:
    late = _ns("2026-03-04T23:30:00+00:00")
    _written(tmp_path, *_turns([_user("Hello"), _says("Yes?")], late), zone="Europe/Berlin")
    assert [path.parent.name for path in tmp_path.rglob("*.jsonl")] == ["2026-03-05"]


@pytest.mark.parametrize("conversation_id", [None, "c-1"])
def test_a_conversation_that_goes_on_past_midnight_stays_in_the_day_it_began(
    tmp_path: Path, conversation_id: str | None
) -> None:
    said = [SYSTEM, _user("My bill?"), ASKS, RESULT, _says("It is 3."), _user("Thanks"), _says("Bye.")]
    late = _turns(said, _ns("2026-03-04T23:59:59+00:00"), conversation_id)
    traffic = _written(tmp_path, *late, *_turns([_user("Hi"), _says("Yes?")], late[-1].times[0]))
    assert {c.source.partition("/")[0]: len(c.messages) for c in traffic.conversations} == {
        "2026-03-04": 6,
        "2026-03-05": 2,
    }


def test_an_id_that_is_used_for_ever_is_not_one_endless_day(tmp_path: Path) -> None:
    days = [f"2026-03-0{n}" for n in range(4, 9)]
    answers = [
        _answered([_user(f"Hello on {day}")], _says("Yes?"), _ns(f"{day}T12:00:00+00:00"), "customer-1")
        for day in days
    ]
    _written(tmp_path, *answers)
    assert {path.parent.name for path in tmp_path.rglob("*.jsonl")} == {
        "2026-03-04",
        "2026-03-06",
        "2026-03-08",
    }


# -- nothing is lost ----------------------------------------------------------------------------------------


def test_what_waits_is_written_when_the_server_stops_for_whatever_reason(tmp_path: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt), _log(tmp_path) as log:
        for n in range(50):
            log.add(_answered([_user(f"Hello {n}")], _says("Yes?"), NOON + n))
        raise KeyboardInterrupt
    assert len(_read(tmp_path).conversations) == 50


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    with _log(tmp_path) as log:

        def ask(who: int) -> None:
            for n in range(20):
                log.add(_answered([_user(f"Hello {who} {n}")], _says("Yes?"), NOON + n))
                log.flush()

        threads = [threading.Thread(target=ask, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert log.state.written == 160
    assert len(_read(tmp_path).conversations) == 160


def test_what_the_disk_refuses_waits_and_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _log(tmp_path)
    log.add(_answered([_user("Hello")], _says("Yes?")))
    with monkeypatch.context() as full:
        full.setattr(traffic, "append_lines", _disk_full)
        log.flush()
    assert log.state.error is not None
    assert "No space left" in log.state.error
    assert (log.state.written, log.state.waiting) == (0, 1)
    log.add(_answered([_user("Hi")], _says("Yes?"), NOON + 1))
    log.flush()
    assert log.state == (2, 0, 0, None)
    assert [c.messages[0].content for c in _read(tmp_path).conversations] == ["Hello", "Hi"]


def test_past_the_bound_the_oldest_are_given_up_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "MAX_WAITING", 3)
    log = _log(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(traffic, "append_lines", _disk_full)
        for n in range(5):
            log.add(_answered([_user(f"Hello {n}")], _says("Yes?"), NOON + n))
            log.flush()
    assert (log.state.waiting, log.state.lost) == (3, 2)
    log.flush()
    assert [c.messages[0].content for c in _read(tmp_path).conversations] == ["Hello 2", "Hello 3", "Hello 4"]


def _disk_full(_path: Path, _lines: Sequence[str]) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        _log(tmp_path / "file" / "traffic")


# -- the file -----------------------------------------------------------------------------------------------


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "day" / "t.jsonl"
    append_lines(path, ["1", "2"])
    append_lines(path, ["3"])
    assert path.read_bytes() == b"1\n2\n3\n"


def test_a_torn_last_line_takes_no_other_with_it(tmp_path: Path) -> None:
    """A process was killed while it wrote; the next one appends."""
    first, second = (_turns([_user(text), _says("Yes?")], NOON + n) for n, text in enumerate(("One", "Two")))
    _written(tmp_path, *first)
    (path,) = tmp_path.rglob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    traffic = _written(tmp_path, *second)
    assert [c.messages[0].content for c in traffic.conversations] == ["One", "Two"]
    assert [reject.line for reject in traffic.rejects] == [2]


def test_a_write_that_fails_midway_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    append_lines(path, ["before"])
    calls = 0

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(descriptor, data[:5], 7)

    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space"):
            append_lines(path, ["a long line", "another"])
    assert path.read_text() == "before\n"
    append_lines(path, ["after"])
    assert path.read_text() == "before\nafter\n"


def test_several_writers_of_one_file_keep_their_lines_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def write(who: int) -> None:
        for n in range(50):
            append_lines(path, [json.dumps({"who": who, "n": n, "pad": "x" * 5000})] * 2)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((line["who"], line["n"]) for line in lines) == sorted(
        (who, n) for who in range(4) for n in range(50) for _ in range(2)
    )
