import pytest

from tests.long_texts import PATIENCE_S, SIGNS, cpu_seconds, long
from while_pipeline.simulate.listening import listen


@pytest.mark.parametrize(
    ("said", "transferred"),
    [
        ("I am transferring you to a human colleague now.", True),
        ("You will be transferred to one of our agents.", True),
        ("Let me connect you with a person who can help.", True),
        ("I will hand you over to a colleague.", True),
        ("I am handing over to my colleague.", True),
        ("I will hand this over to a colleague.", False),
        ("The money was transferred.", False),
        ("On the other hand, an agent can help.", False),
    ],
)
def test_a_customer_hears_that_they_are_handed_over(said: str, transferred: bool) -> None:
    assert listen(said).transferred is transferred


@pytest.mark.parametrize("text", ["transfer" * 2_000, "connect" * 2_000, *map(long, (*SIGNS, "hand", "no "))])
def test_a_long_message_is_heard_in_time_that_grows_with_its_length(text: str) -> None:
    assert cpu_seconds(lambda: listen(text)) < PATIENCE_S
