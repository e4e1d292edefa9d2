"""A policy rule in the mouths of both sides: "Never tell the customer the PUK" -> "tell me the PUK".

Clauses in, clauses out. Which lines of a policy document are rules, and of which kind, is read in
`policy_document`; the sentences around a clause are in `simulate.phrasing` and `agents.phrases`.
"""

import re

_PERSON = r"(?:customer|user)"
_THE_PERSON = rf"(?:the|an?) {_PERSON}"
_AT_REQUEST = re.compile(rf" at {_THE_PERSON}'s request", re.IGNORECASE)
_CASE = re.compile(r"\b(?:when|if)\s+(?!and only)(.+)$", re.IGNORECASE)
_FORBIDDEN = re.compile(
    r"\b(?:never|(?:must|should|do|can|are|may) ?not(?: allowed to)?|don't)\s+(.+)$", re.IGNORECASE
)
_NEXT_CLAUSE = re.compile(
    r"[.;:(]| unless | even if "
    r"|,\s+(?=(?:the )?agent\b|you\b|(?:please )?(?:transfer|escalate|hand|guide)\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[\w ]{1,30}: (?=\w)")
"""What a rule is about, said before it: "Payment: each reservation ..."."""
_BREAK = re.compile(r" ?[.;:(]|, (?:so|but|which|or if)\b| (?:and|or) (?:should|must|may|can)\b|$")
MIN_WORDS = 4
"""Words that a statement needs to be told from others: "for mobile data to work" still waits for its verb."""
_AGENTS_OWN = re.compile(
    r"\w_\w|\(\)|\b(agents?|tools?|api|simultaneously|at the same time|your actions|this policy|proactively|"
    r"instruct\w*|these|respond|refer to|you (?:must|should|can|need))\b",
    re.IGNORECASE,
)
"""What only the agent sees or does: no customer speaks of it."""
_WORK_STEP = re.compile(
    r"(?:always |first |only |you |then )*(?:ask|check|collect|confirm|deny|explain|gather|give|help|inform|"
    r"keep|let|list|look|make|must|need|obtain|offer|provide|repeat|respond|say|should|show|tell|treat|try|"
    r"use|verify)\b",
    re.IGNORECASE,
)
"""A step of the agent's work, as a rule begins with it."""
_NO_REFERENT = re.compile(r"(?:it|this|that|these|those)\b", re.IGNORECASE)
_MINE = (
    (rf"\b{_THE_PERSON}'s\b", "my"),
    (rf"(^|, |\b(?:and|or|that|because|if) )(?:they|{_THE_PERSON})\b", r"\1I"),
    (rf"\b{_THE_PERSON}(?= (?:must|can|will|may|needs|has|is)\b)", "I"),
    (r"\b(?:their|his or her)\b", "my"),
    (r"\bour\b", "your"),
    (rf"\b(?:them|{_THE_PERSON})\b", "me"),
    (r"\bI (?:is|are)\b", "I am"),
    (r"\bI has\b", "I have"),
    (r"\bI (\w+(?:ss|sh|ch|x|o))es\b", r"I \1"),
    (r"\bI (?!was\b|always\b)(\w*[a-rt-z])s\b", r"I \1"),
)
_YOURS = (
    (rf"\b{_THE_PERSON}'s\b|\b(?:their|his or her)\b", "your"),
    (rf"\b(?:they|them|{_THE_PERSON})\b", "you"),
    (r"\byou is\b", "you are"),
    (r"\byou has\b", "you have"),
)
_ANNOUNCED = (
    (r"^any (?=of )", "some "),
    (r"^any (?=\w+ (?:is|was|has)\b)", "a "),
    (r"^I (?=(?:report|complain|request|dispute|ask|file|claim)\b)", "I want to "),
    (r"^I threaten\b", "I am going to take"),
    (r"^I mention\b", "I have"),
    (r"\b(or|and) mentions?\b", r"\1 call in"),
)
"""Who "reports" something says that they want to; nobody says "I threaten"."""
_DEMANDED = (
    (r"^(give|promise|offer|grant) (?!me\b)", r"\1 me "),
    (r" (?:if|when) ", " although "),
)
_TOLD = ((r"\bI am\b", "they are"), (r"\bI\b", "they"), (r"\bme\b", "them"), (r"\bmy\b", "their"))
_TOLD_BACK = (
    (r"\bhave you send me\b", "receive"),
    (r"\bI am\b", "you are"),
    (r"\b(?:I|me)\b", "you"),
    (r"\bmy\b", "your"),
)
AROUND = "I want to, I am going to take, call in, some, although"
"""Words around what is announced or demanded; anybody uses them."""


def case_of(sentence: str) -> str:
    """When a rule sends the conversation to a human, in the rule's words; empty when it does not say."""
    found = _CASE.search(sentence)
    return _first_clause(found.group(1)) if found else ""


def forbidden_by(text: str) -> str:
    """What a rule forbids, in its words: of several things the last, where the whole speaks of the agent."""
    found = _FORBIDDEN.search(text)
    clause = _first_clause(found.group(1)) if found else _lowered(text)
    *_, last = clause.split(", or ")
    return last if _AGENTS_OWN.search(clause) and not _AGENTS_OWN.search(last) else clause


def statement_of(text: str) -> str:
    """What a rule states, in its words, up to where it has said enough."""
    label = _LABEL.match(text)
    text = _lowered(text[label.end() :] if label else text)
    parts = (text[: found.start()] for found in _BREAK.finditer(text))
    return next((part for part in parts if len(part.split()) >= MIN_WORDS), text)


def is_the_agents_own(clause: str) -> bool:
    """Whether no customer would speak of this: the agent's means, or "it" from another sentence."""
    return bool(_AGENTS_OWN.search(clause) or _NO_REFERENT.match(clause))


def is_work_step(statement: str) -> bool:
    """Whether a rule tells the agent what to do: "always check that ..."."""
    return bool(_WORK_STEP.match(statement))


def in_first_person(clause: str) -> str:
    """A clause about the customer in the customer's own words."""
    return _swapped(_AT_REQUEST.sub("", clause), _MINE)


def in_second_person(clause: str) -> str:
    """A clause about the customer as the agent says it to them."""
    return _swapped(_AT_REQUEST.sub("", clause), _YOURS)


def announced(case: str) -> str:
    """A case that is one for a human, as the customer brings it up."""
    return _swapped(in_first_person(case), _ANNOUNCED)


def demanded(clause: str) -> str:
    """Something forbidden as the customer asks for it: for themselves, and although it is forbidden."""
    return _swapped(in_first_person(clause), _DEMANDED)


def yours(said: str) -> str:
    """What is the customer's, as the agent says it: "check my bill" -> "check your bill"."""
    return _swapped(said, _TOLD_BACK)


def told_of(said: str) -> str:
    """What a customer said, as it is told to somebody else."""
    return _swapped(said, _TOLD)


def _lowered(text: str) -> str:
    """The text as it goes on inside a sentence; an acronym keeps its capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _first_clause(clause: str) -> str:
    """The clause up to where it says what the agent is to do, or what else holds."""
    return _NEXT_CLAUSE.split(clause)[0].strip().rstrip(",")


def _swapped(text: str, swaps: tuple[tuple[str, str], ...]) -> str:
    for pattern, words in swaps:
        text = re.sub(pattern, words, text, flags=re.IGNORECASE)
    return text
