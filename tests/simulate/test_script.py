import random
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.example import BY_NAME, DOCUMENT, WRITER, ordinary, scenarios
from tests.toolsets import PERSON, all_said, cell, lexicon, script_for
from while_pipeline import slots
from while_pipeline.policy_document import RuleKind
from while_pipeline.records import Message
from while_pipeline.simulate import phrasing, wording
from while_pipeline.simulate.axes import HISTORIES, STANCES
from while_pipeline.simulate.customer import respond
from while_pipeline.simulate.customer_checks import leaks, plays_agent
from while_pipeline.simulate.script import Script, write_script
from while_pipeline.tools import Tool, is_identifier

MANY = 20_000
VALUELESS = Tool(name="check_weather", description="", parameters={})


def _dialogue(script: Script, agent: Sequence[str]) -> tuple[str, ...]:
    """What the customer says to an agent that follows a script of its own, without the opening."""
    messages = [Message(role="user", content=script.opening)]
    said: list[str] = []
    for line in agent:
        messages.append(Message(role="assistant", content=line))
        turn = respond(script, messages)
        if turn.text is None:
            return (*said, turn.ending or "")
        said.append(turn.text)
        messages.append(Message(role="user", content=turn.text))
    return tuple(said)


AGENT = (
    "How can I help you? What exactly would you like me to do?",
    "What is your full name and your date of birth?",
    "Could you tell me your order id?",
    "I could not find that order.",
    "I am about to cancel order. Shall I go ahead?",
    "That is done.",
    "There is nothing further for me to do.",
)


# -- variety ----------------------------------------------------------------------------------------------


def test_openings_for_one_tool_hardly_ever_repeat_even_when_it_takes_no_values() -> None:
    cells = [cell(VALUELESS.name, stance, history) for stance in STANCES for history in HISTORIES]
    words = random.Random(1)
    made = [write_script(cells[i % 50], [VALUELESS], None, PERSON, {}, {}, words) for i in range(MANY)]
    assert len({script.opening for script in made}) >= 0.99 * MANY


def test_not_even_the_vaguest_customers_of_a_tool_without_values_repeat_themselves() -> None:
    vague = cell(VALUELESS.name, "ambiguous")
    words = random.Random(1)
    seen = {write_script(vague, [VALUELESS], None, PERSON, {}, {}, words).opening for _ in range(5_000)}
    assert len(seen) >= 0.99 * 5_000


def test_every_channel_is_used() -> None:
    made = [script_for(BY_NAME["pay_bill"], cell("pay_bill"), seed).opening for seed in range(300)]
    emails = sum(text.startswith("Subject: ") for text in made)
    spoken = sum(text.lower().startswith(("uh,", "um,", "yeah,", "hello?", "hi, so")) for text in made)
    lower = sum(text[:40].islower() for text in made)
    assert min(emails, spoken, lower) > 15


# -- one meaning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stance", STANCES)
def test_phrasings_of_one_situation_are_read_as_the_same_requests_and_values(stance: str) -> None:
    for tool in ("cancel_order", "book_appointment", "several"):
        phrasings = [WRITER.write(ordinary(tool, stance=stance), 9, phrasing=i) for i in range(12)]
        assert len({s.script.opening for s in phrasings}) == 12
        read = {(_requests(s.script), _values(s.script)) for s in phrasings}
        assert read == {(phrasings[0].goals, tuple(sorted(map(str, _right(phrasings[0].script).items()))))}


def _right(script: Script) -> dict[str, object]:
    return script.slots | script.corrections


def _requests(script: Script) -> tuple[str, ...]:
    meanings = lexicon("example").sentences(all_said(script))
    return tuple(dict.fromkeys(meaning.tool.name for meaning in meanings if meaning.tool))


def _values(script: Script) -> tuple[str, ...]:
    """Values heard from a customer who is asked for all of them, and told that the first were not found."""
    names = " and your ".join(" ".join(name.split("_")) for name in script.slots)
    asked = (f"Could you tell me your {names}?", "I could not find that.")
    text = "\n".join([script.opening, *_dialogue(script, asked)])
    schemas = {p: schema for tool in BY_NAME.values() for p, schema in tool.properties.items()}
    return tuple(sorted(str((name, slots.hear(name, schemas[name], text))) for name in script.slots))


# -- stances ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_ten_stances_of_one_situation_give_ten_openings_and_ten_dialogues(seed: int) -> None:
    made = [WRITER.write(ordinary("cancel_order", stance=stance), seed).script for stance in STANCES]
    assert len({script.opening for script in made}) == 10
    assert len({_dialogue(script, AGENT) for script in made}) == 10
    assert [wording.heard(wording.STANCE_LINES, script.opening) for script in made] == [{s} for s in STANCES]


def _of(stance: str, seed: int = 2) -> Script:
    return WRITER.write(ordinary("cancel_order", stance=stance), seed).script


def test_the_hurried_answer_in_fewer_words_than_anybody() -> None:
    asked = ("Could you tell me your order id?",)
    words = {
        stance: [len(_dialogue(_of(stance, n), asked)[0].split()) for n in range(30)] for stance in STANCES
    }
    mean = {stance: sum(counts) / len(counts) for stance, counts in words.items()}
    assert min(mean, key=lambda stance: mean[stance]) == "hurried"


def test_the_ambiguous_say_neither_what_nor_which_and_the_exploratory_only_what_it_is_about() -> None:
    for seed in range(30):
        ambiguous, exploratory = _of("ambiguous", seed), _of("exploratory", seed)
        for script in (ambiguous, exploratory):
            assert _requests(script.model_copy(update={"holds_back": False})) == ()
            assert str(script.slots["order_id"]) not in script.opening
            assert _dialogue(script, AGENT[:1]) == (script.goal_line,)
            assert _dialogue(script, ("I am here.",)) == (script.goal_line,)
        assert "order" not in ambiguous.opening.lower()
        assert "order" in exploratory.opening.lower()


def test_the_unsure_leave_out_the_identifier_and_want_to_be_reassured() -> None:
    script = _of("unsure")
    assert str(script.slots["order_id"]) not in script.opening
    assert "?" in _dialogue(script, ("That is done.",))[0]


def test_the_mistaken_give_a_wrong_identifier_first_and_then_the_right_one() -> None:
    script = _of("mistaken")
    wrong, right = str(script.slots["order_id"]), str(script.corrections["order_id"])
    assert wrong in script.opening
    assert right in _dialogue(script, ("I could not find that order.",))[0]


def test_the_boundary_ask_for_an_exception_and_the_adversarial_push_once_more_after_the_answer() -> None:
    for stance in ("boundary", "adversarial"):
        line, ending = _dialogue(_of(stance), ("That is done.", "I cannot do that."))
        assert line in wording.MANNERS[stance].follow_ups
        assert ending == "satisfied"


def test_the_conflicting_change_their_mind_and_back_in_one_breath() -> None:
    said = _dialogue(_of("conflicting"), ("I am about to cancel order. Shall I go ahead?",))[0]
    assert said in wording.MANNERS["conflicting"].confirmations


# -- what customers bring along ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RuleKind.NEVER, RuleKind.HANDOFF, RuleKind.INFORM])
@pytest.mark.parametrize("goals", [[], [BY_NAME["get_bill"]]], ids=["no request", "a request"])
def test_a_rule_comes_up_at_once_without_a_request_and_after_the_answer_with_one(
    kind: RuleKind, goals: list[Tool]
) -> None:
    for rule in DOCUMENT.of_kind(kind):
        known = {"bill_id": "BILL-48213"} if goals else {}
        made = [write_script(cell(), goals, rule, PERSON, known, {}, random.Random(i)) for i in range(20)]
        for script in made:
            assert (rule in DOCUMENT.in_play(script.opening)) is not bool(goals)
            assert any(rule in DOCUMENT.in_play(line) for line in script.follow_ups) is bool(goals)


def test_an_opening_has_one_aside_at_most_and_a_hurried_one_has_none() -> None:
    asides = {*phrasing.CIRCUMSTANCES, *(line for bank in phrasing.REASONS.values() for line in bank if line)}
    for stance in STANCES:
        for seed in range(40):
            opening = script_for(BY_NAME["get_bill"], cell("get_bill", stance), seed).opening
            said = sum(aside in opening for aside in asides)
            assert said == 0 if stance == "hurried" else said <= 1


def test_nobody_speaks_of_the_number_they_gave_without_having_given_one() -> None:
    made = [
        script_for(VALUELESS, cell(VALUELESS.name, "mistaken"), seed).opening.lower() for seed in range(100)
    ]
    assert not [text for text in made if "number" in text or "sticky note" in text]


def test_nobody_dictates_a_form() -> None:
    known = {
        name: f"{name.upper()}-48213"
        for name in ("one_id", "two_id", "three_id", "four_id", "five_id", "six_id")
    }
    script = write_script(cell(), [BY_NAME["get_bill"]], None, PERSON, known, {}, random.Random(1))
    assert sum(str(value) in script.opening for value in known.values()) == 4


def test_some_customers_drift_off_in_the_end() -> None:
    made = [script_for(BY_NAME["get_bill"], cell("get_bill"), seed) for seed in range(1000)]
    drifted = [s for s in made if any(lexicon("example").is_off_topic(line) for line in s.follow_ups)]
    assert 20 < len(drifted) < 90


def test_no_customer_tells_the_answer_key_or_plays_the_agent() -> None:
    asked = ("What is your full name? Could you tell me your line id and your bill id? Shall I go ahead?",)
    for scenario in scenarios(250):
        script = scenario.script
        given = {str(value) for value in (script.slots | script.corrections).values()}
        secret = {fact for fact in scenario.key.facts if fact not in given}
        secret |= {str(value) for value in (scenario.key.effects or {}).values() if str(value) not in given}
        secret |= {rule.text for rule in DOCUMENT.rules}
        for text in (
            script.opening,
            script.goal_line,
            *script.follow_ups,
            *_dialogue(script, (*asked, *AGENT)),
        ):
            assert not leaks(text, secret)
            assert not plays_agent(text)


def test_identifiers_are_said_in_several_ways() -> None:
    made = [script_for(BY_NAME["cancel_order"], cell("cancel_order"), seed) for seed in range(200)]
    ways = Counter(
        text.partition(str(value))[0].split()[-1]
        for script in made
        for name, value in script.slots.items()
        if is_identifier(name) and str(value) in (text := script.opening)
    )
    assert set(ways) == {"is", "id", "number", "order"}
