import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.grade.figures import figure, figures


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("5.99", {"5.99"}),
        ("20.", {"20"}),
        ("20.00", {"20"}),
        ("12,50", {"12.5"}),
        (".5", {"0.5"}),
        ("0,250", {"0.25"}),
        ("1,200", {"1200"}),
        ("1'200", {"1200"}),
        ("1\u2019200", {"1200"}),
        ("1,00,000", {"100000"}),
        ("1,200.50", {"1200.5"}),
        ("1.200,50", {"1200.5"}),
        ("10,00,000.25", {"1000000.25"}),
        ("Rs.500", {"500"}),
        ("-5", {"5", "-5"}),
        ("A5 and v1.2.3", set()),
        ("02139", {"02139"}),
        ("\u652f\u4ed820\u5143", {"20"}),
    ],
)
def test_a_number_is_read_however_it_is_written(text: str, numbers: set[str]) -> None:
    assert figures(text) == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.200", {"1200", "1.2"}),
        ("1 200", {"1200", "1", "200"}),
        ("1\u202f200,50", {"1200.5", "1", "200.5"}),
        ("[40,66]", {"40", "66", "40.66"}),
        ("[1,200]", {"1", "200", "1200"}),
        ("5,10,15", {"5", "10", "15"}),
        ("[60.25,46.25]", {"60.25", "46.25"}),
        ("3.5.2026", {"3", "5", "2026"}),
        ("2026-03-02", {"2026", "03", "02"}),
    ],
)
def test_what_may_be_several_numbers_is_read_as_each(text: str, numbers: set[str]) -> None:
    assert figures(text) == numbers


@given(st.decimals(0, 10**9, places=2))
def test_every_way_to_group_an_amount_says_the_same(amount: object) -> None:
    western = f"{amount:,.2f}"
    swapped = western.translate(str.maketrans(",.", ".,"))
    written = [western, swapped, western.replace(",", "'"), western.replace(",", "\u00a0"), f"{amount:.2f}"]
    for text in written:
        assert figure(f"{amount:.2f}") in figures(f"Pay {text} euros.")


def test_a_figure_has_no_zeros_at_the_end_of_its_decimals() -> None:
    assert [figure(one) for one in (20.0, "20.00", "0.50", 58.5, ".5", "100")] == [
        "20",
        "20",
        "0.5",
        "58.5",
        "0.5",
        "100",
    ]
