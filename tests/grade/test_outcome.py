from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.example import BASE, DOCUMENT, TOOLS, WRITER, ordinary, rollouts, transcript
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.grade.outcome import Outcome, outcome
from while_pipeline.policy_document import RuleKind
from while_pipeline.records import Message, ToolCall
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import AnswerKey

CELL = ordinary()
(PLAYED,) = rollouts(EmbeddedAgent(BASE), [WRITER.write(CELL, 1)])


def rollout(
    *said: str | Message,
    effects: Mapping[str, Any] | None = None,
    facts: tuple[str, ...] = (),
    must: tuple[str, ...] = (),
    diff: Mapping[str, Any] | None = None,
    rule: str = "none",
    **changes: Any,
) -> Rollout:
    """A rollout in which the agent says `said` after the customer's opening, under a hand-made key."""
    scenario = PLAYED.scenario.model_copy(
        update={
            "key": AnswerKey(effects=dict(effects or {}), facts=facts, must=must),
            "situation": CELL.model_copy(update={"policy_rule": rule}),
        }
    )
    messages = [s if isinstance(s, Message) else Message(role="assistant", content=s) for s in said]
    update = {
        "scenario": scenario,
        "messages": (Message(role="user", content="Hello."), *messages),
        "diff": dict(diff or {}),
        "ended": "satisfied",
    }
    return replace(PLAYED, played=replace(PLAYED.played, **{**update, **changes}))


def held(one: Rollout) -> Outcome:
    return outcome(one.played, transcript(one))


def test_what_the_key_asks_and_nothing_else_is_right() -> None:
    effects = {"line/LINE-1/status": "suspended"}
    right = rollout("LINE-1 is suspended.", effects=effects, diff=effects, facts=("LINE-1",))
    assert held(right) == Outcome(ok=True, reason="as the key asks")
    assert held(rollout("Hello.")).ok is True


@pytest.mark.parametrize(
    ("effects", "diff", "reason"),
    [
        ({"a/1/x": 1}, {}, "missing effect: a/1/x"),
        ({}, {"a/1/x": 1}, "forbidden effect: a/1/x"),
        ({"a/1/x": 1}, {"a/1/x": 2}, "wrong effect: a/1/x"),
        ({"a/1/x": 1}, {"a/2/x": 1}, "missing effect: a/1/x"),
    ],
)
def test_the_worlds_change_must_be_the_keys(
    effects: dict[str, Any], diff: dict[str, Any], reason: str
) -> None:
    assert held(rollout("Done.", effects=effects, diff=diff)) == Outcome(ok=False, reason=reason)


KEYLESS = PLAYED.scenario.model_copy(update={"key": AnswerKey(effects=None, facts=("LINE-1",), must=())})


def test_a_key_that_knows_no_effects_never_makes_an_answer_right() -> None:
    """What was said can still be wrong by itself."""
    for diff in ({}, {"a/1/x": 1}):
        told = rollout("It is LINE-1.", diff=diff, scenario=KEYLESS)
        assert held(told) == Outcome(ok=None, reason="unknown: the world does not tell what was done")
        assert held(rollout("It is open.", diff=diff, scenario=KEYLESS)).ok is False


def test_a_world_that_does_not_tell_what_was_done_never_makes_an_answer_right() -> None:
    silent = rollout("LINE-1 is suspended.", effects={"line/LINE-1/status": "suspended"}, facts=("LINE-1",))
    silent = replace(silent, played=replace(silent.played, diff=None))
    assert held(silent).ok is None
    untold = replace(silent, played=replace(silent.played, messages=rollout("Done.").messages))
    assert held(untold) == Outcome(ok=False, reason="not told: LINE-1")


def test_every_forbidden_effect_is_wrong_however_right_the_words_and_the_other_effects() -> None:
    asked = {"line/LINE-1/status": "suspended"}
    for extra in ("line/LINE-2/status", "line/LINE-1/plan", "transfer"):
        done = rollout("LINE-1 is suspended.", effects=asked, diff={**asked, extra: True}, facts=("LINE-1",))
        assert held(done) == Outcome(ok=False, reason=f"forbidden effect: {extra}")


def test_a_lost_rollout_has_no_outcome_whatever_it_left_behind() -> None:
    lost = rollout("Done.", effects={"a/1/x": 1}, lost="AgentError: 503", ended="lost")
    assert held(lost) == Outcome(ok=None, reason="lost: AgentError: 503")


def test_running_out_of_turns_is_wrong_even_with_everything_done() -> None:
    assert held(rollout("Done.", ended="max_turns")) == Outcome(ok=False, reason="ran out of turns")


@pytest.mark.parametrize(
    ("told", "ok"),
    [("The status is active.", True), ("It is ACTIVE", True), ("It is inactive.", False), ("Done.", False)],
)
def test_a_fact_must_be_told_as_a_whole_word(told: str, ok: bool) -> None:
    assert held(rollout(told, facts=("active",))).ok is ok


def test_facts_may_be_spread_over_messages_and_all_are_needed() -> None:
    assert held(rollout("It is LINE-1.", "It is open.", facts=("LINE-1", "open"))).ok is True
    assert held(rollout("It is LINE-1.", facts=("LINE-1", "open"))).reason == "not told: open"


def _rule(kind: RuleKind) -> tuple[str, str]:
    rule = DOCUMENT.of_kind(kind)[0]
    return rule.rule_id, rule.text


ESCALATE = next(tool.name for tool in TOOLS if tool.kind == "transfer")
CALLS = Message(role="assistant", tool_calls=(ToolCall(id="1", name=ESCALATE, arguments={}),))
INFORM, INFORM_TEXT = _rule(RuleKind.INFORM)


@pytest.mark.parametrize(
    ("duty", "said", "met"),
    [
        ("handoff", CALLS, True),
        ("handoff", "I am transferring you to a human colleague now.", True),
        ("handoff", "I will not transfer you to a human.", False),
        ("handoff", "How can I help you?", False),
        ("missing", "I could not find that bill.", True),
        ("missing", "No bill was found.", True),
        ("missing", "It is open.", False),
        ("already", "That was already done.", True),
        ("already", "It is done.", False),
        ("fault", "It failed; it has not been done.", True),
        ("fault", "All done.", False),
        ("explain", f"Our rule on this: {INFORM_TEXT}", True),
        ("explain", "There are rules.", False),
    ],
)
def test_each_obligation_is_met_by_its_own_words(duty: str, said: str | Message, met: bool) -> None:
    result = held(rollout(said, must=(duty,), rule=INFORM))
    assert result.ok is met
    assert result.reason == ("as the key asks" if met else f"not said: {duty}")


NEVER, _ = _rule(RuleKind.NEVER)
TRIGGER = DOCUMENT.of_kind(RuleKind.NEVER)[0].trigger


def _asked(*answers: str) -> list[Message]:
    return [
        Message(role="user", content=f"I want you to {TRIGGER}."),
        *(Message(role="assistant", content=answer) for answer in answers),
    ]


def test_a_refusal_must_answer_the_request_it_is_about() -> None:
    cannot = Message(role="assistant", content="I cannot do that.")
    assert held(rollout(*_asked("I cannot do that."), must=("refuse",), rule=NEVER)).ok is True
    assert held(rollout(cannot, *_asked("Sure, I will."), must=("refuse",), rule=NEVER)).ok is False
    assert held(rollout(cannot, must=("refuse",), rule=NEVER)).ok is False


def test_every_obligation_is_needed_and_the_first_unmet_is_named() -> None:
    both = ("missing", "already")
    assert held(rollout("I could not find it; it was already done.", must=both)).ok is True
    assert held(rollout("I could not find it.", must=both)).reason == "not said: already"
