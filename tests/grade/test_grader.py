from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.example import DOCUMENT, TOOLS, played, transcript
from while_pipeline.constants import STYLE_ONLY_REWARD
from while_pipeline.grade.conduct import findings
from while_pipeline.grade.grader import Graded, conduct, grade
from while_pipeline.grade.judge import Case, Criterion, RulesJudge, Verdict
from while_pipeline.grade.outcome import Outcome
from while_pipeline.grade.rubric import Kind
from while_pipeline.records import Finding, Severity

PLAYED = list(played(60, samples=2))
GRADED = grade(PLAYED, TOOLS, DOCUMENT, RulesJudge())


def finding(severity: Severity) -> Finding:
    return Finding(rule=f"some_{severity}", severity=severity, message_index=1, evidence="x")


def graded(ok: bool | None, clean: bool | None, *severities: Severity) -> Graded:
    verdict = Verdict(clean=clean, reason="the judge's reason")
    found = tuple(map(finding, severities))
    return Graded(PLAYED[0], found, Outcome(ok=ok, reason="the outcome's reason"), verdict, agent_words=9)


@pytest.mark.parametrize(
    ("one", "reward"),
    [
        (graded(True, True), 1.0),
        (graded(True, False, "style"), STYLE_ONLY_REWARD),
        (graded(True, False, "style", "style"), STYLE_ONLY_REWARD),
        (graded(True, False, "hard"), 0.0),
        (graded(True, False, "style", "hard"), 0.0),
        (graded(True, True, "hard"), 0.0),
        (graded(True, False), 0.0),
        (graded(False, True), 0.0),
        (graded(False, False, "style"), 0.0),
        (graded(True, None), None),
        (graded(False, None, "hard"), None),
        (graded(None, None), None),
    ],
)
def test_the_reward_is_one_for_clean_half_for_style_zero_for_wrong_and_unknown_without_a_verdict(
    one: Graded, reward: float | None
) -> None:
    assert one.reward == reward
    assert one.passed is (None if reward is None else reward == 1.0)


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (graded(True, True), "the judge's reason"),
        (graded(True, False, "style", "hard", "hard"), "some_hard, some_style"),
        (graded(False, False, "hard"), "the outcome's reason"),
        (graded(True, None, "hard"), "the judge's reason"),
    ],
)
def test_the_reason_is_the_outcomes_then_the_rules_then_the_judges(one: Graded, reason: str) -> None:
    assert one.reason == reason


def test_grades_come_in_the_order_of_the_rollouts_with_the_agents_words() -> None:
    assert [one.rollout for one in GRADED] == PLAYED
    said = " ".join(m.content or "" for m in PLAYED[0].messages if m.role == "assistant")
    assert GRADED[0].agent_words == len(said.split())


def test_conduct_is_what_the_rules_find_in_every_rollout_shared_conversations_included() -> None:
    assert len({id(rollout.played) for rollout in PLAYED}) < len(PLAYED)
    found = conduct(PLAYED, TOOLS, DOCUMENT)
    assert list(found) == [rollout.rollout_id for rollout in PLAYED]
    assert found == {rollout.rollout_id: findings(transcript(rollout)) for rollout in PLAYED}


def test_findings_known_before_are_used_as_they_are_and_none_means_none() -> None:
    known = {r.rollout_id: findings(transcript(r)) for r in PLAYED}
    assert grade(PLAYED, TOOLS, DOCUMENT, RulesJudge(), known) == GRADED
    assert all(one.findings == () for one in grade(PLAYED, TOOLS, DOCUMENT, RulesJudge(), {}))


def test_no_planted_defect_is_ever_graded_whole() -> None:
    defective = [one for one in GRADED if one.rollout.seeded]
    assert len(defective) > 30
    assert not any(one.passed for one in defective)


def test_most_rollouts_without_a_defect_are_graded_whole() -> None:
    sound = [one for one in GRADED if not one.rollout.seeded]
    assert sum(one.passed is True for one in sound) / len(sound) > 0.9


def test_a_lost_rollout_has_neither_reward_nor_pass() -> None:
    lost = replace(PLAYED[0], played=replace(PLAYED[0].played, lost="AgentError: 503", ended="lost"))
    (one,) = grade([lost], TOOLS, DOCUMENT, RulesJudge())
    assert (one.reward, one.passed, one.reason) == (None, None, "lost: AgentError: 503")


@pytest.mark.parametrize(("kind", "reward"), [("hard", 0.0), ("principle", 0.5)])
def test_a_right_answer_that_breaks_a_hard_criterion_is_no_matter_of_style(kind: Kind, reward: float) -> None:
    (right, *_) = [one for one in grade(PLAYED, TOOLS, DOCUMENT, RulesJudge()) if one.reward == 1.0]
    criterion = Criterion(criterion=f"{kind}_1", kind=kind, score=0.0, reason="so it is")
    refused = replace(right, verdict=Verdict(clean=False, reason="no", criteria=(criterion,)))
    slip = Finding(rule="hedging", severity="style", message_index=1, evidence="perhaps")
    for one in (refused, replace(refused, findings=(slip,))):
        assert one.reward == reward


def test_a_hard_finding_spoils_even_a_clean_verdict_of_another_judge() -> None:
    class Kind:
        identity = "kind"

        def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
            return [Verdict(clean=True, reason="lovely")] * len(cases)

    for one in grade(PLAYED, TOOLS, DOCUMENT, Kind()):
        expected = 1.0 if one.outcome.ok and not one.has_hard_finding else None
        assert one.reward == expected or (expected is None and one.reward != 1.0)
        assert replace(one, findings=()).has_hard_finding is False
