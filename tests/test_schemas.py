import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from while_pipeline.errors import ProjectError
from while_pipeline.schemas import NOTHING, Checker, check_schema, plain_schema

ROOT = {"$defs": {"Id": {"type": "integer"}, "Named/by~it": {"type": "boolean"}}}


# -- plain schemas ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({}, {"type": "string"}),
        (True, {"type": "string"}),
        (False, NOTHING),
        ({"type": ["null", "integer"]}, {"type": "integer"}),
        ({"anyOf": [{"type": "null"}, {"type": "number"}], "title": "T"}, {"type": "number", "title": "T"}),
        ({"enum": [1, 2]}, {"enum": [1, 2], "type": "integer"}),
        ({"const": True}, {"const": True, "type": "boolean"}),
        ({"minItems": 2}, {"minItems": 2, "type": "array"}),
        ({"$ref": "#/$defs/Id"}, {"type": "integer"}),
        ({"$ref": "#/$defs/Id", "minimum": 3}, {"type": "integer", "minimum": 3}),
        ({"$ref": "#/$defs/Named~1by~0it"}, {"type": "boolean"}),
        ({"allOf": [{"$ref": "#/$defs/Id"}]}, {"type": "integer"}),
        ({"type": "array", "items": {"$ref": "#/$defs/Id"}}, {"type": "array", "items": {"type": "integer"}}),
    ],
    ids=str,
)
def test_a_schema_is_narrowed_to_one_plain_case(schema: Any, plain: dict[str, Any]) -> None:
    assert plain_schema(schema, ROOT) == plain


def test_what_all_parts_ask_for_is_asked_for_together() -> None:
    first = {"properties": {"a": {"type": "number", "minimum": 3}}, "required": ["a"]}
    second = {"properties": {"a": {"type": "integer", "maximum": 5}, "b": {}}, "required": ["b"]}
    plain = plain_schema({"allOf": [first, second]}, {})
    assert plain["properties"]["a"] == {"type": "integer", "minimum": 3, "maximum": 5}
    assert plain["required"] == ["a", "b"]


def test_parts_that_contradict_each_other_leave_nothing() -> None:
    assert plain_schema({"allOf": [{"type": "string"}, {"type": "boolean"}]}, {}) == NOTHING
    assert plain_schema({"allOf": [{"enum": [1, 2]}, {"enum": [3]}]}, {}) == NOTHING


def test_a_part_that_is_closed_keeps_others_properties_out() -> None:
    closed = {"properties": {"a": {}}, "additionalProperties": False}
    plain = plain_schema({"allOf": [closed, {"properties": {"b": {}}}]}, {})
    assert plain["properties"] == {"a": {"type": "string"}, "b": NOTHING}


def test_an_alternative_that_cannot_be_is_passed_over() -> None:
    schema = {"type": "integer", "anyOf": [{"type": "string"}, {"minimum": 2}]}
    assert plain_schema(schema, {}) == {"type": "integer", "minimum": 2}


def test_a_schema_that_holds_itself_ends() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}
    plain = plain_schema({"$ref": "#/$defs/Tree"}, {"$defs": {"Tree": tree}})
    assert plain == {"type": "object", "properties": {"left": NOTHING}}


@pytest.mark.parametrize("reference", ["#/$defs/Nowhere", "https://example.org/schema.json"])
def test_a_reference_that_leads_nowhere_is_named_and_nothing_is_fetched(reference: str) -> None:
    with pytest.raises(LookupError, match=reference.replace("$", r"\$")):
        plain_schema({"$ref": reference}, {})


# -- schemas people write ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "key", "mend"),
    [
        ("object", "tool.parameters", "it is a JSON Schema of type object"),
        ({"type": "array"}, "tool.parameters", "it is a JSON Schema of type object"),
        (
            {"properties": {"a": {"type": "text"}}},
            "tool.parameters.properties.a.type",
            "is not valid under any",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}}, "tool.parameters.$ref", "define it under $defs"),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, "tool.parameters.$ref", "define it under $defs"),
    ],
    ids=str,
)
def test_a_broken_schema_is_told_with_its_place_and_mend(schema: Any, key: str, mend: str) -> None:
    with pytest.raises(ProjectError) as told:
        check_schema(schema, "tools.json", "tool.parameters")
    assert (told.value.source, told.value.key) == ("tools.json", key)
    assert mend in told.value.mend


# -- the check --------------------------------------------------------------------------------------------

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2**70])
    | st.text("ab1", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
_types = ["string", "integer", "number", "boolean", "null", "array", "object"]
_small = st.integers(0, 3)
_schemas = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(_types) | st.lists(st.sampled_from(_types), min_size=1, unique=True),
            "enum": st.lists(_values, min_size=1, max_size=3),
            "const": _values,
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-2, 2),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": _small,
            "maxLength": _small,
            "pattern": st.sampled_from(["^a", "b$", "[0-9]", "^(a|b)*$"]),
            "minItems": _small,
            "uniqueItems": st.booleans(),
            "required": st.sampled_from([["a"], ["a", "b"]]),
        },
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"items": inner}),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("ab"), inner), "additionalProperties": inner}
        ),
        st.fixed_dictionaries({"properties": st.just({"a": {}}), "additionalProperties": st.booleans()}),
        st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda pair: {pair[0]: pair[1]}
        ),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=4,
)


@given(schema=_schemas, value=_values)
@settings(max_examples=60, deadline=None)
def test_the_fast_check_agrees_with_the_reference_validator(schema: dict[str, Any], value: Any) -> None:
    checker, reference = Checker(schema), Draft202012Validator(schema)
    assert checker.is_valid(value) == reference.is_valid(value)
    assert (checker.problem(value) is None) == reference.is_valid(value)


@given(schema=_schemas, value=_values)
@settings(max_examples=40, deadline=None)
def test_what_fits_the_plain_case_fits_the_schema(schema: dict[str, Any], value: Any) -> None:
    if Checker(plain_schema(schema, schema)).is_valid(value):
        assert Draft202012Validator(schema).is_valid(value)


def test_a_problem_is_told_by_place_and_reason() -> None:
    schema = {"type": "object", "properties": {"stops": {"type": "array", "items": {"type": "string"}}}}
    path, message = Checker(schema).problem({"stops": ["a", 7]}) or ((), "")
    assert (path, message) == (("stops", 1), "7 is not of type 'string'")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("date", "2026-02-28", "next Tuesday"),
        ("date-time", "2026-02-28T10:00:00Z", "2026-02-28"),
        ("email", "a@example.org", "a"),
        ("uuid", "6f1c2b2e-9d1c-4f4e-8f59-1c1a1f6b2a11", "17"),
        ("ipv4", "192.0.2.1", "192.0.2"),
        ("uri", "https://example.org/a", "a b"),
    ],
)
def test_a_format_is_held_to_and_named(kind: str, good: str, bad: str) -> None:
    checker = Checker({"type": "object", "properties": {"x": {"type": "string", "format": kind}}})
    assert checker.is_valid({"x": good})
    path, message = checker.problem({"x": bad}) or ((), "")
    assert path == ("x",)
    assert kind in message


def test_what_the_fast_check_cannot_read_the_reference_validator_judges() -> None:
    only_python = Checker({"type": "string", "pattern": r"\Aab\Z"})
    assert (only_python.is_valid("ab"), only_python.is_valid("abc")) == (True, False)
    assert Checker({"type": "string"}).is_valid("half a sign: \ud800")


def test_a_check_travels_to_another_process() -> None:
    checker = pickle.loads(pickle.dumps(Checker({"type": "integer"})))
    assert (checker.is_valid(3), checker.is_valid("3")) == (True, False)
