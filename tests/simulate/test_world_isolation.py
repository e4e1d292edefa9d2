import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.example import ROOT, scenarios
from tests.example import TOOLS as EXAMPLE_TOOLS
from tests.worlds import START, answers_of_all_kinds, call, world
from while_pipeline.messages import result_status
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.world import Fault, World

CITIES = st.sampled_from(["Oslo", "Porto", "Ghent"])
FAULT = Fault(tool="get_order", condition="timeout", failures=2)


class ForksAgainstModels(RuleBasedStateMachine):
    """Worlds that fork at any moment, each against a dictionary of its own: orders, attempts, transfer."""

    worlds = Bundle("worlds")

    @initialize(target=worlds)
    def begin(self) -> int:
        self.all: list[tuple[World, dict[str, Any]]] = []
        return self._add(
            world(FAULT), {"orders": {"ORD-1": {"city": "Oslo"}}, "asked": 0, "handed_over": False}
        )

    def _add(self, made: World, model: dict[str, Any]) -> int:
        self.all.append((made, model))
        return len(self.all) - 1

    @rule(target=worlds, which=worlds)
    def fork(self, which: int) -> int:
        made, model = self.all[which]
        return self._add(made.fork(), deepcopy(model))

    @rule(which=worlds, city=CITIES)
    def create(self, which: int, city: str) -> None:
        made, model = self.all[which]
        answer = call(made, "create_order", customer_id="CUST-1", city=city)
        if "order" in answer:
            key = answer["order"]["order_id"]
            assert key not in model["orders"]
            model["orders"][key] = {
                "city": city,
                "customer_id": "CUST-1",
                "order_id": key,
                "status": "created",
            }

    @rule(which=worlds, city=CITIES)
    def move(self, which: int, city: str) -> None:
        made, model = self.all[which]
        call(made, "update_order", order_id="ORD-1", city=city, reason="asked")
        if "status" not in model["orders"]["ORD-1"]:
            model["orders"]["ORD-1"]["city"] = city

    @rule(which=worlds)
    def cancel(self, which: int) -> None:
        made, model = self.all[which]
        call(made, "cancel_order", order_id="ORD-1")
        model["orders"]["ORD-1"]["status"] = "cancelled"

    @rule(which=worlds)
    def hand_over(self, which: int) -> None:
        made, model = self.all[which]
        call(made, "transfer_to_human", summary="asked")
        model["handed_over"] = True

    @rule(which=worlds)
    def meet_the_fault(self, which: int) -> None:
        made, model = self.all[which]
        answer = call(made, "get_order", order_id="ORD-1")
        assert (answer.get("error") == "timeout") == (model["asked"] < FAULT.failures)
        model["asked"] += 1

    @invariant()
    def each_world_differs_from_the_start_as_its_own_model_does(self) -> None:
        for made, model in getattr(self, "all", ()):
            wanted = {
                f"order/{key}/{field}": value
                for key, fields in model["orders"].items()
                for field, value in fields.items()
                if START.records["order"].get(key, {}).get(field) != value
            }
            assert made.diff() == wanted | ({"transfer": True} if model["handed_over"] else {})


def test_forks_share_their_past_and_nothing_else() -> None:
    run_state_machine_as_test(
        ForksAgainstModels, settings=settings(max_examples=30, stateful_step_count=20, deadline=None)
    )


def _played(scenario: Scenario) -> tuple[list[str], dict[str, Any]]:
    """What the scenario's world answers to each tool called twice with what the customer knows."""
    made = World(EXAMPLE_TOOLS, scenario.world)
    known = scenario.script.slots | scenario.script.corrections
    answers = [
        made.call(tool.name, {p: known.get(p, "as asked") for p in tool.required})
        for tool in EXAMPLE_TOOLS
        for _ in range(2)
    ]
    return answers, made.diff()


def test_worlds_played_at_the_same_time_do_not_meet() -> None:
    made = scenarios(60)
    alone = [_played(scenario) for scenario in made]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(_played, made)) == alone


def test_another_process_gets_the_same_answers() -> None:
    code = "from tests.worlds import answers_of_all_kinds; print(*answers_of_all_kinds(), sep='\\n')"
    command = [sys.executable, "-c", code]
    environment = {"PYTHONHASHSEED": "7"}
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    assert told.stdout.splitlines() == answers_of_all_kinds()


@pytest.mark.parametrize("condition", ["timeout", "stale", "malformed", "rate_limited"])
def test_a_fork_has_as_many_failures_before_it_as_were_left(condition: str) -> None:
    first = world(Fault(tool="get_order", condition=condition, failures=2))
    first.call("get_order", {"order_id": "ORD-1"})
    second = first.fork()
    for made in (first, second):
        statuses = [result_status(made.call("get_order", {"order_id": "ORD-1"})) for _ in range(2)]
        assert statuses == [condition, "ok"]


def test_a_start_is_shared_and_never_written_to() -> None:
    before = START.model_dump_json()
    made = world()
    for name in ("cancel_order", "delete_order", "refund_order"):
        made.fork().call(name, {"order_id": "ORD-1"})
    made.call("create_order", {"customer_id": "CUST-1", "city": "Porto"})
    assert START.model_dump_json() == before
