"""Which values can stand side by side: parts within totals, starts before ends, two places that differ.

Only the names of the values say how they relate. Drawing values belongs to `values`.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from while_pipeline.tools import words_of

_BEFORE = frozenset({
    ("origin", "destination"), ("from", "to"), ("source", "target"), ("old", "new"), ("start", "end"),
    ("begin", "end"), ("min", "max"), ("minimum", "maximum"), ("departure", "return"),
    ("departure", "arrival"), ("in", "out"), ("outbound", "inbound"), ("issue", "due"), ("used", "limit"),
    ("usage", "limit"),
})  # fmt: skip
"""Words by which two names differ, the one of the earlier or smaller value first."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def consistent(name: str, value: Any, others: Mapping[str, Any]) -> bool:
    """Whether a value can stand beside the others, by their names.

    Numbers and ISO dates are in order (`start_date` <= `end_date`, `nonfree_baggages` <= `total_baggages`);
    other texts of such a pair differ (`origin`, `destination`). Names that say nothing are consistent.
    """
    return all(
        _in_order(value, other) if relation > 0 else _in_order(other, value)
        for known, other in others.items()
        if (relation := _relation(name, known))
    )


def _in_order(first: Any, second: Any) -> bool:
    numbers = all(isinstance(v, int | float) for v in (first, second))
    dates = all(isinstance(v, str) and _DATE.match(v) for v in (first, second))
    return bool(first <= second) if numbers or dates else bool(first != second)


@lru_cache(maxsize=8192)
def _relation(name: str, other: str) -> int:
    """1 when the value of `name` comes first, -1 when the other's does, 0 when they are not related."""
    mine, its = words_of(name), words_of(other)
    if not mine or not its or mine == its:
        return 0
    if ("total" in mine) != ("total" in its) and mine[-1] == its[-1]:
        return -1 if "total" in mine else 1
    apart = [(a, b) for a, b in zip(mine, its, strict=False) if a != b]
    if len(mine) != len(its) or len(apart) != 1:
        return 0
    return 1 if apart[0] in _BEFORE else -1 if apart[0][::-1] in _BEFORE else 0
