"""A model trained elsewhere, from its registration over the gate to serving, and decisions by hand."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint_server import EndpointServer
from tests.example import TOOLS
from tests.orchestration.conftest import DAYS, PATIENCE_S, Checkout, Pipeline, copy_of_example, make_checkout
from tests.policies import always
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.messages import from_openai, to_openai
from while_pipeline.tables import prove, simulate, train, watch

pytestmark = pytest.mark.slow

FIRST, SECOND, _ = DAYS
TINY = {"budget": {"scenarios": 40, "k": 2}, "prove": {"tasks": 30, "k": 2}}
MODELS = {"base": EmbeddedAgent(base_weights()), "tuned": EmbeddedAgent(always())}
"""What the server plays under each name: the base policy, and one that makes every sound choice."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    messages = [from_openai(message) for message in request["messages"]]
    reply = MODELS[request["model"]].respond(messages, TOOLS, request["seed"])
    return to_openai(reply.message)


@dataclass(frozen=True)
class Hosted:
    """A project whose agent is the model `base`, after its first day."""

    checkout: Checkout
    server: EndpointServer

    @property
    def pipeline(self) -> Pipeline:
        return self.checkout.pipeline

    def call(self, *arguments: str) -> tuple[int, str]:
        """Exit code and what was printed."""
        before = len(self.checkout.output) if (self.checkout.root / "output.txt").exists() else 0
        code = self.checkout.start(*arguments).wait(PATIENCE_S)
        return code, self.checkout.output[before:]

    def states(self) -> dict[str, str]:
        """State of each version, by the name that people call it."""
        return dict(self.pipeline.ask("SELECT name, state FROM train.registry").iter_rows())


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    checkout = make_checkout(tmp_path_factory.mktemp("hosted") / "while")
    with EndpointServer(answer, models=tuple(MODELS)) as server:
        project = checkout.root / "project"
        agent = {"plays": "endpoint", "endpoint": {"base_url": server.base_url, "model": "base"}}
        made = copy_of_example(checkout.root / "settings", agent=agent, **TINY)
        (project / "while.yaml").write_text((made / "while.yaml").read_text())
        ran = checkout.pipeline.run(FIRST)
        assert ran.errors == {}
        yield Hosted(checkout, server)


def test_a_model_trained_elsewhere_goes_through_the_gate_serves_and_is_rolled_back(hosted: Hosted) -> None:
    pipeline, own = hosted.pipeline, hosted.pipeline.warehouse.read(watch.Agent, FIRST)
    candidate = ("candidate", "--endpoint", hosted.server.base_url, "--model")

    # What is wrong is named, and nothing is written.
    code, said = hosted.call(*candidate, "tumed")
    assert (code, "does not serve it; it has base, tuned" in said) == (2, True), said
    assert pipeline.warehouse.read(train.Registered).is_empty()

    # A day that ran without a candidate is decided at once, by the gate that fitted policies go through.
    code, said = hosted.call(*candidate, "tuned", "--base-model", "base", "--name", "night 7")
    assert (code, "Promoted: overall is better" in said) == (0, True), said
    trials = pipeline.warehouse.read(prove.Trials, FIRST)
    (decision,) = pipeline.warehouse.read(prove.Promotion, FIRST).to_dicts()
    assert dict(trials.select("arm", "policy_version").unique().iter_rows()) == {
        "before": own["policy_version"].item(),
        "after": decision["candidate"],
    }
    assert trials.height == 2 * 30 * 2
    assert decision["delta_id"] == pipeline.warehouse.digest(prove.Delta, FIRST)
    assert hosted.states() == {"base": "retired", "night 7": "promoted"}

    # The same trials again cost nothing, and a run of the day keeps what was registered by hand.
    asked = len(hosted.server.asked)
    again = pipeline.run(FIRST, train.Registered, prove.Trials, prove.Delta, prove.Looks, prove.Promotion)
    assert again.errors == {}
    assert len(hosted.server.asked) == asked
    assert pipeline.warehouse.read(train.Registered, FIRST)["name"].to_list() == ["night 7"]

    # It plays the next day.
    played = (simulate.Axes, simulate.CoveragePlan, simulate.Scenarios, simulate.Search, simulate.Probes)
    assert pipeline.run(SECOND, prove.Decisions, watch.Agent, *played).errors == {}
    agent = pipeline.warehouse.read(watch.Agent, SECOND).row(0, named=True)
    assert (agent["policy_version"], agent["plays"], agent["model"]) == (
        decision["candidate"],
        "endpoint",
        "tuned",
    )
    assert pipeline.warehouse.read(simulate.Probes, SECOND)["policy_version"].unique().to_list() == [
        decision["candidate"]
    ]

    # People go back to what served before, and the table says who and why.
    code, said = hosted.call("rollback", "--reason", "refunds twice", "--by", "Ada")
    assert (code, f"{own['policy_version'].item()} serves from {DAYS[2]} on" in said) == (0, True), said
    assert pipeline.run(DAYS[2], prove.Decisions, watch.Agent).errors == {}
    agent = pipeline.warehouse.read(watch.Agent, DAYS[2]).row(0, named=True)
    assert (agent["policy_version"], agent["model"]) == (own["policy_version"].item(), "base")
    assert pipeline.warehouse.read(prove.Decisions, DAYS[2])["decided_by"].to_list() == ["Ada"]
    assert hosted.states() == {"base": "promoted", "night 7": "retired"}

    code, said = hosted.call("policies", "--format", "json")
    listed = {row["name"]: row for row in json.loads(said)}
    assert code == 0
    assert listed["night 7"]["after"] > listed["night 7"]["before"]
    assert listed["base"]["reason"] == "refunds twice"


def test_a_candidate_for_a_later_day_waits_for_its_run_and_can_be_withdrawn(hosted: Hosted) -> None:
    candidate = ("candidate", "--endpoint", hosted.server.base_url, "--model", "tuned", "--another-base")
    code, said = hosted.call(*candidate, "--day", "2026-05-01")
    assert (code, "while-pipeline run --day 2026-05-01" in said) == (0, True), said
    assert hosted.pipeline.warehouse.read(train.Registered, "2026-05-01").height == 1
    code, said = hosted.call("withdraw", "--day", "2026-05-01")
    assert code == 0, said
    assert hosted.pipeline.warehouse.read(train.Registered, "2026-05-01").is_empty()


def test_a_model_whose_tools_changed_since_it_was_registered_is_not_tried(
    hosted: Hosted, tmp_path: Path
) -> None:
    code, said = hosted.call(
        *("candidate", "--endpoint", hosted.server.base_url, "--model", "tuned"),
        *("--base-model", "base", "--day", "2026-05-02"),
    )
    assert code == 0, said
    fewer = copy_of_example(tmp_path / "fewer", **TINY)
    tools = json.loads((fewer / "tools.json").read_text())
    (fewer / "tools.json").write_text(json.dumps(tools[:-1]))
    other = Pipeline(fewer, hosted.pipeline.data)
    ran = other.run("2026-05-02", prove.Decisions, watch.Agent, simulate.Axes, prove.HeldOut, prove.Trials)
    assert "the tools changed since it was registered" in ran.errors["prove_trials"]
    assert other.warehouse.read(prove.Trials, "2026-05-02").is_empty()


def test_other_weights_under_the_same_name_are_tried_anew_and_the_serving_model_is_not(
    hosted: Hosted, tmp_path: Path
) -> None:
    day, server = "2026-05-03", hosted.server
    candidate = ("candidate", "--endpoint", server.base_url, "--model", "tuned", "--base-model", "base")
    for weights in ("one", "other"):
        (tmp_path / weights).write_text(weights)

    # Its run is cut short after the trials, and the model is taken back.
    assert hosted.call(*candidate, "--day", day, "--checkpoint", str(tmp_path / "one"))[0] == 0
    before = len(server.asked)
    ran = hosted.pipeline.run(day, prove.Decisions, watch.Agent, simulate.Axes, prove.HeldOut, prove.Trials)
    assert ran.errors == {}
    first = Counter(request.body["model"] for request in server.asked[before:])
    code, said = hosted.call("withdraw", "--day", day)
    assert code == 0, said

    before = len(server.asked)
    code, said = hosted.call(*candidate, "--day", day, "--checkpoint", str(tmp_path / "other"))
    assert (code, "Promoted" in said) == (0, True), said
    second = Counter(request.body["model"] for request in server.asked[before:])
    assert second["tuned"] == first["tuned"] > 0
    assert second["base"] == 0
