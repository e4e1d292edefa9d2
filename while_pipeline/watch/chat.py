"""Chat logs in the OpenAI form: one JSON object per conversation, with `messages`.

What belongs here: reading that object. What does not: opening files and splitting them into objects (`read`).
"""

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from while_pipeline.ids import content_id
from while_pipeline.messages import from_openai, messages_json
from while_pipeline.records import Conversation, Message

DIALECT = "openai_chat"

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_IDS = ("conversation_id", "session_id", "thread_id", "id")
_CLOCKS = ("created", "created_at", "timestamp", "started_at")


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a conversation in this form."""
    return isinstance(record.get("messages"), list)


def read(record: Mapping[str, Any], source: str, dated: Callable[[int | None], str]) -> Conversation:
    """Read one conversation.

    Id, clock, model, agent name, task, trial and reward are looked for in the object, then in its `metadata`.
    Without an id of its own, the conversation's id is the content id of its messages and its clock. A reward
    outside [0, 1] is no reward.

    Args:
        record: The JSON object.
        source: Name of its file, for the record.
        dated: Gives the day of a time in Unix nanoseconds, or of no time.

    Raises:
        ValueError: no message could be read, or the conversation has no day.
    """
    messages, incomplete = read_messages(record["messages"])
    metadata = record.get("metadata")
    known = {**(metadata if isinstance(metadata, dict) else {}), **record}
    clocks = [time_ns(known[name]) for name in _CLOCKS if known.get(name) is not None]
    started = clocks[0] if clocks else None
    own = next((str(known[name]) for name in _IDS if isinstance(known.get(name), str | int)), None)
    return Conversation(
        conversation_id=own or content_id(messages_json(messages), started),
        day=dated(started),
        source=source,
        dialect=DIALECT,
        messages=messages,
        model=_text(known.get("model")),
        agent_name=_text(known.get("agent_name")),
        started_at_ns=started,
        task=_text(known.get("task", known.get("task_id"))),
        trial=known["trial"] if isinstance(known.get("trial"), int) else None,
        reward=reward(known.get("reward")),
        incomplete=incomplete,
    )


def read_messages(values: Any) -> tuple[tuple[Message, ...], str | None]:
    """Read a list of messages, leaving out those that cannot be read.

    Returns:
        The messages, and which were left out and why (None when none was).

    Raises:
        ValueError: nothing could be read.
    """
    if not isinstance(values, list):
        raise ValueError("messages is not a list")
    messages: list[Message] = []
    problems: list[str] = []
    for number, value in enumerate(values, start=1):
        try:
            if not isinstance(value, dict):
                raise ValueError("not an object")
            messages.append(from_openai(value))
        except ValueError as error:
            problems.append(f"message {number}: {error}")
    if not messages:
        raise ValueError("; ".join(problems[:3]) or "no messages")
    return tuple(messages), "; ".join(problems) or None


def reward(value: Any) -> float | None:
    """A reward in [0, 1] as a float, None for anything else."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def time_ns(value: Any) -> int:
    """Unix nanoseconds of a clock value, exact.

    A number is seconds, milliseconds, microseconds or nanoseconds, told apart by its size (from 1973 on they
    do not overlap); text is a number or ISO 8601, UTC when it names no zone.

    Raises:
        ValueError: it is none of these.
    """
    # Python reads the first eight of any digits as a date; only eight of them are one.
    if isinstance(value, str) and (len(value) == 8 or not value.replace(".", "", 1).isdecimal()):
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value[:40]!r} is not a time") from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{str(value)[:40]!r} is not a time")
    number = Decimal(str(value))
    for limit, scale in ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3)):
        if abs(number) < limit:
            return int(number * scale)
    return int(number)


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None
