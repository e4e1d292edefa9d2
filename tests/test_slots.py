import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline import slots

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(min_size=1),
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    "boolean": st.booleans(),
    "array": st.lists(st.text() | st.integers(), max_size=3),
    "object": st.dictionaries(st.text(), st.none() | st.booleans(), max_size=3),
}
TYPED = st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind]))
PARAMETERS = st.lists(st.text(string.ascii_lowercase, min_size=2, max_size=8), min_size=1, max_size=3).map(
    "_".join
)


@given(PARAMETERS, TYPED)
def test_what_is_said_is_heard_as_its_schema_types_it(parameter: str, typed: tuple[str, Any]) -> None:
    kind, value = typed
    text = f"Hello. The {slots.say(parameter, value)}. Thanks."
    heard = slots.hear(parameter, {"type": kind}, text)
    assert json.dumps(heard) == json.dumps(value)


@pytest.mark.parametrize(
    ("parameter", "schema", "text", "value"),
    [
        ("line_id", {}, "My line id is LINE-4821.", "LINE-4821"),
        ("line_id", {}, "LINE ID: LINE-4821, please", "LINE-4821"),
        ("lineId", {}, "the line_id should be LINE-4821", "LINE-4821"),
        ("line_id", {}, "My line id is A-1. Sorry, the line id is B-2.", "B-2"),
        ("gb_amount", {"type": "number"}, "gb amount is 2.5.", 2.5),
        ("gb_amount", {"type": "number"}, "gb amount is plenty", None),
        ("passengers", {"type": "array"}, 'passengers is [{"name": "Ada"}], thanks', [{"name": "Ada"}]),
        ("passengers", {"type": "array"}, "passengers is [{broken", None),
        ("line_id", {}, "My pipeline id is P-1.", None),
        ("id", {}, "The customer id is CUST-1.", None),
        ("id", {}, "The customer id is CUST-1 and my id is X-2.", "X-2"),
        ("line_id", {}, "I do not know my line id.", None),
    ],
)
def test_a_value_is_heard_only_where_it_was_said(
    parameter: str, schema: dict[str, Any], text: str, value: Any
) -> None:
    assert slots.hear(parameter, schema, text) == value
