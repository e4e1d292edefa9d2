import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.messages import steps
from while_pipeline.watch.chat import time_ns
from while_pipeline.watch.read import Traffic, read_file

HELLO = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def _read(tmp_path: Path, *records: object, day: str | None = "2025-03-01", zone: str = "UTC") -> Traffic:
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return read_file(path, day, zone)


def test_a_line_is_a_conversation_with_its_own_id_clock_and_outcome(tmp_path: Path) -> None:
    record = {
        "id": "c-1",
        "messages": HELLO,
        "created": 1740873600,
        "model": "m",
        "metadata": {"agent_name": "desk", "reward": 0.5, "task_id": 7},
    }
    (made,) = _read(tmp_path, record).conversations
    assert (made.conversation_id, made.day, made.source, made.dialect) == (
        "c-1",
        "2025-03-02",
        "chat.jsonl",
        "openai_chat",
    )
    assert (made.started_at_ns, made.model, made.agent_name) == (1740873600 * 10**9, "m", "desk")
    assert (made.reward, made.task, made.incomplete) == (0.5, "7", None)


def test_a_line_without_an_id_is_named_by_its_content_and_clock(tmp_path: Path) -> None:
    records = [{"messages": HELLO, "created": second} for second in (1740873600, 1740873601)]
    first, again = _read(tmp_path, *records), _read(tmp_path, *records)
    ids = [made.conversation_id for made in first.conversations]
    assert len(set(ids)) == 2
    assert first == again


def test_tool_calls_are_decoded_and_bad_arguments_kept_as_text(tmp_path: Path) -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}{"n": 2}'}},
    ]
    messages = [*HELLO, {"role": "assistant", "content": "Let me look.", "tool_calls": calls}]
    messages += [{"role": "tool", "tool_call_id": "a", "content": "fine"}]
    (made,) = _read(tmp_path, {"messages": messages}).conversations
    assert made.messages[2].content == "Let me look."
    found = steps(made.messages)
    assert [(s.call.arguments, s.call.raw, s.status) for s in found] == [
        ({"n": 1}, None, "ok"),
        (None, '{"n": 1}{"n": 2}', "unknown"),
    ]


def test_a_bad_message_hides_no_other_and_is_named(tmp_path: Path) -> None:
    (made,) = _read(tmp_path, {"messages": [*HELLO, {"role": "narrator"}, 5]}).conversations
    assert len(made.messages) == 2
    assert made.incomplete == "message 3: unknown role 'narrator'; message 4: not an object"


def test_an_empty_assistant_turn_is_kept(tmp_path: Path) -> None:
    (made,) = _read(tmp_path, {"messages": [*HELLO, {"role": "assistant", "content": ""}]}).conversations
    assert made.messages[-1].content == ""


def test_a_conversation_without_messages_or_day_is_rejected(tmp_path: Path) -> None:
    traffic = _read(tmp_path, {"messages": []}, {"messages": HELLO}, day=None)
    assert [(r.line, r.reason) for r in traffic.rejects] == [
        (1, "no messages"),
        (2, "no clock in the record and no day for its folder"),
    ]
    assert not traffic.conversations


def test_one_line_per_request_with_a_growing_history_is_one_conversation(tmp_path: Path) -> None:
    longer = [*HELLO, {"role": "user", "content": "Bye"}]
    traffic = _read(tmp_path, {"id": "c", "messages": longer}, {"id": "c", "messages": HELLO})
    (made,) = traffic.conversations
    assert len(made.messages) == 3


def test_an_id_reused_for_another_conversation_loses_neither(tmp_path: Path) -> None:
    other = [{"role": "user", "content": "Cancel"}]
    made = _read(tmp_path, {"id": "1", "messages": HELLO}, {"id": "1", "messages": other}).conversations
    assert len({c.conversation_id for c in made}) == 2


@pytest.mark.parametrize("value", [1.5, -1, "good", None])
def test_a_reward_outside_the_unit_interval_is_no_reward(tmp_path: Path, value: object) -> None:
    assert _read(tmp_path, {"messages": HELLO, "reward": value}).conversations[0].reward is None


@pytest.mark.parametrize(
    ("zone", "day"),
    [("UTC", "2025-03-01"), ("Asia/Kolkata", "2025-03-02"), ("America/Los_Angeles", "2025-03-01")],
)
def test_a_day_is_counted_in_the_traffics_zone(tmp_path: Path, zone: str, day: str) -> None:
    record = {"messages": HELLO, "timestamp": "2025-03-01T19:00:00Z"}
    assert _read(tmp_path, record, zone=zone).conversations[0].day == day


@given(st.integers(10**17, 4 * 10**18))
def test_nanoseconds_stay_exact_integers(nanoseconds: int) -> None:
    assert time_ns(nanoseconds) == nanoseconds == time_ns(str(nanoseconds))


def test_clocks_of_every_unit_agree() -> None:
    second = int(dt.datetime(2025, 3, 1, tzinfo=dt.UTC).timestamp())
    spellings = [second, second * 10**3, second * 10**6, second * 10**9, float(second), str(second)]
    spellings += ["2025-03-01T00:00:00", "2025-03-01T01:00:00+01:00", "2025-03-01"]
    assert {time_ns(value) for value in spellings} == {second * 10**9}


@pytest.mark.parametrize("value", ["yesterday", True, [], "1.2.3"])
def test_what_is_no_clock_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="not a time"):
        time_ns(value)
