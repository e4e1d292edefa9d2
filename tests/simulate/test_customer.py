import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.example import DOCUMENT, GRID, WRITER, ordinary
from tests.toolsets import PERSON
from while_pipeline.records import Message
from while_pipeline.simulate.axes import situation
from while_pipeline.simulate.customer import NOTHING_MORE, CustomerTurn, respond
from while_pipeline.simulate.customer_checks import leaks
from while_pipeline.simulate.script import Script

CHANGE = ordinary("change_plan")


def _script(**changes: Any) -> Script:
    told: dict[str, Any] = {
        "opening": "Please change plan.",
        "goal_line": "Please change plan.",
        "persona": PERSON,
        "slots": {"line_id": "LINE-1", "plan": "basic", "date": "2026-05-01"},
        "corrections": {},
        "follow_ups": (),
        "confirmation": "Yes, please go ahead.",
    }
    return Script(**(told | changes))


def _hear(script: Script, *agent_said: str) -> CustomerTurn:
    """Let the customer answer each of the agent's messages; the last answer counts."""
    messages = [Message(role="user", content=script.opening)]
    turn = CustomerTurn(script.opening)
    for said in agent_said:
        assert turn.text is not None, "the customer has left"
        messages.append(Message(role="assistant", content=said))
        turn = respond(script, messages)
        messages.append(Message(role="user", content=turn.text))
    return turn


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Could you tell me your line id?", "My line id is LINE-1."),
        ("Please provide your line ID.", "My line id is LINE-1."),
        ("What is your line number?", "My line id is LINE-1."),
        ("Which line_id is it?", "My line id is LINE-1."),
        ("Is this your pipeline id?", NOTHING_MORE),
        ("I will need your line id and plan.", "My line id is LINE-1, plan is basic."),
        ("Please provide:\n1. Your line id.\n2. The plan.", "My line id is LINE-1, plan is basic."),
        ("What is your full name and your date of birth?", "I am Ada Fox, born 1980-02-03."),
        (
            "Who are you, and which date? What is your name?",
            "I am Ada Fox, born 1980-02-03. My date is 2026-05-01.",
        ),
        ("I am about to change plan. Shall I go ahead?", "Yes, please go ahead."),
        ("Would you like me to do that now?", "Yes, please go ahead."),
        ("Please confirm (yes/no).", "Yes, please go ahead."),
        ("How can I help you?", "Please change plan."),
        ("What exactly would you like me to do?", "Please change plan."),
        ("What is your favourite colour?", NOTHING_MORE),
    ],
)
def test_the_customer_answers_what_is_asked_from_what_it_knows(asked: str, answer: str) -> None:
    assert _hear(_script(), asked) == CustomerTurn(answer)


@pytest.mark.parametrize(
    ("said", "ending"),
    [
        ("The plan of your line was changed.", "satisfied"),
        ("That is done. Is there anything else I can help you with?", "satisfied"),
        ("If you need anything else, please let me know.", "satisfied"),
        ("I am transferring you to a human colleague now.", "transferred"),
    ],
)
def test_an_answer_ends_the_conversation(said: str, ending: str) -> None:
    assert _hear(_script(), said) == CustomerTurn(None, ending)  # type: ignore[arg-type]


def test_what_was_kept_for_later_is_said_once_and_one_at_a_time() -> None:
    script = _script(follow_ups=("What about the fee?", "And the tax?"))
    done = "That is done. Is there anything else?"
    assert _hear(script, done).text == "What about the fee?"
    assert _hear(script, done, "There is none.").text == "And the tax?"
    assert _hear(script, done, "There is none.", "None either.") == CustomerTurn(None, "satisfied")


def test_a_wrong_value_is_corrected_once_it_was_not_found_and_stays_corrected() -> None:
    script = _script(slots={"line_id": "LINE-9"}, corrections={"line_id": "LINE-1"})
    correction = "Sorry, I misread it: line id is LINE-1."
    not_found = "I could not find a line LINE-9."
    assert _hear(script, "Could you tell me your line id?").text == "My line id is LINE-9."
    assert _hear(script, not_found).text == correction
    assert _hear(script, "No line was found. Shall I go ahead with the other one?").text == (
        f"{correction} {script.confirmation}"
    )
    assert _hear(script, not_found, "What is your line id?").text == "My line id is LINE-1."
    assert _hear(script, not_found, not_found) == CustomerTurn(None, "satisfied")


@pytest.mark.parametrize(
    "told",
    [
        "I could not change plan; it has not been done.",
        "I was unable to do that.",
        "I couldn't find the line.",
    ],
)
def test_a_failure_gets_one_reaction_before_anything_else_is_said(told: str) -> None:
    script = _script(reaction="That is a pity.", follow_ups=("And the tax?",))
    assert _hear(script, told).text == "That is a pity."
    assert _hear(script, told, told).text == "And the tax?"
    assert _hear(script, told, "I see.", told) == CustomerTurn(None, "satisfied")


def test_nobody_is_disappointed_by_a_question_or_by_what_can_still_be_put_right() -> None:
    script = _script(reaction="That is a pity.", corrections={"line_id": "LINE-2"})
    assert _hear(script, "I could not find it.").text == "Sorry, I misread it: line id is LINE-2."
    assert _hear(script, "I could not do it without your plan. Could you tell me your plan?").text == (
        "My plan is basic."
    )
    assert _hear(script, "That is done.") == CustomerTurn(None, "satisfied")


def test_a_customer_asked_the_same_thing_three_times_leaves() -> None:
    asked = "Could you tell me your line id?"
    assert _hear(_script(), asked, asked).ending is None
    assert _hear(_script(), asked, asked, asked) == CustomerTurn(None, "gone")
    assert _hear(_script(), asked, "Your line id, please?", "What was the line id?") == CustomerTurn(
        None, "gone"
    )


def test_a_yes_to_three_different_questions_is_no_impatience_but_to_the_same_one_it_is() -> None:
    questions = [f"I am about to do thing {i}. Shall I go ahead?" for i in range(4)]
    assert _hear(_script(), *questions).text == "Yes, please go ahead."
    assert _hear(_script(), *questions[:1] * 3) == CustomerTurn(None, "gone")


def test_a_goal_held_back_is_told_when_asked_for_or_once_something_was_answered() -> None:
    script = _script(opening="It is about that thing.", holds_back=True, follow_ups=("And the tax?",))
    assert _hear(script, "What exactly would you like me to do?").text == script.goal_line
    assert _hear(script, "It is sunny.").text == script.goal_line
    assert _hear(script, "It is sunny.", "Done.").text == "And the tax?"
    assert _hear(script, "I can change your plan. Shall I go ahead?", "Done.").text == "And the tax?"


def test_the_words_around_what_is_told_are_the_scripts_own() -> None:
    script = _script(
        answer="{slots}, all right?",
        form=4,
        identity="{full_name}, date of birth {date_of_birth}.",
        correction="Oh: {slots}.",
        corrections={"line_id": "LINE-48213"},
    )
    assert _hear(script, "Which plan?").text == "Plan is basic, all right?"
    assert _hear(script, "What is your name?").text == "Ada Fox, date of birth 1980-02-03."
    assert _hear(script, "I could not find it.").text == "Oh: line LINE-48213."


PIECES = (
    "Shall I go ahead?", "What is your full name?", "Could you tell me your line id and plan?",
    "I could not find it.", "That is done.", "Anything else?", "Please provide your order id:", "Why?", "",
)  # fmt: skip
TALKS = st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map(" ".join), min_size=1, max_size=8)


@given(seed=st.integers(0, 10_000), talk=TALKS)
def test_the_customer_never_utters_a_fact_of_the_answer_key_and_always_comes_to_an_end_or_speaks(
    seed: int, talk: list[str]
) -> None:
    rng = random.Random(seed)
    row = [rng.choice(values) for values in GRID.axes.values()]
    if not GRID.allowed(row):
        return
    scenario = WRITER.write(situation(row), seed)
    script = scenario.script
    given = {str(value) for value in (script.slots | script.corrections).values()}
    secret = {fact for fact in scenario.key.facts if fact not in given} | {
        rule.text for rule in DOCUMENT.rules
    }
    messages = [Message(role="user", content=script.opening)]
    for said in talk:
        messages.append(Message(role="assistant", content=said))
        turn = respond(script, messages)
        assert (turn.text is None) is (turn.ending is not None)
        if turn.text is None:
            break
        messages.append(Message(role="user", content=turn.text))
    assert not [m.content for m in messages if m.role == "user" and leaks(m.content or "", secret)]


def test_the_customers_turn_depends_on_nothing_but_the_script_and_the_conversation() -> None:
    script = WRITER.write(CHANGE, 1).script
    messages = [Message(role="user", content=script.opening), Message(role="assistant", content="Your plan?")]
    assert respond(script, messages) == respond(
        Script.model_validate_json(script.model_dump_json()), list(messages)
    )
