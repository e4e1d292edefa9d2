"""Cuts of the example as the exports read them. No assertion belongs here."""

import json
from pathlib import Path
from typing import Any

from tests.train.trl import tiny
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.tables import simulate
from while_pipeline.tables.base import Table, polars_schema
from while_pipeline.train.names import CutName
from while_pipeline.train.published import CutRows, Row

DAY = "2026-03-02"

ALL_CUTS: tuple[CutName, ...] = ("sft", "sft_random", "dpo", "grpo", "reward_model")

SCENARIOS = {one.rollout.scenario.scenario_id: one.rollout.scenario for one in tiny.graded()}


def rows_of(cut: CutName) -> list[Row]:
    """Rows of a cut, decoded; the first task of all is on the validation side where there are several."""
    made = [row | place for row, place in zip(_MAKERS[cut](), _places(cut), strict=True)]
    first = made[0]["task_id"]
    return [row | {"split": "valid" if row["task_id"] == first else "train"} for row in made]


def cut_of(cut: CutName, rows: list[Row] | None = None) -> CutRows:
    """A cut as `read_cut` gives it."""
    return CutRows(
        cut=cut,
        day=DAY,
        rows=rows_of(cut) if rows is None else rows,
        scenarios={
            name: filled(simulate.Scenarios, arm="structured", **scenario_row(one))
            for name, one in SCENARIOS.items()
        },
        document=tiny.DOCUMENT.text,
        policy_version="p1",
        judge="j1",
        checks=("no_sealed_task",),
    )


def lines(path: Path) -> list[Row]:
    """The rows of a file of JSON lines."""
    # Not splitlines: JSON strings may hold U+2028 and other line ends as they are.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def filled(model: type[Table], **values: Any) -> dict[str, Any]:
    """A row of a table; columns that are not named get what fits their type."""
    plain = {"String": "text", "Boolean": True, "Int64": 1, "Float64": 0.5}
    columns = model.to_schema().columns
    made = {
        name: values.get(name, "[]" if (columns[name].metadata or {}).get("json") else plain.get(str(kind)))
        for name, kind in polars_schema(model).items()
        if name != "day"
    }
    return {name: canonical_json(value) if isinstance(value, list) else value for name, value in made.items()}


def _sft() -> list[Row]:
    return tiny.sft_rows()


def _grpo() -> list[Row]:
    """Two groups of four: one passes once, one three times."""
    names = list(SCENARIOS)[:2]
    return [
        {
            "prompt": tiny.talk(_opening(name)),
            "tools": tiny.OFFERED,
            "tool_condition": "success",
            "scenario_id": name,
            "passed": sample < passes,
            "reward": float(sample < passes),
            "pass_rate": passes / 4,
        }
        for name, passes in zip(names, (1, 3), strict=True)
        for sample in range(4)
    ]


def _opening(scenario: str) -> Any:
    """What the customer of a scenario opens with."""
    return next(
        one.rollout.messages[:1] for one in tiny.graded() if one.rollout.scenario.scenario_id == scenario
    )


def _reward_model() -> list[Row]:
    """Of two tasks two rollouts each, of which one passed; of a third one alone."""
    talks = [row["messages"] for row in tiny.sft_rows(5)]
    names = list(SCENARIOS)
    marks = ((0, True), (0, False), (1, True), (1, False), (2, True))
    return [
        {
            "messages": talk,
            "tools": tiny.OFFERED,
            "reward": float(passed),
            "passed": passed,
            "scenario_id": names[at],
        }
        for talk, (at, passed) in zip(talks, marks, strict=True)
    ]


_MAKERS = {
    "sft": _sft,
    "sft_random": _sft,
    "dpo": tiny.dpo_rows,
    "grpo": _grpo,
    "reward_model": _reward_model,
}


def _places(cut: CutName) -> list[Row]:
    names = list(SCENARIOS)
    made = []
    for at, row in enumerate(_MAKERS[cut]()):
        scenario = row.get("scenario_id", names[at % len(names)])
        ids = {"row_id": content_id(cut, at), "rollout_id": f"r{at}"}
        made.append(
            {
                "scenario_id": scenario,
                "task_id": SCENARIOS[scenario].task_id,
                "pass_rate": row.get("pass_rate", 0.5),
                "stage": "train",
                "reward": row.get("reward", 1.0),
                "margin": 1.0,
                **ids,
            }
        )
    return made
