import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint_server import Answer, EndpointServer, Script
from tests.example import DOCUMENT, TOOLS, played, transcript
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import DEFAULT_RUBRIC, Case, ModelJudge, RulesJudge, Verdict
from while_pipeline.grade.outcome import Outcome
from while_pipeline.records import Finding
from while_pipeline.simulate.rollout import Rollout

PLAYED = list(played(6))
LOST = replace(PLAYED[0], played=replace(PLAYED[0].played, lost="AgentError: 503", ended="lost"))


def case(ok: bool | None, *rules: str) -> Case:
    found = tuple(Finding(rule=r, severity="style", message_index=0, evidence="x") for r in rules)
    return Case(transcript(PLAYED[0]), found, Outcome(ok=ok, reason="why"))


# -- the rules as the judge -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("put", "verdict"),
    [
        (case(True), Verdict(clean=True, reason="no rule found anything")),
        (case(True, "b", "a", "b"), Verdict(clean=False, reason="a, b")),
        (case(False), Verdict(clean=False, reason="why")),
        (case(False, "a"), Verdict(clean=False, reason="why")),
        (case(None, "a"), Verdict(clean=None, reason="why")),
    ],
)
def test_by_the_rules_clean_is_a_right_outcome_without_a_finding(put: Case, verdict: Verdict) -> None:
    assert RulesJudge().verdicts([put]) == [verdict]


# -- a model as the judge, over real HTTP -----------------------------------------------------------------


def said(clean: Any = True, **changes: Any) -> str:
    return json.dumps({"reason": "As asked.", "clean": clean, "score": 1.0, **changes})


def judge_at(server: EndpointServer, responses: Path, rubric: str = DEFAULT_RUBRIC) -> ModelJudge:
    settings = EndpointSettings(base_url=server.base_url, model="judge", max_retries=0, timeout_s=5)
    return ModelJudge(settings, rubric, responses)


def verdicts(script: Script, tmp_path: Path, rollouts: list[Rollout]) -> tuple[list[Verdict], int]:
    with EndpointServer(script) as server:
        graded = grade(rollouts, TOOLS, DOCUMENT, judge_at(server, tmp_path / "responses.sqlite"))
    return [one.verdict for one in graded], len(server.asked)


def test_the_judge_reads_transcript_policy_document_and_rubric(tmp_path: Path) -> None:
    with EndpointServer(lambda _request: said()) as server:
        grade(PLAYED[:1], TOOLS, DOCUMENT, judge_at(server, tmp_path / "r.sqlite", "Be polite."))
    system, user = (message["content"] for message in server.asked[0].body["messages"])
    assert DOCUMENT.text in system
    assert "Be polite." in system
    assert transcript(PLAYED[0]).text() in user


def test_verdicts_come_in_the_order_of_the_rollouts_whatever_order_they_were_answered_in(
    tmp_path: Path,
) -> None:
    opening = {json.dumps(r.messages[0].content)[1:-1]: i for i, r in enumerate(PLAYED)}

    def script(request: dict[str, Any]) -> Answer:
        text = json.dumps(request["messages"][1]["content"])
        index = next(i for opened, i in opening.items() if opened in text)
        delay = 0.05 * (len(PLAYED) - index)
        return Answer({"content": said(index % 2 == 0, reason=f"number {index}")}, delay_s=delay)

    found, _ = verdicts(script, tmp_path, PLAYED)
    assert found == [Verdict(clean=i % 2 == 0, reason=f"number {i}") for i in range(len(PLAYED))]


def test_answers_are_remembered_so_that_no_rollout_is_paid_for_twice(tmp_path: Path) -> None:
    with EndpointServer(lambda _request: said()) as server:
        judge = judge_at(server, tmp_path / "r.sqlite")
        first = grade(PLAYED, TOOLS, DOCUMENT, judge)
        again = grade(PLAYED, TOOLS, DOCUMENT, judge_at(server, tmp_path / "r.sqlite"))
        assert len(server.asked) == len(PLAYED)
        grade(PLAYED[:1], TOOLS, DOCUMENT, judge_at(server, tmp_path / "r.sqlite", "Another rubric."))
        assert len(server.asked) == len(PLAYED) + 1
    assert first == again


def test_a_lost_rollout_costs_no_call_and_gets_no_verdict(tmp_path: Path) -> None:
    found, calls = verdicts(lambda _request: said(), tmp_path, [LOST, PLAYED[1]])
    assert found[0] == Verdict(clean=None, reason="lost: AgentError: 503")
    assert found[1].clean is True
    assert calls == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("The agent did well.", "unparsable"),
        (said(clean="yes"), "unparsable"),
        (said(score=7), "out of range"),
        ({"content": None, "refusal": "I won't."}, "refused"),
        (Answer(status=500), "500"),
    ],
)
def test_what_is_no_verdict_is_neither_pass_nor_fail(answer: Any, why: str, tmp_path: Path) -> None:
    with EndpointServer(lambda _request: answer) as server:
        (one,) = grade(PLAYED[:1], TOOLS, DOCUMENT, judge_at(server, tmp_path / "r.sqlite"))
    assert (one.verdict.clean, one.reward, one.passed) == (None, None, None)
    assert one.reason.startswith("no verdict: ")
    assert why in one.reason


def test_one_broken_answer_spoils_no_other(tmp_path: Path) -> None:
    opening = json.dumps(PLAYED[2].messages[0].content)[1:-1]
    found, _ = verdicts(lambda r: "?" if opening in json.dumps(r["messages"]) else said(), tmp_path, PLAYED)
    assert [verdict.clean for verdict in found] == [True, True, None, True, True, True]


# -- which judge it is ------------------------------------------------------------------------------------


def test_another_model_rubric_or_setting_is_another_judge_another_speed_is_not(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"base_url": "http://127.0.0.1:1/v1", "model": "a"}

    def identity(rubric: str = "r", **changes: Any) -> str:
        return ModelJudge(EndpointSettings(**{**plain, **changes}), rubric, tmp_path / "r.sqlite").identity

    assert identity() == identity(concurrency=2) == identity(timeout_s=5) == identity(max_retries=1)
    others = [identity("s"), identity(model="b"), identity(max_tokens=9), RulesJudge().identity]
    assert len({identity(), *others}) == 5
    assert RulesJudge().identity == RulesJudge().identity


@pytest.mark.parametrize(("score", "clean"), [(0.0, False), (0.79, False), (0.8, True), (1.0, True)])
def test_an_answer_that_keeps_few_of_the_principles_is_not_clean(
    score: float, clean: bool, tmp_path: Path
) -> None:
    (verdict,), _ = verdicts(lambda _request: said(score=score), tmp_path, PLAYED[:1])
    assert verdict.clean is clean
