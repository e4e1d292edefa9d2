"""What fires on 200 public conversations of a good model. Those that fire were read, one by one."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import pytest

from tests.example import SHARED
from while_pipeline.grade.conduct import findings
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Finding
from while_pipeline.tools import load_tools
from while_pipeline.transcript import Transcript
from while_pipeline.watch.read import read_file

DATA = SHARED / "tau-bench"

READ = {
    "unconfirmed_write": 27,
    "ungrounded_argument": 8,
    "skipped_verification": 4,
    "broken_rule": 1,
    "repeats_itself": 1,
}
"""Conversations per rule. Read, 23, 5, 4, 0 and 1 of them are as the rule says. The others: a customer who,
asked how to pay, said so without a yes; prices added up over two flights, and a trip back that nobody spoke
of; and a request that the agent had declined already."""


class Graded(NamedTuple):
    reward: float | None
    findings: list[Finding]


@cache
def airline() -> Mapping[tuple[str | None, int | None], Graded]:
    """Findings by (task, trial)."""
    if not DATA.exists():
        pytest.skip("the public tau-bench trajectories are not beside this checkout")
    document = read_policy_document((DATA / "airline.wiki.md").read_text(encoding="utf-8"))
    tools = {tool.name: tool for tool in load_tools("airline.tools.openai.json", DATA)}
    conversations = read_file(DATA / "gpt-4o-airline.json", "2025-01-01").conversations
    return {
        (c.task, c.trial): Graded(c.reward, findings(Transcript(c.messages, tools, document)))
        for c in conversations
    }


def test_nothing_fires_but_what_was_read() -> None:
    graded = airline()
    assert len(graded) == 200
    conversations = defaultdict[str, int](int)
    for one in graded.values():
        for rule in {finding.rule for finding in one.findings}:
            conversations[rule] += 1
    assert conversations.keys() <= READ.keys()
    assert {rule: n for rule, n in conversations.items() if n > READ[rule]} == {}


@pytest.mark.parametrize(
    ("task", "trial", "rule", "evidence"),
    [
        ("28", 0, "unconfirmed_write", "cancel_reservation"),  # four cancelled without a word before
        ("45", 0, "unconfirmed_write", "send_certificate"),
        ("20", 1, "ungrounded_argument", "update_reservation_flights.payment_id"),  # no such card on file
        ("26", 0, "ungrounded_argument", "update_reservation_flights.payment_id"),  # its last four digits
        ("27", 2, "skipped_verification", "cancel_reservation"),  # cancelled by reservation number alone
        ("13", 0, "repeats_itself", "It seems there is still an issue"),
    ],
)
def test_what_went_wrong_in_the_open_is_found(task: str, trial: int, rule: str, evidence: str) -> None:
    seen = [f.evidence for f in airline()[task, trial].findings if f.rule == rule]
    assert any(one.startswith(evidence) for one in seen)


@pytest.mark.parametrize(
    ("task", "trial", "rule"),
    [
        ("15", 2, "unconfirmed_write"),  # "confirm ... these changes": listed in the message before
        ("19", 0, "unconfirmed_write"),  # "proceed with this approach?": likewise
        ("46", 3, "unconfirmed_write"),  # the compensation is the certificate of the question before
        ("32", 2, "unconfirmed_write"),  # "Everything looks good!"
        ("3", 3, "unconfirmed_write"),  # yes, then which gift card
        ("32", 1, "ungrounded_argument"),  # twice the fare, for two passengers
        ("10", 0, "ungrounded_argument"),  # the price split over two gift cards
        ("46", 3, "ungrounded_argument"),  # the amount that the rules give
        ("36", 0, "skipped_verification"),  # a question about a reservation, nothing changed
    ],
)
def test_what_was_well_done_is_not(task: str, trial: int, rule: str) -> None:
    first = [f for f in airline()[task, trial].findings if f.rule == rule]
    assert first == []


def test_every_finding_points_to_what_it_quotes() -> None:
    for one in airline().values():
        for finding in one.findings:
            assert finding.start is not None
            assert finding.end is not None
            assert 0 <= finding.start < finding.end
            assert (finding.step is None) == (finding.rule in ("broken_rule", "repeats_itself"))


def test_findings_go_with_failure() -> None:
    rate = {True: [0, 0], False: [0, 0]}
    for one in airline().values():
        rate[one.reward == 1.0][0] += any(finding.severity == "hard" for finding in one.findings)
        rate[one.reward == 1.0][1] += 1
    assert rate[False][0] / rate[False][1] > rate[True][0] / rate[True][1]
