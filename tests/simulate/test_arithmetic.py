from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds import tool
from while_pipeline.simulate.arithmetic import expression_of, value_of

NUMBERS = st.integers(-999, 999)
EXPRESSIONS = st.recursive(
    NUMBERS.map(lambda n: (f"({n})", Fraction(n))),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
        lambda t: (
            f"({t[0][0]} {t[1]} {t[2][0]})",
            {"+": t[0][1] + t[2][1], "-": t[0][1] - t[2][1], "*": t[0][1] * t[2][1]}[t[1]],
        )
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
def test_sums_and_products_are_those_of_exact_arithmetic(expression: tuple[str, Fraction]) -> None:
    assert value_of(expression[0]) == expression[1]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("38 + 51", 89), ("2 + 2 * 3", 8), ("(2 + 2) * 3", 12), ("-7 // 2", -4), ("7 % 4", 3),
        ("1 / 3", 0.333333), ("6 / 3", 2), ("2 ** 10", 1024), ("0.1 + 0.2", 0.3), (" 4 ", 4),
        ("2 ** -1", 0.5),
    ],
)  # fmt: skip
def test_an_expression_has_its_value(expression: str, value: float) -> None:
    assert value_of(expression) == value
    assert type(value_of(expression)) is type(value)


@pytest.mark.parametrize(
    "expression",
    ["", "1 +", "1 / 0", "x + 1", "abs(1)", "'a' * 3", "True + 1", "9 ** 9999999", "(-8) ** 0.5", "1e999",
     "[1]", "1 if 1 else 2", "1" * 500, "2 ** 64 ** 9", "(" * 300],
)  # fmt: skip
def test_anything_else_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="it "):
        value_of(expression)


def test_a_tool_calculates_when_it_asks_for_an_expression_alone() -> None:
    assert expression_of(tool("calculate", "expression thought")) == "expression"
    assert expression_of(tool("calculate", "expression unit")) is None
    assert expression_of(tool("think", "thought")) is None
    assert expression_of(tool("search_orders", "expression")) is None
