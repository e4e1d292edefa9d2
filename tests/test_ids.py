import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.ids import canonical_json, content_id, seed_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_an_id_is_what_blake2b_gives_for_the_canonical_json() -> None:
    # printf %s "$json" | b2sum -l 80
    assert content_id("scenario", ["a", 1], {"b": None}) == "c220db8161cffec56655"


def test_the_order_of_keys_does_not_change_an_id() -> None:
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})


def test_the_order_and_the_grouping_of_parts_change_an_id() -> None:
    assert len({content_id("a", "b"), content_id("b", "a"), content_id("ab"), content_id(["a", "b"])}) == 4


@given(JSON)
def test_canonical_json_is_json_of_the_same_value(value: object) -> None:
    assert json.loads(canonical_json(value)) == value


@given(JSON)
def test_an_id_has_eighty_bits_and_a_seed_sixty_three(value: object) -> None:
    assert len(bytes.fromhex(content_id(value))) == 10
    assert 0 <= seed_of(value) < 2**63


def test_a_lone_surrogate_has_an_id() -> None:
    assert content_id("\ud800") != content_id("\ufffd")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_cannot_carry_has_no_id(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        content_id(value)


def test_another_process_with_another_hash_seed_gives_the_same_id() -> None:
    code = "from while_pipeline.ids import *; print(content_id({'b': 1, 'a': 'é'}), seed_of('x'))"
    told = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [content_id({"a": "é", "b": 1}), str(seed_of("x"))]
