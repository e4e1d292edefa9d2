"""What a sentence means to the embedded agent: the tool it asks for, the rules it puts in play, or neither.

Compiled once per agent (tools and policy document); a text is read once, however often it is seen.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from while_pipeline.goals import goal_of
from while_pipeline.policy_document import (
    PolicyDocument,
    PolicyRule,
    asks_about_rules,
    sentences,
    stem,
)
from while_pipeline.slots import Slot
from while_pipeline.tools import Tool, ToolKind, words_of

MATCH = 0.75
"""Share of a phrase's words a sentence must have to ask for its tool."""
REMEMBERED = 20_000
"""Bounds memory, for texts and for words; a night has more texts than this, but they come in runs."""
MIN_CORRECTED, MAX_CORRECTED = 4, 32
"""Letters of a stem that is recognised misspelt: a shorter one is soon another word; a longer one is none,
and has as many misspellings as letters, each as long as itself."""

_GRAMMAR = frozenset({
    "by", "for", "to", "of", "from", "with", "the", "a", "an", "my", "me", "i", "all", "at", "in", "some",
    "or", "and", "can", "its", "it", "is", "are", "am", "if", "what", "whether", "that", "up", "out", "you",
    "have", "has", "been", "not",
})  # fmt: skip
"""Words that tell no tool from another. `on` and `off` do."""
_ASKS = re.compile(
    r"\?|^\W*(?:[a-z ]{1,24}: )?(?:please )?(?:tell|give|write|recommend|explain|solve)\b", re.IGNORECASE
)
_WORD = re.compile(r"[a-z0-9]+")
_LINE = re.compile(r"\n+(?:subject:.*\n+)?|^subject:.*\n+", re.IGNORECASE)
"""Between lines; a subject line names a topic and asks for nothing."""
_VALUE = re.compile(r"[\"\[{]|\bare (?=[^;])")
"""Where a quoted or JSON value begins, or fields one after the other."""
_VALUE_ENDS = '"]}'
MIN_STRANGE = 2
"""Words from elsewhere that take a question off topic."""
_EVERYDAY = frozenset(map(stem, (
    "able", "about", "after", "again", "ahead", "all", "allow", "already", "also", "and", "any", "anyone",
    "anything", "are", "ask", "away", "back", "because", "been", "before", "being", "bend", "between",
    "both", "but", "call", "can", "cannot", "case", "certain", "chance", "chat", "colleague", "condition",
    "contact", "correctly", "could", "decide", "did", "different", "does", "done", "down", "during",
    "each", "else", "enough", "everything", "exception", "favour", "few", "find", "fine", "first", "for",
    "from", "get", "give", "good", "got", "grateful", "great", "had", "halfway", "happen", "has", "have",
    "having", "hear", "help", "her", "here", "his", "hope", "how", "into", "its", "just", "kind", "know",
    "last", "leave", "less", "let", "like", "listen", "little", "look", "made", "mail", "make", "many",
    "mean", "means", "meant", "meet", "message", "might", "mind", "minute", "moment", "more", "most",
    "much", "myself", "need", "next", "not", "nothing", "now", "off", "okay", "once", "one", "only",
    "option", "other", "our", "out", "over", "own", "people", "person", "phone", "place", "please",
    "possible", "question", "quick", "quickly", "really", "right", "said", "same", "say", "shall",
    "should", "show", "some", "someone", "something", "sort", "speak", "still", "story", "such",
    "suggest", "sure", "take", "talk", "tell", "than", "thank", "that", "the", "their", "them", "then",
    "there", "these", "they", "thing", "think", "this", "those", "thought", "through", "time", "today",
    "tomorrow", "too", "try", "twice", "two", "under", "understand", "until", "usual", "very", "walk",
    "want", "was", "way", "well", "were", "what", "when", "where", "which", "while", "who", "whom", "whose",
    "why", "will", "with", "work", "would", "wrong", "yet", "you", "your", "yours", "yourself",
)))  # fmt: skip
"""Words of any conversation with a service, whatever it serves."""


@dataclass(frozen=True)
class Meaning:
    """What one sentence asks for and which rules it touches."""

    tool: Tool | None
    rules: tuple[PolicyRule, ...]
    off_topic: bool
    """It asks for something that neither the tools nor the policy document speak of."""


@dataclass
class Lexicon:
    """The vocabulary of one agent."""

    tools: tuple[Tool, ...]
    document: PolicyDocument
    _texts: dict[str, list[Meaning]] = field(default_factory=dict)
    _sentences: dict[str, Meaning] = field(default_factory=dict)
    _stems: dict[str, str] = field(default_factory=dict)
    _asked: dict[frozenset[str], Tool | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the phrases of every tool by their words, and find neighbours."""
        self.by_name = {tool.name: tool for tool in self.tools}
        self._playable = [tool for tool in self.tools if tool.kind is not ToolKind.TRANSFER]
        self._names = [frozenset(_content(words_of(tool.name))) for tool in self._playable]
        self._phrases = list(
            dict.fromkeys(p for i, tool in enumerate(self._playable) for p in _phrases(i, tool))
        )
        self._phrases_with: dict[str, list[int]] = {}
        for number, (_, _, words) in enumerate(self._phrases):
            for word in sorted(words):
                self._phrases_with.setdefault(word, []).append(number)
        self._near = _misspellings(self._phrases_with)
        self.slots = {
            tool.name: {p: Slot(p, tool.properties.get(p, {})) for p in tool.required} for tool in self.tools
        }
        """By tool and required parameter: what is listened for."""
        self._neighbours = {tool.name: self._nearest(tool) for tool in self.tools}

    def sentences(self, text: str) -> list[Meaning]:
        """Meanings of a text's sentences, in order; a line's end ends a sentence too."""
        known = self._texts.get(text)
        if known is None:
            if len(self._texts) >= REMEMBERED:
                self._texts.clear()
            said = [sentence for line in _LINE.split(text) for sentence in sentences(line)]
            known = self._texts[text] = [self._meaning(sentence) for sentence in said]
        return known

    def neighbour(self, tool: Tool) -> Tool:
        """The tool most easily taken for `tool`; itself when there is no other."""
        return self._neighbours[tool.name]

    def is_off_topic(self, text: str) -> bool:
        """Whether a text asks for something that neither the tools nor the policy document speak of.

        One sentence makes it so that asks for neither a tool nor a rule, and has at least `MIN_STRANGE` words
        no conversation here would have, and more of those than of the agent's own.
        """
        return any(meaning.off_topic for meaning in self.sentences(text))

    def _strays(self, sentence: str) -> bool:
        words = {stem(w) for w in _WORD.findall(sentence.lower()) if len(w) > 2 and not w[0].isdigit()}
        words -= _EVERYDAY
        strange = words - self._own_words
        return len(strange) >= MIN_STRANGE and len(strange) > len(words) / 2

    @cached_property
    def _own_words(self) -> frozenset[str]:
        """Stems of everything the tools and the policy document say."""
        texts = [self.document.text.lower()]
        for tool in self.tools:
            texts += [" ".join(words_of(tool.name)), tool.description.lower(), str(tool.parameters).lower()]
        return frozenset(stem(word) for text in texts for word in _WORD.findall(text))

    def _meaning(self, sentence: str) -> Meaning:
        known = self._sentences.get(sentence)
        if known is None:
            if len(self._sentences) >= REMEMBERED:
                self._sentences.clear()
            asks = asks_about_rules(sentence)
            rules = self.document.in_play(sentence)
            tool = None if rules or asks else self._tool(sentence)
            other = not (tool or rules or asks) and bool(_ASKS.search(sentence)) and self._strays(sentence)
            known = self._sentences[sentence] = Meaning(tool, rules, other)
        return known

    def _tool(self, sentence: str) -> Tool | None:
        words = _WORD.findall(_without_values(sentence.lower()))
        said = frozenset(filter(None, map(self._stem, words)))
        if said not in self._asked:
            if len(self._asked) >= REMEMBERED:
                self._asked.clear()
            self._asked[said] = self._best(said)
        return self._asked[said]

    def _best(self, said: frozenset[str]) -> Tool | None:
        """The tool one of whose phrases is said most fully; the longer phrase, then the fuller name, wins."""
        hits = Counter(number for word in sorted(said) for number in self._phrases_with[word])
        best: tuple[float, int, int] = (0.0, 0, 0)
        tool = None
        for number, count in hits.items():
            owner, verb, words = self._phrases[number]
            score = (count / len(words), count, len(self._names[owner] & said))
            if score[0] >= MATCH and verb in said and score > best:
                best, tool = score, self._playable[owner]
        return tool

    def _stem(self, word: str) -> str:
        """The word as phrases have it, misspelt or not; empty when none has it."""
        known = self._stems.get(word)
        if known is None:
            if len(self._stems) >= REMEMBERED:
                self._stems.clear()
            cut = stem(word)
            known = self._stems[word] = cut if cut in self._phrases_with else self._corrected(cut)
        return known

    def _corrected(self, word: str) -> str:
        if not MIN_CORRECTED <= len(word) <= MAX_CORRECTED + 1 or not word.isalpha() or word in _EVERYDAY:
            return ""
        return next((near for cut in (word, *_one_less(word)) if (near := self._near.get(cut))), "")

    def _nearest(self, tool: Tool) -> Tool:
        own = set(words_of(tool.name))
        others = [t for t in self._playable if t.name != tool.name]
        return max(others, key=lambda t: len(own & set(words_of(t.name))), default=tool)


def _without_values(sentence: str) -> str:
    """A sentence without its values, which say what to use, not what to do.

    A quoted or JSON value ends where the last one does; fields one after the other go on to the end. One
    pattern for all of that would look for the end again from every mark.
    """
    last_end, last_field = max(map(sentence.rfind, _VALUE_ENDS)), sentence.rfind(";")
    for value in _VALUE.finditer(sentence):
        start = value.start()
        if value.group() == "are ":
            if value.end() < last_field:
                return sentence[:start]
        elif start < last_end:
            return f"{sentence[:start]} {_without_values(sentence[last_end + 1 :])}"
    return sentence


def _phrases(owner: int, tool: Tool) -> Iterable[tuple[int, str, frozenset[str]]]:
    """Number of the tool, verb and words of each of its phrases, its bare name among them."""
    goal = goal_of(tool)
    said = [_content(_WORD.findall(phrase.lower())) for phrase in (*goal.wishes, *goal.requests)]
    name = _content(words_of(tool.name))
    # One word alone, such as `think`, is said in passing all the time.
    if len(name) > 1 or len(said[0]) == 1:
        yield owner, stem(tool.verb), frozenset(name)
    for words in said:
        yield owner, words[0], frozenset(words)


def _content(words: Sequence[str]) -> list[str]:
    """Stems of the words that tell a phrase apart, in order; of all words when grammar is all there is."""
    return [stem(word) for word in words if word not in _GRAMMAR] or [stem(word) for word in words]


def _misspellings(words: Iterable[str]) -> dict[str, str]:
    """Words by what one slip of the fingers leaves of them (Garbe's symmetric deletes, distance one)."""
    near: dict[str, str] = {}
    for word in words:
        if MIN_CORRECTED <= len(word) <= MAX_CORRECTED and word.isalpha():
            for cut in (word, *_one_less(word)):
                near.setdefault(cut, word)
    return near


def _one_less(word: str) -> list[str]:
    return [word[:i] + word[i + 1 :] for i in range(len(word))]
