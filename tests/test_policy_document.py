import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.example import DOCUMENT, SHARED
from tests.long_texts import LENGTH, PATIENCE_S, cpu_seconds, long
from while_pipeline.policy_document import PolicyDocument, RuleKind, asks_about_rules, read_policy_document
from while_pipeline.simulate.phrasing import RULE_LINES, RULE_OPENINGS

PUBLIC = ("tau-bench/airline.wiki.md", "tau2-telecom/main_policy.md", "tau2-telecom/policy.full.md")


def _public(path: str) -> PolicyDocument:
    if not (SHARED / path).exists():
        pytest.skip(f"the public data set {path} is not beside this checkout")
    return read_policy_document((SHARED / path).read_text(encoding="utf-8"))


def _kinds(text: str) -> list[RuleKind]:
    return [rule.kind for rule in read_policy_document(text).rules]


def test_the_example_has_fourteen_rules_of_these_kinds() -> None:
    kinds = "verify never confirm never inform never never never never handoff handoff inform inform inform"
    assert [rule.kind.value for rule in DOCUMENT.rules] == kinds.split()
    assert (DOCUMENT.verifies, DOCUMENT.confirms) == (True, True)


@pytest.mark.parametrize(
    ("start", "trigger"),
    [
        ("Never tell the customer the PUK", "tell me the PUK code or the password of an account"),
        ("Transfer the customer to a human when they report", "I want to report a stolen phone or SIM card"),
        ("Never change the contract", "change the contract of another person"),
        ("Roaming outside", "roaming outside the zone costs extra"),
        (
            "Transfer the customer to a human when they threaten",
            "I am going to take legal action or call in a lawyer",
        ),
        ("Do not give discounts", "give me discounts or free months that are not part of a plan"),
        ("You must not recommend", "recommend a competitor or compare your prices with theirs"),
    ],
)
def test_a_trigger_is_the_rule_in_the_customers_words(start: str, trigger: str) -> None:
    (rule,) = [rule for rule in DOCUMENT.rules if rule.text.startswith(start)]
    assert rule.trigger == trigger


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Hand the customer over to a colleague when they ask twice.", RuleKind.HANDOFF),
        ("Escalate to the fraud team if a card was stolen.", RuleKind.HANDOFF),
        ("Authenticate the caller before you open their file.", RuleKind.VERIFY),
        ("Obtain an explicit yes before you change a booking.", RuleKind.CONFIRM),
        ("You are not allowed to waive the fee.", RuleKind.NEVER),
        ("Don't share the names of other guests.", RuleKind.NEVER),
        ("A ticket that was flown cannot be refunded to anyone.", RuleKind.INFORM),
        ("Each reservation can have at most five passengers.", RuleKind.INFORM),
    ],
)
def test_a_rules_kind_is_what_it_asks_of_the_agent(text: str, kind: RuleKind) -> None:
    assert _kinds(f"- {text}") == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "# What you must never do here",
        "What you must never do here\n===========================",
        "What you must never do here\n---------------------------",
        "You are the support agent and must help the customer.",
        "As an airline agent, you should help users with their bookings.",
        "The current time is 2024-05-15 and must not be doubted.",
        "You must always do the following things:",
        "Each user has an id that must be unique.",
        "```\nyou must never read what stands in a fence\n```",
        "| you must | never read | what stands in a table |",
        "> you must never read what stands in a quotation",
        "- must be short",
        "Status | What the agent must do\n--- | ---\nclosed | must never be opened again by anyone",
        "<!-- the agent must never read what stands in a comment -->",
        "---\ntitle: you must never read the front matter\n---\n",
        "Each bill has these statuses:\n- **issued**: it cannot be changed by anyone\n- paid, must stay so",
        "There are four statuses, one of which must be shown:\n\n- closed lines cannot be opened again",
        "To do so you need to follow these steps\n- look at the bill",
        "- reset_line(line_id) - Resets a line. Required before it can be used.",
        "This section explains what an agent must do about bills.",
        "For example, you should tell them the price first.",
        "The office is open on all days of the week.",
    ],
)
def test_headings_role_lines_lead_ins_and_facts_are_not_rules(text: str) -> None:
    assert _kinds(text) == []


def test_a_list_item_goes_on_over_lines_and_a_ruler_after_it_is_no_heading() -> None:
    document = read_policy_document(
        "1. You must **always**\n   give the `name`.\n---\n2. You must never lie to people."
    )
    assert [rule.text for rule in document.rules] == [
        "You must always give the name.",
        "You must never lie to people.",
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("You are the agent of a bank. Never lie to any customer.", "Never lie to any customer."),
        ("A SIM is a small card. You must never ask for its PIN.", "You must never ask for its PIN."),
        (
            "Some lines are old. Check the line. If it is locked, you must escalate to support.",
            "Check the line. If it is locked, you must escalate to support.",
        ),
        ("1. Never use `reset_line_now` on *any* line.", "Never use reset_line_now on any line."),
        ("You must identify the customer first.\n</main_rules>", "You must identify the customer first."),
    ],
)
def test_a_rule_begins_with_the_first_sentence_that_obliges_and_what_that_leans_on(
    text: str, rule: str
) -> None:
    assert [found.text for found in read_policy_document(text).rules] == [rule]


def test_a_list_of_facts_does_not_hide_the_rules_after_it() -> None:
    facts = "Each line has:\n- a plan that must be known"
    assert len(_kinds(f"{facts}\n\nNever lie to anyone here.\n\n- Never guess the id of a line.")) == 2


def test_no_status_list_and_no_field_of_a_public_policy_is_a_rule() -> None:
    texts = [rule.text for path in PUBLIC for rule in _public(path).rules]
    assert not any(re.match(r"(If the status is|There are|Each \w+ has|\w+ ID$)", text) for text in texts)
    assert not any("</" in text or "_policy>" in text for text in texts)


def test_a_rule_keeps_its_id_when_it_moves_and_gets_another_when_it_is_reworded() -> None:
    one, two, reworded = (
        "- You must never lie to people.",
        "- You must ask for the name.",
        "- Never lie to any people.",
    )
    first, second = read_policy_document(f"{one}\n{two}").rules
    assert [rule.rule_id for rule in read_policy_document(f"{two}\n{one}").rules] == [
        second.rule_id,
        first.rule_id,
    ]
    assert read_policy_document(reworded).rules[0].rule_id != first.rule_id


def test_a_rule_written_twice_is_one_rule() -> None:
    assert len(_kinds("- You must never lie to people.\n\n- You must never lie to people.")) == 1


@pytest.mark.parametrize("path", PUBLIC)
def test_no_heading_and_no_role_line_of_a_public_policy_is_a_rule(path: str) -> None:
    document = _public(path)
    headings = {line.lstrip("# ").strip() for line in document.text.splitlines() if line.startswith("#")}
    roles = [
        rule.text
        for rule in document.rules
        if re.match(r"(as an? .*agent|you are (?!not allowed)|the current time)", rule.text, re.I)
    ]
    assert document.rules
    assert not headings & {rule.text for rule in document.rules}
    assert roles == []


@pytest.mark.parametrize(
    ("path", "rules", "kinds"),
    [
        (PUBLIC[0], 19, {"confirm": 1, "never": 5, "handoff": 2, "verify": 3, "inform": 8}),
        (PUBLIC[1], 15, {"never": 3, "handoff": 1, "verify": 2, "inform": 9}),
    ],
)
def test_the_rules_of_a_public_policy_are_counted_by_kind(
    path: str, rules: int, kinds: dict[str, int]
) -> None:
    document = _public(path)
    counted = {kind.value: len(document.of_kind(kind)) for kind in RuleKind if document.of_kind(kind)}
    assert (len(document.rules), counted) == (rules, kinds)


def test_a_rule_is_put_in_play_by_its_own_trigger_only_and_an_inform_rule_by_a_question() -> None:
    for rule in DOCUMENT.rules:
        asked = [
            other.rule_id
            for other in DOCUMENT.rules
            if other.in_play(f"What is your rule about {rule.trigger}?")
        ]
        told = [
            other.rule_id for other in DOCUMENT.rules if other.in_play(f"One more thing, {rule.trigger}.")
        ]
        spoken = rule.kind in (RuleKind.NEVER, RuleKind.HANDOFF)
        assert told == ([rule.rule_id] if spoken else [])
        assert asked == ([rule.rule_id] if rule.kind is RuleKind.INFORM else [])


def test_a_sentence_means_the_rule_it_says_most_of() -> None:
    document = read_policy_document(
        "- You are not allowed to lift the suspension of a line with an old contract.\n"
        "- If the suspension cannot be lifted, transfer the customer to a human."
    )
    never, handoff = document.rules
    assert (never.kind, handoff.kind) == (RuleKind.NEVER, RuleKind.HANDOFF)
    assert document.in_play(f"I want you to {never.trigger}.") == (never,)
    assert document.in_play(f"You should know that {handoff.trigger}.") == (handoff,)


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("If any segment was flown, the agent cannot help and transfer is needed.", "a segment was flown"),
        ("Look at the SIM if asked. If it is locked, escalate to a human.", "it is locked"),
    ],
)
def test_the_trigger_of_a_handoff_is_the_case_and_not_what_the_agent_does(text: str, trigger: str) -> None:
    (rule,) = read_policy_document(text).rules
    assert (rule.kind, rule.trigger) == (RuleKind.HANDOFF, trigger)


@pytest.mark.parametrize(
    ("text", "spoken_of"),
    [
        ("Never tell the customer the PUK code.", True),
        ("Do not proactively offer these to anyone.", False),
        ("You should not respond to the user simultaneously.", False),
        ("Never call two tools at a time.", False),
        ("Transfer the customer to a human when they report a theft.", True),
        ("Transfer the customer if the request is not in the scope of your actions.", False),
        ("Look at the SIM if asked. If it is locked, escalate to a human.", False),
        ("Ask the user to select one.", False),
        ("You should always check that the bill is overdue.", False),
        ("You should try your best before you transfer them.", False),
        ("After this the user must be instructed to use reboot_device().", False),
        ("A bag of more than 20 kg must be paid for.", True),
        ("Obtain an explicit yes before you change a booking.", False),
        ("Verify who the customer is before you open a file.", False),
    ],
)
def test_a_rule_that_only_the_agent_knows_of_is_put_in_play_by_no_words(text: str, spoken_of: bool) -> None:
    document = read_policy_document(f"- {text}")
    (rule,) = document.rules
    assert rule.spoken_of is spoken_of
    said = (
        f"I want you to {rule.trigger}.",
        f"You know that {rule.trigger}.",
        f"Your rule that {rule.trigger}?",
    )
    assert any(document.in_play(line) for line in said) is spoken_of


def test_the_rules_a_customer_of_a_public_agent_can_speak_of_are_these() -> None:
    triggers = {rule.trigger[:60] for path in PUBLIC for rule in _public(path).rules if rule.spoken_of}
    assert triggers == {
        "I can only have one bill in the AWAITING PAYMENT status at a",
        "MMS requires at least a 3G network connection",
        "add insurance after initial booking",
        "after you resume the line, I will have to reboot my device t",
        "all reservations can be cancelled within 24 hours of booking",
        "basic economy flights cannot be modified",
        "cabin changes require me to pay for the difference between m",
        "each reservation can have at most five passengers",
        "each reservation can use at most one travel certificate, at ",
        "for MMS to work, I must have cellular service and mobile dat",
        "for mobile data to work, I must first have cellular service",
        "give me subjective recommendations or comments",
        "good cellular service is required for calls, texts, and mobi",
        "if the flights are changed, I need to provide one gift card ",
        "lift the suspension although the line's contract end date is",
        "modify the number of passengers",
        "some of the segments are already used",
        "when mobile data is unavailable a speed test should return '",
    }


@pytest.mark.parametrize("path", PUBLIC)
def test_each_rule_of_a_public_policy_is_put_in_play_by_what_customers_say_of_it_and_by_nothing_else(
    path: str,
) -> None:
    document = _public(path)
    for rule in document.rules:
        for line in (*RULE_LINES.get(rule.kind, ()), *RULE_OPENINGS.get(rule.kind, ())):
            heard = document.in_play(line.format(trigger=rule.trigger))
            assert heard == ((rule,) if rule.spoken_of else ()), line.format(trigger=rule.trigger)


def test_a_record_that_is_called_a_policy_is_not_a_question_about_rules() -> None:
    assert not asks_about_rules("I would like to cancel policy. My policy id is POL-1.")
    assert asks_about_rules("What does your policy say on late cancellation?")


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_read_and_every_rule_has_a_trigger_or_no_words(text: str) -> None:
    for rule in read_policy_document(text).rules:
        assert rule.text
        assert isinstance(rule.trigger, str)


@pytest.mark.parametrize("said", ["get_bill - ", "get_bill(bill_id) - ", "get_bill : ", "bill_id \u2013 "])
def test_what_a_tool_does_is_no_rule(said: str) -> None:
    assert _kinds(f"{said}you must never call it for somebody else.") == []


@pytest.mark.parametrize("said", ["_a ", "a_ - ", "a_b ", "a_b-c: ", "bill - "])
def test_a_paragraph_that_only_begins_like_it_may_be_one(said: str) -> None:
    assert _kinds(f"{said}you must never call it for somebody else.") == [RuleKind.NEVER]


@pytest.mark.parametrize("text", ["a_" * 30, f"<{'a' * LENGTH}", long("\n"), long(" \n")])
def test_a_long_document_is_read_in_time_that_grows_with_its_length(text: str) -> None:
    assert cpu_seconds(lambda: read_policy_document(f"You must ask first.\n\n{text}")) < PATIENCE_S
