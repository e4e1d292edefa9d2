import pytest

from while_pipeline import rule_words


@pytest.mark.parametrize(
    ("rule", "demanded", "declined"),
    [
        ("Never tell the customer the PUK.", "tell me the PUK", "tell you the PUK"),
        ("Never change their plan at the customer's request.", "change my plan", "change your plan"),
        ("Do not give discounts to anyone.", "give me discounts to anyone", "give discounts to anyone"),
        ("You are not allowed to promise a date.", "promise me a date", "promise a date"),
        ("You must not compare our prices.", "compare your prices", "compare our prices"),
        ("Don't lift it if a fee is due.", "lift it although a fee is due", "lift it if a fee is due"),
        ("Never read tool results aloud, or give advice.", "give me advice", "give advice"),
    ],
)
def test_what_is_forbidden_is_demanded_by_one_side_and_declined_by_the_other(
    rule: str, demanded: str, declined: str
) -> None:
    clause = rule_words.forbidden_by(rule.rstrip("."))
    assert rule_words.demanded(clause) == demanded
    assert rule_words.in_second_person(clause) == declined


@pytest.mark.parametrize(
    ("rule", "announced", "told"),
    [
        (
            "Transfer them when they report a stolen phone.",
            "I want to report a stolen phone",
            "they want to report a stolen phone",
        ),
        (
            "Escalate if the user threatens legal action or mentions a lawyer.",
            "I am going to take legal action or call in a lawyer",
            "they are going to take legal action or call in a lawyer",
        ),
        ("If any of the bags are lost, escalate.", "some of the bags are lost", "some of the bags are lost"),
        ("Hand over when their line is dead.", "my line is dead", "their line is dead"),
        ("Hand over when the customer has a lawyer.", "I have a lawyer", "they have a lawyer"),
    ],
)
def test_a_case_for_a_human_is_announced_by_the_customer_and_told_on_in_the_third_person(
    rule: str, announced: str, told: str
) -> None:
    said = rule_words.announced(rule_words.case_of(rule.rstrip(".")))
    assert said == announced
    assert rule_words.told_of(said) == told


@pytest.mark.parametrize(
    ("rule", "statement"),
    [
        ("Unused data expires at night and should be used.", "unused data expires at night"),
        ("Payment: each order can use one card. Others cannot.", "each order can use one card"),
        ("Changes require the user to pay a fee; there are no others.", "changes require me to pay a fee"),
        ("A user can only have one bill (of any kind).", "I can only have one bill"),
        ("MMS requires a 3G network, but 4G is better.", "MMS requires a 3G network"),
        ("If a trip is changed, the user needs to pay.", "if a trip is changed, I need to pay"),
    ],
)  # fmt: skip
def test_a_statement_ends_where_it_has_said_enough(rule: str, statement: str) -> None:
    assert rule_words.in_first_person(rule_words.statement_of(rule.rstrip("."))) == statement


def test_what_is_the_customers_is_the_agents_yours() -> None:
    assert (
        rule_words.yours("check whether I can send my bill to me")
        == "check whether you can send your bill to you"
    )
    assert rule_words.yours("have you send me a certificate") == "receive a certificate"
