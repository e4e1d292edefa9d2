from dataclasses import replace

import duckdb
import polars as pl
import pytest

from tests.example import DAY, DOCUMENT, GRID, SEED, TOOLS
from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.records import Situation
from while_pipeline.simulate.axes import AXES, NONE, SEVERAL, STANCES, grid_of, is_held_out, task_id
from while_pipeline.simulate.plan import axes_rows, plan, plan_rows
from while_pipeline.tables import simulate
from while_pipeline.tables.base import frame
from while_pipeline.tools import parse_tools

KEPT, NEW, REPORT = plan(GRID, [])
NAMES_NO_RECORD = {"find_customer", "list_network_outages", NONE, SEVERAL}
LOOKS_ONLY = {
    "get_customer_profile",
    "find_customer",
    "get_data_usage",
    "get_bill",
    "list_network_outages",
    NONE,
}
SPECIAL = ("missing", "already_acted_on", "duplicate", "partially_completed", "unknown")


def _axes() -> pl.DataFrame:
    return frame(simulate.Axes, DAY, axes_rows(GRID, TOOLS, DOCUMENT))


def test_every_pair_that_can_meet_is_planned_counted_in_sql() -> None:
    planned = frame(simulate.CoveragePlan, DAY, plan_rows(KEPT, NEW, TOOLS, {}))
    con = duckdb.connect()
    con.register("axes", _axes())
    con.register("planned", planned)
    long = " UNION ALL ".join(
        f"SELECT task_id, '{axis}' AS axis, {axis} AS value FROM planned" for axis in AXES
    )
    missing = con.execute(f"""
        WITH long AS ({long}),
        met AS (SELECT DISTINCT a.axis AS aa, a.value AS av, b.axis AS ba, b.value AS bv
                FROM long a JOIN long b USING (task_id) WHERE a.axis <> b.axis)
        SELECT a.axis, a.value, b.axis, b.value FROM axes a, axes b WHERE a.axis <> b.axis
        EXCEPT FROM met
    """).fetchall()
    # What is missing is exactly what cannot be: a fault without a call, a record's state that nobody sees,
    # a rule about changes or accounts where nothing is changed or nobody's account is looked at.
    never = {
        frozenset({("tool", NONE), ("tool_condition", condition)})
        for condition in GRID.axes["tool_condition"]
        if condition != "success"
    } | {frozenset({("tool", tool), ("world_state", state)}) for tool in NAMES_NO_RECORD for state in SPECIAL}
    never |= {
        frozenset({("tool", "book_appointment"), ("world_state", state)})
        for state in ("duplicate", "partially_completed", "unknown")
    }
    never |= {frozenset({("world_state", s), ("tool_condition", "permission_denied")}) for s in SPECIAL}
    never |= {frozenset({("world_state", s), ("tool_condition", "stale")}) for s in SPECIAL[:2]}
    # What a call did is of that moment: only what was looked up can be out of date.
    never |= {frozenset({("tool", t.name), ("tool_condition", "stale")}) for t in TOOLS if t.writes}
    never |= {
        frozenset({("policy_rule", rule.rule_id), ("tool_condition", "stale")})
        for rule in DOCUMENT.of_kind(RuleKind.CONFIRM)
    }
    never |= {
        frozenset({("tool", tool), ("policy_rule", rule.rule_id)})
        for kind, tools in ((RuleKind.CONFIRM, LOOKS_ONLY), (RuleKind.VERIFY, NAMES_NO_RECORD - {SEVERAL}))
        for rule in DOCUMENT.of_kind(kind)
        for tool in tools
    }
    assert {frozenset({(a, v), (b, w)}) for a, v, b, w in missing} == never
    assert (REPORT.fraction, REPORT.pairs_covered) == (1.0, REPORT.pairs_planned)


def test_the_plan_holds_no_sealed_situation_and_none_twice() -> None:
    tasks = [task_id(cell) for cell in NEW]
    assert len(set(tasks)) == len(tasks)
    assert not any(is_held_out(task, SEED) for task in tasks)
    assert KEPT == []


def test_the_next_day_with_the_same_axes_adds_nothing() -> None:
    kept, new, report = plan(GRID, NEW)
    assert (kept, new, report) == (NEW, [], REPORT)


def test_a_reworded_rule_replaces_only_its_own_rows() -> None:
    rule = DOCUMENT.of_kind(RuleKind.NEVER)[0]
    reworded = read_policy_document(DOCUMENT.text.replace("the PUK code", "the PIN code"))
    (other,) = {r.rule_id for r in reworded.rules} - {r.rule_id for r in DOCUMENT.rules}
    kept, new, report = plan(grid_of(TOOLS, reworded, SEED), NEW)
    assert kept == [cell for cell in NEW if cell.policy_rule != rule.rule_id]
    assert {cell.policy_rule for cell in new} == {other}
    assert report.fraction == 1.0


def test_a_new_tool_adds_only_rows_of_its_own() -> None:
    entry = {
        "name": "get_invoice",
        "parameters": {"properties": {"invoice_id": {}}, "required": ["invoice_id"]},
    }
    (tool,) = parse_tools([entry], "t.json")
    kept, new, report = plan(grid_of((*TOOLS, tool), DOCUMENT, SEED), NEW)
    assert kept == NEW
    assert {cell.tool for cell in new} == {"get_invoice"}
    assert report.fraction == 1.0


def test_a_tool_less_drops_its_rows_and_mends_what_they_covered() -> None:
    fewer = [tool for tool in TOOLS if tool.name != "pay_bill"]
    kept, _, report = plan(grid_of(fewer, DOCUMENT, SEED), NEW)
    assert kept == [cell for cell in NEW if cell.tool != "pay_bill"]
    assert report.fraction == 1.0


def test_what_was_planned_and_is_now_sealed_or_impossible_is_not_kept() -> None:
    impossible = NEW[0].model_copy(update={"tool": NONE, "tool_condition": "timeout"})
    resealed = replace(GRID, sealed_by=SEED + 1)
    kept, _, _ = plan(resealed, [*NEW, impossible])
    assert kept == [cell for cell in NEW if not is_held_out(task_id(cell), SEED + 1)]


def test_rows_put_the_new_first_and_say_what_was_planned_before() -> None:
    rows = plan_rows(NEW[:3], NEW[3:5], TOOLS, {})
    cells = [Situation(**{axis: str(row[axis]) for axis in AXES}) for row in rows]
    assert cells == [*NEW[3:5], *NEW[:3]]
    assert [row["position"] for row in rows] == list(range(5))
    assert [row["planned_before"] for row in rows] == [False, False, True, True, True]
    assert [row["task_id"] for row in rows] == [task_id(cell) for cell in cells]


def test_what_earlier_days_played_least_comes_first() -> None:
    played = {task_id(NEW[0]): 7, task_id(NEW[2]): 1, task_id(NEW[3]): 2}
    rows = plan_rows(NEW[:3], NEW[3:5], TOOLS, played)
    order = [task_id(NEW[i]) for i in (4, 1, 2, 3, 0)]
    assert [row["task_id"] for row in rows] == order


def test_a_grid_whose_rules_take_turns_comes_back_to_the_rows_of_their_last_turn() -> None:
    document = read_policy_document(
        "\n".join(f"- Never tell secret number {i} to anyone." for i in range(32))
    )
    odd, even = (grid_of(TOOLS, document, SEED, day) for day in (1, 2))
    assert not set(odd.axes["policy_rule"]) & set(even.axes["policy_rule"])
    first = plan(odd, [])[1]
    second = plan(even, first)[1]
    kept, new, report = plan(odd, [*second, *first])
    assert (kept, new, report.fraction) == (first, [], 1.0)


def test_an_earlier_situation_that_adds_no_pair_is_let_go() -> None:
    cells = [
        NEW[0],
        *(NEW[0].model_copy(update={"stance": stance}) for stance in STANCES if stance != NEW[0].stance),
        *NEW[1:],
    ]
    kept, new, report = plan(GRID, [*NEW, *cells])
    assert (kept, new, report.fraction) == (NEW, [], 1.0)


def test_a_plan_of_strength_three_covers_every_pair_too() -> None:
    few = [tool for tool in TOOLS if tool.name in ("get_bill", "pay_bill")]
    document = read_policy_document("- You must never lie to people.")
    _, new, report = plan(grid_of(few, document, SEED), [], strength=3)
    assert report.fraction == 1.0
    assert len(new) >= len(STANCES) * 6 * 5


@pytest.mark.parametrize(
    ("axis", "value", "described"),
    [
        ("tool", TOOLS[0].name, TOOLS[0].description),
        ("policy_rule", DOCUMENT.rules[0].rule_id, DOCUMENT.rules[0].text),
        ("world_state", "already_acted_on", "already acted on"),
    ],
)
def test_an_axis_value_is_described_by_what_it_stands_for(axis: str, value: str, described: str) -> None:
    found = _axes().filter(pl.col("axis") == axis, pl.col("value") == value)
    assert found["description"].to_list() == [described]


def test_axes_rows_keep_the_order_of_the_grid() -> None:
    rows = axes_rows(GRID, TOOLS, DOCUMENT)
    for axis, values in GRID.axes.items():
        assert [r["value"] for r in rows if r["axis"] == axis] == list(values)
        assert [r["position"] for r in rows if r["axis"] == axis] == list(range(len(values)))
