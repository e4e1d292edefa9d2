import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from resources.warehouse import Warehouse
from while_pipeline.report import Report, Section, render, sections, summary, to_markdown
from while_pipeline.snapshot import SnapshotError
from while_pipeline.tables import ALL, grade, prove, simulate, train, watch
from while_pipeline.tables.base import Table, ddl, frame, polars_schema

DAY, NEXT_DAY = "2026-03-02", "2026-03-03"

FILLER: dict[Any, Any] = {pl.String: "1", pl.Int64: 1, pl.Float64: 0.5, pl.Boolean: True}


def made(model: type[Table], *given: dict[str, Any], day: str = DAY) -> pl.DataFrame:
    """Rows of a table: what a test does not care about is filled, with text that is JSON too."""
    columns = {name: FILLER[type(kind)] for name, kind in polars_schema(model).items() if name != "day"}
    return frame(model, day, [{**columns, **row} for row in given])


def pass_rates(scope: str, *values: tuple[str, int, float | None]) -> list[dict[str, Any]]:
    return [
        {"scope": scope, "metric": metric, "k": k, "value": value, "low": 0.1, "high": 0.9, "n_tasks": 7}
        for metric, k, value in values
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def warehouse(data: Path) -> Warehouse:
    return Warehouse(database=str(data / "while.duckdb"))


def section(report: Report, title: str) -> Section:
    return next(part for part in sections(report) if part.title == title)


def store(warehouse: Warehouse, *frames: tuple[type[Table], pl.DataFrame], day: str = DAY) -> None:
    warehouse.replace_slices(day, dict(frames))
    warehouse.publish()


def printed(report: Report, width: int = 100) -> str:
    out = StringIO()
    render(report, Console(file=out, width=width, highlight=False))
    return out.getvalue()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a day with a row or more in each table that it reads."""
    folder = tmp_path_factory.mktemp("full")
    warehouse = Warehouse(database=str(folder / "while.duckdb"))
    spots = [
        {
            "spot_id": f"s{n}",
            "category": f"category {n}",
            "n": 10,
            "failures": n,
            "priority": n,
            "state": "new",
            "rate": n / 10,
            "low": 0.0,
            "high": 1.0,
        }
        for n in range(7)
    ]
    dropped = [("r1", "kept"), ("r2", "failed"), ("r3", "failed"), ("r4", "lost")]
    store(
        warehouse,
        (watch.Conversations, made(watch.Conversations, {"conversation_id": "c"})),
        (watch.Rejects, made(watch.Rejects)),
        (watch.Situations, made(watch.Situations, {"conversation_id": "c", "failed": True})),
        (watch.WeakSpots, made(watch.WeakSpots, *spots)),
        (
            simulate.Rollouts,
            made(simulate.Rollouts, *({"rollout_id": r, "ended": "gone", "blame": "nobody"} for r in "ab")),
        ),
        (
            grade.PassAt,
            made(
                grade.PassAt,
                *pass_rates(
                    "refund", ("pass@", 1, 0.25), ("pass@", 4, 0.625), ("pass^", 1, 0.25), ("pass^", 4, 0.125)
                ),
                *pass_rates(
                    "overall", ("pass@", 1, 0.5), ("pass@", 4, None), ("pass^", 1, 0.5), ("pass^", 4, None)
                ),
            ),
        ),
        (
            grade.JudgeTrust,
            made(grade.JudgeTrust, {"half": "all", "trusted": False, "reason": "8 labels missing"}),
        ),
        (
            grade.HackScan,
            made(
                grade.HackScan,
                {
                    "feature": "words",
                    "kind": "size",
                    "residual": -0.4,
                    "regime": "hacked",
                    "reason": "it pays for length",
                    "advice": "take length out",
                },
            ),
        ),
        (
            train.WhyDropped,
            made(train.WhyDropped, *({"rollout_id": r, "cut": "sft", "gate": gate} for r, gate in dropped)),
        ),
        (
            train.Publication,
            made(
                train.Publication,
                {
                    "cut": "sft",
                    "check": "held_out",
                    "passed": False,
                    "stops": "day",
                    "n_refused": 2,
                    "detail": "such as r1",
                },
                {"cut": "sft", "check": "loss_mask", "passed": True, "stops": "day"},
            ),
        ),
        (
            prove.Delta,
            made(
                prove.Delta,
                {"kind": "guard", "scope": "leak", "difference": 0.0, "verdict": "no_difference"},
                {
                    "kind": "category",
                    "scope": "refund",
                    "difference": -0.1,
                    "low": -0.2,
                    "high": None,
                    "verdict": "too_few",
                },
                {
                    "kind": "overall",
                    "scope": "overall",
                    "before": 0.5,
                    "after": 0.75,
                    "difference": 0.25,
                    "low": 0.1,
                    "high": 0.4,
                    "verdict": "better",
                },
            ),
        ),
        (prove.Promotion, made(prove.Promotion, {"candidate": "p2", "serving": "p1", "promoted": True})),
    )
    return summary(folder)


def column(found: Section, name: str) -> Sequence[str]:
    return [row[list(found.header).index(name)] for row in found.rows]


def test_the_five_weak_spots_of_highest_priority_come_first(full: Report) -> None:
    found = section(full, "Weak spots")
    assert column(found, "category") == [f"category {n}" for n in (6, 5, 4, 3, 2)]
    assert column(found, "failed")[0] == "6/10"
    assert column(found, "rate [95 %]")[0] == "0.600 [0.000, 1.000]"
    assert "1 conversations, 1 graded, 1 failed" in found.sentences[0]


def test_pass_rates_stand_overall_first_and_at_the_largest_k_that_is_known(full: Report) -> None:
    found = section(full, "Rollouts")
    assert column(found, "scope") == ["overall", "refund"]
    assert column(found, "pass@1 [95 %]") == ["0.500 [0.100, 0.900]", "0.250 [0.100, 0.900]"]
    assert column(found, "k") == ["1", "4"]
    assert column(found, "pass@k") == ["0.500", "0.625"]
    assert column(found, "pass^k") == ["0.500", "0.125"]


def test_a_cut_says_what_it_kept_and_which_gate_dropped_the_rest(full: Report) -> None:
    found = section(full, "Training cuts")
    assert list(found.rows) == [["sft", "1", "3", "failed 2, lost 1"]]
    assert found.sentences == [
        "Publication gate: 1 of 2 checks refused.",
        "sft, held_out: 2 rows refused. such as r1",
    ]


def test_the_judge_the_scan_and_the_proof_say_their_conclusions(full: Report) -> None:
    assert column(section(full, "Judge trust"), "trusted") == ["no"]
    assert "8 labels missing" in section(full, "Judge trust").sentences[0]
    assert section(full, "Hack scan").sentences == ["it pays for length.", "take length out"]
    proof = section(full, "Before and after")
    assert proof.sentences == [
        "The candidate is better: it passes 75 of 100 attempts where the serving policy passed 50, "
        "a gain of 25 points (between 10 and 40 points)."
    ]
    assert column(proof, "scope") == ["overall", "refund", "no leak"]
    assert column(proof, "verdict") == ["better", "too few tasks", "no difference"]
    assert column(proof, "difference") == ["+0.250", "-0.100", "+0.000"]
    assert column(proof, "interval")[:2] == ["[+0.100, +0.400]", ""]
    assert column(section(full, "Where things are"), "path")[-1].endswith("reports/2026-03-02.delta.md")


def test_what_people_decided_stands_with_the_gates_decisions_and_the_reason(
    data: Path, warehouse: Warehouse
) -> None:
    gate = made(prove.Promotion, {"candidate": "p2", "serving": "p1", "promoted": False})
    store(warehouse, (prove.Promotion, gate))
    decided = [
        {
            "position": 0,
            "action": "promote",
            "policy_version": "p2",
            "forced": True,
            "reason": "support asks",
        },
        {"position": 1, "action": "rollback", "policy_version": "p1", "forced": False, "decided_by": "Ada"},
    ]
    by_hand = made(
        prove.Decisions, *({"decision_id": str(n), **row} for n, row in enumerate(decided)), day=NEXT_DAY
    )
    store(warehouse, (prove.Decisions, by_hand), day=NEXT_DAY)
    found = section(summary(data, DAY), "Promotions")
    assert column(found, "day") == [DAY] * 3, "the day after which it was decided"
    assert column(found, "policy") == ["p2", "p2", "p1"]
    assert column(found, "decision") == ["refused", "promoted, forced", "rolled back to"]
    assert column(found, "by") == ["gate", "1", "Ada"]
    assert column(found, "reason")[1] == "support asks"


def test_promotions_of_earlier_days_are_told_and_of_later_days_are_not(
    data: Path, warehouse: Warehouse
) -> None:
    for day, promoted in ((DAY, True), (NEXT_DAY, False), ("2026-03-04", True)):
        store(
            warehouse,
            (prove.Promotion, made(prove.Promotion, {"candidate": "p", "promoted": promoted}, day=day)),
            day=day,
        )
    found = section(summary(data, NEXT_DAY), "Promotions")
    assert column(found, "day") == [DAY, NEXT_DAY]
    assert column(found, "decision") == ["promoted", "refused"]


def test_without_a_day_the_last_one_of_any_table_is_reported(data: Path, warehouse: Warehouse) -> None:
    store(warehouse, (watch.Rejects, made(watch.Rejects, {})))
    store(warehouse, (simulate.Axes, made(simulate.Axes, {}, day=NEXT_DAY)), day=NEXT_DAY)
    assert summary(data).day == NEXT_DAY
    assert summary(data).path == data / "reports" / "2026-03-03.md"


def test_a_day_that_stored_nothing_says_so_part_by_part(data: Path, warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        connection.begin()
        for model in ALL:
            for statement in ddl(model):
                connection.execute(statement)
        connection.commit()
    warehouse.publish()
    report = summary(data, DAY)
    said = [part.sentences[0] for part in sections(report)[:-1]]
    assert said == [
        "No traffic: the map is empty.",
        "Nothing was played.",
        "No cut was made.",
        "The judge was not measured.",
        "The reward was not scanned.",
        "No candidate was held against the serving policy.",
        "No decision was taken.",
    ]


def test_absent_tables_read_as_empty_ones(data: Path, warehouse: Warehouse) -> None:
    warehouse.publish()
    assert [part.title for part in sections(summary(data, DAY)) if part.rows] == ["Where things are"]


def test_a_snapshot_without_a_day_cannot_be_reported(data: Path, warehouse: Warehouse) -> None:
    warehouse.publish()
    with pytest.raises(SnapshotError, match="no day"):
        summary(data)


def test_markdown_has_a_heading_per_part_and_as_many_cells_in_a_row_as_in_its_header(full: Report) -> None:
    text = to_markdown(full)
    assert text.startswith("# Report of 2026-03-02\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [part.title for part in sections(full)]
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_a_bar_in_a_cell_does_not_break_the_markdown_table(data: Path, warehouse: Warehouse) -> None:
    row = {"candidate": "p2", "serving": "p1", "promoted": False, "reason": "a | b"}
    store(warehouse, (prove.Promotion, made(prove.Promotion, row)))
    assert r"| a \| b |" in to_markdown(summary(data))


def test_a_report_to_a_file_has_no_escape_codes_and_keeps_brackets(full: Report) -> None:
    assert "\x1b" not in printed(full)
    assert "[+0.100, +0.400]" in printed(full)


def test_a_narrow_terminal_folds_the_report_and_loses_nothing_wider(full: Report) -> None:
    assert max(map(len, printed(full, width=50).splitlines())) <= 50
