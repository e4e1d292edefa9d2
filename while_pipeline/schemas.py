"""JSON Schemas as the engine uses them: does a value fit, and what does a value that fits look like.

Reading tools belongs to `tools`, drawing values to `simulate.values`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry, exceptions
from referencing.jsonschema import DRAFT202012

from while_pipeline.errors import ProjectError
from while_pipeline.ids import canonical_json

Schema = Mapping[str, Any]

NOTHING: dict[str, Any] = {"not": {}}
"""The schema no value fits."""

_LARGER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_WORDS = frozenset({"title", "description", "default", "examples", "$comment", "deprecated", "$defs"})
"""Keywords that rule nothing out: of two the first one stays."""
_BRANCH = ("if", "then", "else")
_SUGGESTS = {
    "properties": "object", "required": "object", "minProperties": "object",
    "items": "array", "prefixItems": "array", "minItems": "array", "uniqueItems": "array",
    "minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number",
    "multipleOf": "number",
}  # fmt: skip
_JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


class Checker:
    """Says whether values fit one schema (Draft 2020-12, `format` asserted).

    The Rust validator judges, in half a microsecond. Where it cannot (a pattern only Python knows, text it
    cannot encode), `jsonschema` does; that one also words what is wrong.
    """

    def __init__(self, schema: Schema) -> None:
        """Compile `schema`, which is valid and whose references lead somewhere."""
        self._schema = schema
        self._slow = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        try:
            self._fast: jsonschema_rs.Draft202012Validator | None = jsonschema_rs.Draft202012Validator(
                dict(schema), validate_formats=True, offline=True
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            self._fast = None

    def __reduce__(self) -> tuple[type["Checker"], tuple[Schema]]:
        return Checker, (self._schema,)

    def is_valid(self, value: Any) -> bool:
        """Whether `value` fits."""
        if self._fast is not None:
            try:
                return self._fast.is_valid(value)
            except ValueError:  # a lone surrogate
                pass
        return bool(self._slow.is_valid(value))

    def problem(self, value: Any) -> tuple[tuple[str | int, ...], str] | None:
        """Where in `value` (path) what is wrong (message); None when it fits."""
        if self.is_valid(value):
            return None
        error = best_match(self._slow.iter_errors(value))
        if error is not None:
            return tuple(error.absolute_path), error.message
        if self._fast is None:
            return None
        # The Rust validator is stricter with some formats and with the end of a line in a pattern.
        first = next(iter(self._fast.iter_errors(value)))
        return tuple(first.instance_path), first.message


def check_schema(schema: Any, source: str, where: str) -> None:
    """Refuse what is no JSON Schema of an object, or refers to what is not there.

    Raises:
        ProjectError: naming `source`, the place under `where`, the value and the mend.
    """
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise ProjectError(source, where, schema, "it is a JSON Schema of type object")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        field = ".".join([where, *map(str, error.absolute_path)])
        raise ProjectError(source, field, error.instance, error.message) from error
    try:
        plain_schema(schema, schema)
    except LookupError as error:
        mend = "this reference leads nowhere; define it under $defs of the same schema"
        raise ProjectError(source, f"{where}.$ref", error.args[0], mend) from error


_Flat = tuple[dict[str, Any], frozenset[str]]
"""A schema, and the references followed to get there."""


def plain_schema(schema: Any, root: Schema, inside: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Narrow a schema to one plain case that says its type: what fits the case fits the schema.

    References into `root` are followed, `allOf` is merged, of alternatives and types the first one that is
    not null is taken. A reference met inside itself (`inside` holds those on the way), and conditions that
    contradict each other, become `NOTHING`. Conditions under `not` that hold references are left out.

    Raises:
        LookupError: a reference leads nowhere in `root`.
    """
    flat, inside = next(_flats(schema, root, inside), (NOTHING, inside))
    if _impossible(flat):
        return dict(NOTHING)
    plain = {**flat, "type": _type_of(flat)}
    if "enum" in plain:
        of_type = Checker({"type": plain["type"]})
        plain["enum"] = [value for value in plain["enum"] if of_type.is_valid(value)]
    for name in ("items", "additionalProperties"):
        if isinstance(plain.get(name), Mapping):
            plain[name] = plain_schema(plain[name], root, inside)
    if "prefixItems" in plain:
        plain["prefixItems"] = [plain_schema(item, root, inside) for item in plain["prefixItems"]]
    if "properties" in plain:
        plain["properties"] = {p: plain_schema(s, root, inside) for p, s in plain["properties"].items()}
    return plain


def _flats(schema: Any, root: Schema, inside: frozenset[str]) -> Iterator[_Flat]:
    """The schema's cases without references, `allOf` and alternatives of their own, the plainest first."""
    if isinstance(schema, bool):
        yield ({} if schema else dict(NOTHING)), inside
        return
    rest = {k: v for k, v in schema.items() if k != "not" or not _holds_reference(v)}
    parts = list(rest.pop("allOf", ()))
    if "$ref" in rest:
        reference = str(rest.pop("$ref"))
        parts.insert(0, NOTHING if reference in inside else _referred(reference, root))
        inside |= {reference}
    alternatives = [(rest.pop(name), name == "oneOf") for name in ("anyOf", "oneOf") if name in rest]
    cases: Iterator[_Flat] = iter([(rest, inside)])
    for part in parts:
        cases = _each_with(cases, [part], root, exclusive=False)
    for choices, exclusive in alternatives:
        cases = _each_with(cases, choices, root, exclusive=exclusive)
    yield from cases


def _each_with(
    cases: Iterator[_Flat], choices: Sequence[Any], root: Schema, *, exclusive: bool
) -> Iterator[_Flat]:
    """Every case together with one of the choices, those that are null last; impossible ones are left out."""
    ordered = sorted(choices, key=lambda choice: isinstance(choice, Mapping) and choice.get("type") == "null")
    for rest, inside in cases:
        for choice in ordered:
            for flat, followed in _flats(choice, root, inside):
                found = _merged(rest, flat)
                for other in ordered if exclusive else ():
                    if other is not choice and not _holds_reference(other) and _may_overlap(found, other):
                        found = _excluding(found, other)
                if not _impossible(found):
                    yield found, followed


def _impossible(schema: Schema) -> bool:
    return schema.get("not") in ({}, True)


def _may_overlap(one: Schema, other: Any) -> bool:
    types = (one.get("type"), other.get("type") if isinstance(other, Mapping) else None)
    return not all(isinstance(t, str) for t in types) or types[0] == types[1] or "number" in types


def _merged(one: Schema, other: Schema) -> dict[str, Any]:
    """A schema that only values that fit both fit."""
    merged = dict(one)
    if "if" in one and "if" in other:
        merged = _excluding(merged, {"not": {name: other[name] for name in _BRANCH if name in other}})
        other = {name: value for name, value in other.items() if name not in _BRANCH}
    for name, value in other.items():
        if name not in merged or name in _WORDS or merged[name] == value:
            merged.setdefault(name, value)
        elif name in _LARGER:
            merged[name] = max(merged[name], value)
        elif name in _SMALLER:
            merged[name] = min(merged[name], value)
        elif name == "type":
            merged[name] = _common_types(merged[name], value)
        elif name == "enum":
            merged[name] = [v for v in merged[name] if v in value]
        elif name == "required":
            merged[name] = list(dict.fromkeys([*merged[name], *value]))
        elif name == "properties":
            both = {p: {"allOf": [s, value[p]]} if p in value else s for p, s in merged[name].items()}
            merged[name] = {**value, **both}
        elif name in ("items", "additionalProperties"):
            closed = merged[name] is False or value is False
            merged[name] = False if closed else {"allOf": [merged[name], value]}
        elif name == "uniqueItems":
            merged[name] = merged[name] or value
        elif name == "not":
            merged = _excluding(merged, value)
        else:  # two patterns, two formats, two `contains`: kept as a condition on what is drawn
            merged = _excluding(merged, {"not": {name: value}})
    if merged.get("type") == [] or merged.get("enum") == []:
        return dict(NOTHING)
    for schema in (one, other):  # what one of them closes the other cannot open
        if schema.get("additionalProperties") is False and "properties" in merged:
            own = schema.get("properties", {})
            merged["properties"] = {p: s if p in own else False for p, s in merged["properties"].items()}
    return merged


def _excluding(schema: Schema, unwanted: Any) -> dict[str, Any]:
    """The schema without the values that fit `unwanted`."""
    known = [schema["not"]] if "not" in schema else []
    if unwanted in ({}, True) or known == [{}]:
        return dict(NOTHING)
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if listed is not None:  # what is listed can be looked through here and now
        wanted = Checker({"not": unwanted})
        left = [value for value in listed if wanted.is_valid(value)]
        return {**schema, "enum": left} if left else dict(NOTHING)
    return {**schema, "not": {"anyOf": [*known, unwanted]} if known else unwanted}


def _common_types(one: str | list[str], other: str | list[str]) -> list[str]:
    ours, theirs = ([t] if isinstance(t, str) else t for t in (one, other))
    narrowed = {"number": "integer"}  # an integer is a number
    common = [t for t in ours if t in theirs]
    common += [n for t, n in narrowed.items() if t in ours and n in theirs and n not in common]
    common += [n for t, n in narrowed.items() if t in theirs and n in ours and n not in common]
    return common


def _holds_reference(schema: Any) -> bool:
    return '"$ref":' in canonical_json(schema)


def _referred(reference: str, root: Schema) -> Any:
    resolver = Registry().with_resource("", DRAFT202012.create_resource(dict(root))).resolver()
    try:
        return resolver.lookup(reference).contents
    except exceptions.Unresolvable as error:
        raise LookupError(reference) from error


def _type_of(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    if kind:
        return str(next((k for k in kind if k != "null"), "null"))
    values = [schema["const"]] if "const" in schema else schema.get("enum") or []
    if values:
        return _JSON_TYPES.get(type(values[0]), "string")
    return next((kind for name, kind in _SUGGESTS.items() if name in schema), "string")
