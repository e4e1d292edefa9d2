"""What a scenario's customer knows and will say: the opening and the lines kept for later.

How the customer uses them in the conversation belongs to `customer`.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from while_pipeline import slots
from while_pipeline.policy_document import PolicyRule, RuleKind
from while_pipeline.records import Record, Situation
from while_pipeline.simulate import wording
from while_pipeline.simulate.values import Persona
from while_pipeline.tools import Tool, is_identifier, words_of


class Script(Record):
    """The customer's part."""

    opening: str
    goal_line: str
    """The request in plain words, for an agent that asks what is wanted; empty when there is none."""
    persona: Persona
    slots: dict[str, Any]
    """What the customer knows, by parameter."""
    corrections: dict[str, Any]
    """Right values given once something was not found."""
    follow_ups: tuple[str, ...]
    """Said one at a time when the agent has answered."""
    confirmation: str


def goal_phrase(tool: Tool) -> str:
    """A tool's purpose in the words of its name: `get_data_usage` -> "get data usage"."""
    return " ".join(words_of(tool.name))


def write_script(
    cell: Situation,
    goals: Sequence[Tool],
    rule: PolicyRule | None,
    person: Persona,
    known: Mapping[str, Any],
    mistakes: Mapping[str, Any],
    rng: random.Random,
) -> Script:
    """Compose the customer's part for a situation.

    Args:
        cell: The situation; its stance and history choose sentences and behaviour.
        goals: Tools the customer's requests need, in order.
        rule: The policy rule in play, if any.
        person: Who writes.
        known: Right argument values by parameter.
        mistakes: Wrong values given first, by parameter.
        rng: Draws every wording.
    """
    phrases = [goal_phrase(goal) for goal in goals]
    asks = [rng.choice(wording.ASKS).format(goal=phrases[0])] if phrases else []
    asks += [rng.choice(wording.SECOND_ASKS).format(goal=phrase) for phrase in phrases[1:]]
    goal_line = " ".join(asks)
    given = {**known, **mistakes}
    stance = wording.line(wording.STANCE_LINES, cell.stance, rng)
    history = wording.line(wording.HISTORY_LINES, cell.history, rng)
    rule_line = _rule_line(rule, rng)
    # A rule's trigger decides whether anything may be done at all, so a handoff is known from the start;
    # other rule lines come after the first answer, as second thoughts do.
    first_rule_line = (
        rule_line if rule_line and (rule is None or rule.kind is RuleKind.HANDOFF or not goals) else ""
    )
    follow_ups = (rule_line,) if rule_line and not first_rule_line else ()
    opening = [
        rng.choice(wording.GREETINGS),
        history,
        stance,
        "" if cell.stance == "ambiguous" else wording.texture(goal_line, rng),
        _details(_told_first(cell.stance, given), rng),
        first_rule_line,
        "" if goals or first_rule_line else rng.choice(wording.GENERAL_ASKS),
    ]
    return Script(
        opening=" ".join(part for part in opening if part),
        goal_line=goal_line,
        persona=person,
        slots=dict(given),
        corrections={name: known[name] for name in mistakes},
        follow_ups=follow_ups,
        confirmation=wording.CONFIRMATIONS.get(cell.stance, wording.DEFAULT_CONFIRMATION),
    )


def _told_first(stance: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the opening already tells: the vague leave out what the agent has to ask for."""
    if stance == "ambiguous":
        return {}
    if stance in ("unsure", "exploratory"):
        return {name: value for name, value in given.items() if not is_identifier(name)}
    return dict(given)


def _details(told: Mapping[str, Any], rng: random.Random) -> str:
    if not told:
        return ""
    said = ", ".join(slots.say(name, value) for name, value in told.items())
    return rng.choice(wording.DETAILS).format(slots=said)


def _rule_line(rule: PolicyRule | None, rng: random.Random) -> str:
    if rule is None:
        return ""
    bank = {
        RuleKind.NEVER: wording.NEVER_ASKS,
        RuleKind.HANDOFF: wording.HANDOFF_LINES,
        RuleKind.INFORM: wording.INFORM_ASKS,
    }.get(rule.kind)
    return rng.choice(bank).format(trigger=rule.trigger) if bank else ""
