import random
import tracemalloc

import pytest

from tests.toolsets import NAMES, PERSON, all_said, cell, lexicon, scripts, toolset
from while_pipeline import slots
from while_pipeline.agents.lexicon import MAX_CORRECTED, Lexicon
from while_pipeline.goals import goal_of
from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.simulate import phrasing
from while_pipeline.simulate.script import write_script
from while_pipeline.simulate.wording import MANNERS
from while_pipeline.tools import Tool, ToolKind

SEEDS = 50
"""Customers per tool: every stance with every history once."""


def _asked(name: str, text: str) -> list[str]:
    return list({meaning.tool.name: None for meaning in lexicon(name).sentences(text) if meaning.tool})


# -- requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_customer_is_understood_whatever_the_stance_and_the_texture(name: str) -> None:
    heard = [(_asked(name, all_said(script)), [tool.name]) for tool, _, script in scripts(name, SEEDS)]
    assert sum(asked == wanted for asked, wanted in heard) >= 0.99 * len(heard)


@pytest.mark.parametrize("name", NAMES)
def test_every_phrase_of_a_tool_asks_for_that_tool(name: str) -> None:
    for tool in toolset(name)[0]:
        if tool.kind is not ToolKind.TRANSFER:
            goal = goal_of(tool)
            for phrase in (*goal.wishes, *goal.requests):
                assert _asked(name, f"Please {phrase}.") == [tool.name]


@pytest.mark.parametrize("name", NAMES)
def test_no_value_is_misheard_in_what_a_customer_says(name: str) -> None:
    for tool, _, script in scripts(name, SEEDS // 2):
        for parameter, value in script.slots.items():
            assert slots.hear(parameter, tool.properties[parameter], all_said(script)) in (None, value)


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ("pls cehck my data usage", ["get_data_usage"]),
        ("I want to change my plan. Also, I would like to pay my bill.", ["change_plan", "pay_bill"]),
        ("hi\nneed to pay my bill\nmy bill id is BILL-1", ["pay_bill"]),
        ("CANCEL MY ORDER", ["cancel_order"]),
        ("My line id is LINE-1, my plan is basic.", []),
        ("Subject: My data usage\n\nHello, how are you?", []),
        ('Note: "please cancel my order"', []),
        ('{"a": ["cancel my order"]} and pay my bill', ["pay_bill"]),
        ("My flights are fast; cancel my order.", []),
        ('My flights are "fast; or not" and I want to pay my bill', []),
        ("There are things; [cancel my order", []),
        ("[ cancel my order", ["cancel_order"]),
        ("You are to cancel my order", ["cancel_order"]),
        ("There is something with my bill.", []),
        ("What is your rule about when I cancel my order?", []),
        ("", []),
    ],
)
def test_a_sentence_asks_for_a_tool_when_it_says_its_verb_and_its_object(said: str, tools: list[str]) -> None:
    assert _asked("example", said) == tools


@pytest.mark.parametrize(
    ("word", "is_order"),
    [("orderr", True), ("ordr", True), ("rder", True), ("odrer", True), ("ordnrx", False)],
)
def test_a_word_that_one_slip_of_the_fingers_made_is_recognised(word: str, is_order: bool) -> None:
    tool = Tool(name="get_order", description="", parameters={})
    (meaning,) = Lexicon((tool,), read_policy_document("")).sentences(f"get my {word}")
    assert meaning.tool is (tool if is_order else None)


@pytest.mark.parametrize("letters", [10, MAX_CORRECTED, 10_000])
def test_a_word_that_is_none_is_not_looked_for_among_misspellings(letters: int) -> None:
    """It has as many as letters, each as long as itself, be it the customer's or of a tool's name."""
    thing = "ab" * (letters // 2)
    tool = Tool(name=f"get_{thing}", description="", parameters={})
    tracemalloc.start()
    try:
        lexicon = Lexicon((tool,), read_policy_document(""))
        (said,) = lexicon.sentences(f"get my {thing}")
        (slip,) = lexicon.sentences(f"get my {thing}a")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said.tool is tool
    assert slip.tool is (tool if letters <= MAX_CORRECTED else None)
    assert most < 2_000_000


def test_opposites_are_told_apart() -> None:
    tools = tuple(Tool(name=f"{verb}_wifi", description="", parameters={}) for verb in ("enable", "disable"))
    lexicon = Lexicon(tools, read_policy_document(""))
    for said, tool in (("turn on my wifi", "enable_wifi"), ("turn off my wifi", "disable_wifi")):
        assert [m.tool.name for m in lexicon.sentences(said) if m.tool] == [tool]


def test_a_one_word_tool_is_not_asked_for_in_passing() -> None:
    tool = Tool(name="think", description="Use the tool to think about something.", parameters={})
    lexicon = Lexicon((tool,), read_policy_document(""))
    assert [m.tool for m in lexicon.sentences("I think that is it. Please think about something.")] == [
        None,
        tool,
    ]


def test_a_rule_in_play_is_no_request() -> None:
    rule = toolset("example")[1].of_kind(RuleKind.NEVER)[0]
    (meaning,) = lexicon("example").sentences(f"Please {rule.trigger}.")
    assert (meaning.tool, meaning.rules) == (None, (rule,))


@pytest.mark.parametrize("name", NAMES)
def test_what_customers_say_in_the_course_of_a_conversation_asks_for_nothing(name: str) -> None:
    for manner in MANNERS.values():
        for said in (*manner.reactions, *manner.follow_ups, *manner.confirmations):
            for meaning in lexicon(name).sentences(said):
                assert (meaning.tool, meaning.rules, meaning.off_topic) == (None, (), False), said


# -- off topic --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_digression_is_off_topic_and_what_customers_come_with_is_not(name: str) -> None:
    for digression in phrasing.DIGRESSIONS:
        assert lexicon(name).is_off_topic(digression), digression
        assert lexicon(name).is_off_topic(f"Hi. By the way: {digression.lower()} Thanks.")
    texts = [all_said(script) for _, _, script in scripts(name, SEEDS // 2)]
    off = [text for text in texts if lexicon(name).is_off_topic(text)]
    strayed = [text for text in texts if any(said in text for said in phrasing.DIGRESSIONS)]
    assert set(strayed) <= set(off)
    assert len(off) - len(strayed) <= 0.01 * len(texts)


def test_customers_without_a_request_ask_something_general_or_off_topic() -> None:
    openings = [
        write_script(cell(), [], None, PERSON, {}, {}, random.Random(seed)).opening for seed in range(200)
    ]
    off = [opening for opening in openings if lexicon("example").is_off_topic(opening)]
    assert 60 < len(off) < 140
    assert not any(_asked("example", opening) for opening in openings)


@pytest.mark.parametrize(
    ("said", "off"),
    [
        ("What is the weather like in Oslo?", True),
        ("Could you tell me a joke about penguins?", True),
        ("I love penguins and pumpkin soup.", False),
        ("What can you help me with?", False),
        ("Is my data usage all right?", False),
        ("What is your rule about roaming outside the zone?", False),
        ("Can you hurry?", False),
    ],
)
def test_off_topic_is_a_question_in_words_the_agent_does_not_have(said: str, off: bool) -> None:
    assert lexicon("example").is_off_topic(said) is off


def test_nothing_is_off_topic_for_an_agent_that_deals_in_it() -> None:
    tool = Tool(name="find_recipe", description="Find a recipe, for pumpkin soup and such.", parameters={})
    cook = Lexicon((tool,), read_policy_document(""))
    assert not cook.is_off_topic("Do you know a good recipe for pumpkin soup?")
