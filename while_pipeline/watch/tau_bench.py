"""tau-bench trajectories: an array of `{task_id, reward, info, traj, trial}` objects.

The form is that of the result files of sierra-research/tau-bench. Opening files belongs to `read`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from while_pipeline.ids import content_id
from while_pipeline.messages import messages_json
from while_pipeline.records import Conversation
from while_pipeline.watch.chat import read_messages, reward

DIALECT = "tau_bench"


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a trajectory."""
    return isinstance(record.get("traj"), list) and "task_id" in record


def read(record: Mapping[str, Any], source: str, dated: Callable[[int | None], str]) -> Conversation:
    """Read one trajectory. It has no clock, so its day is the folder's.

    Args:
        record: The JSON object.
        source: Name of its file, for the record.
        dated: Gives the day of a time in Unix nanoseconds, or of no time.

    Raises:
        ValueError: no message could be read, or there is no day.
    """
    messages, incomplete = read_messages(record["traj"])
    task, trial = str(record["task_id"]), record.get("trial")
    trial = trial if isinstance(trial, int) else None
    return Conversation(
        conversation_id=content_id("tau-bench", task, trial, messages_json(messages)),
        day=dated(None),
        source=source,
        dialect=DIALECT,
        messages=messages,
        task=task,
        trial=trial,
        reward=reward(record.get("reward")),
        incomplete=incomplete,
    )
