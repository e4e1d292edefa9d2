import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.long_texts import PATIENCE_S, cpu_seconds, long
from while_pipeline import slots

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(min_size=1),
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    "boolean": st.booleans(),
    "array": st.lists(st.text() | st.integers(), max_size=3),
    "object": st.dictionaries(st.text(), st.none() | st.booleans(), max_size=3),
}
IDENTIFIERS = st.from_regex(
    r"[A-Z]{2,5}-?\d{1,6}|\d{3,6}|[a-z]+-\d\d|[A-Z][a-z]+( [A-Z][a-z]+)?", fullmatch=True
)
WORDS = st.from_regex(r"[a-z]{2,6}|[A-Z][a-z]+ [A-Z][a-z]+|[A-Z]{3}\d{3}|\d{4}-\d\d-\d\d", fullmatch=True)
PLAIN = WORDS | st.integers(-9999, 9999) | st.booleans() | st.sampled_from(["yes", "and", "12", "none"])
FIELDS = st.lists(
    st.sampled_from(["first_name", "last_name", "dob", "flight_number", "date", "payment_id", "amount"]),
    min_size=1,
    max_size=3,
    unique=True,
)
ALIKE = FIELDS.flatmap(lambda names: st.lists(st.fixed_dictionaries(dict.fromkeys(names, PLAIN)), max_size=3))
TYPED = st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind]))
NAMED = st.lists(st.text(string.ascii_lowercase, min_size=2, max_size=8), min_size=1, max_size=3).map(
    "_".join
)
PARAMETERS = NAMED | NAMED.map("{}_id".format)
FORMS = st.integers(0, 2 * len(slots.FORMS))


@given(PARAMETERS, TYPED | st.tuples(st.just("string"), IDENTIFIERS), FORMS)
def test_what_is_said_in_any_form_is_heard_as_its_schema_types_it(
    parameter: str, typed: tuple[str, Any], form: int
) -> None:
    kind, value = typed
    text = f"Hello.\nIt is me, Ada Fox, on 2026-01-02.\nThe {slots.say(parameter, value, form)}. Thanks."
    heard = slots.hear(parameter, {"type": kind}, text)
    assert json.dumps(heard) == json.dumps(value)


@given(st.sampled_from(["flights", "passengers", "payment_methods", "4g_items"]), st.lists(PLAIN) | ALIKE)
def test_lists_of_plain_things_are_heard_as_they_were_said_wherever_the_sentence_goes_on(
    parameter: str, value: list[Any]
) -> None:
    for text in (
        "My {}.",
        "Of course, my {}, and I hope that will do.",
        "Here: {}, total is 4, line id is L-1.",
    ):
        told = text.format(slots.say(parameter, value))
        assert json.dumps(slots.hear(parameter, {"type": "array"}, told)) == json.dumps(value)
    for item in value:
        if isinstance(item, dict):
            told = f"My {slots.say('setting', item)}, total is 4."
            assert json.dumps(slots.hear("setting", {"type": "object"}, told)) == json.dumps(item)


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        ("flights", [{"flight_number": "HAT012", "date": "2026-05-14"}], "flights are HAT012 on 2026-05-14"),
        (
            "passengers",
            [
                {"first_name": "Sam", "last_name": "Fox", "dob": "1990-02-03"},
                {"first_name": "Ada", "last_name": "Fox", "dob": "1991-02-03"},
            ],
            "passengers are Sam Fox, born 1990-02-03, and Ada Fox, born 1991-02-03",
        ),
        ("payments", [{"payment_id": "card_1", "amount": 45}], "payments are 45 from card_1"),
        ("line_ids", ["LINE-1", "LINE-2"], "line ids are LINE-1 and LINE-2"),
        ("settings", {"mode": "auto", "roaming": False}, "settings are mode auto; roaming no"),
        ("tags", [], "tags are none"),
        ("tags", ["a, b"], 'tags are ["a, b"]'),
        ("stops", [{"at": {"city": "Oslo"}}], 'stops are [{"at": {"city": "Oslo"}}]'),
    ],
)
def test_lists_are_said_as_people_say_them_and_as_json_where_that_would_be_misheard(
    parameter: str, value: Any, said: str
) -> None:
    assert slots.say(parameter, value) == said


@given(st.permutations(["line_id", "plan", "phone_number", "date"]), FORMS)
def test_values_said_in_one_sentence_are_each_heard(order: list[str], form: int) -> None:
    known = {"line_id": "LINE-48213", "plan": "basic", "phone_number": "555-010-0000", "date": "2026-05-01"}
    text = f"My {', '.join(slots.say(name, known[name], form) for name in order)}."
    assert {name: slots.hear(name, {}, text) for name in order} == known


def test_an_identifier_is_said_in_as_many_ways_as_there_are_forms() -> None:
    said = {slots.say("line_id", "LINE-48213", form) for form in range(len(slots.FORMS))}
    assert said == {
        "line id is LINE-48213", "line id LINE-48213", "line number is LINE-48213",
        "line number LINE-48213", "line LINE-48213",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameter", "schema", "text", "value"),
    [
        ("line_id", {}, "My line id is LINE-4821.", "LINE-4821"),
        ("line_id", {}, "LINE ID: LINE-4821, please", "LINE-4821"),
        ("lineId", {}, "the line_id should be LINE-4821", "LINE-4821"),
        ("line_id", {}, "It is about my line, LINE-48213.", "LINE-48213"),
        ("line_id", {}, "line number LINE-48213 please", "LINE-48213"),
        ("ticket_id", {"type": "integer"}, "It is about ticket 48213.", 48213),
        ("line_id", {}, "My line is dead since 5 pm.", None),
        ("line_id", {}, "I called the line 3 times.", None),
        ("line_id", {}, "My line id is A-1. Sorry, the line id is B-2.", "B-2"),
        ("line_id", {}, "My line id is A-1.\nSorry, line number B-2.", "B-2"),
        ("gb_amount", {"type": "number"}, "gb amount is 2.5.", 2.5),
        ("gb_amount", {"type": "number"}, "gb amount is plenty", None),
        ("auto_pay", {"type": "boolean"}, "auto pay is no, thanks", False),
        ("auto_pay", {"type": "boolean"}, "auto pay is maybe", None),
        ("plan", {"enum": ["basic", "family"]}, "I want my plan to save money. My plan is basic.", "basic"),
        ("plan", {"enum": ["basic", "family"]}, "My plan is too expensive.", None),
        ("date", {"format": "date"}, "The date is fine.", None),
        ("full_name", {}, "My full name is Ada Fox and that is it.", "Ada Fox"),
        ("passengers", {"type": "array"}, 'passengers is [{"name": "Ada"}], thanks', [{"name": "Ada"}]),
        ("passengers", {"type": "array"}, "passengers is [{broken", None),
        ("line_id", {}, "My pipeline id is P-1.", None),
        ("id", {}, "The customer id is CUST-1.", None),
        ("id", {}, "The customer id is CUST-1 and my id is X-2.", "X-2"),
        ("line_id", {}, "I do not know my line id.", None),
    ],
)
def test_a_value_is_heard_only_where_it_was_said(
    parameter: str, schema: dict[str, Any], text: str, value: Any
) -> None:
    assert slots.hear(parameter, schema, text) == value


def test_changing_what_was_heard_does_not_change_what_is_heard_again() -> None:
    text = "seats is [1, 2]"
    slots.hear("seats", {"type": "array"}, text).append(3)
    assert slots.hear("seats", {"type": "array"}, text) == [1, 2]


@pytest.mark.parametrize(
    "value",
    ["1e999", "NaN", "-Infinity", "9" * 5_000, "[" * 20_000, "[1e999]", "[NaN]", '{"a":' * 20_000],
)
@pytest.mark.parametrize("schema", [{"type": "number"}, {"type": "array"}, {}])
def test_what_no_json_may_hold_was_not_said(schema: dict[str, Any], value: str) -> None:
    heard = slots.hear("amount", schema, f"My amount is {value}")
    assert json.loads(json.dumps(heard, allow_nan=False)) == heard
    assert heard in (None, value, [value])


def test_a_value_has_no_lone_surrogate_which_no_wire_carries() -> None:
    assert slots.hear("note", {}, r'My note is "a\ud800b".') == "a\ufffdb"


def test_the_last_naming_that_has_a_value_counts_of_as_many_as_anybody_makes() -> None:
    named, schema = "the amount is open, ", {"type": "number"}
    assert slots.hear("amount", schema, "My amount is 3, " + named * (slots.NAMINGS - 1)) == 3
    assert slots.hear("amount", schema, "My amount is 3, " + named * slots.NAMINGS) is None


@pytest.mark.parametrize("kind", ["integer", "array", "object"])
@pytest.mark.parametrize("sign", ["amounts:", "amounts:a and ", "amounts: [", 'amounts is "', "amounts "])
def test_a_name_said_over_and_over_is_heard_in_time_that_grows_with_the_length(kind: str, sign: str) -> None:
    schema = {"type": kind, "items": {"type": "object"}}
    assert cpu_seconds(lambda: slots.hear("amounts", schema, long(sign))) < PATIENCE_S
