"""Mutations of a failed scenario's script: the same request, said as another customer would say it.

An operator changes words, order and timing, never the world, the situation or the answer key, and what the
customer wants and knows stays: a value is said as it was, or is told when asked for, and a wrong one is put
right before it can do harm. So the key of the parent holds for the mutant. Which scenario is mutated, and
when, belongs to `arms`.
"""

import random
import re
from collections.abc import Callable

from while_pipeline.ids import seed_of
from while_pipeline.policy_document import sentences
from while_pipeline.simulate.scenario import Scenario, scenario_id
from while_pipeline.simulate.script import Script
from while_pipeline.slots import hear, say, spoken
from while_pipeline.tools import is_identifier, words_of

Operator = Callable[[Scenario, random.Random], Script | None]
"""Gives the changed script; None, or the script as it was, where the operator does not apply."""

LEAD_IN_WORDS = 5
"""Words a sentence may have besides values and their names, and still say nothing but them."""

_ASIDES = (
    "By the way, it has been raining here for a week.",
    "My neighbour says hello, he is sitting right next to me.",
    "Sorry for the noise, there are builders in the kitchen.",
    "I am typing this with one hand, the cat has the other.",
    "It took me ages to find this chat.",
)
_QUOTES = (
    'Your last mail said: "Thank you for your patience, we are looking into it."',
    'On Monday somebody answered me: "Your message is with our team."',
    'I was told: "Write to us in the chat, it is the fastest way."',
)
_PUSH_BACKS = (
    "Are you sure about that?",
    "Hm, that is not what I expected. Are you certain?",
    "Really? I find that hard to believe.",
)
_RETRACTIONS = ("No, wait, that was an old one.", "Sorry, wrong line on my sheet.", "Hold on, not that one.")
_ENDS = (".", "!", "?")
_MISSPELT = {
    "would": "woudl", "could": "coudl", "please": "plaese", "with": "wiht", "this": "tihs", "that": "taht",
    "hello": "helo", "morning": "mornign", "evening": "evenign", "there": "tehre", "writing": "writting",
    "dear": "daer", "should": "shoud", "which": "wich",
}  # fmt: skip
"""Words that name neither a tool, a parameter nor a rule: misspelt they cost no meaning."""
_CHAT = {"please": "pls", "because": "bc", "could you": "could u", "would you": "would u", "thank you": "thx"}


def applicable(parent: Scenario, seed: int) -> str | None:
    """The operator that `seed` draws among those that change the parent; None when none does."""
    names = list(OPERATORS)
    random.Random(seed_of("operators", seed)).shuffle(names)
    return next((name for name in names if mutated(parent, name, seed) is not None), None)


def mutated(parent: Scenario, operator: str, seed: int) -> Scenario | None:
    """Mutate a scenario by a named operator.

    Args:
        parent: The scenario; its task, situation, world and answer key are kept.
        operator: A name in `OPERATORS`.
        seed: Decides what the operator draws.

    Returns:
        The mutant, with an id of its own content; None where the operator does not apply.
    """
    script = OPERATORS[operator](parent, random.Random(seed_of("mutation", operator, seed)))
    if script is None or script == parent.script or _misheard(script):
        return None
    # A mutant that says what another says is the same scenario.
    own = scenario_id(parent.situation, script, parent.world)
    return parent.model_copy(update={"scenario_id": own, "script": script, "arm": "failure_mutation"})


# -- what is left out, or comes later ---------------------------------------------------------------------


def break_off(parent: Scenario, rng: random.Random) -> Script | None:
    """Send the message too early: it ends in the middle of the details, which must be asked for."""
    script = parent.script
    rest, details = _details_apart(script)
    if not details or _busy(parent):
        return None
    first = _any_value(script).search(details[0])
    assert first is not None
    return _opening(script, *rest, details[0][: first.start()].rstrip() + "...")


def drop_details(parent: Scenario, rng: random.Random) -> Script | None:
    """Leave the details out: they must be asked for."""
    rest, details = _details_apart(parent.script)
    return _opening(parent.script, *rest) if rest and details and not _busy(parent) else None


def split(parent: Scenario, rng: random.Random) -> Script | None:
    """Say the details in a second message."""
    script = parent.script
    rest, details = _details_apart(script)
    if not rest or not details or _busy(parent):
        return None
    later = " ".join(["To complete my first message:", *details])
    return _opening(script, *rest).model_copy(update={"follow_ups": (later, *script.follow_ups)})


def reorder(parent: Scenario, rng: random.Random) -> Script | None:
    """Give the details before the request."""
    rest, details = _details_apart(parent.script)
    return _opening(parent.script, *details, *rest)


# -- what is said wrong first -----------------------------------------------------------------------------


def contradict(parent: Scenario, rng: random.Random) -> Script | None:
    """Say a wrong value, take it back, and say the right one, all in the first message."""
    script = parent.script
    rest, details = _details_apart(script)
    told = {text for part in details for text in _any_value(script).findall(part)}
    wrong = [
        (name, other)
        for name, value in script.slots.items()
        if spoken(value) in told and (other := _altered(value, rng)) is not None
    ]
    if not wrong:
        return None
    return _opening(
        script, *rest, f"My {say(*rng.choice(wrong), script.form)}.", rng.choice(_RETRACTIONS), *details
    )


def correct_later(parent: Scenario, rng: random.Random) -> Script | None:
    """Give a wrong identifier, and the right one once it was not found.

    Only an identifier whose record exists, since any other value would be acted on; and only for a single
    request, since with two the answer to one would hide that the other failed.
    """
    script = parent.script
    known = {key for records in parent.world.records.values() for key in records}
    first = next((name for name in script.slots if is_identifier(name)), None)
    if first is None or len(parent.goals) != 1 or _busy(parent) or parent.situation.world_state != "exists":
        return None
    right = script.slots[first]
    wrong = _altered(right, rng)
    if wrong is None or str(right) not in known or str(wrong) in known:
        return None
    said = re.compile(rf"(?<![\w-]){re.escape(spoken(right))}(?![\w-])")
    mistaken = {name: right for name, value in script.slots.items() if value == right}
    if not said.search(script.opening):
        return None
    return script.model_copy(
        update={
            "opening": said.sub(spoken(wrong), script.opening),
            "slots": script.slots | dict.fromkeys(mistaken, wrong),
            "corrections": mistaken,
        }
    )


# -- how it is written ------------------------------------------------------------------------------------


def misspell(parent: Scenario, rng: random.Random) -> Script | None:
    """Misspell words that carry no meaning; sentences with values are copied with care."""
    known = re.compile(rf"\b({'|'.join(_MISSPELT)})\b", re.IGNORECASE)
    values = _any_value(parent.script)
    told = [
        text
        if values.search(text)
        else known.sub(lambda m: _like(m.group(), _MISSPELT[m.group().lower()]), text)
        for text in _sentences(parent.script)
    ]
    return _opening(parent.script, *told)


def lower_case(parent: Scenario, rng: random.Random) -> Script | None:
    """Write without capitals; values keep theirs, since people copy them."""
    return _opening(parent.script, _around_values(parent.script, str.lower))


def shout(parent: Scenario, rng: random.Random) -> Script | None:
    """Write all in capitals but for the values."""
    return _opening(parent.script, _around_values(parent.script, str.upper))


def casual(parent: Scenario, rng: random.Random) -> Script | None:
    """Write as in a chat among friends."""
    known = re.compile(rf"\b({'|'.join(_CHAT)})\b", re.IGNORECASE)
    text = _around_values(parent.script, lambda part: known.sub(lambda m: _CHAT[m.group().lower()], part))
    return _opening(parent.script, text, "thx") if not text.endswith("thx") else None


def formal(parent: Scenario, rng: random.Random) -> Script | None:
    """Write as in a letter."""
    script = parent.script
    if script.opening.startswith("Dear Sir or Madam"):
        return None
    return _opening(
        script, f"Dear Sir or Madam,\n\n{script.opening}\n\nYours faithfully,\n{script.persona.full_name}"
    )


def forward(parent: Scenario, rng: random.Random) -> Script | None:
    """Paste the message as a forwarded mail with its signature."""
    script, person = parent.script, parent.script.persona
    if "-----Forwarded message-----" in script.opening:
        return None
    return _opening(
        script,
        f"-----Forwarded message-----\n\n{script.opening}\n\n--\n{person.full_name}\n{person.email}\n"
        "Sent from my phone",
    )


# -- what is said besides ---------------------------------------------------------------------------------


def digress(parent: Scenario, rng: random.Random) -> Script | None:
    """Tell something that has nothing to do with the request."""
    return _with_line(parent.script, _ASIDES, rng)


def quote(parent: Scenario, rng: random.Random) -> Script | None:
    """Quote an earlier message."""
    return _with_line(parent.script, _QUOTES, rng)


def introduce(parent: Scenario, rng: random.Random) -> Script | None:
    """Say who is writing before anyone asks."""
    script, person = parent.script, parent.script.persona
    line = f"I am {person.full_name}, born {person.date_of_birth}."
    return None if line in script.opening else _opening(script, line, script.opening)


def repeat(parent: Scenario, rng: random.Random) -> Script | None:
    """Ask for the same thing twice; whoever holds the request back goes on doing so."""
    script = parent.script
    line = f"Once more: {script.goal_line}"
    if not script.goal_line or script.holds_back or line in script.opening:
        return None
    return _opening(script, script.opening, line)


def push_back(parent: Scenario, rng: random.Random) -> Script | None:
    """Doubt the first answer."""
    script = parent.script
    if not parent.goals or _busy(parent) or any(line in script.follow_ups for line in _PUSH_BACKS):
        return None
    return script.model_copy(update={"follow_ups": (rng.choice(_PUSH_BACKS), *script.follow_ups)})


OPERATORS: dict[str, Operator] = {
    operator.__name__: operator
    for operator in (
        break_off, drop_details, split, reorder, contradict, correct_later, misspell, lower_case, shout,
        casual, formal, forward, digress, quote, introduce, repeat, push_back,
    )
}  # fmt: skip
"""Every operator by its name, as `simulate.scenarios.operator` has it."""


# -- parts of a script ------------------------------------------------------------------------------------


def _busy(parent: Scenario) -> bool:
    """Whether the customer has so much to say that another exchange could use up the turns."""
    later = len(parent.script.follow_ups) + len(parent.goals) - 1
    return bool(parent.script.corrections) or later > 1


def _misheard(script: Script) -> bool:
    """Whether any value the customer knows would be heard as another by the end of what they say unasked."""
    told = "\n".join((script.opening, *script.follow_ups))
    heard = {name: hear(name, {}, told) for name in script.slots}
    return any(
        value is not None and spoken(value) != spoken(script.slots[name]) for name, value in heard.items()
    )


def _opening(script: Script, *parts: str) -> Script:
    """The script with this first message; a part without a full stop ends its line."""
    told = "".join(f"{part} " if part.endswith(_ENDS) else f"{part}\n" for part in parts if part)
    return script.model_copy(update={"opening": told.rstrip()})


def _with_line(script: Script, lines: tuple[str, ...], rng: random.Random) -> Script | None:
    """The script with one of the lines before its first message; None when it has one of them already."""
    if any(line.lower() in script.opening.lower() for line in lines):
        return None
    return _opening(script, rng.choice(lines), script.opening)


def _any_value(script: Script) -> re.Pattern[str]:
    """Finds any value the customer knows, as it is said."""
    values = sorted({spoken(value) for value in script.slots.values()}, key=len, reverse=True)
    found = "|".join(map(re.escape, values)) or "(?!)"
    return re.compile(rf"(?<![\w-])({found})(?![\w-])")


def _sentences(script: Script) -> list[str]:
    """Sentences and lines of the opening; the whole as one where a value has a sentence end in it."""
    if any(len(sentences(spoken(value))) > 1 for value in script.slots.values()):
        return [script.opening]
    return [text for line in script.opening.splitlines() for text in sentences(line) if text]


def _details_apart(script: Script) -> tuple[list[str], list[str]]:
    """The opening's sentences in two heaps, each in order: the request, and what only gives values."""
    rest: list[str] = []
    details: list[str] = []
    for text in _sentences(script):
        (details if _only_values(script, text) else rest).append(text)
    return rest, details


def _only_values(script: Script, sentence: str) -> bool:
    values = _any_value(script)
    if not values.search(sentence):
        return False
    names = {word for name in script.slots for word in words_of(name)} | {"is", "number", "my", "the", "and"}
    left = re.findall(r"[A-Za-z']+", values.sub(" ", sentence))
    return sum(word.lower() not in names for word in left) <= LEAD_IN_WORDS


def _around_values(script: Script, change: Callable[[str], str]) -> str:
    """The opening with everything but the values changed."""
    parts = _any_value(script).split(script.opening)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))


def _altered(value: object, rng: random.Random) -> str | int | None:
    """A value of the same shape with one digit changed, never a leading one; None without two digits."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    places = [found.start() for found in re.finditer(r"\d", text)][1:]
    if not places:
        return None
    place = rng.choice(places)
    other = rng.choice([digit for digit in "0123456789" if digit != text[place]])
    changed = text[:place] + other + text[place + 1 :]
    return int(changed) if isinstance(value, int) else changed


def _like(model: str, word: str) -> str:
    """The word with a capital where the model has one."""
    return word.capitalize() if model[0].isupper() else word
