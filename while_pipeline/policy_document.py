"""The policy document (`policy.md`): which of its lines are rules, and what each rule asks for.

The policy being trained is another thing; it lives in `agents.policy`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from while_pipeline import rule_words
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
"""Words by which a customer asks about a rule that is there to be told."""

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
    r"e\.g\.|example\b|note:?$|here (is|are)\b|(the|this) (document|guide|manual|section|chapter)\b)",
    re.IGNORECASE,
)
"""Sentences about the agent's role, the clock, an example or the text itself."""
_FACTS = re.compile(
    r"^((each|every) \w+ (has|contains|includes|specifies)|there (is|are) \w+ |\||"
    r"(?=\w+_\w)\w++(\(.*?\))? [-\u2013:] )",
    re.IGNORECASE,
)
"""Paragraphs that say what a record holds, which statuses there are, or what a tool does."""
_LEANS_BACK = re.compile(
    r"^(otherwise|however|then|also|this|these|those|they|it|(if|when|unless) (it|they|not|so))\b",
    re.IGNORECASE,
)
"""Sentences that say nothing without the one before."""
_ASKS_RULE = re.compile(r"\b(rules?|your policy|policy (on|about|for)|how you handle)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_HANDS_OVER = re.compile(r"\b(transfer|hand (?:\w+ ){0,3}(?:over|off)|escalat)", re.IGNORECASE)
_KNOWS_WHO = re.compile(
    r"\b(verif\w*(?! (?:if|that|whether)\b)|identi(?:ty|fy)|authenticat\w*)\b"
    r"|first obtain the (user|customer) id"
)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_CONTENT_WORD = re.compile(r"[a-z][a-z'-]{2,}")
_TAG_LINE = re.compile(r"^[^\S\n]*</?[\w-][^<>]*>\s*$", re.MULTILINE)
"""`<policy>` on a line of its own: Markdown takes it for words when its name is none of HTML's."""
_MARKDOWN = MarkdownIt("commonmark").enable("table")
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
        """The words that put the rule in play, as the customer would say them.

        A case that is one for a human ("I want to report a stolen phone"), something the agent must not do
        ("tell me the PUK"), or what the rule says ("unused data expires at the end of the month").
        """
        if self.kind is RuleKind.HANDOFF:
            return rule_words.announced(self._clause) or "I want to speak to a human"
        if self.kind is RuleKind.NEVER:
            return rule_words.demanded(self._clause)
        return rule_words.in_first_person(self._clause)

    @cached_property
    def declined(self) -> str:
        """What the rule is about, as the agent says it to the customer: "tell you the PUK"."""
        return rule_words.in_second_person(self._clause)

    @cached_property
    def spoken_of(self) -> bool:
        """Whether a customer's words can put the rule in play.

        What is to be confirmed or verified is put in play by what is done. Nobody speaks of what the agent
        does by itself ("ask them to select one"), or of a case that only the agent can see.
        """
        if self.kind in (RuleKind.CONFIRM, RuleKind.VERIFY) or rule_words.is_the_agents_own(self._clause):
            return False
        return self.kind is not RuleKind.INFORM or not rule_words.is_work_step(self._clause)

    @cached_property
    def _clause(self) -> str:
        """What the rule is about, in its own words."""
        text = re.sub(r"\s+", " ", self.text).rstrip(". ")
        if self.kind is RuleKind.HANDOFF:
            said = next((s for s in sentences(text) if _HANDS_OVER.search(s)), text)
            return rule_words.case_of(said)
        return rule_words.forbidden_by(text) if self.kind is RuleKind.NEVER else rule_words.statement_of(text)

    def in_play(self, sentence: str) -> bool:
        """Whether a customer's sentence, read for this rule alone, puts it in play."""
        return bool(self.heard_in(asks_about_rules(sentence), topic_words(sentence)))

    @cached_property
    def trigger_words(self) -> frozenset[str]:
        """Topic words of the trigger; none for a rule that no words put in play."""
        if not self.spoken_of:
            return frozenset()
        if self.kind is not RuleKind.INFORM:
            return topic_words(self.trigger) - topic_words(rule_words.AROUND)
        words = [word for word in _CONTENT_WORD.findall(self.trigger.lower()) if word not in _STOP]
        return topic_words(" ".join(words[:TRIGGER_WORDS]))

    def heard_in(self, asks_rule: bool, words: frozenset[str]) -> frozenset[str]:
        """Trigger words by which a customer's sentence puts this rule in play; none when it does not.

        Args:
            asks_rule: Whether the sentence asks what the rules are.
            words: The sentence's topic words.

        An inform rule is put in play only by a question about rules.
        """
        if (self.kind is RuleKind.INFORM) != asks_rule:
            return frozenset()
        heard = self.trigger_words & words
        needed = 1.0 if self.kind is RuleKind.INFORM else TRIGGER_MATCH
        return heard if heard and len(heard) / len(self.trigger_words) >= needed else frozenset()


class PolicyDocument(Record):
    """The policy document with the rules found in it."""

    text: str
    rules: tuple[PolicyRule, ...]

    def of_kind(self, kind: RuleKind) -> tuple[PolicyRule, ...]:
        """Rules of one kind, in document order."""
        return tuple(rule for rule in self.rules if rule.kind is kind)

    def in_play(self, text: str) -> tuple[PolicyRule, ...]:
        """Rules that a customer's message puts in play, in document order.

        A rule heard only in words by which the same sentence puts another in play is not meant. Remembered by
        text: the samples of a scenario say the same words again and again.
        """
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= REMEMBERED_TEXTS:
                self._known.clear()
            meant = {rule_id for sentence in sentences(text) for rule_id in self._meant(sentence)}
            in_play = tuple(rule for rule in self.rules if rule.rule_id in meant) if meant else ()
            known = self._known[text] = in_play
        return known

    def _meant(self, sentence: str) -> tuple[str, ...]:
        """Ids of the rules a sentence puts in play, which depend on few words: far fewer than sentences."""
        words = topic_words(sentence) & self._trigger_words
        if not words:
            return ()
        key = (asks_about_rules(sentence), words)
        known = self._read.get(key)
        if known is None:
            heard = [(rule, said) for rule in self.rules if (said := rule.heard_in(*key))]
            known = self._read[key] = tuple(
                rule.rule_id for rule, said in heard if not any(said < others for _, others in heard)
            )
        return known

    @cached_property
    def _trigger_words(self) -> frozenset[str]:
        return frozenset().union(*(rule.trigger_words for rule in self.rules))

    @cached_property
    def _known(self) -> dict[str, tuple[PolicyRule, ...]]:
        return {}

    @cached_property
    def _read(self) -> dict[tuple[bool, frozenset[str]], tuple[str, ...]]:
        return {}

    def rule(self, rule_id: str) -> PolicyRule | None:
        """The rule with this id, or None."""
        return self._by_id.get(rule_id)

    @cached_property
    def _by_id(self) -> dict[str, PolicyRule]:
        return {rule.rule_id: rule for rule in self.rules}

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


@lru_cache(maxsize=4096)
def asks_about_rules(sentence: str) -> bool:
    """Whether a sentence asks what the rules are."""
    return bool(_ASKS_RULE.search(sentence))


@lru_cache(maxsize=64)
def read_policy_document(text: str) -> PolicyDocument:
    """Find the rules of a Markdown policy document.

    A rule is a list item or paragraph that says what must or must not be done; it begins with the first
    sentence that does. Headings, tables, quotations, code, role lines ("You are ..."), lead-ins of lists,
    examples and lists of facts (what a record holds, which statuses there are) are not rules.
    """
    seen: dict[str, PolicyRule] = {}
    for said in map(_rule_text, _blocks(text)):
        if len(said.split()) >= MIN_RULE_WORDS:
            rule = PolicyRule(rule_id=f"r-{content_id(said)[:8]}", text=said, kind=_kind(said))
            seen.setdefault(rule.rule_id, rule)
    return PolicyDocument(text=text, rules=tuple(seen.values()))


@lru_cache(maxsize=4096)
def topic_words(text: str) -> frozenset[str]:
    """Content words of a text with plural and verb endings cut, for overlap tests."""
    words = _CONTENT_WORD.findall(text.lower())
    return frozenset(stem(word) for word in words if word not in _STOP)


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Cut the commonest English endings; for matching only."""
    for ending in ("ations", "ation", "ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@dataclass(frozen=True)
class _Block:
    """A list item's or paragraph's text on one line, and whether what it says holds of a list below it."""

    text: str
    introduces: bool


def _blocks(text: str) -> list[_Block]:
    """List items and paragraphs, without lists that say what something consists of."""
    tokens = _MARKDOWN.parse(_TAG_LINE.sub("", _FRONT_MATTER.sub("", text)))
    blocks: list[_Block] = []
    quoted = lists = facts_below = 0
    for i, token in enumerate(tokens):
        if token.type in ("blockquote_open", "table_open"):
            quoted += 1
        elif token.type in ("blockquote_close", "table_close"):
            quoted -= 1
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            lists += 1
            if not facts_below and _lists_facts(blocks, tokens[i - 1]):
                facts_below = lists
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            facts_below = 0 if facts_below == lists else facts_below
            lists -= 1
        elif token.type == "paragraph_open" and not quoted and not facts_below:
            before_list = i + 3 < len(tokens) and tokens[i + 3].type.endswith("_list_open")
            blocks.append(_Block(_plain(tokens[i + 1]), before_list))
    return blocks


def _lists_facts(blocks: Sequence[_Block], before: Token) -> bool:
    """Whether the list that begins after `before` says what something consists of: fields, statuses, ..."""
    return before.type == "paragraph_close" and bool(blocks) and bool(_FACTS.match(blocks[-1].text))


def _plain(inline: Token) -> str:
    """The words of a paragraph, without markup and tags."""
    kept = {"text", "code_inline", "softbreak", "hardbreak"}
    said = "".join(child.content or " " for child in inline.children or () if child.type in kept)
    return " ".join(said.split())


def _rule_text(block: _Block) -> str:
    """The block from its first sentence that says what must or must not be done; empty when none does."""
    leads_in = block.text.endswith(":") or (block.introduces and block.text[-1:] not in ".!?")
    if leads_in or _FACTS.match(block.text):
        return ""
    said = sentences(block.text)
    first = next((i for i, s in enumerate(said) if _NORMATIVE.search(s) and not _NOT_A_RULE.match(s)), None)
    if first is None:
        return ""
    while first and _LEANS_BACK.match(said[first]) and not _NOT_A_RULE.match(said[first - 1]):
        first -= 1
    return " ".join(said[first:])


def _kind(text: str) -> RuleKind:
    low = text.lower()
    if _HANDS_OVER.search(low) and re.search(r"\b(if|when)\b", low):
        return RuleKind.HANDOFF
    if _KNOWS_WHO.search(low):
        return RuleKind.VERIFY
    if re.search(r"\b(confirm\w*|explicit\w*|agree\w*)\b", low) and re.search(
        r"\b(before|first|obtain|must)\b", low
    ):
        return RuleKind.CONFIRM
    # "cannot be cancelled" says how things are; only what the agent must not do can be asked of it.
    if re.search(r"\b(never|do not|don't|must not|should not|not allowed to|may not|cannot) (?!be\b)", low):
        return RuleKind.NEVER
    return RuleKind.INFORM
