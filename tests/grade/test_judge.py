import pytest

from tests.example import played, transcript
from while_pipeline.grade.judge import Case, Choice, Preference, RulesJudge, Verdict
from while_pipeline.grade.outcome import Outcome
from while_pipeline.records import Finding

TRANSCRIPT = transcript(played(1)[0])


def case(ok: bool | None, *rules: str) -> Case:
    found = tuple(Finding(rule=r, severity="style", message_index=0, evidence="x") for r in rules)
    return Case(TRANSCRIPT, found, Outcome(ok=ok, reason="why"), group="g")


@pytest.mark.parametrize(
    ("put", "verdict"),
    [
        (case(True), Verdict(clean=True, reason="no rule found anything")),
        (case(True, "b", "a", "b"), Verdict(clean=False, reason="a, b")),
        (case(False), Verdict(clean=False, reason="why")),
        (case(False, "a"), Verdict(clean=False, reason="why")),
        (case(None, "a"), Verdict(clean=None, reason="why", no_verdict="not asked")),
    ],
)
def test_by_the_rules_clean_is_a_right_outcome_without_a_finding(put: Case, verdict: Verdict) -> None:
    assert RulesJudge().verdicts([put]) == [verdict]


@pytest.mark.parametrize(
    ("first", "second", "choice"),
    [
        (case(True), case(True, "a"), "first"),
        (case(True), case(False), "first"),
        (case(True, "a"), case(False), "first"),
        (case(True, "a", "b"), case(False, "a"), "first"),
        (case(True), case(True), "tie"),
        (case(True, "a"), case(True, "b", "c"), "tie"),
        (case(False), case(False, "a"), "tie"),
    ],
)
def test_by_the_rules_clean_beats_not_clean_and_right_beats_wrong(
    first: Case, second: Case, choice: Choice
) -> None:
    turned = {"first": "second", "tie": "tie"}[choice]
    there, back = RulesJudge().preferences([(first, second), (second, first)])
    assert (there.choice, there.forward, there.backward) == (choice,) * 3
    assert (back.choice, back.forward, back.backward) == (turned,) * 3


def test_by_the_rules_an_unknown_outcome_is_no_preference() -> None:
    found = RulesJudge().preferences([(case(True), case(None)), (case(None), case(False))])
    assert [one.choice for one in found] == [None, None]
    assert found[0].reason == "why"


@pytest.mark.parametrize(
    ("forward", "backward", "choice"),
    [
        ("first", "first", "first"),
        ("second", "second", "second"),
        ("tie", "tie", "tie"),
        ("first", "second", "tie"),
        ("second", "first", "tie"),
        ("first", "tie", "tie"),
        ("tie", "second", "tie"),
        ("first", None, None),
        (None, "second", None),
        (None, None, None),
    ],
)
def test_orders_that_disagree_are_a_tie_and_an_order_without_verdict_is_none(
    forward: Choice | None, backward: Choice | None, choice: Choice | None
) -> None:
    assert Preference.of(forward, backward, "") == Preference(
        choice=choice, forward=forward, backward=backward, reason=""
    )


def test_the_rules_are_one_judge_without_rubric_or_settings() -> None:
    assert RulesJudge().identity == RulesJudge().identity
    assert (RulesJudge().rubric, RulesJudge().settings) == (None, None)
