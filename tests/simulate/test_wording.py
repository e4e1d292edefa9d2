import random

import pytest

from tests.toolsets import PERSON
from while_pipeline.policy_document import asks_about_rules
from while_pipeline.simulate import phrasing, wording
from while_pipeline.simulate.axes import HISTORIES, STANCES
from while_pipeline.simulate.customer_checks import plays_agent
from while_pipeline.simulate.texture import TEXTURES, Part, textured
from while_pipeline.transcript import IDENTIFIES, NO, YES

BANKS = {"stance": wording.STANCE_LINES, "history": wording.HISTORY_LINES}
LINES = [(bank, value, line) for bank in BANKS.values() for value in bank for line in bank[value] if line]


def test_every_stance_and_history_has_words_and_a_manner_of_its_own() -> None:
    assert tuple(wording.STANCE_LINES) == tuple(wording.MANNERS) == STANCES
    assert tuple(wording.HISTORY_LINES) == HISTORIES
    answers = [answer for manner in wording.MANNERS.values() for answer in manner.answers]
    yeses = [said for manner in wording.MANNERS.values() for said in manner.confirmations]
    assert len(answers) == len(set(answers))
    assert len(yeses) == len(set(yeses))


def test_each_line_is_heard_as_its_value_and_as_no_other_in_any_texture() -> None:
    textures = sorted({texture for some in TEXTURES.values() for texture in some})
    for bank, value, line in LINES:
        for texture in textures:
            parts = [Part("Hi there."), Part(line, "marker"), Part("Please pay my bill.")]
            assert wording.heard(bank, textured(parts, texture, random.Random(1))) == {value}


def test_no_line_is_heard_in_the_other_bank_or_in_what_everybody_says() -> None:
    for name, bank in BANKS.items():
        (silent,) = (value for value in bank if bank[value] == ("",))
        others = [
            line for other in BANKS.values() if other is not BANKS[name] for v in other for line in other[v]
        ]
        common = [
            *phrasing.REASONS[next(iter(phrasing.REASONS))],
            *phrasing.DIGRESSIONS,
            *phrasing.GENERAL_ASKS,
        ]
        for line in (*others, *common):
            assert wording.heard(bank, line) == {silent}


def test_two_values_in_one_text_are_both_heard() -> None:
    said = "It is me again.\nLast week your chat failed on exactly this."
    assert wording.heard(wording.HISTORY_LINES, said) == {"repeat_visit", "prior_failure"}


@pytest.mark.parametrize("stance", STANCES)
def test_a_yes_of_any_stance_is_a_yes_and_no_no(stance: str) -> None:
    for said in wording.MANNERS[stance].confirmations:
        for answer in wording.MANNERS[stance].answers:
            together = f"{answer.format(slots='plan is basic')} {said}"
            assert YES.search(together)
            assert not NO.search(together)


def test_no_line_speaks_of_a_number_or_of_a_change_where_there_is_none() -> None:
    for stance in STANCES:
        every = wording.stance_lines(stance, numbered=True, changes=True)
        assert every == wording.STANCE_LINES[stance]
        assert wording.stance_lines(stance, numbered=False, changes=False)
    told = wording.stance_lines("mistaken", numbered=False, changes=True)
    assert not [line for line in told if "number" in line or "reference" in line or "note" in line]
    assert not [
        line
        for line in wording.stance_lines("conflicting", numbered=True, changes=False)
        if "changed" in line
    ]


def test_whoever_is_asked_says_who_they_are() -> None:
    for line in phrasing.IDENTITIES:
        said = line.format_map(PERSON.model_dump())
        assert IDENTIFIES.search(said)
        assert PERSON.full_name in said
        assert PERSON.date_of_birth in said


def test_nobody_asks_about_rules_or_plays_the_agent_by_accident() -> None:
    common = [*phrasing.DIGRESSIONS, *phrasing.GENERAL_ASKS, *phrasing.CIRCUMSTANCES, *phrasing.DECISIONS]
    common += [line for bank in phrasing.REASONS.values() for line in bank]
    common += [
        line for bank in (phrasing.GREETINGS, phrasing.FAREWELLS) for lines in bank.values() for line in lines
    ]
    common += [line for _, _, line in LINES]
    manners = wording.MANNERS.values()
    common += [line for m in manners for line in (*m.answers, *m.follow_ups, *m.reactions)]
    assert not [line for line in common if asks_about_rules(line) or plays_agent(line)]


# -- textures ---------------------------------------------------------------------------------------------

PARTS = [Part("Hello, Ada."), Part("Please cancel my order."), Part("My order id is ORDE-48213.", "values")]


@pytest.mark.parametrize(
    ("texture", "text"),
    [
        ("plain", "Hello, Ada. Please cancel my order. My order id is ORDE-48213."),
        ("lower", "hello, ada. please cancel my order. my order id is ORDE-48213."),
        ("bare", "hello ada\nplease cancel my order\nmy order id is ORDE-48213"),
        ("casual", "hello, ada. pls cancel my order. my order id is ORDE-48213."),
    ],
)
def test_a_texture_changes_the_surface_and_keeps_the_values(texture: str, text: str) -> None:
    assert textured(PARTS, texture, random.Random(1)) == text  # type: ignore[arg-type]


def test_typos_touch_long_words_of_free_sentences_only() -> None:
    parts = [Part("Please cancel my order."), Part("It is me again.", "marker"), PARTS[2]]
    texts = {textured(parts, "typos", random.Random(seed)) for seed in range(200)}
    assert len(texts) > 10
    for text in texts:
        free, kept = text.split(" It is me again. ")
        assert kept == "My order id is ORDE-48213."
        assert free.endswith("my order.")
        assert free[0] == "P"


def test_a_rule_keeps_its_marks_so_that_it_stays_a_sentence() -> None:
    parts = [Part("Hello."), Part("Please delete my records.", "rule")]
    assert textured(parts, "bare", random.Random(1)) == "Hello. Please delete my records."
