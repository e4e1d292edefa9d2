"""The agent's tools, read from any shape people have them in, and what their names and schemas tell.

What a tool does (its kind), to what (its entity) and by which identifier (its key) is read here once;
the world, the scenarios and the graders all act on the same reading.
"""

import importlib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from while_pipeline.errors import ProjectError
from while_pipeline.records import Record


class ToolKind(StrEnum):
    """What calling a tool does to the world."""

    READ = "read"
    SEARCH = "search"
    CREATE = "create"
    UPDATE = "update"
    CANCEL = "cancel"
    PAY = "pay"
    TRANSFER = "transfer"
    OTHER = "other"


WRITES = frozenset({ToolKind.CREATE, ToolKind.UPDATE, ToolKind.CANCEL, ToolKind.PAY})

_VERBS: dict[ToolKind, str] = {
    ToolKind.TRANSFER: "transfer escalate handoff handover",
    ToolKind.PAY: "pay refund charge credit reimburse",
    ToolKind.CANCEL: "cancel delete remove terminate void revoke",
    ToolKind.CREATE: "create add book open order register schedule submit issue send place reserve",
    ToolKind.UPDATE: (
        "update change modify set edit reset enable disable toggle suspend resume activate deactivate refuel "
        "reboot reseat connect disconnect grant swap move extend upgrade downgrade block unblock apply make"
    ),
    ToolKind.SEARCH: "search list find query browse",
    ToolKind.READ: "get check read fetch lookup show view retrieve run can describe track",
}
_KIND_OF_VERB = {verb: kind for kind, verbs in _VERBS.items() for verb in verbs.split()}
_LINK_WORDS = frozenset({
    "by", "for", "to", "of", "from", "with", "the", "a", "an", "all", "at", "in", "on",
})  # fmt: skip
_FILLER_WORDS = frozenset({
    "details", "detail", "info", "information", "status", "data", "record", "records", "list",
})  # fmt: skip
_NOUN_OR_VERB = frozenset(
    {"order", "book", "credit", "charge", "issue", "place", "open", "list", "record", "set"}
)
_PEOPLE = frozenset(
    {"human", "humans", "agent", "agents", "person", "colleague", "representative", "operator", "support"}
)
"""Where a conversation is handed to; `transfer_line(line_id)` hands over a line and stays an action."""
FREE_TEXT = frozenset({
    "reason", "summary", "note", "notes", "description", "message", "comment", "comments", "thought",
    "details", "text", "body", "subject",
})  # fmt: skip
"""Parameters whose wording is the agent's own: never compared, never stored in the world."""

PERSON_ENTITIES = ("customer", "user", "member", "account", "client", "guest", "patient")
"""Entities that stand for the person in the conversation."""


def singular(noun: str) -> str:
    """Singular of a tool-name noun, good enough to match `bills` to `bill_id`."""
    if noun.endswith("ies") and len(noun) > 4:
        return noun[:-3] + "y"
    if noun.endswith("s") and not noun.endswith(("ss", "us")) and len(noun) > 3:
        return noun[:-1]
    return noun


@lru_cache(maxsize=8192)
def words_of(name: str) -> tuple[str, ...]:
    """Words of an identifier in snake, kebab or camel case, lower case."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return tuple(w for w in re.split(r"[^a-z0-9]+", spaced.lower()) if w)


def is_identifier(parameter: str) -> bool:
    """Whether a parameter names a record of the world (`id`, `line_id`)."""
    return words_of(parameter)[-1:] == ("id",)


def noun_of(parameter: str) -> str | None:
    """Entity an identifier parameter points to: `line_id` -> `line`; None for a bare `id`."""
    words = words_of(parameter)[:-1]
    return "_".join([*words[:-1], singular(words[-1])]) if words else None


class Tool(Record):
    """One tool as the agent sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, an object schema."""

    def openai(self) -> dict[str, Any]:
        """Give the OpenAI function-tool shape."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    @cached_property
    def properties(self) -> dict[str, Any]:
        """Schema per parameter, with references and alternatives resolved to what a value looks like."""
        return {p: plain_schema(s, self.parameters) for p, s in self.parameters.get("properties", {}).items()}

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Names of the parameters a call must carry."""
        return tuple(self.parameters.get("required") or ())

    @cached_property
    def verb(self) -> str:
        """First word of the name that says what it does."""
        words = words_of(self.name)
        verbs = [w for w in words if w in _KIND_OF_VERB]
        # In `order_lookup` the first verb is the noun.
        return next((w for w in verbs if w not in _NOUN_OR_VERB), (verbs or words)[0])

    @cached_property
    def kind(self) -> ToolKind:
        """Kind by verb; a plural read without a key of its own is a search; a payment is a payment."""
        kind = _KIND_OF_VERB.get(self.verb, ToolKind.OTHER)
        if self._moves_money:
            return ToolKind.PAY
        if kind is ToolKind.TRANSFER and self.identifiers and not _PEOPLE & set(words_of(self.name)):
            return ToolKind.UPDATE
        if kind is ToolKind.READ and (self.key is None) and self.required:
            return ToolKind.SEARCH
        return kind

    @cached_property
    def identifiers(self) -> tuple[str, ...]:
        """Required parameters that name records."""
        return tuple(p for p in self.required if is_identifier(p))

    @cached_property
    def _moves_money(self) -> bool:
        """`send_payment_request(bill_id)` pays a bill: it creates no record of its own."""
        made = _KIND_OF_VERB.get(self.verb) in (ToolKind.CREATE, ToolKind.UPDATE)
        return made and bool({"payment", "refund"} & set(words_of(self.name))) and bool(self.identifiers)

    @cached_property
    def _creates(self) -> bool:
        return _KIND_OF_VERB.get(self.verb) is ToolKind.CREATE and not self._moves_money

    @cached_property
    def _subject(self) -> str | None:
        """First noun after the verb, before a link word: `get_bills_for_customer` -> `bill`."""
        words = words_of(self.name)
        after = words[words.index(self.verb) + 1 :] if self.verb in words else words[1:]
        nouns: list[str] = []
        for word in after:
            if word in _LINK_WORDS:
                break
            if word not in _FILLER_WORDS:
                nouns.append(word)
        return "_".join([*nouns[:-1], singular(nouns[-1])]) if nouns else None

    @cached_property
    def entity(self) -> str:
        """Kind of record the tool acts on."""
        nouns = [n for n in map(noun_of, self.identifiers) if n]
        if self._creates and self._subject not in nouns:
            return self._subject or "record"
        name = self.name.lower()
        named = [n for n in nouns if n in name]
        if self._subject and named and f"{self._subject}s" in words_of(self.name):
            return self._subject
        if named:
            return named[-1]
        return nouns[-1] if nouns else (self._subject or "record")

    @cached_property
    def key(self) -> str | None:
        """Parameter that names the record acted on; None for creations, searches and tools without one."""
        if self._creates and self.entity == self._subject:
            own = [p for p in self.identifiers if noun_of(p) == self.entity]
            return own[0] if own else None
        own = [p for p in self.identifiers if noun_of(p) in (self.entity, None)]
        return own[-1] if own else None

    @cached_property
    def writes(self) -> bool:
        """Whether a call changes the world."""
        return self.kind in WRITES

    @cached_property
    def validator(self) -> Draft202012Validator:
        """Compiled validator of the arguments."""
        return Draft202012Validator(self.parameters)

    def free_text(self, parameter: str) -> bool:
        """Whether a parameter's wording is the agent's own."""
        return bool(set(words_of(parameter)) & FREE_TEXT) and self.properties.get(parameter, {}).get(
            "type"
        ) in (None, "string")


def plain_schema(
    schema: Mapping[str, Any], root: Mapping[str, Any], inside: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Narrow a schema to one plain case that says its type: what a value may look like, not all it may be.

    References into `root` are followed, the first alternative and the first type other than null are taken; a
    reference met inside itself becomes the empty schema.

    Raises:
        LookupError: a reference leads nowhere in `root`.
    """
    if "$ref" in schema:
        reference = str(schema["$ref"])
        return (
            {}
            if reference in inside
            else plain_schema(_referred(reference, root), root, (*inside, reference))
        )
    for name in ("anyOf", "oneOf", "allOf"):
        cases = [case for case in schema.get(name, ()) if case.get("type") != "null"]
        if cases:
            rest = {k: v for k, v in schema.items() if k != name}
            return plain_schema({**rest, **cases[0]}, root, inside)
    plain = {**schema, "type": _type_of(schema)}
    if isinstance(plain.get("items"), Mapping):
        plain["items"] = plain_schema(plain["items"], root, inside)
    if "properties" in plain:
        plain["properties"] = {p: plain_schema(s, root, inside) for p, s in plain["properties"].items()}
    return plain


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    start, *path = reference.split("/")
    found: Any = root
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if start != "#" or not isinstance(found, Mapping):
        raise LookupError(reference)
    return found


def _type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return next((k for k in kind if k != "null"), "null")
    if kind is not None:
        return str(kind)
    values = [schema["const"]] if "const" in schema else schema.get("enum") or []
    return (
        _JSON_TYPES.get(type(values[0]), "string")
        if values
        else "object"
        if "properties" in schema
        else "string"
    )


_JSON_TYPES = {bool: "boolean", int: "integer", float: "number"}


def load_tools(value: str, root: Path) -> tuple[Tool, ...]:
    """Read the tools named by `agent.tools`: a JSON file under `root`, or `module:attr` of typed functions.

    Raises:
        ProjectError: naming the file, the tool and the field that is wrong, and the mend.
    """
    path = root / value
    if path.suffix == ".json" or path.exists():
        return parse_tools(_read_json(path), str(path))
    module, _, attribute = value.partition(":")
    settings = str(root / "while.yaml")
    if not attribute:
        raise ProjectError(
            settings, "agent.tools", value, "name a .json file beside while.yaml, or module:attr"
        )
    try:
        functions = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # the user's module may raise anything
        mend = f"it could not be imported: {type(error).__name__}: {error}"
        raise ProjectError(settings, "agent.tools", value, mend) from error
    if (
        not isinstance(functions, list | tuple)
        or not functions
        or not all(map(inspect.isfunction, functions))
    ):
        raise ProjectError(settings, "agent.tools", value, "it must be a non-empty list of Python functions")
    return _with_own_names([_from_function(function, settings) for function in functions], settings)


def parse_tools(document: Any, source: str) -> tuple[Tool, ...]:
    """Read tools in OpenAI, MCP (`tools/list`) or Anthropic shape.

    Raises:
        ProjectError: naming `source`, the tool's position or name, the field and the mend.
    """
    entries = document
    if isinstance(document, Mapping):
        answer = document.get("result", document)  # a saved JSON-RPC answer wraps the list in `result`
        entries = answer.get("tools") if isinstance(answer, Mapping) else answer
    if not isinstance(entries, list) or not entries:
        raise ProjectError(source, "tools", entries, "give a non-empty JSON array of tools")
    tools = [_from_entry(entry, f"tools[{i}]", source) for i, entry in enumerate(entries)]
    return _with_own_names(tools, source)


def _with_own_names(tools: Sequence[Tool], source: str) -> tuple[Tool, ...]:
    names = [tool.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ProjectError(source, "name", twice, "two tools share this name; rename one")
    return tuple(tools)


def _from_entry(entry: Any, where: str, source: str) -> Tool:
    if not isinstance(entry, Mapping):
        raise ProjectError(source, where, entry, "each tool is a JSON object")
    inner = entry.get("function", entry)
    if not isinstance(inner, Mapping):
        raise ProjectError(source, f"{where}.function", inner, "it is a JSON object with name and parameters")
    name = inner.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name):
        raise ProjectError(source, f"{where}.name", name, "a name is letters, digits, `_`, `-` or `.`")
    given: Any = next((inner[k] for k in ("parameters", "inputSchema", "input_schema") if k in inner), {})
    if not isinstance(given, Mapping) or given.get("type", "object") != "object":
        raise ProjectError(
            source, f"{where} ({name}).parameters", given, "it is a JSON Schema of type object"
        )
    schema = {"type": "object", **given}
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        field = ".".join(["parameters", *map(str, error.absolute_path)])
        raise ProjectError(source, f"{where} ({name}).{field}", error.instance, error.message) from error
    tool = Tool(name=name, description=str(inner.get("description") or ""), parameters=schema)
    try:
        _ = tool.properties
    except LookupError as error:
        mend = "this reference leads nowhere; define it under $defs of the same parameters"
        raise ProjectError(source, f"{where} ({name}).parameters.$ref", str(error), mend) from error
    return tool


def _from_function(function: Any, source: str) -> Tool:
    name = function.__name__
    try:
        schema = TypeAdapter(function).json_schema()
    except (PydanticUserError, NameError) as error:
        mend = f"its parameters have no JSON Schema: {error}"
        raise ProjectError(source, f"agent.tools ({name})", inspect.signature(function), mend) from error
    if schema.get("type") != "object":
        mend = "name every parameter: a tool is called with named arguments"
        raise ProjectError(source, f"agent.tools ({name})", inspect.signature(function), mend)
    return Tool(name=name, description=inspect.getdoc(function) or "", parameters=schema)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProjectError(str(path), "file", path.name, f"{error.strerror}; check agent.tools") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ProjectError(str(path), "file", path.name, f"it is not JSON: {error}") from error
