import re
from functools import cache
from typing import Any

import pytest

from tests.example import BY_NAME, DOCUMENT, TOOLS, WRITER, ordinary, rollouts, scenarios
from while_pipeline import slots
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.records import Message
from while_pipeline.simulate.customer import respond
from while_pipeline.simulate.mutate import OPERATORS, applicable, mutated
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.script import Script
from while_pipeline.tools import words_of

SURE = 60.0


def _sound_agent() -> EmbeddedAgent:
    """Makes the sound choice everywhere (each head's first option), and retries what may clear."""
    heads = {
        head: {option: {BIAS: SURE if option == options[0] else 0.0} for option in options}
        for head, options in HEADS.items()
    }
    fault = {"retry": {"retryable": 2 * SURE, "spent": -4 * SURE}, "report": {BIAS: SURE}}
    fault |= {"hide": {}, "claim": {}}
    return EmbeddedAgent(Weights(weights=heads | {"fault": fault}))


def _passed(of: list[Scenario]) -> list[bool | None]:
    return [one.passed for one in grade(rollouts(_sound_agent(), of), TOOLS, DOCUMENT, RulesJudge())]


@cache
def _parents() -> tuple[Scenario, ...]:
    """Scenarios whose key a sound agent fulfils."""
    drawn = scenarios(80)
    return tuple(s for s, passed in zip(drawn, _passed(drawn), strict=True) if passed)


@cache
def _mutants(operator: str) -> tuple[tuple[Scenario, Scenario], ...]:
    """(parent, mutant) wherever the operator applies."""
    made = [(parent, mutated(parent, operator, i)) for i, parent in enumerate(_parents())]
    return tuple((parent, mutant) for parent, mutant in made if mutant is not None)


def _asked(script: Script, told: str, question: str) -> str:
    """What the customer answers to a question after their first words."""
    said = (Message(role="user", content=told), Message(role="assistant", content=question))
    return respond(script, said).text or ""


# -- what holds for every operator ------------------------------------------------------------------------


def test_there_are_more_than_a_dozen_operators_and_each_finds_work() -> None:
    assert len(OPERATORS) >= 14
    assert all(_mutants(operator) for operator in OPERATORS)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_mutant_differs_in_its_script_and_id_only(operator: str) -> None:
    for parent, mutant in _mutants(operator):
        assert mutant.script != parent.script
        assert mutant.scenario_id != parent.scenario_id
        assert mutant.arm == "failure_mutation"
        own = {"script": parent.script, "scenario_id": parent.scenario_id, "arm": parent.arm}
        assert mutant.model_copy(update=own) == parent


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_same_seed_makes_the_same_mutant(operator: str) -> None:
    for parent, _ in _mutants(operator)[:5]:
        assert mutated(parent, operator, 3) == mutated(parent, operator, 3)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_last_value_heard_of_each_parameter_is_the_right_one(operator: str) -> None:
    for parent, mutant in _mutants(operator):
        right = parent.script.slots | parent.script.corrections
        script = mutant.script
        told = "\n".join((script.opening, *script.follow_ups))
        for name, value in right.items():
            # Whatever was left out is told when asked for, and what is wrong put right when not found.
            answer = _asked(script, told, f"Could you tell me your {' '.join(words_of(name))}?")
            mended = _asked(script, told, "I could not find that.") if script.corrections else ""
            schema: dict[str, Any] = next(
                (t.properties[name] for t in BY_NAME.values() if name in t.properties), {}
            )
            assert slots.hear(name, schema, "\n".join((told, answer, mended))) == value, script


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_agent_that_fulfils_the_parents_key_fulfils_the_mutants(operator: str) -> None:
    chosen = [mutant for _, mutant in _mutants(operator)][:12]
    assert _passed(chosen) == [True] * len(chosen)


def test_keys_hold_for_mutants_of_mutants_of_mutants() -> None:
    generation = list(_parents()[:40])
    for depth in range(3):
        grown = [(s, applicable(s, 10 * i + depth), 10 * i + depth) for i, s in enumerate(generation)]
        made = [mutated(s, operator, seed) for s, operator, seed in grown if operator]
        generation = [s for s in made if s is not None]
    assert len(generation) == 40
    assert _passed(generation) == [True] * 40


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_that_applies_is_drawn_sooner_or_later(operator: str) -> None:
    parent, _ = _mutants(operator)[0]
    drawn = {seed: applicable(parent, seed) for seed in range(120)}
    assert operator in drawn.values()
    assert all(name and mutated(parent, name, seed) for seed, name in drawn.items())


# -- what each does ---------------------------------------------------------------------------------------

_PLAIN = WRITER.write(ordinary("get_bill"), 1)
BILL = _PLAIN.script.slots["bill_id"]
NAME, BORN = _PLAIN.script.persona.full_name, _PLAIN.script.persona.date_of_birth
ASK = "Hello. Could you please get bill?"
DETAILS = f"My bill id is {BILL}."


def _says(opening: str, **script: object) -> Scenario:
    """The plain scenario with this first message."""
    said = _PLAIN.script.model_copy(update={"opening": opening, "goal_line": "Please get bill.", **script})
    return _PLAIN.model_copy(update={"script": said})


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("break_off", f"{ASK} My bill id is..."),
        ("drop_details", ASK),
        ("split", ASK),
        ("reorder", f"{DETAILS} {ASK}"),
        ("misspell", f"Helo. Coudl you plaese get bill? {DETAILS}"),
        ("lower_case", f"hello. could you please get bill? my bill id is {BILL}."),
        ("shout", f"HELLO. COULD YOU PLEASE GET BILL? MY BILL ID IS {BILL}."),
        ("casual", f"Hello. could u pls get bill? {DETAILS} thx"),
        ("formal", f"Dear Sir or Madam,\n\n{ASK} {DETAILS}\n\nYours faithfully,\n{NAME}"),
        ("introduce", f"I am {NAME}, born {BORN}. {ASK} {DETAILS}"),
        ("repeat", f"{ASK} {DETAILS} Once more: Please get bill."),
        ("push_back", f"{ASK} {DETAILS}"),
    ],
)
def test_the_first_message_becomes(operator: str, expected: str) -> None:
    mutant = mutated(_says(f"{ASK} {DETAILS}"), operator, 1)
    assert mutant is not None
    assert mutant.script.opening == expected


@pytest.mark.parametrize("operator", ["digress", "quote", "forward"])
def test_a_message_is_kept_whole_within_what_is_put_around_it(operator: str) -> None:
    mutant = mutated(_says(f"{ASK} {DETAILS}"), operator, 1)
    assert mutant is not None
    assert f"{ASK} {DETAILS}" in mutant.script.opening
    assert mutated(mutant, operator, 2) is None


def test_split_says_the_details_next_and_push_back_doubts_before_anything_else_is_said() -> None:
    parent = _says(f"{ASK} {DETAILS}", follow_ups=("Also, what is your rule about roaming?",))
    later, doubt = mutated(parent, "split", 1), mutated(parent, "push_back", 1)
    assert later is not None
    assert doubt is not None
    assert later.script.follow_ups[0] == f"To complete my first message: {DETAILS}"
    assert doubt.script.follow_ups[0].endswith(("?", "believe."))
    assert later.script.follow_ups[1:] == doubt.script.follow_ups[1:] == parent.script.follow_ups


def test_contradict_takes_a_wrong_value_back_before_it_says_the_right_one() -> None:
    mutant = mutated(_says(f"{ASK} {DETAILS}"), "contradict", 1)
    assert mutant is not None
    said = re.findall(r"[A-Z]+-\d+", mutant.script.opening)
    assert len(said) == 2
    assert said[0] != BILL == said[1]
    assert mutant.script.slots == _PLAIN.script.slots


def test_correct_later_gives_an_id_without_a_record_and_mends_it_once_it_was_not_found() -> None:
    mutant = mutated(_says(f"{ASK} {DETAILS}"), "correct_later", 1)
    assert mutant is not None
    wrong = mutant.script.slots["bill_id"]
    assert wrong not in mutant.world.records["bill"]
    assert f"bill id is {wrong}" in mutant.script.opening
    assert BILL in _asked(mutant.script, mutant.script.opening, "I could not find that bill.")


# -- where they do not apply ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "parent"),
    [
        ("break_off", _says(ASK)),
        ("drop_details", _says(ASK)),
        ("split", _says(ASK)),
        ("reorder", _says(f"{DETAILS} {ASK}")),
        ("contradict", _says(ASK)),
        ("correct_later", _says(ASK)),
        ("correct_later", WRITER.write(ordinary("get_bill", world_state="missing"), 1)),
        ("lower_case", _says("hello.")),
        ("shout", _says("HELLO.")),
        ("misspell", _says(DETAILS)),
        ("repeat", _says(ASK, goal_line="")),
        ("push_back", WRITER.write(ordinary(), 1)),
    ],
)
def test_nothing_is_made_where_there_is_nothing_to_change(operator: str, parent: Scenario) -> None:
    assert mutated(parent, operator, 1) is None


def test_a_customer_with_much_to_say_later_is_given_no_further_exchange() -> None:
    busy = _says(f"{ASK} {DETAILS}", follow_ups=("One.", "Two."))
    for operator in ("break_off", "drop_details", "split", "correct_later", "push_back"):
        assert mutated(busy, operator, 1) is None


def test_no_details_are_left_out_when_a_wrong_value_would_stay() -> None:
    mutant = mutated(_says(f"{ASK} {DETAILS}"), "contradict", 1)
    assert mutant is not None
    assert mutated(mutant, "drop_details", 1) is None


def test_values_are_never_touched_by_a_change_of_case_or_spelling() -> None:
    parent = _says(
        "Hello. Please get bill. My city is Lisbon, plan is this.", slots={"city": "Lisbon", "plan": "this"}
    )
    for operator in ("lower_case", "shout", "misspell", "casual"):
        mutant = mutated(parent, operator, 1)
        assert mutant is not None
        assert {"Lisbon", "this"} <= set(re.findall(r"\w+", mutant.script.opening))
