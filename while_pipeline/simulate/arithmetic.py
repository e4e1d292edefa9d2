"""The value of an arithmetic expression, for tools that calculate. Nothing else is evaluated."""

import ast
import operator
from collections.abc import Callable

from while_pipeline.tools import Tool, ToolKind, words_of

LONGEST = 400
"""Characters of an expression: an exact product of that many digits is still small."""
LARGEST_POWER = 64
PLACES = 6
"""Decimal places of a result: more are noise of binary fractions."""

_EXPRESSIONS = frozenset({"expression", "formula", "equation", "calculation"})
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def expression_of(tool: Tool) -> str | None:
    """The parameter that holds what a tool calculates, None for tools that do something else.

    It is the only one the tool requires, besides its caller's own words.
    """
    if tool.kind is not ToolKind.OTHER:
        return None
    said = [p for p in tool.required if not tool.free_text(p)]
    return said[0] if len(said) == 1 and not _EXPRESSIONS.isdisjoint(words_of(said[0])) else None


def value_of(expression: str) -> int | float:
    """Evaluate numbers joined by `+ - * / // % **` and parentheses; a whole result is an int.

    Raises:
        ValueError: it is no such expression, divides by zero, or is too long or too large.
    """
    if len(expression) > LONGEST:
        raise ValueError("it is too long")
    try:
        value = _evaluated(ast.parse(expression.strip(), mode="eval").body)
        whole = int(value)
        return whole if whole == value else round(value, PLACES)
    except ZeroDivisionError:
        raise ValueError("it divides by zero") from None
    except (SyntaxError, OverflowError, RecursionError, MemoryError):
        raise ValueError("it is not an arithmetic expression") from None


def _evaluated(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _evaluated(inner)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = _evaluated(left), _evaluated(right)
            result = base**power if abs(power) <= LARGEST_POWER else None
            if isinstance(result, int | float):  # a root of a negative number is none
                return result
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_evaluated(left), _evaluated(right))
    raise ValueError("it is not an arithmetic expression of numbers that can be calculated")
