import random
import re
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from while_pipeline.errors import ProjectError
from while_pipeline.schemas import plain_schema
from while_pipeline.simulate.texts import id_prefix
from while_pipeline.simulate.values import identifier, numbered_id, persona, value_for
from while_pipeline.tool_words import FREE_TEXT

TEXT = {"type": "string"}
NAMES = ["city", "amount", "full_name", "order_id", "number", "date", "summary", "phone_number", "items", "x"]


def _draw(parameter: str, schema: dict[str, Any], seed: int = 1, root: dict[str, Any] | None = None) -> Any:
    rng = random.Random(seed)
    return value_for(parameter, plain_schema(schema, root or {}), persona(rng), rng)


def _accepts(schema: dict[str, Any], value: Any) -> bool:
    judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return bool(judge.is_valid(value))


# -- whatever the schema asks for is what is drawn --------------------------------------------------------

FORMATS = [
    "date",
    "date-time",
    "time",
    "email",
    "uri",
    "uuid",
    "ipv4",
    "ipv6",
    "hostname",
    "duration",
    "regex",
]
PATTERNS = [
    r"^[A-Z]{3}$", r"^\+\d{10,15}$", r"^(small|large)-[^a-z\s]\d*$", r"^[\w.]+@[a-z]+\.(?:com|org)$",
    r"\d{4}", r"^[A-Z]{2}\d{2}(?: \d{4}){3}$", r"^#(?:[0-9a-f]{3}){1,2}$", r"^[^@]+$",
]  # fmt: skip
_lengths = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(
    lambda n: {"type": "string", "minLength": n[0], "maxLength": sum(n)}
)
_texts = st.one_of(
    st.just({}),
    st.just(TEXT),
    _lengths,
    st.sampled_from(FORMATS).map(lambda f: {"type": "string", "format": f}),
    st.sampled_from(PATTERNS).map(lambda p: {"type": "string", "pattern": p}),
)
_bounds = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={"minimum": st.integers(-50, 50), "multipleOf": st.sampled_from([1, 2, 5, 0.5, 0.25])},
)
_ranges = st.tuples(st.integers(-50, 50), st.integers(2, 9)).map(
    lambda n: {"type": "integer", "exclusiveMinimum": n[0], "maximum": sum(n)}
)
_narrow = st.floats(-5, 5, allow_nan=False).map(
    lambda low: {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": low + 0.25}
)
_values = st.one_of(st.integers(), st.booleans(), st.text(string.ascii_letters, max_size=5))
_listed = st.lists(_values, min_size=1, max_size=4).map(lambda values: {"enum": values})
_leaves = st.one_of(
    _texts,
    _bounds,
    _ranges,
    _narrow,
    _listed,
    _values.map(lambda v: {"const": v}),
    st.just({"type": "boolean"}),
)


def _larger(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    arrays = st.tuples(inner, st.integers(0, 3), st.integers(0, 2)).map(
        lambda t: {"type": "array", "items": t[0], "minItems": t[1], "maxItems": sum(t[1:])}
    )
    sets = st.sampled_from([{"type": "integer"}, {"type": "string", "format": "uuid"}, TEXT]).map(
        lambda items: {"type": "array", "items": items, "uniqueItems": True, "minItems": 3}
    )
    members = st.dictionaries(st.sampled_from(["id", "city", "amount", "kind"]), inner, max_size=3)
    objects = st.tuples(members, st.booleans(), st.booleans()).map(
        lambda t: {
            "type": "object",
            "properties": t[0],
            "required": sorted(t[0])[: len(t[0]) if t[1] else 1],
            "additionalProperties": t[2],
        }
    )
    cases = st.sampled_from([{"type": "null"}, {"const": 10.125}])
    return st.one_of(
        arrays,
        sets,
        objects,
        st.tuples(st.sampled_from(["anyOf", "oneOf"]), inner, cases).map(lambda t: {t[0]: [t[2], t[1]]}),
        inner.map(lambda s: {"allOf": [{"title": "T"}, s]}),
    )


SCHEMAS = st.recursive(_leaves, _larger, max_leaves=5)


@given(schema=SCHEMAS, seed=st.integers(), name=st.sampled_from(NAMES), referred=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_drawn_value_fits_its_schema(schema: dict[str, Any], seed: int, name: str, referred: bool) -> None:
    if referred:
        schema = {"$ref": "#/$defs/Part", "$defs": {"Part": schema}}
    value = _draw(name, schema, seed, schema)
    assert _accepts(schema, value), value


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"type": "string", "maxLength": 8}, {"type": "string", "minLength": 3}]},
        {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}, {"not": {"const": 4}}]},
        {"allOf": [{"pattern": "^[a-z]+$"}, {"pattern": "^.{4,6}$"}], "type": "string"},
        {"type": ["null", "string"], "format": "date"},
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
        {
            "type": "array",
            "prefixItems": [{"const": "a"}, {"type": "integer"}],
            "items": False,
            "minItems": 2,
        },
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 3},
        {"type": "object", "properties": {"next": {"$ref": "#"}, "name": TEXT}, "required": ["name"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(5))
def test_conditions_that_meet_are_met_together(schema: dict[str, Any], seed: int) -> None:
    value = _draw("size", schema, seed, schema)
    assert _accepts(schema, value), value
    assert value is not None


def test_a_schema_no_value_fits_is_told_with_its_mend() -> None:
    with pytest.raises(ProjectError, match=r"size = .*no value was found that fits; give `examples`"):
        _draw("size", {"type": "integer", "minimum": 3, "maximum": 2})


def test_what_an_array_or_object_holds_is_named_by_its_own_name() -> None:
    contact = {"type": "object", "properties": {"email": TEXT, "phone_number": TEXT}}
    drawn = _draw("contacts", {"type": "array", "items": contact})
    assert all("@" in one["email"] and one["phone_number"].startswith("555-") for one in drawn)


# -- and it is what the parameter's name speaks of --------------------------------------------------------

CODE = re.compile(r"[A-Z]{2,6}-\d+")
SUITS = {
    "phone_number": r"555-01\d-\d{4}",
    "mobile": r"555-01\d-\d{4}",
    "contact_email": r"[\w.]+@example\.org",
    "date_of_birth": r"(19|20)\d\d-\d\d-\d\d",
    "departure_date": r"202[67]-\d\d-\d\d",
    "full_name": r"[A-Z][a-z]+ [A-Z][a-z]+",
    "first_name": r"[A-Z][a-z]+",
    "app_name": r"[A-Z][a-z]+",
    "zip_code": r"\d{5}",
    "origin": r"[A-Z]{3}",
    "delivery_address": r"\d+ [A-Z][a-z]+ [A-Z][a-z]+",
    "order_number": r"ORD-\d{5}",
    "tracking_number": r"REF-\d{5}",
    "seat_number": r"[A-H]\d{3}",
}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("name", "shape"), SUITS.items())
def test_a_text_suits_its_parameters_name(name: str, shape: str, seed: int) -> None:
    assert re.fullmatch(shape, _draw(name, TEXT, seed))


@pytest.mark.parametrize("name", sorted(FREE_TEXT))
def test_a_summary_or_reason_is_a_sentence_and_holds_no_identifier(name: str) -> None:
    for seed in range(20):
        text = _draw(name, TEXT, seed)
        assert " " in text
        assert not CODE.search(text)
        assert "the record" not in text.lower()


def test_only_identifiers_look_like_identifiers() -> None:
    for name in ("phone_number", "city", "zip_code", "plan", "model", "email", "query", "passport_number"):
        assert not CODE.fullmatch(str(_draw(name, TEXT)))


def test_a_description_gives_the_shape_where_the_name_does_not() -> None:
    def said(name: str, description: str) -> str:
        return str(_draw(name, {"type": "string", "description": description}))

    assert re.fullmatch(r"HAT\d{3}|[A-Z]{3}\d{3}", said("flight_number", "Flight number, such as 'HAT001'."))
    assert re.fullmatch(r"[A-Z\d]{6}", said("reservation_id", "The reservation ID, such as 'ZFA04Y'."))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", said("valid_from", "First day, in the format YYYY-MM-DD."))
    assert said("reservation_id", "The reservation ID, such as 'ZFA04Y'.") != "ZFA04Y"


# -- identifiers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {"type": "integer"},
        {"type": "integer", "minimum": 1, "maximum": 40},
        {"type": "string", "format": "uuid"},
        {"type": "string", "pattern": "^[A-Z]{2}[0-9]{6}$"},
        {"type": "string", "maxLength": 6},
        {"type": "string", "minLength": 20},
        {"enum": ["P-1", "P-2"]},
        {"type": "array", "items": {"type": "integer"}},
    ],
    ids=str,
)
def test_an_identifier_has_the_shape_its_schema_asks_for(schema: dict[str, Any]) -> None:
    plain = plain_schema(schema, {})
    drawn = {identifier("order", plain, random.Random(seed)) for seed in range(30)}
    assert all(_accepts(schema.get("items", schema), one) for one in drawn)
    assert len(drawn) > 1


def test_ids_are_numbered_where_only_a_type_is_asked_for() -> None:
    assert numbered_id("network_outage", TEXT, 9000) == "OUT-9000"
    assert numbered_id("order", {"type": "integer"}, 9000) == 9000
    assert numbered_id("order", {"type": "string", "format": "uuid"}, 9000) is None


@pytest.mark.parametrize(
    ("entity", "prefix"),
    [("order", "ORD"), ("line", "LINE"), ("customer", "CUST"), ("device", "DEV"), ("appointment", "APPT"),
     ("network_outage", "OUT"), ("reservation", "RSV"), ("app", "APP"), ("aeiou", "AEIO")],
)  # fmt: skip
def test_an_id_begins_with_an_abbreviation_that_can_be_read(entity: str, prefix: str) -> None:
    assert id_prefix(entity) == prefix


def test_where_records_are_named_their_ids_are_asked_for_nested_ones_too() -> None:
    schema = {
        "type": "object",
        "properties": {
            "payment_ids": {"type": "array", "items": TEXT, "minItems": 2},
            "order": {"type": "string", "description": "Number of the order."},
            "legs": {
                "type": "array",
                "items": {"type": "object", "properties": {"seat_id": {"type": "integer"}}},
            },
            "city": TEXT,
        },
    }
    asked: list[str | None] = []

    def refer(noun: str | None, schema: Any) -> str | int:
        asked.append(noun)
        return 7 if schema["type"] == "integer" else f"{noun}!"

    rng = random.Random(1)
    value = value_for("change", plain_schema(schema, {}), persona(rng), rng, refer)
    assert value["payment_ids"] == ["payment!", "payment!"]
    assert (value["order"], value["legs"]) == ("order!", [{"seat_id": 7}])
    assert sorted(map(str, asked)) == ["order", "payment", "payment", "seat"]


def test_equal_draws_are_equal() -> None:
    schema = {"type": "string", "pattern": "^[^a-z]{8}$"}
    assert _draw("x", schema, 3) == _draw("x", schema, 3) != _draw("x", schema, 4)
