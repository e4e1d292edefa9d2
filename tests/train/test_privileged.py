import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from while_pipeline.train.privileged import (
    Hidden,
    disguised,
    personal_data_in,
    quoted,
    said_in,
    scan,
    strings,
    told,
    unheard,
)
from while_pipeline.watch.redact import Found, Redactor, found_in

SHARED = Path(__file__).parents[3] / "shared" / "data" / "tau-bench"

EMAIL, PHONE, CARD = "jo.doe@acme.io", "+44 20 7946 0958", "4539 1488 0343 6467"
KEY = "sk-abcdefghijklmnopqrstuvwx"
IBAN = "DE89370400440532013000"


def said(role: str, content: str | None, **arguments: Any) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": arguments}}
    return {"role": role, "content": content, **({"tool_calls": [call]} if arguments else {})}


# -- personal data and secrets ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value"), [("email", EMAIL), ("phone", PHONE), ("card", CARD), ("secret", KEY), ("iban", IBAN)]
)
@pytest.mark.parametrize("where", ["text", "bytes", "line", "deep", "nested", "escaped", "key", "document"])
def test_a_scan_finds_a_value_wherever_it_stands_in_a_file(kind: str, value: str, where: str) -> None:
    row = {"messages": [{"role": "user", "content": f"It is {value}, thanks."}]}
    content: dict[str, str | bytes] = {
        "text": f"It is {value}, thanks.",
        "bytes": f"It is {value}, thanks.".encode(),
        "line": f'{{"a": 1}}\n{json.dumps(row)}\n',
        "deep": json.dumps([{"a": {"b": [value]}}]),
        "nested": json.dumps({"messages": json.dumps(row)}),
        "escaped": json.dumps({"messages": json.dumps([f"so:\n{value}\t."])}),
        "key": json.dumps({value: 1}),
        "document": json.dumps(row, indent=2),
    }
    assert scan(content[where]) == [Found(kind, value)]


def test_a_scan_reads_the_values_of_a_parquet_file() -> None:
    file = io.BytesIO()
    rows = [
        {"messages": json.dumps([said("user", f"I am {EMAIL}"), said("assistant", None, card=CARD)])}
    ] * 50
    pl.DataFrame(rows).write_parquet(file)
    assert scan(file.getvalue()) == [Found("email", EMAIL), Found("card", CARD)]


def test_a_card_given_as_a_number_is_found() -> None:
    assert scan(json.dumps({"card": 4539148803436467, "ok": True})) == [Found("card", "4539148803436467")]


@pytest.mark.parametrize(
    "fiction",
    [
        "ada.fox12@example.org",
        "a@shop.example.com",
        "a@b.test",
        "a@host.invalid",
        "555-012-3239",
        "(555) 012-3239",
        "+1 555 012 3239",
        "212-555-0143",
        "+1 (212) 555-0143",
        "+12125550143",
        "order 4711-0815, 2026-03-02, 12.50 EUR, B-1001",
    ],
)
def test_what_nobody_can_have_and_what_agents_work_with_is_no_finding(fiction: str) -> None:
    assert scan(f"It is {fiction}.") == []


@pytest.mark.parametrize(
    "real",
    ["a@example.io", "a@notexample.org", "212-555-2143", "212-556-0143", "+49 30 555 0123", "020 7555 0123"],
)
def test_what_only_looks_like_fiction_is_found(real: str) -> None:
    assert [one.text for one in scan(f"It is {real}, yes.")] == [real]


def test_an_address_of_the_business_itself_is_meant_to_be_told() -> None:
    own = f"Complaints go to {EMAIL} or {PHONE}."
    assert scan(f"Write to {EMAIL}.", own) == []
    assert scan(f"Write to {EMAIL} or {CARD}.", own) == [Found("card", CARD)]
    assert personal_data_in([said("assistant", f"Write to {EMAIL}.")], own) == []


@pytest.mark.parametrize("customers", ["care@acme.io", "a.care@acme.io", "anna.care@acme.io.uk"])
def test_an_address_that_is_part_of_the_businesss_own_is_somebody_elses(customers: str) -> None:
    own = "Complaints go to anna.care@acme.io."
    assert scan(f"I am {customers}.", own) == [Found("email", customers)]
    assert personal_data_in([said("user", f"I am {customers}.")], own) == [Found("email", customers)]


def test_an_own_address_is_read_out_of_the_tools_json_whatever_escape_stands_before_it() -> None:
    tools = [{"description": f"Write to:\n{EMAIL}"}]
    own = f"The rules.\n{json.dumps(tools)}"
    assert personal_data_in([said("assistant", f"Write to {EMAIL}.")], own) == []


@pytest.mark.parametrize("where", ["content", "argument", "key", "name", "result", "result key", "call id"])
def test_a_row_has_no_place_that_hides_a_value_from_the_gate(where: str) -> None:
    call = said("assistant", None, note="x")
    message = {
        "content": said("user", f"I am {EMAIL}."),
        "argument": said("assistant", None, to={"all": [EMAIL]}),
        "key": said("assistant", None, **{EMAIL: 1}),
        "name": {**call, "tool_calls": [{"id": "1", "function": {"name": EMAIL, "arguments": {}}}]},
        "result": said("tool", json.dumps({"by": EMAIL})),
        "result key": said("tool", json.dumps({EMAIL: "open"})),
        "call id": {"role": "tool", "content": "open", "tool_call_id": EMAIL},
    }[where]
    assert personal_data_in([message]) == scan(json.dumps([message])) == [Found("email", EMAIL)]


@pytest.mark.parametrize(
    ("spelt", "value"),
    [
        ("４５３９１４８８０３４３６４６７", CARD.replace(" ", "")),
        (CARD.replace(" ", "\u00a0"), CARD),
        ("ｊｏ.ｄｏｅ＠ａｃｍｅ.ｉｏ", EMAIL),
    ],
)
def test_full_width_digits_and_odd_spaces_hide_nothing(spelt: str, value: str) -> None:
    assert [one.text for one in personal_data_in([said("user", f"It is {spelt}.")])] == [value]
    assert [one.text for one in scan(f"It is {spelt}.")] == [value]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\u0085", "\x0b", "\x1c"])
def test_a_line_of_json_lines_ends_at_a_newline_alone(end: str) -> None:
    rows = [{"a": f"x{end}y", "b": f"Write to\n{EMAIL} or\tto {CARD}"}, {"a": 1}]
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    assert scan(lines) == [Found("email", EMAIL), Found("card", CARD)]


def test_messages_are_read_with_their_arguments_and_results() -> None:
    messages = [said("assistant", None, to=EMAIL, n=1), said("tool", json.dumps({"phone": PHONE}))]
    assert personal_data_in(messages) == [Found("email", EMAIL), Found("phone", PHONE)]


def test_a_finding_is_told_without_telling_it() -> None:
    assert disguised([Found("email", EMAIL), Found("secret", KEY)]) == "email jo…, secret sk…"


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")
def test_what_is_found_in_real_conversations_is_what_redaction_takes_out() -> None:
    texts = [
        text for file in sorted(SHARED.rglob("*.json")) for text in strings(json.loads(file.read_text()))
    ]
    redactor = Redactor("project")
    found = {text: found_in(text) for text in set(texts)}
    assert sum(map(bool, found.values())) > 20
    for text, ones in found.items():
        assert bool(ones) == (redactor.text(text) != text)
        assert found_in(redactor.text(text)) == []


# -- what only the simulator knows ------------------------------------------------------------------------

SECRET = "REF-48213-XYZ"


def test_a_text_said_by_the_agent_before_anybody_else_is_privileged() -> None:
    assert unheard([said("user", "Hi"), said("assistant", f"It is {SECRET}.")], [SECRET]) == SECRET
    assert unheard([said("assistant", f"Is it {SECRET.lower()}?"), said("user", SECRET)], [SECRET]) == SECRET
    assert unheard([said("user", "Hi"), said("assistant", None, reference=SECRET)], [SECRET]) == SECRET


@pytest.mark.parametrize("role", ["system", "user", "tool"])
def test_a_text_heard_before_may_be_said(role: str) -> None:
    heard = said(role, json.dumps({"reference": SECRET.lower()}))
    assert unheard([heard, said("assistant", f"It is {SECRET}.")], [SECRET]) is None


def test_one_agent_turn_does_not_excuse_the_next() -> None:
    pair = [said("user", "Hi"), said("assistant", "No."), said("assistant", SECRET)]
    assert unheard(pair, ["something else", SECRET]) == SECRET


SENTENCE = "The line was ported to carrier Vodafone on 2026-01-05 by agent Smith"


@pytest.mark.parametrize(
    "quote",
    [
        SENTENCE,
        SENTENCE[:-6],
        SENTENCE[9:],
        SENTENCE.replace("carrier ", "carrier\n"),
        SENTENCE.replace(" ", "\u00a0"),
        "ported to carrier",
        "Vodafone on\t2026-01-05",
        "ｔｈｅ ＬＩＮＥ ｗａｓ",
        "agent Smith? He",
    ],
)
@pytest.mark.parametrize("where", ["content", "argument"])
def test_twelve_characters_of_whole_words_are_a_quote_however_they_are_spelt(quote: str, where: str) -> None:
    line = (
        said("assistant", f"I see: {quote}.") if where == "content" else said("assistant", None, note=quote)
    )
    expected = None if quote.startswith("agent Smith") else SENTENCE
    assert unheard([said("user", "Hi"), line], [SENTENCE]) == expected, "`agent Smith` has eleven"


@pytest.mark.parametrize("words", ["The line is open", "was ported", "portedto carrier", "by an agent Smith"])
def test_fewer_characters_or_other_words_are_no_quote(words: str) -> None:
    assert unheard([said("assistant", words)], [SENTENCE]) is None


def test_an_id_is_quoted_whole_or_not_at_all() -> None:
    assert unheard([said("assistant", f"({SECRET})")], [SECRET]) == SECRET
    assert unheard([said("assistant", "REF-48213-XY")], [SECRET]) is None


def test_what_was_heard_in_part_may_be_said_in_that_part_alone() -> None:
    heard = said("tool", json.dumps({"note": "The line was\nported"}))
    assert unheard([heard, said("assistant", "the line was ported")], [SENTENCE]) is None
    assert unheard([heard, said("assistant", "the line was ported to")], [SENTENCE]) == SENTENCE


@pytest.mark.parametrize("text", ["我的账单上个月比平时高了很多", "ขอตรวจสอบบิลของฉันเดือนนี้"])
def test_of_a_script_without_spaces_twelve_characters_are_a_quote(text: str) -> None:
    assert unheard([said("assistant", f"“{text[1:13]}”")], [text]) == text
    assert unheard([said("assistant", f"“{text[1:12]}”")], [text]) is None


def test_a_line_of_the_script_is_quoted_whole_or_in_forty_eight_characters() -> None:
    line = "Did I understand that correctly, there is nothing more I have to do? Then I thank you."
    hidden = Hidden(script=(line, "Yes, go ahead. Quick."))
    assert (
        told([said("assistant", "Have I understood that: there is nothing more I have to do?")], hidden)
        is None
    )
    assert told([said("assistant", f"They asked: {line[:60]}")], hidden) == line
    assert told([said("assistant", "yes,  go ahead. quick.")], hidden) == "Yes, go ahead. Quick."
    assert told([said("assistant", "Yes, go ahead.")], hidden) is None


def test_what_may_not_be_told_is_looked_for_in_every_part() -> None:
    hidden = Hidden(
        ("the key's own fact",), ("a note of the world",), ("the customer's line",), ("no verdict yet",)
    )
    for (text,) in hidden:
        assert told([said("assistant", text)], hidden) == text
        assert told([said("user", text), said("assistant", text)], hidden) == (
            text if text in hidden.grading else None
        )


def test_a_short_text_is_no_secret() -> None:
    assert unheard([said("assistant", "It is paid.")], ["paid", "", "11 letters!"]) is None
    assert quoted([said("assistant", "It is paid.")], ["paid"]) is None


def test_a_reason_of_the_judge_may_stand_nowhere() -> None:
    reason = "not said: missing"
    for role in ("system", "user", "assistant", "tool"):
        assert quoted([said("user", "Hi"), said(role, f"({reason})")], [reason]) == reason
    assert quoted([said("user", "Hi")], [reason]) is None
    assert quoted([], Hidden().grading) is None


def test_what_a_message_says_is_its_words_and_the_values_of_its_arguments() -> None:
    assert said_in(said("assistant", None, a="x", b={"c": ["y", 3]})).split() == ["x", "y", "3"]
    assert said_in(said("user", "Hi")) == "Hi"
