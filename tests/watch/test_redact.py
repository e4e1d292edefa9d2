import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.example import SHARED
from while_pipeline.records import EXCERPT, Conversation, Message, Reject, ToolCall
from while_pipeline.watch.redact import Redactor

AIRLINE = SHARED / "tau-bench" / "gpt-4o-airline.json"
REDACTOR = Redactor("a project")

# What must go, by kind. Cards and IBANs are the published test numbers.
PERSONAL = {
    "email": [
        "ann.lee+shop@example.co.uk",
        "MIA_LI@mail.example",
        "o'neil@example.org"[2:],
        "jörg@müller.example",
    ],
    "phone": [
        "+1 (555) 123-4567",
        "+15551234567",
        "555-123-4567",
        "(555) 123-4567",
        "555.123.4567",
        "1-555-123-4567",
        "020 7946 0958",
        "07700 900123",
        "+44 20 7946 0958",
        "+49 1511 2345678",
        "+41 44 668 18 00",
    ],
    "card": [
        "4111 1111 1111 1111",
        "5555-5555-5555-4444",
        "378282246310005",
        "3782 822463 10005",
        "6011111111111117",
        "４１１１１１１１１１１１１１１１",
        "٤١١١ ١١١١ ١١١١ ١١١١",
    ],
    "iban": [
        "DE89 3704 0044 0532 0130 00",
        "GB82WEST12345698765432",
        "CH93 0076 2011 6238 5295 7",
        "NO9386011117947",
    ],
    "secret": [
        "sk-proj-abcDEF1234567890abcdef",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
    ],
}
# What the agent works with, and must stay.
ORDINARY = [
    "ORD-1234",
    "order 1234567890",
    "order #4111111111111112",
    "ORD-555-123-4567",
    "credit_card_4421486",
    "certificate_3221322",
    "mia_li_3668",
    "flight HAT069 on 2024-05-20 at 06:00:00",
    "2024-05-15 15:00:00 EST",
    "20240515T150000Z",
    "1740787200123456789",
    "1740787200",
    "reservation NO6JO3",
    "$1,234,567.89",
    "1 234 567,89 EUR",
    "10.0.0.1 and 192.168.100.200",
    "version 3.11.7",
    "SKU 123-456-78901",
    "GB82 WEST is a code",
    "tracking 1Z999AA10123456784",
    "@handle and a@b",
    "sk-short",
    "550e8400-e29b-41d4-a716-446655440000",
    "12/31/2025 to 01/02/2026",
]


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in PERSONAL.items() for value in values]
)
@pytest.mark.parametrize("sentence", ["{}", "It is {}.", "({}), please", "Mine:{}", '"{}"'])
def test_personal_data_becomes_one_pseudonym_of_its_kind(kind: str, value: str, sentence: str) -> None:
    redacted = REDACTOR.text(sentence.format(value))
    before, after = sentence.split("{}")
    assert re.fullmatch(re.escape(before) + rf"<{kind}:[0-9a-f]{{10}}>" + re.escape(after), redacted)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_ids_dates_and_amounts_survive(text: str) -> None:
    assert REDACTOR.text(text) == text
    assert REDACTOR.text(f"About {text}, please.") == f"About {text}, please."


def test_a_bearer_token_goes_and_the_word_stays() -> None:
    assert re.fullmatch(
        r"Authorization: Bearer <secret:\w+>", REDACTOR.text("Authorization: Bearer abcdefghijklmnop.123=")
    )


def test_one_value_in_any_spelling_is_one_pseudonym() -> None:
    for spellings in (
        ["+1 (555) 123-4567", "555-123-4567", "+15551234567"],
        [
            "4111 1111 1111 1111",
            "4111-1111-1111-1111",
            "4111111111111111",
            "４１１１１１１１１１１１１１１１",
        ],
        ["Ann@Example.org", "ann@example.org"],
        ["DE89 3704 0044 0532 0130 00", "DE89370400440532013000"],
    ):
        assert len({REDACTOR.text(spelling) for spelling in spellings}) == 1


def test_pseudonyms_are_stable_in_a_project_and_differ_between_projects() -> None:
    assert Redactor("a project").text("ann@example.org") == REDACTOR.text("ann@example.org")
    assert Redactor("another").text("ann@example.org") != REDACTOR.text("ann@example.org")
    assert REDACTOR.text("bob@example.org") != REDACTOR.text("ann@example.org")


@given(
    st.lists(
        st.sampled_from([*ORDINARY, *(v for values in PERSONAL.values() for v in values), " ", "\n", "é"])
    )
)
def test_redacting_twice_changes_nothing(pieces: list[str]) -> None:
    once = REDACTOR.text(" ".join(pieces))
    assert REDACTOR.text(once) == once


def test_messages_arguments_and_results_are_redacted_and_stay_what_they_were() -> None:
    arguments = {
        "order_id": "ORD-1",
        "contact": {"mails": ["ann@example.org"]},
        "card": 4111111111111111,
        "n": 3,
    }
    calls = (
        ToolCall(id="a", name="f", arguments=arguments),
        ToolCall(id="b", name="f", arguments=None, raw='{"mail": "ann@example.org"'),
    )
    result = json.dumps({"note": "Call\n555-123-4567", "card": 4111111111111111, "date": "2024-05-15"})
    plain = '{"order":  "ORD-1"}'
    made = REDACTOR.conversation(
        Conversation(
            conversation_id="ann@example.org",
            day="2025-03-01",
            source="t.jsonl",
            dialect="openai_chat",
            messages=(
                Message(role="user", content="I am ann@example.org"),
                Message(role="assistant", tool_calls=calls),
                Message(role="tool", content=result, tool_call_id="a"),
                Message(role="tool", content=plain, tool_call_id="b"),
            ),
        )
    )
    mail = REDACTOR.text("ann@example.org")
    assert (made.conversation_id, made.messages[0].content) == (mail, f"I am {mail}")
    first, second = made.messages[1].tool_calls
    card = REDACTOR.text("4111111111111111")
    assert first.arguments == {"order_id": "ORD-1", "contact": {"mails": [mail]}, "card": card, "n": 3}
    assert second.raw == f'{{"mail": "{mail}"'
    note = f"Call\n{REDACTOR.text('555-123-4567')}"
    assert json.loads(made.messages[2].content or "") == {"note": note, "card": card, "date": "2024-05-15"}
    assert made.messages[3].content == plain


def test_a_value_is_redacted_where_a_key_or_a_tools_name_should_stand() -> None:
    call = ToolCall(id="a", name="ann@example.org", arguments={"to": {"ann@example.org": 1}})
    result = Message(role="tool", content='{"ann@example.org": "open"}', tool_call_id="a")
    made = REDACTOR.conversation(
        Conversation(
            conversation_id="c",
            day="2025-03-01",
            source="t.jsonl",
            dialect="openai_chat",
            messages=(Message(role="assistant", tool_calls=(call,)), result),
        )
    )
    mail = REDACTOR.text("ann@example.org")
    assert made.messages[0].tool_calls[0] == ToolCall(id="a", name=mail, arguments={"to": {mail: 1}})
    assert json.loads(made.messages[1].content or "") == {mail: "open"}


def test_what_a_reject_quotes_is_redacted() -> None:
    reject = Reject(
        source="t.jsonl", line=1, reason="'ann@example.org' is not a time", excerpt="555-123-4567"
    )
    redacted = REDACTOR.reject(reject)
    assert "ann@" not in redacted.reason
    assert "555-" not in redacted.excerpt


def test_real_conversations_lose_their_addresses_and_nothing_else() -> None:
    if not AIRLINE.exists():
        pytest.skip("the public tau-bench trajectories are not beside this checkout")
    addresses = re.compile(r"[\w.]+@example\.com")
    records = json.loads(AIRLINE.read_text(encoding="utf-8"))[::5]
    texts = [message["content"] or "" for record in records for message in record["traj"]]
    assert sum(len(addresses.findall(text)) for text in texts) > 10
    for text in texts:
        assert re.sub(r"<email:\w{10}>", "@", REDACTOR.text(text)) == addresses.sub("@", text)


def test_a_word_cut_short_at_the_end_of_an_excerpt_is_not_shown() -> None:
    secret = "ada.lovelace@example.org"
    excerpt = ("x" * 180 + " " + secret)[:EXCERPT]
    reject = Reject(source="a.jsonl", line=1, reason="not JSON", excerpt=excerpt)
    assert Redactor("telecom").reject(reject).excerpt == "x" * 180 + "…"


@pytest.mark.parametrize("before", ["1234 ", "0958 ", "020 7946 0958 ", "order 12 3456 "])
def test_a_card_is_found_behind_other_digits(before: str) -> None:
    redacted = Redactor("telecom").text(f"{before}4111 1111 1111 1111")
    assert "1111" not in redacted
    assert "<card:" in redacted
