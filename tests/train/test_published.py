"""What is refused of a stored cut before a file is made."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from tests.train.exports.days import DATE, check, published
from tests.train.exports.stored import ALL_CUTS, DAY, SCENARIOS, rows_of
from tests.train.trl import tiny
from while_pipeline.errors import ProjectError
from while_pipeline.snapshot import SnapshotError
from while_pipeline.train.names import CutName
from while_pipeline.train.published import Row, by_scenario, read_cut, snapshot_of


def test_every_cut_is_read_with_what_its_manifest_needs(tmp_path: Path) -> None:
    data = published(tmp_path, {cut: rows_of(cut) for cut in ALL_CUTS})
    for cut in ALL_CUTS:
        found = read_cut(snapshot_of(data, DATE), DATE, cut)
        assert (found.day, found.policy_version, found.judge) == (DAY, "p1", "j1")
        assert found.checks == ("no_sealed_task",)
        assert len(found.rows) == len(rows_of(cut))
        assert {row["scenario_id"] for row in found.rows} <= found.scenarios.keys()
        assert all(isinstance(row["tools"], list) for row in found.rows)


def test_kinds_of_fault_take_turns_among_groups_of_one_rate(tmp_path: Path) -> None:
    rows = rows_of("grpo")
    names = list(SCENARIOS)[:5]
    faults = ("timeout", "timeout", "timeout", "stale", "success")
    many = [
        row
        | {"scenario_id": name, "tool_condition": fault, "task_id": SCENARIOS[name].task_id}
        | {"rollout_id": f"{row['rollout_id']}-{name}", "split": "train"}
        for name, fault in zip(names, faults, strict=True)
        for row in rows[:4]
    ]
    held = read_cut(snapshot_of(published(tmp_path, {"grpo": many}), DATE), DATE, "grpo").rows
    groups = [group[0]["tool_condition"] for group in by_scenario(held)]
    assert groups == ["stale", "success", "timeout", "timeout", "timeout"]


def test_rows_come_easy_to_hard(tmp_path: Path) -> None:
    rates = [
        row["pass_rate"]
        for row in read_cut(
            snapshot_of(published(tmp_path, {"grpo": rows_of("grpo")}), DATE), DATE, "grpo"
        ).rows
    ]
    assert rates == sorted(rates, reverse=True)
    assert len(set(rates)) == 2


def _text_arguments(rows: list[Row]) -> list[Row]:
    call = next(m for m in rows[0]["messages"] if m.get("tool_calls"))["tool_calls"][0]
    call["function"]["arguments"] = '{"line_id": "L-1"}'
    return rows


@pytest.mark.parametrize(
    ("cut", "bend", "said"),
    [
        ("sft", lambda rows: [], "the cut is empty"),
        ("sft", _text_arguments, "not a JSON object"),
        (
            "sft",
            lambda rows: [*rows[:-1], rows[-1] | {"tools": tiny.OFFERED[:1]}],
            "other tools than in the first",
        ),
        ("sft", lambda rows: [rows[0] | {"messages": rows[0]["messages"][:2]}, *rows[1:]], "no agent turn"),
        ("dpo", lambda rows: [rows[0] | {"rejected": rows[0]["chosen"]}, *rows[1:]], "nothing is preferred"),
        (
            "dpo",
            lambda rows: [
                rows[0]
                | {"chosen": [*rows[0]["chosen"], {"role": "tool", "content": "x", "tool_call_id": "c"}]},
                *rows[1:],
            ],
            "must be one message of the agent",
        ),
        ("grpo", lambda rows: [row | {"passed": True} for row in rows], "no gradient"),
        ("grpo", lambda rows: [row | {"passed": False} for row in rows], "no gradient"),
        ("reward_model", lambda rows: [row | {"reward": 1.0} for row in rows], "one-sided labels"),
    ],
)
def test_rows_that_a_trainer_would_take_and_misread_are_refused(
    tmp_path: Path, cut: CutName, bend: Any, said: str
) -> None:
    with pytest.raises(ProjectError, match=said):
        read_cut(snapshot_of(published(tmp_path, {cut: bend(rows_of(cut))}), DATE), DATE, cut)


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ([check("sft", passed=False)], "publication refused sft: no_sealed_task"),
        ([check("dpo", passed=False), check("sft")], "publication refused dpo"),
        ([check("sft", passed=False, stops="cut")], "publication refused sft"),
        ([], "no gate has looked"),
        ([check("dpo")], "no gate has looked"),
    ],
)
def test_a_cut_that_the_publication_gate_did_not_pass_is_refused(
    tmp_path: Path, checks: list[dict[str, Any]], said: str
) -> None:
    data = published(tmp_path, {"sft": rows_of("sft")}, checks)
    with pytest.raises(ProjectError, match=said):
        read_cut(snapshot_of(data, DATE), DATE, "sft")


def test_what_holds_back_another_cut_alone_does_not_hold_back_this_one(tmp_path: Path) -> None:
    checks = [check("dpo", passed=False, stops="cut"), check("sft")]
    assert read_cut(snapshot_of(published(tmp_path, {"sft": rows_of("sft")}, checks), DATE), DATE, "sft").rows


def test_a_day_that_was_not_run_and_a_folder_without_days_are_named(tmp_path: Path) -> None:
    data = published(tmp_path, {"sft": rows_of("sft")})
    with pytest.raises(ProjectError, match="it was not run: `while-pipeline run --day 2026-03-09`"):
        read_cut(snapshot_of(data, dt.date(2026, 3, 9)), dt.date(2026, 3, 9), "sft")
    with pytest.raises(SnapshotError):
        read_cut(snapshot_of(tmp_path / "elsewhere", DATE), DATE, "sft")
