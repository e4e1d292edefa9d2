"""Personal data and secrets out of conversations, before anything is stored.

What belongs here: finding e-mail addresses, phone numbers, payment cards, IBANs, keys and tokens, and naming
each by a pseudonym that stays the same within a project, so that behaviour survives. Order numbers, dates,
amounts and booking codes are what the agent works with: they must survive as they are.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from while_pipeline.messages import decode_json
from while_pipeline.records import EXCERPT, Conversation, Message, Reject, ToolCall

PSEUDONYM_BYTES = 5
"""40 bits: two of 100,000 customers share a pseudonym with probability 0.5 %."""

# Countries by the length of their IBANs (SWIFT IBAN registry).
_IBAN_COUNTRIES = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}

_SECRET = re.compile(
    r"""(?<![\w-])(?:
        (?<=Bearer\ )[\w.~+/-]{16,}=*             # HTTP authorization
      | sk-[\w-]{20,}                             # OpenAI, Anthropic
      | [rsp]k_(?:live|test)_\w{16,}              # Stripe
      | (?:AKIA|ASIA)[0-9A-Z]{16}                 # AWS
      | gh[opsur]_\w{36,} | github_pat_\w{22,}    # GitHub
      | glpat-[\w-]{20,}                          # GitLab
      | xox[abprs]-[\w-]{10,}                     # Slack
      | AIza[\w-]{35}                             # Google
      | hf_[A-Za-z0-9]{30,}                       # Hugging Face
      | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}        # JSON web token
    )""",
    re.VERBOSE,
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_]{2,}(?![\w-])")
_IBAN = re.compile(
    r"\b(?:"
    + "|".join(
        rf"(?:{countries.replace(' ', '|')})\d\d(?: ?[A-Z0-9]){{{length - 4}}}"
        for length, countries in _IBAN_COUNTRIES.items()
    )
    + r")(?![\w-])"
)
_CARD = re.compile(
    r"(?<![\w+.-])(?:\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{1,7}|\d{4}[ -]\d{6}[ -]\d{4,5}|\d{13,19})(?![\w-])"
)
_ISSUERS = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]|2[2-7]|35)\d{14}|3[47]\d{13}|3[068]\d{12}|6[0-9]\d{14,17}"
)
# International with +, North American 3-3-4 (bare digits never: they are order numbers), national with 0 and
# groups (never hyphens: those are dates and codes).
_PHONE = re.compile(
    r"""(?<![\w+.-])(?:
        \+\d{1,3}(?:[ .-]?(?:\(\d{1,5}\)|\d{1,5})){2,6}
      | (?:1[ .-])?(?:\(\d{3}\)\ ?|\d{3}[ .-])\d{3}[ .-]\d{4}
      | 0\d{2,4}\ \d{3,4}\ \d{3,4} | 0\d{4}\ \d{6}
    )(?![\w-]|\.\d)""",
    re.VERBOSE,
)


class _Kind(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    normalise: Callable[[str], str | None]
    """The value without its spelling, or None when the match is something else."""


class Found(NamedTuple):
    """A piece of personal data or a secret in a text."""

    kind: str
    """`secret`, `email`, `iban`, `card` or `phone`."""
    text: str
    """As it stands there."""


def found_in(text: str) -> list[Found]:
    """Personal data and secrets in plain text: all that a `Redactor` would replace as the text stands."""
    return [Found(kind.name, match[0]) for kind in _KINDS for match, _ in _matches(kind, text)]


def _matches(kind: _Kind, text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Values of a kind, each with its normal form. What only looks like one may hold one's beginning."""
    position = 0
    while match := kind.pattern.search(text, position):
        value = kind.normalise(match[0])
        if value is None:
            position = match.start() + 1
        else:
            position = match.end()
            yield match, value


class Redactor:
    """Replaces personal data by pseudonyms like `<email:3f2a91c07d>`.

    The pseudonym is blake2b keyed with the project's key over kind and normalised value: stable within the
    project, different between projects. Redacting twice changes nothing.
    """

    def __init__(self, project_key: str) -> None:
        """Make a redactor.

        Args:
            project_key: Any text that stays the same for the project's life; who knows it can test guesses.
        """
        self._key = hashlib.blake2b(project_key.encode(), digest_size=32).digest()

    def text(self, text: str) -> str:
        """Redact plain text, again until nothing changes: a value replaced may have hidden its neighbour."""
        before = None
        while before != text:
            before = text
            for kind in _KINDS:
                text = self._replace(kind, text)
        return text

    def conversation(self, conversation: Conversation) -> Conversation:
        """Redact the messages of a conversation, and its id, which may be a customer's address or number."""
        return conversation.model_copy(
            update={
                "conversation_id": self.text(conversation.conversation_id),
                "messages": tuple(map(self._message, conversation.messages)),
            }
        )

    def reject(self, reject: Reject) -> Reject:
        """Redact what a reject quotes; a word cut short by the excerpt may be half a secret, and goes."""
        excerpt = reject.excerpt
        if len(excerpt) >= EXCERPT:
            excerpt = excerpt[: max(excerpt.rfind(" "), excerpt.rfind('"'), 0)] + "…"
        return reject.model_copy(update={"reason": self.text(reject.reason), "excerpt": self.text(excerpt)})

    def _message(self, message: Message) -> Message:
        content = message.content
        if content is not None:
            content = self._result(content) if message.role == "tool" else self.text(content)
        return message.model_copy(
            update={"content": content, "tool_calls": tuple(map(self._call, message.tool_calls))}
        )

    def _call(self, call: ToolCall) -> ToolCall:
        raw = None if call.raw is None else self.text(call.raw)
        return call.model_copy(
            update={"name": self.text(call.name), "arguments": self._value(call.arguments), "raw": raw}
        )

    def _result(self, content: str) -> str:
        """Redact a JSON result value by value, so that it stays JSON; unchanged when nothing is found."""
        try:
            value = decode_json(content)
        except ValueError:
            return self.text(content)
        redacted = self._value(value)
        return content if redacted == value else json.dumps(redacted, ensure_ascii=False)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            # A card number given as a number.
            redacted = self.text(str(value))
            return value if redacted == str(value) else redacted
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self._value(item) for key, item in value.items()}
        return value

    def _replace(self, kind: _Kind, text: str) -> str:
        """Replace every value of a kind."""
        done: list[str] = []
        position = 0
        for match, value in _matches(kind, text):
            done += [text[position : match.start()], self._pseudonym(kind.name, value)]
            position = match.end()
        return "".join([*done, text[position:]])

    def _pseudonym(self, kind: str, value: str) -> str:
        data = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, key=self._key, digest_size=PSEUDONYM_BYTES).hexdigest()
        return f"<{kind}:{digest}>"


def _digits(text: str) -> str:
    """The digits of a text, of any script, as ASCII."""
    return "".join(str(int(digit)) for digit in re.findall(r"\d", text))


def _card(found: str) -> str | None:
    """A card by its issuer's first digits and length, and the Luhn check (ISO/IEC 7812-1)."""
    digits = _digits(found)
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    luhn = (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0
    return digits if luhn and _ISSUERS.fullmatch(digits) else None


def _iban(found: str) -> str | None:
    """An IBAN by its check digits (ISO 13616): moved to the end, letters as 10 to 35, mod 97 is 1."""
    iban = found.replace(" ", "")
    number = "".join(str(int(character, 36)) for character in iban[4:] + iban[:4])
    return iban if int(number) % 97 == 1 else None


def _phone(found: str) -> str | None:
    digits = _digits(found)
    if not 8 <= len(digits) <= 15:
        return None
    # With or without the country code, a North American number is the same number.
    return digits[1:] if len(digits) == 11 and digits[0] == "1" else digits


_KINDS = (
    _Kind("secret", _SECRET, str),
    _Kind("email", _EMAIL, str.lower),
    _Kind("iban", _IBAN, _iban),
    _Kind("card", _CARD, _card),
    _Kind("phone", _PHONE, _phone),
)
