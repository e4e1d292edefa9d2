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
        "order 4711-0815, 2026-03-02, 12.50 EUR, B-1001",
    ],
)
def test_what_nobody_can_have_and_what_agents_work_with_is_no_finding(fiction: str) -> None:
    assert scan(f"It is {fiction}.") == []


@pytest.mark.parametrize("real", ["a@example.io", "a@notexample.org", "212-555-2143", "212-556-0143"])
def test_what_only_looks_like_fiction_is_found(real: str) -> None:
    assert [one.text for one in scan(f"It is {real}, yes.")] == [real]


def test_an_address_of_the_business_itself_is_meant_to_be_told() -> None:
    own = f"Complaints go to {EMAIL} or {PHONE}."
    assert scan(f"Write to {EMAIL}.", own) == []
    assert scan(f"Write to {EMAIL} or {CARD}.", own) == [Found("card", CARD)]
    assert personal_data_in([said("assistant", f"Write to {EMAIL}.")], own) == []


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
