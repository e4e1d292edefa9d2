import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest

from tests.example import BASE, DAY, WRITER, planned, rollout_row, rollouts
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.messages import steps
from while_pipeline.records import Message, ToolCall, Usage
from while_pipeline.simulate.axes import AXES
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.rows import (
    rollouts_from,
    scenario_from_row,
    scenario_row,
    scenarios_from,
    step_row,
)
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.tables import prove, simulate
from while_pipeline.tables.base import ddl, frame, table_name
from while_pipeline.tools import Tool


@cache
def _scenarios() -> list[Scenario]:
    return [WRITER.write(cell, i, "open_ended") for i, cell in enumerate(planned()[:60])]


@cache
def _stored() -> pl.DataFrame:
    shared = {"batch": 0, "spot_id": None, "operator": None, "parent_id": None}
    rows = [{"arm": s.arm, **shared, **scenario_row(s)} for s in _scenarios()]
    return frame(simulate.Scenarios, DAY, rows)


def _row(rollout: Rollout) -> dict[str, Any]:
    return rollout_row(rollout)


class Says:
    """An agent that always replies the same, or fails from its second turn on."""

    def __init__(self, message: Message, fails: bool = False) -> None:
        self.message, self.fails, self.turns = message, fails, 0

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        self.turns += 1
        if self.fails and self.turns > 1:
            raise AgentError("down")
        usage = Usage(input_tokens=3, output_tokens=2)
        return Reply(message=self.message, usage=usage, finish_reason="stop")


ODD_CALLS = Message(
    role="assistant",
    content="Täxt ☂ 😀\n\u2028",
    tool_calls=(
        ToolCall(id="a", name="get_bill", arguments={"bill_id": "é", "n": 1.5, "deep": {"x": [None, True]}}),
        ToolCall(id="b", name="get_bill", arguments=None, raw='{"bill_id": '),
    ),
)


def test_a_scenario_reads_back_from_its_row() -> None:
    for scenario in _scenarios():
        row = {"arm": scenario.arm, "batch": 0, "spot_id": None, **scenario_row(scenario)}
        assert scenario_from_row(row) == scenario


def test_scenarios_read_back_from_duckdb_in_order() -> None:
    made = _stored()
    con = duckdb.connect()
    for statement in ddl(simulate.Scenarios):
        con.execute(statement)
    con.register("made", made)
    con.execute(f"INSERT INTO {table_name(simulate.Scenarios)} BY NAME SELECT * FROM made")
    stored = con.sql(f"SELECT * FROM {table_name(simulate.Scenarios)}").pl()
    assert scenarios_from(stored) == _scenarios()


def test_a_sealed_task_reads_back_without_an_arm() -> None:
    rows = [{"fresh": True, **scenario_row(s)} for s in _scenarios()]
    read = scenarios_from(frame(prove.HeldOut, DAY, rows))
    assert read == [s.model_copy(update={"arm": "structured"}) for s in _scenarios()]


def test_rollouts_read_back_with_their_scenarios() -> None:
    played = rollouts(EmbeddedAgent(BASE), _scenarios(), range(2))
    made = frame(simulate.Rollouts, DAY, [_row(r) for r in played])
    assert rollouts_from(made, _stored()) == played


@pytest.mark.parametrize(
    "agent",
    [
        Says(Message(role="assistant", content="Done.")),
        Says(Message(role="assistant", content="")),
        Says(Message(role="assistant", content=None)),
        Says(ODD_CALLS),
        Says(ODD_CALLS, fails=True),
    ],
    ids=["text", "empty", "nothing", "odd calls", "lost"],
)
def test_a_rollout_of_any_agent_reads_back_from_its_row(agent: Says) -> None:
    played = rollouts(agent, _scenarios()[:1])
    assert rollouts_from(frame(simulate.Rollouts, DAY, map(_row, played)), _stored()) == played


def test_a_lost_rollout_is_the_infrastructures_and_keeps_its_reason() -> None:
    (rollout,) = rollouts(Says(ODD_CALLS, fails=True), _scenarios()[:1])
    row = _row(rollout)
    assert (row["ended"], row["lost"], row["blame"]) == ("lost", "AgentError: down", "infrastructure")
    assert row["logprob"] is None


@pytest.mark.parametrize(
    ("text", "ended", "blame"),
    [
        ("That is all done.", "satisfied", "nobody"),
        ("I am transferring you to a human colleague now.", "transferred", "nobody"),
        ("What is your shoe size?", "gone", "agent"),
    ],
)
def test_an_ending_is_somebodys_doing(text: str, ended: str, blame: str) -> None:
    scenario = next(s for s in _scenarios() if not s.script.follow_ups)
    (rollout,) = rollouts(Says(Message(role="assistant", content=text)), [scenario])
    row = _row(rollout)
    assert (row["ended"], row["blame"]) == (ended, blame)


def test_running_out_of_turns_is_the_agents_doing() -> None:
    (rollout,) = rollouts(Says(ODD_CALLS), _scenarios()[:1])
    assert (_row(rollout)["ended"], _row(rollout)["blame"]) == ("max_turns", "agent")


def test_a_row_counts_what_the_agent_wrote_and_used() -> None:
    scenario = next(s for s in _scenarios() if not s.script.follow_ups and not s.script.holds_back)
    (rollout,) = rollouts(Says(Message(role="assistant", content="Order 66, done: 100 %.")), [scenario])
    row = _row(rollout)
    counts = {name: row[name] for name in ("n_turns", "n_tool_calls", "n_words", "n_digits", "n_marks")}
    assert counts == {"n_turns": 1, "n_tool_calls": 0, "n_words": 5, "n_digits": 5, "n_marks": 4}
    assert (row["input_tokens"], row["output_tokens"], row["finish_reason"]) == (3, 2, "stop")


def test_a_row_names_the_planted_defects_and_the_axes_shown() -> None:
    for rollout in rollouts(EmbeddedAgent(BASE), _scenarios()):
        row = _row(rollout)
        assert json.loads(row["seeded"]) == list(rollout.seeded)
        shown = json.loads(row["realised"])
        assert shown == [axis for axis in AXES if axis in shown]
        assert "stance" in shown


def test_a_step_row_keeps_arguments_that_decoded_and_the_text_of_those_that_did_not() -> None:
    result = Message(role="tool", content='{"error": "not_found"}', tool_call_id="a")
    good, broken = steps([ODD_CALLS, result])
    assert json.loads(str(step_row(good)["arguments"])) == good.call.arguments
    assert step_row(good)["raw_arguments"] is None
    assert {k: step_row(good)[k] for k in ("step", "turn", "tool", "status")} == {
        "step": 0, "turn": 0, "tool": "get_bill", "status": "not_found",
    }  # fmt: skip
    assert (step_row(broken)["arguments"], step_row(broken)["raw_arguments"]) == (None, '{"bill_id": ')
    assert (step_row(broken)["result"], step_row(broken)["status"]) == (None, "unknown")
