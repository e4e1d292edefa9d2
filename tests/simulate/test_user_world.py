import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.worlds import START, TOOLS, call
from while_pipeline.errors import ProjectError
from while_pipeline.messages import result_status
from while_pipeline.simulate.user_world import UserWorld, WorldLost, Worlds
from while_pipeline.simulate.world import Fault, World

ROOT = Path("/shop")


class Shop:
    """A user's world: orders that can be read and cancelled, and an order of its own per seed."""

    def __init__(self) -> None:
        self.orders: dict[str, Any] = {}

    def reset(self, seed: int) -> None:
        self.orders = {f"OWN-{seed % 100}": {"status": "active"}}

    def load(self, records: dict[str, Any]) -> None:
        self.orders |= records["order"]

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        order = self.orders.get(arguments.get("order_id", ""))
        if tool == "cancel_order" and order is not None:
            order["status"] = "cancelled"
            arguments.clear()
        return {"order": order} if order else "Error: no such order"

    def diff(self) -> dict[str, Any]:
        return {key: order["status"] for key, order in self.orders.items() if order["status"] != "active"}


class Silent:
    """The least a user's world must be."""

    def reset(self, seed: int) -> None:
        self.calls = 0

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        self.calls += 1
        return str(self.calls)


class Failing(Silent):
    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "get_order":
            raise KeyError("order")
        return {"not json"}


def _shop(kind: type = Shop, *faults: Fault) -> UserWorld:
    return UserWorld(kind, "my_world:Shop", TOOLS, START.model_copy(update={"faults": faults}))


def test_a_users_class_answers_with_the_scenarios_records_in_it() -> None:
    shop = _shop()
    assert call(shop, "get_order", order_id="ORD-1")["order"]["city"] == "Oslo"
    assert shop.call("get_order", {"order_id": "ORD-9"}) == "Error: no such order"
    call(shop, "cancel_order", order_id="ORD-1")
    assert shop.diff() == {"ORD-1": "cancelled"}
    assert START.records["order"]["ORD-1"]["status"] == "active"


def test_two_worlds_of_one_start_are_reset_alike() -> None:
    class Seeded(Silent):
        def reset(self, seed: int) -> None:
            self.calls = seed

    first, second = (_shop(Seeded).call("check_weather", {}) for _ in range(2))
    assert first == second != _shop(Silent).call("check_weather", {})


def test_a_fork_goes_the_same_way_again_and_then_its_own() -> None:
    shop = _shop(Shop, Fault(tool="get_order", condition="timeout", failures=1))
    call(shop, "get_order", order_id="ORD-1")
    call(shop, "cancel_order", order_id="ORD-1")
    twin = shop.fork()
    assert twin.diff() == shop.diff() == {"ORD-1": "cancelled"}
    assert call(twin, "get_order", order_id="ORD-1")["order"]["status"] == "cancelled", "the fault is over"
    silent = _shop(Silent)
    silent.call("check_weather", {})
    other = silent.fork()
    assert [silent.call("check_weather", {}), other.call("check_weather", {})] == ["2", "2"]


def test_what_schemas_refuse_and_scheduled_faults_are_answered_before_the_class_is_asked() -> None:
    shop = _shop(Failing, Fault(tool="get_order", condition="rate_limited", failures=1))
    assert call(shop, "get_order")["error"] == "invalid_argument"
    assert call(shop, "drop_table")["error"] == "unknown_tool"
    assert json.loads(shop.call("get_order", None))["error"] == "invalid_argument"
    assert call(shop, "get_order", order_id="ORD-1")["error"] == "rate_limited"


def test_a_stale_answer_of_ones_own_world_says_so() -> None:
    fault = Fault(tool="get_order", condition="stale", failures=1)
    assert result_status(_shop(Shop, fault).call("get_order", {"order_id": "ORD-1"})) == "stale"
    assert result_status(_shop(Silent, fault).call("get_order", {"order_id": "ORD-1"})) == "stale"


def test_effects_nobody_tells_are_unknown_and_not_none() -> None:
    assert _shop(Silent).diff() is None
    assert _shop(Shop).diff() == {}


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("get_order", {"order_id": "ORD-1"}, r"my_world:Shop\.call raised KeyError: 'order'"),
        ("check_weather", {}, r"my_world:Shop\.call raised TypeError"),
    ],
)
def test_a_class_that_fails_loses_the_rollout(name: str, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(WorldLost, match=reason):
        _shop(Failing).call(name, arguments)


def test_a_diff_that_is_no_mapping_loses_the_rollout() -> None:
    class Wrong(Silent):
        def diff(self) -> list[str]:
            return ["order"]

    with pytest.raises(WorldLost, match="diff gave list; expected a mapping"):
        _shop(Wrong).diff()


# -- naming it in while.yaml ------------------------------------------------------------------------------


@pytest.fixture
def my_world(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoReset:
        def call(self, tool: str, arguments: dict[str, Any]) -> str:
            return ""

    class NoCall:
        def reset(self, seed: int) -> None: ...

    class Needy(Silent):
        def __init__(self, url: str) -> None: ...

    module = ModuleType("my_world")
    module.__dict__.update(Shop=Shop, NoReset=NoReset, NoCall=NoCall, Needy=Needy)
    monkeypatch.setitem(sys.modules, "my_world", module)


@pytest.mark.usefixtures("my_world")
def test_the_mock_world_is_played_until_another_is_named() -> None:
    assert isinstance(Worlds(TOOLS)(START), World)
    assert isinstance(Worlds(TOOLS, "my_world:Shop", ROOT)(START), UserWorld)


@pytest.mark.usefixtures("my_world")
@pytest.mark.parametrize(
    ("named", "mend"),
    [
        ("no_such_module_at_all:World", "ModuleNotFoundError"),
        ("my_world:Missing", "AttributeError"),
        ("my_world:NoReset", "AttributeError"),
        ("my_world:Needy", "TypeError"),
        ("my_world:NoCall", "it has no method call(tool, arguments)"),
    ],
)
def test_a_class_that_is_no_world_is_told_with_its_mend(named: str, mend: str) -> None:
    with pytest.raises(ProjectError) as told:
        Worlds(TOOLS, named, ROOT)(START)
    assert (told.value.key, told.value.value) == ("world.plays", named)
    assert mend in told.value.mend
