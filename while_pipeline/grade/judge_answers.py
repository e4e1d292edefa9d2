"""What a judge behind an endpoint must answer, and how its answer is read: strictly, or not at all.

What belongs here: the JSON asked for, made from the rubric, and the rules by which an answer counts. What
does not: how the question is put (`endpoint_judge`), and what a rubric is (`rubric`).

An answer counts when the message is one JSON object, bare or as the only content of one fenced code block
(small models fence JSON whatever they are told). Text around it, a key twice, a criterion missing or made up,
a value of another type or out of range: no verdict, with the cause. Which of two objects is meant, or what
"yes" stands for, would be our guess.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model

from while_pipeline.agents.endpoint import Completion
from while_pipeline.grade.judge import Choice, Criterion, NoVerdict, Verdict
from while_pipeline.grade.rubric import Rubric
from while_pipeline.messages import decode_json

PRINCIPLES_KEPT = 0.8
"""Mean score on a rubric's principles from which an answer is clean: one slip in five is a slip."""

_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*?)\s*```\Z", re.DOTALL | re.IGNORECASE)


class Silence(Exception):
    """There is no verdict, and why."""

    def __init__(self, cause: NoVerdict, detail: str) -> None:
        """Say which kind of silence it is, and what was seen."""
        super().__init__(f"no verdict: {cause} ({detail})")
        self.cause = cause

    def verdict(self, model: str | None = None) -> Verdict:
        """The verdict that says so; `model` is the one that answered, if one did."""
        return Verdict(clean=None, reason=str(self), model=model, no_verdict=self.cause)


def rollout_name(index: int) -> str:
    """What the `index`-th (0, 1, ...) rollout of a group is called in question and answer."""
    return f"rollout_{index + 1}"


def verdict_format(rubric: Rubric) -> dict[str, Any]:
    """`response_format` for a verdict on one rollout."""
    return _format("verdict", _criteria_schema(rubric))


def group_format(rubric: Rubric, size: int) -> dict[str, Any]:
    """`response_format` for a verdict on each of `size` rollouts."""
    one = _criteria_schema(rubric)
    return _format("verdicts", _object({rollout_name(i): one for i in range(size)}))


def preference_format() -> dict[str, Any]:
    """`response_format` for a preference between two rollouts."""
    better = {"type": "string", "enum": ["first", "second", "tie"]}
    return _format("preference", _object({"reason": {"type": "string"}, "better": better}))


def read_verdict(completion: Completion, rubric: Rubric) -> Verdict:
    """Read a verdict on one rollout; without one it says why."""
    try:
        return _verdict(_answer(completion), rubric, completion.model)
    except Silence as silence:
        return silence.verdict(completion.model)


def read_group(completion: Completion, rubric: Rubric, size: int) -> list[Verdict]:
    """Read a verdict on each of `size` rollouts.

    An answer that misses or doubles a rollout is no verdict on any of them: what it says may be of another. A
    criterion that is wrong or missing silences its own rollout alone.
    """
    names = [rollout_name(i) for i in range(size)]
    try:
        answer = _answer(completion)
        missing = [name for name in names if not isinstance(answer.get(name), dict)]
        if missing:
            raise Silence("missing", missing[0])
        if len(answer) > size:
            raise Silence("unparsable", f"more than the {size} rollouts")
    except Silence as silence:
        return [silence.verdict(completion.model)] * size
    found = []
    for name in names:
        try:
            found.append(_verdict(answer[name], rubric, completion.model))
        except Silence as silence:
            found.append(silence.verdict(completion.model))
    return found


def read_preference(completion: Completion) -> tuple[Choice, str]:
    """Read which of the two shown is better, and the reason.

    Raises:
        Silence: the answer is none.
    """
    try:
        said = _Preferred.model_validate(_answer(completion))
    except ValidationError as error:
        raise _silence(error) from None
    return said.better, said.reason


_Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Holds(_Wire):
    reason: _Reason
    holds: bool

    @property
    def score(self) -> float:
        return float(self.holds)


class _Scored(_Wire):
    reason: _Reason
    score: float = Field(ge=0, le=1)


class _Preferred(_Wire):
    reason: _Reason
    better: Choice


@lru_cache(maxsize=64)
def _model(rubric: Rubric) -> type[_Wire]:
    """One field per criterion, in the rubric's order."""
    fields: dict[str, Any] = {
        name: (_Holds if kind == "hard" else _Scored, ...) for name, kind in rubric.kinds.items()
    }
    return create_model("_Answer", __base__=_Wire, **fields)


def _verdict(answer: Mapping[str, Any], rubric: Rubric, model: str) -> Verdict:
    try:
        said = _model(rubric).model_validate(answer)
    except ValidationError as error:
        raise _silence(error) from None
    criteria = []
    for name, kind in rubric.kinds.items():
        part = getattr(said, name)
        criteria.append(Criterion(criterion=name, kind=kind, score=part.score, reason=part.reason))
    clean, reason = _weighed(criteria)
    return Verdict(clean=clean, reason=reason, criteria=tuple(criteria), model=model)


def _weighed(criteria: Sequence[Criterion]) -> tuple[bool, str]:
    """Clean is: all hard criteria hold and the principles, if any, score `PRINCIPLES_KEPT` on average."""
    broken = [c for c in criteria if c.kind == "hard" and not c.score]
    if broken:
        return False, "; ".join(f"{c.criterion}: {c.reason}" for c in broken)
    principles = [c for c in criteria if c.kind == "principle"]
    if not principles:
        return True, "every hard criterion holds"
    mean = fmean(c.score for c in principles)
    if mean >= PRINCIPLES_KEPT:
        return True, f"every hard criterion holds, the principles score {mean:.2f}"
    slips = "; ".join(f"{c.criterion}: {c.reason}" for c in principles if c.score < PRINCIPLES_KEPT)
    return False, f"the principles score {mean:.2f}: {slips}"


def _answer(completion: Completion) -> dict[str, Any]:
    """The JSON object of an answer.

    Raises:
        Silence: there is none.
    """
    if completion.refusal or completion.finish_reason == "content_filter":
        raise Silence("refused", completion.refusal or "content filter")
    if completion.finish_reason == "length":
        raise Silence("cut off", "at max_tokens")
    text = (completion.message.content or "").strip()
    if not text:
        raise Silence("empty", "no text")
    fenced = _FENCED.match(text)
    text = fenced.group(1) if fenced else text
    try:
        json.loads(text, object_pairs_hook=_each_key_once)
        value = decode_json(text)
    except (ValueError, RecursionError) as error:
        raise Silence("unparsable", str(error)) from None
    if not isinstance(value, dict):
        raise Silence("unparsable", "not a JSON object")
    return value


def _each_key_once(pairs: Sequence[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Silence("doubled", twice)


_CAUSES: dict[str, NoVerdict] = {
    "missing": "missing",
    "string_too_short": "missing",
    "greater_than_equal": "out of range",
    "less_than_equal": "out of range",
}
"""Pydantic's error types that are a cause of their own; a reason without a word is a missing one."""


def _silence(error: ValidationError) -> Silence:
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return Silence(_CAUSES.get(first["type"], "unparsable"), f"{where}: {first['msg']}")


def _criteria_schema(rubric: Rubric) -> dict[str, Any]:
    text = {"type": "string"}
    # The reason first: a verdict written before its reason is not drawn from it.
    hard = _object({"reason": text, "holds": {"type": "boolean"}})
    principle = _object({"reason": text, "score": {"type": "number"}})
    return _object({name: hard if kind == "hard" else principle for name, kind in rubric.kinds.items()})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A strict schema: several servers refuse one that leaves a property out or open."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}}
