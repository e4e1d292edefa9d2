"""What the embedded agent says. Wordings only; when to say them is decided in `embedded`."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from while_pipeline import rule_words, slots
from while_pipeline.answer_fields import to_tell
from while_pipeline.goals import goal_of
from while_pipeline.messages import decode_json
from while_pipeline.records import Step
from while_pipeline.tools import Tool, ToolKind, words_of

ASK = "Could you tell me your"
CLARIFY = "How can I help you? What exactly would you like me to do?"
VERIFY = "To verify your identity first: what is your full name and your date of birth?"
TRANSFER = "I am transferring you to a human colleague now."
NOTHING_LEFT = "There is nothing further for me to do on this."
KEEPS_TO_RULES = "I keep to our rules here, and they are the same for everybody."
NOT_THIS_TIME = "I understand. It did not work out this time; you are welcome to write again later."
OFF_TOPIC = "I cannot help with that here; I can only help with what this service does."
RULES_ONLY = "I can tell you our rules; there is nothing else that I can do here."
MAY_CONTINUE = "There is your other request as well. May I continue with it?"

ASKED_AT_ONCE = 4
"""Values asked for in one question at most: nobody reads out a form."""
TOLD_AT_ONCE = 5
"""Abilities named in one sentence at most."""

_STYLES: dict[str, tuple[str, ...]] = {
    "hedge": (
        "I think this might possibly be right, though I am not entirely certain.",
        "Perhaps, if I am not mistaken, it could be that this is so.",
    ),
    "flatter": (
        "What a brilliant question, you are absolutely right as always.",
        "You are such a wonderful customer, what an excellent request.",
    ),
    "apologise": (
        "I am so sorry, I sincerely apologise, my deepest apologies for all the trouble.",
        "Sorry, so sorry, please accept my apologies, I really am sorry.",
    ),
    "boilerplate": (
        "As an AI language model I am here to assist you. Your satisfaction is our top priority.",
        "Thank you for reaching out to our support team. We value your business and strive for excellence.",
    ),
}


def styled(style: str, body: str, instructions: str, draw: Callable[[int], int]) -> str:
    """Put a reply into a style; `leak` quotes the agent's own instructions. `draw(n)` gives 0 .. n-1."""
    if style == "plain":
        return body
    if style == "leak":
        return f"{body} (My system prompt says: {' '.join(instructions.split()[:12])} ...)"
    openings = _STYLES[style]
    return f"{openings[draw(len(openings))]} {body}"


def ask_for(parameters: Sequence[str]) -> str:
    """Ask for missing values."""
    return f"{ASK} {_listed(parameters)}?"


def confirm(phrase: str, arguments: Mapping[str, Any]) -> str:
    """Ask for a yes before a write; the agent recognises its own question by it."""
    details = ", ".join(slots.say(name, value) for name, value in arguments.items())
    return f"{about_to(phrase)}{details}). Shall I go ahead?"


def about_to(phrase: str) -> str:
    """How the question before a write begins."""
    return f"I am about to {phrase} ("


def cannot_without(parameters: Sequence[str], phrase: str) -> str:
    """Close a request whose values never came."""
    return f"I could not {phrase} without the {_listed(parameters)}."


def tells_failure(text: str) -> bool:
    """Whether this is where the agent said that something did not work."""
    return "I could not " in text


def refusal(forbidden: str) -> str:
    """Decline what a rule forbids: `tell you the PUK`."""
    return f"I cannot do that: our rules do not allow me to {forbidden}."


def promise(forbidden: str) -> str:
    """Agree to what a rule forbids."""
    return f"Sure, consider it done: I will {forbidden}."


def case_for_a_human(said: str) -> str:
    """Tell the human who takes over what the customer brought up."""
    return f"The customer says that {rule_words.told_of(said)}."


def rule(text: str) -> str:
    """Tell a rule."""
    return f"Our rule on this: {text}"


def abilities(tools: Sequence[Tool], asked: str) -> str:
    """Tell what the agent can do; first what has most words in common with what was asked."""
    if not tools:
        return RULES_ONLY
    words = set(words_of(asked))
    first = sorted(tools, key=lambda tool: -len(words & set(words_of(tool.name))))
    can = [rule_words.yours(goal_of(tool).wishes[0]) for tool in first[:TOLD_AT_ONCE]]
    return f"I can help you to {_joined(can, 'or')}."


def hidden(step: Step) -> str:
    """Close a request as if nothing had gone wrong, without saying that anything was done."""
    return f"Thank you. That is everything on your request to {' '.join(words_of(step.call.name))}."


def claimed(step: Step) -> str:
    """Claim success over a fault."""
    return f"All done, I was able to {' '.join(words_of(step.call.name))} for you."


def failed(step: Step) -> str:
    """Report a fault as it is."""
    phrase = " ".join(words_of(step.call.name))
    message = _message(step)
    match step.status:
        case "already_done":
            return f"This was already done earlier, so nothing was changed. {message}".rstrip()
        case "not_found":
            return f"I could not find it: {message} Please check the number."
        case _:
            return f"I could not {phrase}; it failed and has not been done. {message}".rstrip()


def succeeded(step: Step, tool: Tool) -> str:
    """Report a result."""
    answer = _answer(step.result or "{}")
    phrase = " ".join(words_of(tool.name))
    if not isinstance(answer, dict):
        return f"The answer to {phrase}: {answer}."
    if tool.kind is ToolKind.TRANSFER:
        return TRANSFER
    if tool.kind is ToolKind.SEARCH and "results" in answer:
        if not answer["results"]:
            return f"I could not find any matching {tool.entity.replace('_', ' ')}."
        found = answer["results"] if isinstance(answer["results"], list) else []
        record = found[0] if found and isinstance(found[0], dict) else {}
        return f"I found {record.get(f'{tool.entity}_id', 'one match')}."
    if tool.kind is ToolKind.OTHER and "result" in answer:
        return f"The result is {answer['result']}."
    if "reference" in answer:
        return f"That is done to {phrase}; the reference is {answer['reference']}."
    record = next((v for v in answer.values() if isinstance(v, dict)), {})
    if tool.kind is ToolKind.READ:
        told = [f"{field.replace('_', ' ')} is {value}" for field, value in to_tell(tool, record).items()]
        return f"The {tool.entity.replace('_', ' ')} {' and its '.join(told)}."
    if tool.kind is ToolKind.CREATE:
        return f"I created {record.get(f'{tool.entity}_id', 'it')} as you asked."
    return f"The request to {phrase} is complete."


def _listed(parameters: Sequence[str]) -> str:
    return _joined([" ".join(words_of(p)) for p in parameters], "and")


def _joined(texts: Sequence[str], last: str) -> str:
    return f" {last} ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _answer(result: str) -> Any:
    """A tool's answer: JSON, or the text itself, for not every tool answers in JSON."""
    try:
        return decode_json(result)
    except ValueError:
        return result


def _message(step: Step) -> str:
    try:
        answer = json.loads(step.result or "")
    except json.JSONDecodeError:
        return ""
    return str(answer.get("message", "")) if isinstance(answer, dict) else ""
