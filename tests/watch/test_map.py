import json
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from scipy.stats import binomtest

from tests.example import BY_NAME, DOCUMENT, SHARED
from while_pipeline.messages import messages_json
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Message, ToolCall
from while_pipeline.simulate.axes import NONE, SEVERAL
from while_pipeline.tables import watch
from while_pipeline.tables.base import frame
from while_pipeline.tools import load_tools
from while_pipeline.watch.map import situation_rows, spots_for, weak_spot_rows, window
from while_pipeline.watch.read import read_file

TAU = SHARED / "tau-bench"
TODAY, BEFORE = "2026-03-08", "2026-03-04"


def _agent(text: str | None, *calls: ToolCall) -> Message:
    return Message(role="assistant", content=text, tool_calls=calls)


def _conversations(*given: tuple[Sequence[Message], dict[str, Any]]) -> pl.DataFrame:
    columns = {
        "source": "f.jsonl", "dialect": "chat", "n_messages": 0, "n_tool_calls": 0, "model": None,
        "agent_name": None, "started_at_ns": None, "ended_at_ns": None, "task": None, "trial": None,
        "reward": None, "incomplete": None,
    }  # fmt: skip
    rows = [
        {**columns, "conversation_id": f"c{i}", "messages": messages_json(messages), **more}
        for i, (messages, more) in enumerate(given)
    ]
    return frame(watch.Conversations, TODAY, rows)


def _placed(*given: tuple[Sequence[Message], dict[str, Any]]) -> list[dict[str, Any]]:
    rows = situation_rows(_conversations(*given), BY_NAME, DOCUMENT)
    frame(watch.Situations, TODAY, rows)
    return rows


HELLO = (Message(role="user", content="What can you help me with?"), _agent("With your bills and lines."))
PAY = ToolCall(id="c", name="pay_bill", arguments={"bill_id": "BILL-77777"})
INVENTED = (
    Message(role="user", content="I am in a hurry, so keep it short. Pay my bill."),
    _agent(None, PAY),
    Message(role="tool", content='{"error": "timeout", "message": "Timed out."}', tool_call_id="c"),
    _agent("All done, your bill is paid."),
)


# -- situations -------------------------------------------------------------------------------------------


def test_a_conversation_is_placed_and_its_findings_are_kept_with_evidence() -> None:
    (row,) = _placed((INVENTED, {}))
    placed = {axis: row[axis] for axis in ("category", "tool", "stance", "tool_condition", "history")}
    assert placed == {
        "category": "pay",
        "tool": "pay_bill",
        "stance": "hurried",
        "tool_condition": "timeout",
        "history": "fresh",
    }
    found = json.loads(row["findings"])
    assert row["n_hard"] == sum(f["severity"] == "hard" for f in found) > 0
    assert row["n_style"] == sum(f["severity"] == "style" for f in found)
    assert all(f["evidence"] for f in found)
    assert row["failed"] is True


@pytest.mark.parametrize(
    ("messages", "more", "failed"),
    [
        (HELLO, {}, False),
        (HELLO, {"reward": 1.0}, False),
        (HELLO, {"reward": 0.0}, True),
        (HELLO, {"reward": 0.5}, True),
        (HELLO, {"incomplete": "spans were dropped"}, None),
        (HELLO, {"incomplete": "spans were dropped", "reward": 0.0}, True),
        (HELLO, {"incomplete": "spans were dropped", "reward": 1.0}, False),
        (INVENTED, {}, True),
        (INVENTED, {"reward": 1.0}, True),
        (INVENTED, {"incomplete": "spans were dropped"}, True),
    ],
)
def test_a_reward_below_one_or_a_hard_finding_fails_and_a_partial_record_with_neither_is_unknown(
    messages: Sequence[Message], more: dict[str, Any], failed: bool | None
) -> None:
    (row,) = _placed((messages, more))
    assert row["failed"] is failed


def test_no_conversation_gives_no_row() -> None:
    assert _placed() == []


def test_every_tau_bench_trajectory_is_placed_on_the_axes_and_failed_by_its_reward() -> None:
    if not TAU.exists():
        pytest.skip("the public tau-bench trajectories are not beside this checkout")
    tools = {t.name: t for t in load_tools("airline.tools.openai.json", TAU)}
    document = read_policy_document((TAU / "airline.wiki.md").read_text(encoding="utf-8"))
    read = read_file(TAU / "gpt-4o-airline.json", TODAY).conversations
    given = [(c.messages, {"conversation_id": c.conversation_id, "reward": c.reward}) for c in read]
    placed = frame(watch.Situations, TODAY, situation_rows(_conversations(*given), tools, document))
    assert placed["conversation_id"].to_list() == [c.conversation_id for c in read]
    assert set(placed["tool"]) <= {*tools, NONE, SEVERAL}
    assert placed["tool"].n_unique() > 3
    assert set(placed["policy_rule"]) <= {NONE, *(rule.rule_id for rule in document.rules)}
    for failed, conversation in zip(placed["failed"], read, strict=True):
        assert failed or conversation.reward == 1.0
    spots = frame(watch.WeakSpots, TODAY, weak_spot_rows(placed, TODAY))
    assert spots["failures"].sum() == placed["failed"].sum()
    assert spots["share"].sum() == pytest.approx(1)


# -- weak spots -------------------------------------------------------------------------------------------


def _situations(*given: tuple[str, str, bool | None]) -> pl.DataFrame:
    """Situations from (tool, day, failed); the tool names the spot."""
    columns = {
        "category": "read", "policy_rule": NONE, "stance": "ordinary", "world_state": "exists",
        "tool_condition": "success", "history": "fresh", "n_hard": 0, "n_style": 0, "findings": "[]",
        "signature": "s",
    }  # fmt: skip
    days: dict[str, list[dict[str, Any]]] = {TODAY: []}
    for i, (tool, day, failed) in enumerate(given):
        row = {**columns, "conversation_id": f"c{i}", "tool": tool, "failed": failed}
        days.setdefault(day, []).append(row)
    return pl.concat(frame(watch.Situations, day, rows) for day, rows in days.items())


def _spots(*given: tuple[str, str, bool | None]) -> dict[str, dict[str, Any]]:
    rows = weak_spot_rows(_situations(*given), TODAY)
    frame(watch.WeakSpots, TODAY, rows)
    return {row["tool"]: row for row in rows}


def _course(before: str, now: str) -> list[tuple[str, str, bool | None]]:
    """Conversations of one spot, a letter each: `x` failed, `.` passed, `?` unknown."""
    failed = {"x": True, ".": False, "?": None}
    return [("t", day, failed[c]) for day, said in ((BEFORE, before), (TODAY, now)) for c in said]


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        ("", "xxx", "new"),
        ("..", "x", "new"),
        ("xxx", "xxx", "persistent"),
        ("xx.", "x", "persistent"),
        ("xxx", "", "persistent"),
        ("x.", "x.", "persistent"),
        ("xxx", "x.", "improving"),
        ("xx", "..", "improving"),
        ("x", "...", "solved"),
        ("x", "x", "uncertain"),
        ("", "x", "uncertain"),
        ("x?", "x??", "uncertain"),
        ("xx", "x??", "persistent"),
    ],
)
def test_a_spots_state_is_its_course_between_the_days_before_and_today(
    before: str, now: str, state: str
) -> None:
    assert _spots(*_course(before, now))["t"]["state"] == state


def test_a_spot_is_listed_only_when_something_failed_there() -> None:
    assert set(_spots(("good", TODAY, False), ("unknown", TODAY, None), ("bad", TODAY, True))) == {"bad"}
    assert _spots() == {}


def test_unknown_conversations_are_not_counted() -> None:
    spot = _spots(*_course("x?", ".?x"))["t"]
    assert (spot["n"], spot["failures"], spot["rate"]) == (3, 2, pytest.approx(2 / 3))


@pytest.mark.parametrize(("failures", "passes"), [(1, 0), (1, 9), (3, 0), (7, 5), (40, 1), (2, 300)])
def test_the_interval_is_wilsons(failures: int, passes: int) -> None:
    spot = _spots(*_course("x" * failures, "." * passes))["t"]
    expected = binomtest(failures, failures + passes).proportion_ci(0.95, "wilson")
    assert (spot["low"], spot["high"]) == pytest.approx((expected.low, expected.high))
    assert spot["low"] <= spot["rate"] <= spot["high"]
    assert spot["priority"] == pytest.approx(failures * expected.low)


def test_shares_are_priorities_over_their_sum_and_the_weakest_comes_first() -> None:
    often = [("often", TODAY, True)] * 6 + [("often", TODAY, False)] * 2
    rows = weak_spot_rows(_situations(("once", TODAY, True), ("once", TODAY, False), *often), TODAY)
    assert [row["tool"] for row in rows] == ["often", "once"]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert rows[0]["share"] / rows[1]["share"] == pytest.approx(rows[0]["priority"] / rows[1]["priority"])


def test_spots_do_not_depend_on_the_order_of_the_conversations() -> None:
    given = [(f"t{i % 5}", TODAY if i % 2 else BEFORE, i % 3 == 0) for i in range(40)]
    assert weak_spot_rows(_situations(*given), TODAY) == weak_spot_rows(_situations(*given[::-1]), TODAY)


def test_the_same_place_is_the_same_spot_on_another_day() -> None:
    first, later = (_spots(("t", TODAY, True))["t"], _spots(*_course("xx", ".x"))["t"])
    assert first["spot_id"] == later["spot_id"]
    assert _spots(("u", TODAY, True))["u"]["spot_id"] != first["spot_id"]


def test_the_window_is_the_seven_days_that_end_today() -> None:
    assert window("2026-03-08") == ("2026-03-02", "2026-03-09")
    assert window("2026-01-01") == ("2025-12-26", "2026-01-02")


def test_the_search_aims_at_spots_of_tools_the_agent_still_has() -> None:
    rows = [{"tool": name} for name in ("pay_bill", "gone_tool", NONE, SEVERAL)]
    assert [row["tool"] for row in spots_for(rows, BY_NAME)] == ["pay_bill", NONE, SEVERAL]
