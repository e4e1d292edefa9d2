"""The policy document (`policy.md`): which of its lines are rules, and what each rule asks for.

The policy being trained is another thing; it lives in `agents.policy`.
"""

import re
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Literal

from while_pipeline.ids import content_id
from while_pipeline.records import Record


class RuleKind(StrEnum):
    """What a rule asks of the agent; decides how a scenario puts it in play and how it is checked."""

    HANDOFF = "handoff"
    VERIFY = "verify"
    CONFIRM = "confirm"
    NEVER = "never"
    INFORM = "inform"


MIN_RULE_WORDS = 5
"""Shorter items are fields and labels ("last eSIM transfer date"), not rules."""

TRIGGER_WORDS = 5
"""Words by which a customer asks about a rule that has no trigger of its own."""

TRIGGER_MATCH = 0.7
"""Share of a rule's trigger words a sentence must have to put it in play."""

REMEMBERED_TEXTS = 20_000
"""Bounds memory: a night has more messages than this, but they come in runs."""

_NORMATIVE = re.compile(
    r"\b(must|never|always|should|shall|only|do not|don't|cannot|can't|not allowed|need(?:s)? to|before|"
    r"at most|deny|transfer|escalate|require[sd]?|has to|have to|confirm|verify|ask|tell|inform)\b",
    re.IGNORECASE,
)
_NOT_A_RULE = re.compile(
    r"^(you are\b(?! (not|never|required)\b)|as an?\b.*\bagent\b|the current (time|date)\b|for example\b|"
    r"e\.g\.|example\b|note:?$|each \w+ (has|contains|includes|specifies)|there are \w+ )",
    re.IGNORECASE,
)
_ASKS_RULE = re.compile(r"\b(rules?|your policy|policy (on|about|for)|how you handle)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_UNDERLINE = re.compile(r"^\s*(?:=+|-{2,})\s*$")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_STOP = frozenset({
    "a", "an", "the", "and", "or", "of", "to", "in", "on", "for", "with", "by", "at", "from", "is",
    "are", "be", "been", "it", "its", "this", "that", "these", "those", "they", "them", "their", "you",
    "your", "user", "users", "customer", "customers", "agent", "any", "all", "not", "do", "does",
    "must", "should", "never", "always", "only", "before", "after", "when", "if", "can", "cannot",
    "may", "will", "would", "as", "than", "then", "so", "such", "no", "who", "which", "what",
})  # fmt: skip


class PolicyRule(Record):
    """One rule of the policy document."""

    rule_id: str
    """Hash of the rule's text: moving a rule keeps its id, rewording it makes another rule."""
    text: str
    kind: RuleKind

    @cached_property
    def topic(self) -> frozenset[str]:
        """Content words, stemmed lightly: what a text must share to be about this rule."""
        return topic_words(self.text)

    @cached_property
    def trigger(self) -> str:
        """The words that put the rule in play, as the customer would say them."""
        text = re.sub(r"\s+", " ", self.text).rstrip(". ")
        if self.kind is RuleKind.HANDOFF:
            found = re.search(r"\b(?:when|if)\s+(?!and only)(.+)$", text, re.IGNORECASE)
            return _first_person(found.group(1)) if found else "I want to speak to a human"
        if self.kind is RuleKind.NEVER:
            pattern = r"\b(?:never|(?:must|should|do|can|are|may) ?not(?: allowed to)?|don't)\s+(.+)$"
            found = re.search(pattern, text, re.IGNORECASE)
            return _first_person(found.group(1) if found else text[0].lower() + text[1:])
        words = [w for w in re.findall(r"[a-z][a-z'-]{2,}", text.lower()) if w not in _STOP]
        return " ".join(dict.fromkeys(words[:TRIGGER_WORDS]))

    def in_play(self, sentence: str) -> bool:
        """Whether a customer's sentence puts this rule in play.

        Confirmation and verification are put in play by what is done, not by words; an inform rule only by
        a question about rules.
        """
        asks_rule = asks_about_rules(sentence)
        if self.kind in (RuleKind.CONFIRM, RuleKind.VERIFY) or (self.kind is RuleKind.INFORM) != asks_rule:
            return False
        trigger, said = topic_words(self.trigger), topic_words(sentence)
        needed = 1.0 if self.kind is RuleKind.INFORM else TRIGGER_MATCH
        return bool(trigger) and len(trigger & said) / len(trigger) >= needed


class PolicyDocument(Record):
    """The policy document with the rules found in it."""

    text: str
    rules: tuple[PolicyRule, ...]

    def of_kind(self, kind: RuleKind) -> tuple[PolicyRule, ...]:
        """Rules of one kind, in document order."""
        return tuple(rule for rule in self.rules if rule.kind is kind)

    def in_play(self, text: str) -> tuple[PolicyRule, ...]:
        """Rules that a customer's message puts in play, in document order.

        Remembered by text: the samples of a scenario say the same words again and again.
        """
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= REMEMBERED_TEXTS:
                self._known.clear()
            said = sentences(text)
            known = tuple(rule for rule in self.rules if any(rule.in_play(sentence) for sentence in said))
            self._known[text] = known
        return known

    @cached_property
    def _known(self) -> dict[str, tuple[PolicyRule, ...]]:
        return {}

    def rule(self, rule_id: str) -> PolicyRule | None:
        """The rule with this id, or None."""
        return next((rule for rule in self.rules if rule.rule_id == rule_id), None)

    @cached_property
    def confirms(self) -> bool:
        """Whether writes need the customer's explicit yes first."""
        return bool(self.of_kind(RuleKind.CONFIRM))

    @cached_property
    def verifies(self) -> bool:
        """Whether the customer's identity must be known before their account is touched."""
        return bool(self.of_kind(RuleKind.VERIFY))


def sentences(text: str) -> list[str]:
    """Split a message at its sentence ends."""
    return _SENTENCE.split(text)


def asks_about_rules(sentence: str) -> bool:
    """Whether a sentence asks what the rules are."""
    return bool(_ASKS_RULE.search(sentence))


@lru_cache(maxsize=64)
def read_policy_document(text: str) -> PolicyDocument:
    """Find the rules of a Markdown policy document.

    A rule is a list item or paragraph that says what must or must not be done. Headings, role lines
    ("You are ..."), lead-ins that end with a colon and lists of facts are not rules.
    """
    seen: dict[str, PolicyRule] = {}
    for block in _blocks(text):
        if block.endswith(":") or _NOT_A_RULE.match(block) or not _NORMATIVE.search(block):
            continue
        if len(block.split()) < MIN_RULE_WORDS:
            continue
        rule = PolicyRule(rule_id=f"r-{content_id(block)[:8]}", text=block, kind=_kind(block))
        seen.setdefault(rule.rule_id, rule)
    return PolicyDocument(text=text, rules=tuple(seen.values()))


@lru_cache(maxsize=4096)
def topic_words(text: str) -> frozenset[str]:
    """Content words of a text with plural and verb endings cut, for overlap tests."""
    words = re.findall(r"[a-z][a-z'-]{2,}", text.lower())
    return frozenset(stem(word) for word in words if word not in _STOP)


def stem(word: str) -> str:
    """Cut the commonest English endings; for matching only."""
    for ending in ("ations", "ation", "ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _blocks(text: str) -> list[str]:
    """List items and paragraphs, one line each, with Markdown emphasis removed."""
    blocks: list[str] = []
    fenced = False
    within: Literal["item", "paragraph"] | None = None
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced, within = not fenced, None
        elif fenced or not line.strip() or line.lstrip().startswith(("#", "|", ">")):
            within = None
        elif _UNDERLINE.match(line):
            if within == "paragraph":  # it was a heading
                blocks.pop()
            within = None
        elif _BULLET.match(line):
            blocks.append(_BULLET.sub("", line).strip())
            within = "item"
        elif within:
            blocks[-1] += " " + line.strip()
        else:
            blocks.append(line.strip())
            within = "paragraph"
    return [re.sub(r"[*_`]{1,2}(\S.*?\S|\S)[*_`]{1,2}", r"\1", block) for block in blocks]


def _kind(text: str) -> RuleKind:
    low = text.lower()
    if re.search(r"\b(transfer|hand (?:\w+ ){0,3}(?:over|off)|escalat)", low) and re.search(
        r"\b(if|when)\b", low
    ):
        return RuleKind.HANDOFF
    if re.search(r"\b(verif\w*|identi(?:ty|fy)|authenticat\w*)\b|first obtain the (user|customer) id", low):
        return RuleKind.VERIFY
    if re.search(r"\b(confirm\w*|explicit\w*|agree\w*)\b", low) and re.search(
        r"\b(before|first|obtain|must)\b", low
    ):
        return RuleKind.CONFIRM
    # "cannot be cancelled" says how things are; only what the agent must not do can be asked of it.
    if re.search(r"\b(never|do not|don't|must not|should not|not allowed to|may not|cannot) (?!be\b)", low):
        return RuleKind.NEVER
    return RuleKind.INFORM


def _first_person(clause: str) -> str:
    """Turn a rule's clause about the customer into the customer's own words."""
    clause = re.split(r"[.;:(]| unless | even if ", clause)[0].strip().rstrip(",")
    swaps = [
        (r"\b(the|a) (customer|user)('s)\b", "my"),
        (r"(^|\b(?:and|or|that|because) )(?:they|the customer|the user|a customer|a user)\b", r"\1I"),
        (r"\b(their|his or her)\b", "my"),
        (r"\b(them|the customer|the user)\b", "me"),
    ]
    for pattern, word in swaps:
        clause = re.sub(pattern, word, clause, flags=re.IGNORECASE)
    return re.sub(r"\bI (is|are)\b", "I am", re.sub(r"\bI has\b", "I have", clause))
