"""The agent's tools, read from any shape people have them in, and what their names and schemas tell.

What a tool does (its kind), to what (its entity) and by which identifier (its key) is read here once;
the world, the scenarios and the graders all act on the same reading. How a schema is narrowed and checked
belongs to `schemas`.
"""

import importlib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from while_pipeline.errors import ProjectError
from while_pipeline.records import Record
from while_pipeline.schemas import Checker, Schema, check_schema, plain_schema
from while_pipeline.tool_words import (
    ARTICLES,
    FILLER_WORDS,
    FREE_TEXT,
    ID_WORDS,
    LABELS,
    LINK_WORDS,
    NOUN_OR_VERB,
    NUMBER_WORDS,
    NUMBERED,
    OWN_TO_THE_CALLER,
    PEOPLE,
    ROLES,
)


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


_LOOKS = frozenset({ToolKind.READ, ToolKind.SEARCH})
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


_SAYS_ALL = re.compile(r"\b(?:all|lists? of|every)\b", re.IGNORECASE)
_SAYS_ID = re.compile(r"\b(?:ids?|identifiers?|uuids?|numbers?|references?|codes?)\b", re.IGNORECASE)


@lru_cache(maxsize=8192)
def is_identifier(parameter: str) -> bool:
    """Whether a parameter's name alone says that it names a record (`id`, `line_id`, `order_number`)."""
    words = words_of(parameter)
    if not words or OWN_TO_THE_CALLER & set(words[:-1]):
        return False
    if words[-1] in ID_WORDS:
        return True
    return words[-1] in NUMBER_WORDS and bool((NUMBERED | LABELS) & set(words[-2:-1]))


def names_records(parameter: str, schema: Schema) -> bool:
    """Whether a parameter names one record, or several in an array, by its name, schema and description.

    `schema` is a plain schema. A bare noun (`order`, `account`) does when its description speaks of an id, a
    number, a code or a reference, or its format is `uuid`.
    """
    kind, noun = schema.get("type"), parameter
    if kind == "array":
        schema = schema.get("items") or {}
        kind, noun = schema.get("type"), parameter.removesuffix("s")
    if kind not in ("string", "integer", "number", None):
        return False
    if is_identifier(noun):
        return True
    if NUMBERED.isdisjoint(words_of(noun)[-1:]):
        return False
    return schema.get("format") == "uuid" or bool(_SAYS_ID.search(str(schema.get("description", ""))))


def noun_of(parameter: str) -> str | None:
    """Entity an identifier points to: `new_line_ids` -> `line`; None for `id` and for `tracking_number`."""
    words = list(words_of(parameter))
    if words and words[-1].removesuffix("s") in ID_WORDS | NUMBER_WORDS:
        words.pop()
    while len(words) > 1 and words[0] in ROLES:
        words.pop(0)
    return None if set(words) <= LABELS else _entity(words)


def _entity(words: Sequence[str]) -> str | None:
    return "_".join([*words[:-1], singular(words[-1])]) if words else None


class Tool(Record):
    """One tool as the agent sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, an object schema."""
    output: dict[str, Any] | None = None
    """JSON Schema of a structured result, where the source has one (MCP's `outputSchema`)."""
    read_only: bool = False
    """Whether the source says that a call changes nothing (MCP's `readOnlyHint`)."""

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
        if self.read_only:
            verbs = [w for w in verbs if _KIND_OF_VERB[w] in _LOOKS] or ["get"]
        # In `order_lookup` the first verb is the noun.
        return next((w for w in verbs if w not in NOUN_OR_VERB), (verbs or words)[0])

    @cached_property
    def kind(self) -> ToolKind:
        """Kind by verb; a plural read without a key of its own is a search; a payment is a payment."""
        kind = _KIND_OF_VERB.get(self.verb, ToolKind.OTHER)
        if self._moves_money:
            return ToolKind.PAY
        if kind is ToolKind.TRANSFER and self.identifiers and not PEOPLE & set(words_of(self.name)):
            return ToolKind.UPDATE
        if kind is ToolKind.READ and self.key is None and (self.required or self._lists_all):
            return ToolKind.SEARCH
        return kind

    @cached_property
    def references(self) -> dict[str, str | None]:
        """Entity per parameter that names records, alone or in an array; None for a bare id."""
        return {p: noun_of(p) for p, schema in self.properties.items() if names_records(p, schema)}

    @cached_property
    def identifiers(self) -> tuple[str, ...]:
        """Required parameters that name one record each."""
        named = {p for p in self.references if self.properties[p].get("type") != "array"}
        undeclared = {p for p in self.required if p not in self.properties and is_identifier(p)}
        return tuple(p for p in self.required if p in named | undeclared)

    @cached_property
    def _moves_money(self) -> bool:
        """`send_payment_request(bill_id)` pays a bill, `make_payment()` pays; neither makes a record."""
        kind = _KIND_OF_VERB.get(self.verb)
        made = kind is ToolKind.UPDATE or (kind is ToolKind.CREATE and bool(self.identifiers))
        return made and bool({"payment", "refund"} & set(words_of(self.name)))

    @cached_property
    def _lists_all(self) -> bool:
        """`check_installed_apps()` gives all apps; `check_apn_settings()` one record of several settings."""
        return self._plural and bool(_SAYS_ALL.search(self.description))

    @cached_property
    def _creates(self) -> bool:
        return _KIND_OF_VERB.get(self.verb) is ToolKind.CREATE and not self._moves_money

    @cached_property
    def _nouns(self) -> list[str]:
        """Words after the verb, before a link word: `get_bills_for_customer` -> bills."""
        words = words_of(self.name)
        after = words[words.index(self.verb) + 1 :] if self.verb in words else words[1:]
        nouns = list(takewhile(lambda w: w not in LINK_WORDS, dropwhile(lambda w: w in ARTICLES, after)))
        while nouns and nouns != ["data"] and nouns[-1] in FILLER_WORDS:
            nouns.pop()
        return nouns

    @cached_property
    def _plural(self) -> bool:
        return bool(self._nouns) and self._nouns[-1] != singular(self._nouns[-1])

    @cached_property
    def _subject(self) -> str | None:
        """What the name speaks of: `get_bills_for_customer` -> `bill`."""
        return _entity(self._nouns)

    @cached_property
    def entity(self) -> str:
        """Kind of record the tool acts on."""
        nouns = [n for n in map(noun_of, self.identifiers) if n]
        if self._creates and self._subject not in nouns:
            return self._subject or "record"
        if _KIND_OF_VERB.get(self.verb) in _LOOKS and self._plural:
            # Several are looked for by what they belong to: `get_customer_orders(customer_id)` gives orders.
            return _entity([word for word in self._nouns if word not in nouns]) or "record"
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
    def validator(self) -> Checker:
        """Compiled check of the arguments."""
        return Checker(self.parameters)

    @cached_property
    def output_fields(self) -> dict[str, Any]:
        """Plain schema per field of the entity's records, as the declared output shows them.

        Read from the object under the entity's name, else from the items of the only array, else from the
        output itself. Empty without an output schema.
        """
        output = plain_schema(self.output, self.output) if self.output else {}
        fields: dict[str, Any] = output.get("properties", {})
        inner = [fields[n] for n in (self.entity, f"{self.entity}s", "results", "result") if n in fields]
        inner += [s for s in fields.values() if s.get("type") == "array"]
        for schema in inner:
            record = schema.get("items", schema) if schema.get("type") == "array" else schema
            if isinstance(record, Mapping) and "properties" in record:
                return dict(record["properties"])
        return fields

    @cached_property
    def _free_texts(self) -> frozenset[str]:
        return frozenset(p for p, s in self.properties.items() if s.get("type") == "string" and _is_free(p))

    def free_text(self, parameter: str) -> bool:
        """Whether a parameter's wording is the agent's own."""
        if parameter in self.properties:
            return parameter in self._free_texts
        return _is_free(parameter)


def _is_free(name: str) -> bool:
    return not FREE_TEXT.isdisjoint(words_of(name))


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
    schema = {"type": "object", **given} if isinstance(given, Mapping) else given
    output = inner.get("outputSchema")
    check_schema(schema, source, f"{where} ({name}).parameters")
    if output is not None:
        check_schema(output, source, f"{where} ({name}).outputSchema")
    hints = inner.get("annotations")
    return Tool(
        name=name,
        description=str(inner.get("description") or ""),
        parameters=schema,
        output=output,
        read_only=isinstance(hints, Mapping) and hints.get("readOnlyHint") is True,
    )


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
