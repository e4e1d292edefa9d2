import random
from typing import Any

import pytest

from tests.toolsets import PERSON
from while_pipeline.simulate.consistent import consistent
from while_pipeline.simulate.values import value_for


@pytest.mark.parametrize(
    ("name", "value", "other", "beside", "agrees"),
    [
        ("nonfree_baggages", 3, "total_baggages", 2, False),
        ("nonfree_baggages", 2, "total_baggages", 2, True),
        ("total_baggages", 2, "nonfree_baggages", 3, False),
        ("destination", "LIS", "origin", "LIS", False),
        ("destination", "OSL", "origin", "LIS", True),
        ("end_date", "2026-01-02", "start_date", "2026-01-03", False),
        ("start_date", "2026-01-02", "end_date", "2026-01-03", True),
        ("return_date", "2026-01-02", "departure_date", "2026-01-03", False),
        ("max_price", 3, "min_price", 5, False),
        ("data_usage_gb", 9, "data_limit_gb", 5, False),
        ("to_account", "A", "from_account", "A", False),
        ("first_name", "Ada", "last_name", "Ada", True),
        ("city", "Oslo", "date", "Oslo", True),
    ],
)
def test_values_agree_when_parts_are_within_totals_order_holds_and_places_differ(
    name: str, value: Any, other: str, beside: Any, agrees: bool
) -> None:
    assert consistent(name, value, {other: beside, "note": "x"}) is agrees


def test_a_value_is_drawn_to_agree_with_those_beside_it() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        origin = value_for("origin", {"type": "string"}, PERSON, rng)
        assert value_for("destination", {"type": "string"}, PERSON, rng, beside={"origin": origin}) != origin


def test_the_parts_of_an_object_agree_with_each_other() -> None:
    count = {"type": "integer"}
    schema = {"type": "object", "properties": {"total_bags": count, "paid_bags": count}}
    for seed in range(60):
        drawn = value_for("luggage", schema, PERSON, random.Random(seed))
        assert drawn["paid_bags"] <= drawn["total_bags"]


def test_where_the_schema_lets_nothing_agree_it_counts_first() -> None:
    only = {"type": "string", "enum": ["LIS"]}
    assert value_for("destination", only, PERSON, random.Random(1), beside={"origin": "LIS"}) == "LIS"
