"""The example that ships: its documents, and traffic that is what its script makes."""

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from tests.example import BASE, EXAMPLE, PROJECT, script
from tests.served import serving
from while_pipeline.messages import steps
from while_pipeline.policy_document import RuleKind
from while_pipeline.serve.listen import KEY_VARIABLE
from while_pipeline.tools import ToolKind
from while_pipeline.watch.read import Traffic, read_traffic
from while_pipeline.watch.redact import Redactor

DAYS = ("2026-03-02", "2026-03-03")
CONVERSATIONS = 64


@pytest.fixture(scope="module")
def make_traffic() -> ModuleType:
    return script("make_traffic")


def test_the_tour_is_what_was_played() -> None:
    make_tour = script("make_tour")
    differs = "run examples/telecom/make_tour.py and commit what it writes"
    assert make_tour.tour(PROJECT) == make_tour.TOUR.read_text("utf-8"), differs


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    folder = PROJECT.traffic_folder
    return read_traffic([folder / day / "agent.jsonl" for day in DAYS], folder, None)


def test_the_policy_document_has_rules_of_every_kind() -> None:
    rules = PROJECT.policy_document.rules
    assert 10 <= len(rules) <= 15
    assert {rule.kind for rule in rules} == set(RuleKind)


def test_the_tools_do_everything_a_support_agent_does() -> None:
    assert 8 <= len(PROJECT.tools) <= 12
    assert {tool.kind for tool in PROJECT.tools} == set(ToolKind) - {ToolKind.OTHER}


def test_the_shipped_traffic_is_what_the_script_writes(make_traffic: ModuleType, tmp_path: Path) -> None:
    outcome = CliRunner().invoke(make_traffic.main, ["--out", str(tmp_path)])
    assert outcome.exit_code == 0, outcome.output
    shipped = EXAMPLE / "traffic"
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    assert sorted(made) == [Path(day, "agent.jsonl") for day in DAYS]
    differing = [str(path) for path, content in made.items() if (shipped / path).read_bytes() != content]
    assert not differing, "run examples/telecom/make_traffic.py and commit what it writes"


@pytest.mark.parametrize("day", DAYS)
def test_the_traffic_reads_back_as_it_was_played(
    make_traffic: ModuleType, traffic: Traffic, day: str
) -> None:
    rollouts = make_traffic.played(PROJECT, day, CONVERSATIONS, BASE)
    played = [(make_traffic.SYSTEM, *rollout.messages) for rollout in rollouts]
    # A customer's last word that the agent never answered leaves no trace.
    answered = [said[:-1] if said[-1].role == "user" else said for said in played]
    read = sorted((c for c in traffic.conversations if c.day == day), key=lambda c: c.started_at_ns or 0)
    assert len(read) == CONVERSATIONS
    assert [c.messages for c in read] == answered


def test_the_traffic_is_read_without_loss(traffic: Traffic) -> None:
    assert traffic.rejects == ()
    assert {c.incomplete for c in traffic.conversations} == {None}
    assert len({c.conversation_id for c in traffic.conversations}) == len(DAYS) * CONVERSATIONS
    assert {(c.agent_name, c.model) for c in traffic.conversations} == {("support-agent", BASE.version)}
    assert {Path(c.source).parts[0] == c.day for c in traffic.conversations} == {True}


def test_tool_calls_succeed_and_fail_in_several_ways(traffic: Traffic) -> None:
    statuses = Counter(step.status for c in traffic.conversations for step in steps(c.messages))
    assert statuses["ok"] > statuses.total() / 3
    assert len(statuses.keys() - {"ok"}) >= 4


@pytest.mark.parametrize("key", [None, "sk-test"])
def test_the_same_customers_can_call_a_served_agent(
    make_traffic: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    """What they were told is what the server wrote down, in as many conversations."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    if key is not None:
        monkeypatch.setenv(KEY_VARIABLE, key)
    with serving(PROJECT, BASE, tmp_path, key=key) as served:
        arguments = ["--endpoint", served.base_url, "--day", DAYS[0], "--conversations", "12"]
        outcome = CliRunner().invoke(make_traffic.main, arguments)
        assert outcome.exit_code == 0, outcome.output
        heard = make_traffic.called(PROJECT, DAYS[1], 12, served.base_url)
        kept = served.traffic()
    assert "12 conversations with the customers of 2026-03-02" in outcome.output
    assert kept.rejects == ()
    assert len(kept.conversations) == 24
    told = [c.messages for c in kept.conversations]
    answered = [r.messages[:-1] if r.messages[-1].role == "user" else r.messages for r in heard]
    assert all(messages in told for messages in answered)


def test_redaction_has_something_to_do(traffic: Traffic) -> None:
    redact = Redactor("example")
    kept = "".join(redact.conversation(c).model_dump_json() for c in traffic.conversations)
    assert "@example.org" in "".join(c.model_dump_json() for c in traffic.conversations)
    assert "@example.org" not in kept
    assert "<email:" in kept
    assert "<phone:" in kept


def test_the_shipped_traffic_is_small() -> None:
    shipped = [EXAMPLE / "traffic" / day / "agent.jsonl" for day in DAYS]
    assert sum(path.stat().st_size for path in shipped) < 2_000_000
