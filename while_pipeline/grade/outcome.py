"""The outcome of a rollout against its answer key: what happened to the world, and what was told."""

import re

from while_pipeline.constants import EXPLAIN_MATCH
from while_pipeline.policy_document import PolicyRule, RuleKind, topic_words
from while_pipeline.records import Record
from while_pipeline.simulate.rollout import Played
from while_pipeline.simulate.scenario import AnswerKey
from while_pipeline.transcript import ADMITS, ALREADY, NOT_FOUND, REFUSES, Transcript


class Outcome(Record):
    """Whether a rollout did what its scenario asked."""

    ok: bool | None
    """None when the rollout was lost: infrastructure is no evidence about the agent."""
    reason: str


def outcome(played: Played, transcript: Transcript) -> Outcome:
    """Hold a conversation against its scenario's answer key.

    Wrong are: a missing effect, a forbidden effect, a fact not told, an obligation of the key not met, and
    a conversation that ran out of turns.
    """
    if played.lost is not None:
        return Outcome(ok=None, reason=f"lost: {played.lost}")
    key = played.scenario.key
    if played.diff is None or key.effects is None:
        return _told(key, played, transcript)
    missing = sorted(set(key.effects) - set(played.diff))
    forbidden = sorted(set(played.diff) - set(key.effects))
    wrong = sorted(p for p in set(played.diff) & set(key.effects) if played.diff[p] != key.effects[p])
    effects = {"missing effect": missing, "forbidden effect": forbidden, "wrong effect": wrong}
    for name, paths in effects.items():
        if paths:
            return Outcome(ok=False, reason=f"{name}: {', '.join(paths[:3])}")
    return _told(key, played, transcript)


def _told(key: AnswerKey, played: Played, transcript: Transcript) -> Outcome:
    """The rest of the outcome: what was said. Good words over effects nobody can see are no good outcome."""
    if played.ended == "max_turns":
        return Outcome(ok=False, reason="ran out of turns")
    told = " ".join(text for _, text in transcript.agent_texts)
    untold = [fact for fact in key.facts if not _tells(told, fact)]
    if untold:
        return Outcome(ok=False, reason=f"not told: {untold[0]}")
    rule = transcript.document.rule(played.scenario.situation.policy_rule)
    unmet = [duty for duty in key.must if not _met(duty, transcript, told, rule)]
    if unmet:
        return Outcome(ok=False, reason=f"not said: {unmet[0]}")
    if played.diff is None or key.effects is None:
        return Outcome(ok=None, reason="unknown: the world does not tell what was done")
    return Outcome(ok=True, reason="as the key asks")


def _tells(told: str, fact: str) -> bool:
    """Whether a fact stands in the text as whole words: `inactive` does not tell `active`.

    A number may have its unit right behind it (3.7GB).
    """
    end = r"(?!\.?\d)" if fact[-1:].isdigit() else r"(?!\w)"
    return bool(re.search(rf"(?<!\w){re.escape(fact)}{end}", told, re.IGNORECASE))


def _met(duty: str, t: Transcript, told: str, rule: PolicyRule | None) -> bool:
    match duty:
        case "handoff":
            return t.handed_over
        case "refuse":
            return rule is None or bool(REFUSES.search(_reply_to_rule(t, rule)))
        case "explain":
            topic = rule.topic if rule else frozenset()
            return not topic or len(topic & topic_words(told)) / len(topic) >= EXPLAIN_MATCH
        case "missing":
            return bool(NOT_FOUND.search(told))
        case "already":
            return bool(ALREADY.search(told))
        case _:
            return bool(ADMITS.search(told))


def _reply_to_rule(t: Transcript, rule: PolicyRule) -> str:
    """What the agent answered where the rule was put in play; nothing when it never was."""
    assert rule.kind is RuleKind.NEVER
    for i, message in enumerate(t.messages):
        if message.role == "user" and rule in t.document.in_play(message.content or ""):
            return t.reply_after(i)
    return ""
