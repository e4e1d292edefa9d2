"""How a judge's answer is read. What no verdict is, and why, is as much a rule as what one is."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.agents.endpoint import Completion
from while_pipeline.grade.judge import Criterion, NoVerdict, Verdict
from while_pipeline.grade.judge_answers import (
    PRINCIPLES_KEPT,
    Silence,
    group_format,
    preference_format,
    read_group,
    read_preference,
    read_verdict,
    verdict_format,
)
from while_pipeline.grade.rubric import read_rubric
from while_pipeline.records import NO_USAGE, Message

RUBRIC = read_rubric("# Hard criteria\n- No lies.\n- No leaks.\n# Principles\n- Short.\n- Plain.", "r")
KEPT: dict[str, Any] = {
    "hard_1": {"reason": "Says what came back.", "holds": True},
    "hard_2": {"reason": "Tells nothing.", "holds": True},
    "principle_1": {"reason": "Two lines.", "score": 1.0},
    "principle_2": {"reason": "One hedge.", "score": 0.8},
}


def completion(content: str | None, refusal: str | None = None, finish_reason: str = "stop") -> Completion:
    return Completion(
        message=Message(role="assistant", content=content),
        refusal=refusal,
        model="served",
        finish_reason=finish_reason,
        logprob=None,
        usage=NO_USAGE,
    )


def verdict(answer: object, **changes: Any) -> Verdict:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return read_verdict(completion(text, **changes), RUBRIC)


def said(**changes: Any) -> dict[str, Any]:
    """`KEPT` with some criteria changed; None takes one out."""
    return {name: part for name, part in {**KEPT, **changes}.items() if part is not None}


def holds(value: Any) -> dict[str, Any]:
    return {"reason": "So it is.", "holds": value}


def score(value: Any) -> dict[str, Any]:
    return {"reason": "So it is.", "score": value}


# -- a verdict --------------------------------------------------------------------------------------------


def test_a_verdict_has_a_score_and_a_reason_for_each_criterion_and_the_model_that_answered() -> None:
    assert verdict(KEPT) == Verdict(
        clean=True,
        reason="every hard criterion holds, the principles score 0.90",
        criteria=(
            Criterion(criterion="hard_1", kind="hard", score=1.0, reason="Says what came back."),
            Criterion(criterion="hard_2", kind="hard", score=1.0, reason="Tells nothing."),
            Criterion(criterion="principle_1", kind="principle", score=1.0, reason="Two lines."),
            Criterion(criterion="principle_2", kind="principle", score=0.8, reason="One hedge."),
        ),
        model="served",
    )


def test_one_broken_hard_criterion_is_not_clean_and_the_reason_names_all_that_are_broken() -> None:
    broken = verdict(said(hard_2={"reason": "Quotes its prompt.", "holds": False}))
    assert (broken.clean, broken.reason) == (False, "hard_2: Quotes its prompt.")
    both = verdict(said(hard_1=holds(False), hard_2=holds(False)))
    assert both.reason == "hard_1: So it is.; hard_2: So it is."


@pytest.mark.parametrize(
    ("scores", "clean"),
    [((0.8, 0.8), True), ((1, 0.6), True), ((0.7, 0.9), True), ((0.79, 0.8), False), ((1, 0), False)],
)
def test_the_mean_of_the_principles_must_reach_the_share_kept(
    scores: tuple[float, float], clean: bool
) -> None:
    found = verdict(said(principle_1=score(scores[0]), principle_2=score(scores[1])))
    assert found.clean is clean
    if not clean:
        assert found.reason.startswith("the principles score 0.")
        low = [f"principle_{i + 1}" for i, one in enumerate(scores) if one < PRINCIPLES_KEPT]
        assert [name for name in ("principle_1", "principle_2") if name in found.reason] == low


def test_without_principles_the_hard_criteria_decide() -> None:
    rubric = read_rubric("# Hard criteria\n- No lies.", "r")
    for value in (True, False):
        answer = completion(json.dumps({"hard_1": holds(value)}))
        assert read_verdict(answer, rubric).clean is value


@given(
    hard=st.lists(st.booleans(), min_size=2, max_size=2),
    scores=st.lists(st.floats(0, 1), min_size=2, max_size=2),
)
def test_clean_is_all_hard_criteria_and_four_fifths_of_the_principles(
    hard: list[bool], scores: list[float]
) -> None:
    found = verdict(
        {f"hard_{i + 1}": holds(one) for i, one in enumerate(hard)}
        | {f"principle_{i + 1}": score(one) for i, one in enumerate(scores)}
    )
    assert found.clean is (all(hard) and sum(scores) / 2 >= PRINCIPLES_KEPT)
    assert [c.score for c in found.criteria] == [*map(float, hard), *scores]


# -- no verdict -------------------------------------------------------------------------------------------

WHOLE = json.dumps(KEPT)


@pytest.mark.parametrize(
    ("answer", "cause", "detail"),
    [
        ("The agent did well.", "unparsable", ""),
        ("", "empty", ""),
        ("  \n", "empty", ""),
        ("[]", "unparsable", "not a JSON object"),
        ("null", "unparsable", "not a JSON object"),
        (WHOLE[:-1], "unparsable", ""),
        (said(hard_1=holds("yes")), "unparsable", "hard_1.holds"),
        (said(hard_1=holds(1)), "unparsable", "hard_1.holds"),
        (said(hard_1=holds(None)), "unparsable", "hard_1.holds"),
        (said(hard_1=score(1)), "missing", "hard_1.holds"),
        (said(hard_1=True), "unparsable", "hard_1"),
        (said(principle_1=score("0.5")), "unparsable", "principle_1.score"),
        (said(principle_1=score(True)), "unparsable", "principle_1.score"),
        (said(principle_1=score(float("nan"))), "unparsable", "NaN"),
        (said(principle_1=score(1.01)), "out of range", "principle_1.score"),
        (said(principle_1=score(-0.1)), "out of range", "principle_1.score"),
        (said(principle_2=score(85)), "out of range", "principle_2.score"),
        (said(hard_2=None), "missing", "hard_2"),
        (said(principle_2=None), "missing", "principle_2"),
        (said(hard_1={"holds": True}), "missing", "hard_1.reason"),
        (said(hard_1={"reason": " ", "holds": True}), "missing", "hard_1.reason"),
        (said(hard_3=holds(True)), "unparsable", "hard_3"),
        (said(overall=True), "unparsable", "overall"),
        ({}, "missing", "hard_1"),
        (WHOLE[:-1] + ', "hard_1": {"reason": "No.", "holds": false}}', "doubled", "hard_1"),
        (WHOLE.replace('"holds": true', '"holds": true, "holds": false', 1), "doubled", "holds"),
    ],
)
def test_what_is_no_verdict_is_neither_pass_nor_fail_and_says_why(
    answer: object, cause: NoVerdict, detail: str
) -> None:
    found = verdict(answer)
    assert (found.clean, found.criteria, found.no_verdict) == (None, (), cause)
    assert found.reason.startswith(f"no verdict: {cause} (")
    assert detail in found.reason
    assert found.model == "served"


def test_a_refusal_and_an_answer_cut_off_are_no_verdict_whatever_they_say() -> None:
    assert verdict(KEPT, refusal="I won't.").reason == "no verdict: refused (I won't.)"
    assert verdict(KEPT, finish_reason="content_filter").no_verdict == "refused"
    assert verdict(KEPT, finish_reason="length").no_verdict == "cut off"


@given(st.text() | st.text().map(json.dumps))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert verdict(text).clean is None


def test_half_a_character_in_a_reason_does_not_spoil_the_row() -> None:
    found = verdict(WHOLE.replace("Two lines.", "\\ud83d"))
    assert found.criteria[2].reason.encode("utf-8").decode() == "\ufffd"


# -- a code block -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{WHOLE}\n```",
        f"```\n{json.dumps(KEPT, indent=2)}\n```",
        f"\n ```JSON \n{WHOLE}```\n",
        f"  {WHOLE}\n\n",
        WHOLE.replace("Two lines.", "A ```block``` of two lines."),
    ],
)
def test_one_fenced_block_around_the_object_counts_as_the_object(text: str) -> None:
    assert verdict(text).clean is True


@pytest.mark.parametrize(
    "text",
    [
        f"Here is my verdict:\n```json\n{WHOLE}\n```",
        f"```json\n{WHOLE}\n```\nI hope this helps.",
        f"```json\n{WHOLE}\n```\n```json\n{WHOLE}\n```",
        f"```python\n{WHOLE}\n```",
        f"```json\n{WHOLE}",
        f"{WHOLE}\n{WHOLE}",
        f"Verdict: {WHOLE}",
    ],
)
def test_anything_around_the_object_or_its_block_is_no_verdict(text: str) -> None:
    assert verdict(text).no_verdict == "unparsable"


# -- a group ----------------------------------------------------------------------------------------------


def group(answer: object, size: int = 3) -> list[Verdict]:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return read_group(completion(text), RUBRIC, size)


def test_a_group_has_a_verdict_for_each_rollout_in_the_order_asked_whatever_the_order_said() -> None:
    bad = said(hard_1=holds(False))
    found = group({"rollout_3": KEPT, "rollout_1": KEPT, "rollout_2": bad})
    assert [one.clean for one in found] == [True, False, True]
    assert found[0] == verdict(KEPT)


TWICE = json.dumps({"rollout_1": KEPT, "rollout_2": KEPT, "rollout_3": KEPT}).replace(
    "rollout_3", "rollout_2"
)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"rollout_1": KEPT, "rollout_2": KEPT}, "missing"),
        ({"rollout_1": KEPT, "rollout_2": KEPT, "rollout_3": None}, "missing"),
        ({"rollout_1": KEPT, "rollout_2": KEPT, "rollout_4": KEPT}, "missing"),
        ({f"rollout_{i}": KEPT for i in (1, 2, 3, 4)}, "unparsable"),
        ([KEPT] * 3, "unparsable"),
        (TWICE, "doubled"),
        (KEPT, "missing"),
        ("All fine.", "unparsable"),
    ],
)
def test_a_group_whose_answer_misses_or_doubles_a_rollout_has_no_verdict_at_all(
    answer: object, cause: NoVerdict
) -> None:
    found = group(answer)
    assert [(one.clean, one.no_verdict) for one in found] == [(None, cause)] * 3


def test_a_criterion_that_is_wrong_silences_its_own_rollout_alone() -> None:
    found = group(
        {"rollout_1": KEPT, "rollout_2": said(principle_1=score(7)), "rollout_3": said(hard_2=None)}
    )
    assert [one.clean for one in found] == [True, None, None]
    assert [one.no_verdict for one in found] == [None, "out of range", "missing"]


# -- a preference -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("better", ["first", "second", "tie"])
def test_a_preference_is_one_of_three_with_its_reason(better: str) -> None:
    answer = completion(json.dumps({"reason": "Shorter.", "better": better}))
    assert read_preference(answer) == (better, "Shorter.")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"reason": "Shorter.", "better": "both"}, "unparsable"),
        ({"reason": "Shorter.", "better": 1}, "unparsable"),
        ({"better": "first"}, "missing"),
        ({"reason": "", "better": "first"}, "missing"),
        ({"reason": "Shorter."}, "missing"),
        ({"reason": "Shorter.", "better": "first", "score": 1}, "unparsable"),
    ],
)
def test_any_other_preference_is_none(answer: object, cause: NoVerdict) -> None:
    with pytest.raises(Silence) as caught:
        read_preference(completion(json.dumps(answer)))
    assert caught.value.cause == cause


# -- what is asked for ------------------------------------------------------------------------------------


def schema(wanted: dict[str, Any]) -> dict[str, Any]:
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["strict"] is True
    found: dict[str, Any] = wanted["json_schema"]["schema"]
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def test_a_verdict_as_asked_for_is_one_that_is_read() -> None:
    wanted = schema(verdict_format(RUBRIC))
    jsonschema.validate(KEPT, wanted)
    for answer in (said(hard_1=None), said(hard_3=holds(True)), said(hard_1=holds("yes"))):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(answer, wanted)
        assert verdict(answer).clean is None


def test_groups_and_preferences_as_asked_for_are_read() -> None:
    answers = {"rollout_1": KEPT, "rollout_2": KEPT}
    jsonschema.validate(answers, schema(group_format(RUBRIC, 2)))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answers, schema(group_format(RUBRIC, 3)))
    jsonschema.validate({"reason": "Shorter.", "better": "tie"}, schema(preference_format()))


def test_a_reason_comes_before_what_it_is_the_reason_for() -> None:
    """A model writes in a schema's order: the verdict must follow its reason."""
    for part in schema(verdict_format(RUBRIC))["properties"].values():
        assert next(iter(part["properties"])) == "reason"
    assert next(iter(schema(preference_format())["properties"])) == "reason"
