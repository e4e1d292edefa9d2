"""The loop closed over HTTP: customers call the promoted policy, and what was said is the next traffic."""

import datetime as dt
import itertools
import re
import shutil
from dataclasses import dataclass

import pytest

from tests.example import script
from tests.orchestration.conftest import DAYS, Pipeline, Ran, Telecom, copy_of_example
from tests.served import serving
from while_pipeline.agents.policy import base_weights
from while_pipeline.messages import messages_from_json
from while_pipeline.project import load_project
from while_pipeline.serve.policy import weights_to_serve
from while_pipeline.simulate.rollout import Rollout

pytestmark = pytest.mark.slow

CUSTOMERS = 24
THIRD = DAYS[2]


@dataclass(frozen=True)
class ThirdDay:
    pipeline: Pipeline
    version: str
    """Of the policy that was served."""
    calls: list[Rollout]
    """The conversations as the customers had them."""
    ran: Ran


@pytest.fixture(scope="module")
def third_day(telecom: Telecom, tmp_path_factory: pytest.TempPathFactory) -> ThirdDay:
    """Two days of the example; then the policy promoted on them answers a day of customers over HTTP."""
    folder = tmp_path_factory.mktemp("served")
    root, data = copy_of_example(folder / "telecom"), folder / "data"
    data.mkdir()
    shutil.copyfile(telecom.pipeline.data / "while.duckdb", data / "while.duckdb")
    project = load_project(root)
    weights = weights_to_serve(project, telecom.pipeline.data, None, THIRD)
    opens = int(dt.datetime.fromisoformat(f"{THIRD}T09:00:00+00:00").timestamp()) * 10**9
    clock = itertools.count(opens, 10**9)
    with serving(project, weights, project.traffic_folder, clock=lambda: next(clock)) as served:
        calls = script("make_traffic").called(project, THIRD, CUSTOMERS, served.base_url)
    pipeline = Pipeline(root, data)
    return ThirdDay(pipeline, weights.version, calls, pipeline.run(THIRD))


def test_what_was_served_is_what_the_second_night_left_promoted(
    telecom: Telecom, third_day: ThirdDay
) -> None:
    serving = f"SELECT policy_version FROM watch.agent WHERE day = '{THIRD}'"
    assert telecom.pipeline.ask(serving).item() == third_day.version != base_weights().version


def test_every_conversation_the_customers_had_is_a_row_of_the_day(third_day: ThirdDay) -> None:
    columns = "messages, model, agent_name, source, incomplete"
    rows = third_day.pipeline.ask(f"SELECT {columns} FROM watch.conversations WHERE day = '{THIRD}'")
    assert rows.height == CUSTOMERS
    assert rows.drop("messages").unique().rows() == [
        (third_day.version, "telecom", f"{THIRD}/served-{third_day.version}.jsonl", None)
    ]
    assert not {r.lost for r in third_day.calls} - {None}
    # Personal data is redacted on the way in, so what stays is who spoke and what was called.
    held = {
        tuple((m.role, tuple(c.name for c in m.tool_calls)) for m in messages_from_json(text))
        for text in rows["messages"]
    }
    had = {
        tuple((m.role, tuple(c.name for c in m.tool_calls)) for m in call.messages)
        for call in third_day.calls
        if call.messages[-1].role == "assistant"
    }
    assert had
    assert had <= held


def test_the_day_runs_whole_and_starts_from_what_was_said(third_day: ThirdDay) -> None:
    assert third_day.ran.errors == {}
    assert third_day.ran.red == {}
    ask = third_day.pipeline.ask
    assert ask(f"SELECT count(*) FROM watch.rejects WHERE day = '{THIRD}'").item() == 0
    assert ask(f"SELECT count(*) FROM watch.situations WHERE day = '{THIRD}'").item() == CUSTOMERS
    spots = f"SELECT count(*), sum(n) FROM watch.weak_spots WHERE day = '{THIRD}' AND n > 0"
    n_spots, n_graded = ask(spots).row(0)
    assert n_spots > 0
    assert n_graded >= CUSTOMERS / 2
    decided = f"SELECT serving FROM prove.promotion WHERE day = '{THIRD}'"
    assert ask(decided).item() == third_day.version


def test_personal_data_is_in_the_traffic_and_not_in_the_tables(third_day: ThirdDay) -> None:
    """A telephone number that a customer told: the file has it, the table has its pseudonym."""
    folder = third_day.pipeline.root / "traffic" / THIRD
    served = "".join(path.read_text() for path in folder.iterdir())
    rows = third_day.pipeline.ask(f"SELECT messages FROM watch.conversations WHERE day = '{THIRD}'")
    held = "".join(rows["messages"])
    assert "<phone:" in held
    assert "<phone:" not in served
    numbers = set(re.findall(r"\b555-\d{3}-\d{4}\b", served))
    assert numbers
    assert not any(number in held for number in numbers)
