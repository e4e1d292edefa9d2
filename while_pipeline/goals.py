"""How a person asks for what a tool does: `get_data_usage` <-> "check my data usage".

One module for both directions, as `slots` is for values: the customer draws from these phrases, and an agent
understands a sentence by them. What a tool does to the world is read in `tools`, not here.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from while_pipeline.policy_document import stem
from while_pipeline.tools import PERSON_ENTITIES, Tool, ToolKind, noun_of, singular, words_of

MAX_WORDS = 10
"""Longer sentences of a description explain a tool; nobody asks for something in them."""

_Verbs = tuple[tuple[str, ...], tuple[str, ...]]
"""What follows "I want to", and what follows "Can you"."""

_LOOKS: _Verbs = (("check", "see", "look at", "get"), ("check", "look up", "show me", "give me"))
_FINDS: _Verbs = (("find", "look up", "search for"), ("find", "look up", "search for"))
_ENABLES: _Verbs = (("enable", "turn on", "switch on", "activate"),) * 2
_DISABLES: _Verbs = (("disable", "turn off", "switch off"),) * 2
_RECEIVES: _Verbs = (("get", "have you send me"), ("send me", "send out"))
_SPOKEN: dict[str, _Verbs] = {
    **dict.fromkeys(("get", "fetch", "retrieve", "lookup", "view", "read", "show", "return"), _LOOKS),
    **dict.fromkeys(("check", "track"), (("check", "look at", "see"), ("check", "look at", "show me"))),
    **dict.fromkeys(("list", "browse"), (("see", "look through"), ("list", "show me"))),
    **dict.fromkeys(("find", "search", "query"), _FINDS),
    **dict.fromkeys(("enable", "activate"), _ENABLES),
    **dict.fromkeys(("disable", "deactivate"), _DISABLES),
    **dict.fromkeys(("send", "issue"), _RECEIVES),
    **dict.fromkeys(("delete", "remove"), (("delete", "remove"),) * 2),
    **dict.fromkeys(("update", "modify", "edit"), (("update", "change"),) * 2),
    **dict.fromkeys(("resume", "unblock"), (("resume", "reactivate"),) * 2),
    **dict.fromkeys(("reboot", "restart"), (("reboot", "restart"),) * 2),
    "book": (("book", "arrange"),) * 2,
    "can": (("find out whether I can", "know whether I can"), ("check whether I can", "see if I can")),
    "change": (("change", "switch"),) * 2,
    "create": (("create", "set up"),) * 2,
    "grant": (("grant", "give"),) * 2,
    "pay": (("pay", "settle"),) * 2,
    "refuel": (("refuel", "top up"),) * 2,
    "refund": (("get a refund for", "have you refund"), ("refund", "give me a refund for")),
    "run": (("run", "do"),) * 2,
    "set": (("set", "change"),) * 2,
    "suspend": (("suspend", "pause"),) * 2,
    "toggle": (("toggle", "switch {} on or off"),) * 2,
}  # fmt: skip
"""Verbs people use for a tool's verb; one not listed is said as it is. `{}` is where the object goes."""
_DESCRIBES = frozenset({
    *_SPOKEN, "add", "apply", "block", "cancel", "charge", "connect", "disconnect", "give", "look", "make",
    "measure", "move", "open", "order", "place", "register", "replace", "reserve", "reset", "schedule",
    "submit", "switch", "upgrade",
})  # fmt: skip
"""Verbs with which a description says what a tool does for its caller."""

_LINKS = frozenset({"by", "for", "to", "of", "from", "with", "at", "in", "on"})
_FILLERS = frozenset(
    {"details", "detail", "info", "information", "status", "record", "records", "all", "list"}
)
_TAKES_A = frozenset({"run", "make", "send", "issue", "grant", "submit", "request", "refund"})
_ACRONYMS = frozenset({"apn", "id", "imei", "mms", "pin", "puk", "sim", "sms", "url", "vpn"})
_COMPOUNDS = {"onestop": "one-stop", "nonstop": "non-stop", "roundtrip": "round-trip", "oneway": "one-way"}
_PARTICLES = (" on", " off")
_ARTICLE = re.compile(r"\ban?(?= (?=(\w+)))")
_AN = re.compile(r"(?!one|uni|use)[aeiou]|(?:imei|mms|sms)\b", re.IGNORECASE)
_PERSON = "|".join(PERSON_ENTITIES[:2])
_AGENTS_VIEW = re.compile(
    rf"\b(?:(?:{_PERSON})s?|agents?|tool|database|function|system)\b(?! id\b)", re.IGNORECASE
)
"""A description that speaks of the customer as somebody else is not in the customer's words."""
_ANY_ID = re.compile(r"\ban? (?:specific |given |particular )?ID\b", re.IGNORECASE)
"""Nobody asks for the details of "an ID"."""


@dataclass(frozen=True)
class Goal:
    """A tool's purpose in a customer's words."""

    wishes: tuple[str, ...]
    """What follows "I want to"."""
    requests: tuple[str, ...]
    """What follows "Can you"."""
    topic: str
    """What it is about: "my data usage"."""


def goal_of(tool: Tool) -> Goal:
    """The phrases of a tool, from its name and, where it gives a better one, its description.

    A description counts when its first sentence is short, is not written from the agent's side and names
    everything the tool's name does, so that it cannot be taken for another tool.
    """
    return _goal(tool.name, tool.description, tool.kind, tool.verb, tool.key)


@lru_cache(maxsize=4096)
def _goal(name: str, description: str, kind: ToolKind, verb: str, key: str | None) -> Goal:
    if kind is ToolKind.TRANSFER:
        return Goal(
            ("speak to a human", "talk to a person"),
            ("put me through to a human", "transfer me to a human"),
            "a call with a human",
        )
    words = words_of(name)
    at = words.index(verb) if verb in words else 0
    head, tail = _parts(words[at + 1 :] or words[:at])
    noun = noun_of(key) if key else None
    place = noun.replace("_", " ") if noun and noun not in PERSON_ENTITIES else None
    wishes, requests = _SPOKEN.get(verb, ((verb,), (verb,)))
    described = _described(description, words, verb, noun)
    if not head:
        return Goal(*(described or ((f"{verb} {tail}".strip(),),) * 2), "something")
    topic = _determined(head, kind, verb)
    if any(word in PERSON_ENTITIES for word in words[at + 1 + len(head) :]) and not tail:
        topic = f"my {_cased(head)}"
    objects = [f"{topic} {tail}".rstrip()]
    if place and kind in (ToolKind.READ, ToolKind.UPDATE) and not tail and not set(place.split()) & set(head):
        objects.append(f"the {_cased(head)} {{}} my {place}")
    made = [tuple(_joined(v, o) for v in verbs for o in objects) for verbs in (wishes, requests)]
    said = [
        tuple(map(_with_articles, dict.fromkeys(m + e)))
        for m, e in zip(made, described or ((), ()), strict=True)
    ]
    return Goal(said[0], said[1], _with_articles(topic))


def _joined(verb: str, thing: str) -> str:
    """Verb and object; "turn on ... for my line" keeps one "on" to a phrase."""
    thing = thing.format("for" if verb.endswith(_PARTICLES) else "on")
    return verb.format(thing) if "{}" in verb else f"{verb} {thing}"


def _with_articles(phrase: str) -> str:
    """The phrase with "a" and "an" as the next word wants them."""
    return _ARTICLE.sub(lambda found: "an" if _AN.match(found.group(1)) else "a", phrase)


def _parts(words: tuple[str, ...]) -> tuple[list[str], str]:
    """The object's nouns, and what comes after a link word: `bills_for_customer` is the customer's own."""
    link = next((i for i, word in enumerate(words) if word in _LINKS), len(words))
    head, rest = list(words[:link]), [w for w in words[link + 1 :] if w not in PERSON_ENTITIES]
    if len(head) == 1 and singular(head[0]) in PERSON_ENTITIES[:-3]:
        head = [singular(head[0]), "record"]
    return head, f"{words[link]} {_cased(rest)}" if rest else ""


def _determined(head: list[str], kind: ToolKind, verb: str) -> str:
    """The object with its article, or "my" for what the customer has already."""
    said, last = _cased(head), head[-1]
    plural = singular(last) != last
    if head[0] == "all" or verb == "can":
        return said
    person = head[0] in PERSON_ENTITIES
    if kind is ToolKind.CREATE or verb in _TAKES_A or (kind is ToolKind.SEARCH and not plural and not person):
        return f"some {said}" if plural else f"a {said}"
    return f"the {said}" if kind is ToolKind.SEARCH and plural else f"my {said}"


def _cased(words: list[str]) -> str:
    return " ".join(word.upper() if word in _ACRONYMS else _COMPOUNDS.get(word, word) for word in words)


def _described(
    description: str, words: tuple[str, ...], verb: str, noun: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The description's first sentence as the customer would say it; None when it is no request."""
    first = re.split(r"(?<=[.!?])\s|\n\n|[,;:]", re.sub(r"(?<!\s)\s*\([^()]*\)", "", description.strip()))[0]
    said = re.sub(r"\s+", " ", first).rstrip(". ")
    said = re.sub(r"^Use (?:the|this) tool to ", "", said)
    opener, _, rest = said.partition(" ")
    base = _base(opener.lower())
    rest = re.sub(r"^up ", "", rest) if base == "look" else rest
    rest = re.sub(
        r"\b(?:by|until)\b.*| and (?:displays|shows|returns)\b.*", "", _in_first_person(rest, noun)
    ).rstrip()
    rest = rest.replace(" to me", "").removesuffix(" on or off")
    if (
        not rest
        or base not in {verb, *_DESCRIBES}
        or len(rest.split()) > MAX_WORDS
        or _AGENTS_VIEW.search(rest)
        or _ANY_ID.search(rest)
    ):
        return None
    named = {stem(w) for w in words if w not in _LINKS | _FILLERS and w != verb and w not in PERSON_ENTITIES}
    if not named <= {stem(w) for w in re.findall(r"[a-z]+", rest.lower())}:
        return None
    verbs = _LOOKS if base == "look" else _SPOKEN.get(base, ((base,), (base,)))
    whether = re.match(r"(?:if|whether|what|which|how)\b", rest)
    verbs = (("know", "find out"), ("check", "tell me")) if whether else verbs
    return tuple(_joined(v, rest) for v in verbs[0]), tuple(_joined(v, rest) for v in verbs[1])


def _base(verb: str) -> str:
    """The plain form of a verb in the third person: `searches` -> `search`."""
    if verb.endswith(("ches", "shes", "sses")):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb


def _in_first_person(text: str, noun: str | None) -> str:
    """What a description says of the customer, as the customer says it."""
    swaps = [
        (rf"\b(?:the|an?) (?:{_PERSON})'s\b", "my"),
        (rf"\bto (?:the|an?) (?:{_PERSON})\b", "to me"),
        (r"\byour\b", "my"),
        (r"\byou're\b", "I am"),
        (r"\byou\b", "me"),
        (r"\b(an?|the) (?:specific|given|particular)\b", r"\1"),
        (r"\bON or OFF\b", "on or off"),
    ]
    if noun:
        swaps.append(
            (
                rf"\b(?:one|an?|the)(?: whole)? {re.escape(noun.replace('_', ' '))}\b",
                f"my {noun.replace('_', ' ')}",
            )
        )
    for pattern, word in swaps:
        text = re.sub(pattern, word, text)
    return text
