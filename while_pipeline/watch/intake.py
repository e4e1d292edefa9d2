"""A day's traffic folder as table rows: read, redacted, flattened. Files are read, never changed."""

from dataclasses import dataclass
from typing import Any

from while_pipeline.messages import messages_json, steps
from while_pipeline.project import Project
from while_pipeline.records import Conversation
from while_pipeline.simulate.rows import step_row
from while_pipeline.watch.read import SUFFIXES, read_traffic
from while_pipeline.watch.redact import Redactor


@dataclass(frozen=True)
class Intake:
    """Rows of `watch.conversations`, `watch.steps` and `watch.rejects` for one day."""

    files: int
    conversations: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    notes: list[str]
    """What a person should know: no traffic, conversations that belong to another day."""


def read_day(project: Project, day: str) -> Intake:
    """Read the files of one day's folder.

    A conversation belongs to the day of its folder: that is where a re-run will find it again.
    """
    folder = project.traffic_folder / day
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
    traffic = read_traffic(files, project.traffic_folder, day, project.settings.traffic.timezone)
    redactor = Redactor(project.settings.name) if project.settings.traffic.redact else None
    held = [redactor.conversation(c) if redactor else c for c in traffic.conversations]
    rejects = [redactor.reject(r) if redactor else r for r in traffic.rejects]
    notes = [] if files else [f"no traffic in {folder}: the map of the day is empty"]
    strays = sum(c.day != day for c in held)
    if strays:
        notes.append(
            f"{strays} conversations in {folder} began on another day; they are kept with the folder's day"
        )
    return Intake(
        files=len(files),
        conversations=[_conversation_row(c) for c in held],
        steps=[
            {"conversation_id": c.conversation_id, "call_id": step.call.id, **step_row(step)}
            for c in held
            for step in steps(c.messages)
        ],
        rejects=[r.model_dump() for r in rejects],
        notes=notes,
    )


def _conversation_row(c: Conversation) -> dict[str, Any]:
    columns = c.model_dump(exclude={"messages", "day"})
    calls = sum(len(message.tool_calls) for message in c.messages)
    return {
        **columns,
        "messages": messages_json(c.messages),
        "n_messages": len(c.messages),
        "n_tool_calls": calls,
    }
