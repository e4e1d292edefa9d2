"""Spans to conversations: groups of spans, their threads, and what the tool spans add.

What belongs here: which spans may be joined, and the finished record. Trace ids never decide alone: some
agents use one trace for a whole session, others a new one per request.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from while_pipeline.ids import content_id
from while_pipeline.messages import messages_json, steps
from while_pipeline.records import EXCERPT, Conversation, Message, Reject, ToolCall
from while_pipeline.watch.genai import (
    DIALECT,
    ToolRun,
    agent_name,
    conversation_key,
    exchange,
    model_name,
    operation,
    tool_run,
)
from while_pipeline.watch.otlp import Span
from while_pipeline.watch.weave import Thread, weave

_SpansById = dict[tuple[str, str], Span]
_SpansByKind = dict[str, list[Span]]


def conversations(
    spans: Iterable[Span], dated: Callable[[int | None], str]
) -> tuple[list[Conversation], list[Reject]]:
    """Make conversations of spans.

    Spans with the same conversation or session id are one conversation, whatever file they are in; a history
    inside it that does not belong to the first (a sub-agent's) is a conversation of its own, named
    `id/content id`. Spans without such an id join when one's history extends another's, within a file; their
    conversation is named by its content and start.

    Args:
        spans: All spans read, in any order.
        dated: Gives the day of a time in Unix nanoseconds, or of no time; ValueError when there is no day.

    Returns:
        The conversations, and a reject per group of spans whose messages are missing or that has no day.
    """
    ordered = sorted(_once(spans), key=_clock)
    by_id = {(span.trace_id, span.span_id): span for span in ordered}
    made: list[Conversation] = []
    rejects: list[Reject] = []
    groups = _groups(ordered, by_id)
    for (key, _), kinds in groups.items():
        try:
            more, silent = _conversations(key, kinds, by_id, dated)
            made += more
            if silent:
                rejects.append(_reject(silent, "model spans carry no messages"))
        except ValueError as error:
            rejects.append(_reject([span for held in kinds.values() for span in held], str(error)))
    silent_sources = {span.source for span in ordered} - {
        span.source for kinds in groups.values() for held in kinds.values() for span in held
    }
    for source in sorted(silent_sources):
        held = [span for span in ordered if span.source == source]
        rejects.append(_reject(held, "none is a model, agent or tool span in a form that is read"))
    return made, rejects


def _once(spans: Iterable[Span]) -> list[Span]:
    """Exporters send a batch again when its answer was lost: each span counts once."""
    seen: dict[tuple[str, str, int | None], Span] = {}
    for span in spans:
        seen.setdefault((span.trace_id, span.span_id, span.start_ns), span)
    return list(seen.values())


def _clock(span: Span) -> tuple[int, int, str]:
    # Of two spans that start together the longer one is the outer one, and comes first.
    return span.start_ns or 0, -(span.end_ns or 0), span.span_id


def _reject(spans: Sequence[Span], reason: str) -> Reject:
    first = spans[0]
    return Reject(
        source=first.source,
        line=first.line,
        reason=f"{len(spans)} spans: {reason}",
        excerpt=first.name[:EXCERPT],
    )


def _groups(ordered: Sequence[Span], by_id: _SpansById) -> dict[tuple[str | None, str], _SpansByKind]:
    """Model, agent and tool spans by conversation id, or by file where they have none."""
    keys_of_trace: dict[str, set[str]] = defaultdict(set)
    for span in ordered:
        if (key := conversation_key(span)) is not None:
            keys_of_trace[span.trace_id].add(key)
    groups: dict[tuple[str | None, str], _SpansByKind] = {}
    for span in ordered:
        if (kind := operation(span)) is None:
            continue
        of_trace = keys_of_trace[span.trace_id]
        key = _inherited(span, by_id, conversation_key) or (min(of_trace) if len(of_trace) == 1 else None)
        groups.setdefault((key, "" if key is not None else span.source), defaultdict(list))[kind].append(span)
    return groups


def _inherited(span: Span, by_id: _SpansById, read: Callable[[Span], str | None]) -> str | None:
    """What `read` gives for the span or its nearest ancestor that has it."""
    current: Span | None = span
    seen: set[str] = set()
    while current is not None and current.span_id not in seen:
        if (value := read(current)) is not None:
            return value
        seen.add(current.span_id)
        current = by_id.get((current.trace_id, current.parent_id))
    return None


def _conversations(
    key: str | None, kinds: _SpansByKind, by_id: _SpansById, dated: Callable[[int | None], str]
) -> tuple[list[Conversation], list[Span]]:
    """The conversations of a group, and the model spans whose messages are in none of them."""
    read = [(span, exchange(span)) for span in kinds["model"]]
    exchanges = [made for _, made in read if made is not None]
    if not exchanges:
        # An agent span holds the first question and the last answer only, so it is the second choice.
        exchanges = [made for made in map(exchange, kinds["agent"]) if made is not None]
    if not exchanges:
        raise ValueError("no messages: content capture is off, or the content is in a form that is not read")
    threads = weave(exchanges, keyed=key is not None)
    silent = [span for span, made in read if made is None]
    if key is not None:
        # An earlier request without messages is made good by a later one that resends them.
        last = threads[0].spans[-1]
        silent = [span for span in silent if (span.start_ns or 0) > (last.end_ns or 0)]
    runs = [run for run in map(tool_run, kinds["tool"]) if run is not None]
    joined = []
    for thread in threads:
        traces = {span.trace_id for span in thread.spans}
        near = [run for run in runs if key is not None or run.span.trace_id in traces]
        messages, bound = _with_results([*thread.system, *thread.dialogue], near)
        runs = [run for run in runs if run not in bound]
        problems = [problem for problem in (thread.problem, *(run.problem for run in bound)) if problem]
        joined.append((thread, traces, messages, problems))
    made = []
    for position, (thread, traces, messages, problems) in enumerate(joined):
        unbound = [run for run in runs if key is not None or run.span.trace_id in traces]
        runs = [run for run in runs if run not in unbound]
        if unbound:
            problems.append(f"{len(unbound)} tool spans match no call in the messages")
        made.append(_conversation(key, position, thread, messages, problems, by_id, dated))
    return made, silent


def _conversation(
    key: str | None,
    position: int,
    thread: Thread,
    messages: Sequence[Message],
    problems: Sequence[str],
    by_id: _SpansById,
    dated: Callable[[int | None], str],
) -> Conversation:
    starts = [span.start_ns for span in thread.spans if span.start_ns is not None]
    ends = [span.end_ns for span in thread.spans if span.end_ns is not None]
    started, last = min(starts, default=None), thread.spans[-1]
    identity = content_id(messages_json(messages), started)
    if key is not None:
        identity = key if position == 0 else f"{key}/{identity}"
    return Conversation(
        conversation_id=identity,
        day=dated(started),
        source=thread.spans[0].source,
        dialect=DIALECT,
        messages=tuple(messages),
        model=model_name(last),
        agent_name=_inherited(last, by_id, agent_name),
        started_at_ns=started,
        ended_at_ns=max(ends, default=None),
        incomplete="; ".join(dict.fromkeys(problems)) or None,
    )


def _with_results(
    messages: Sequence[Message], runs: Sequence[ToolRun]
) -> tuple[list[Message], list[ToolRun]]:
    """Add the results that only tool spans have, each after its turn.

    Returns:
        All messages, and the runs whose calls are among them.
    """
    left = list(runs)
    bound: list[ToolRun] = []
    added: dict[int, list[Message]] = defaultdict(list)
    for step in steps(messages):
        run = next((run for run in left if _same_call(step.call, run.call)), None)
        if run is None:
            continue
        left.remove(run)
        bound.append(run)
        if step.result is None and run.result is not None:
            call_id = step.call.id or None
            added[step.turn].append(Message(role="tool", content=run.result, tool_call_id=call_id))
    whole: list[Message] = []
    waiting: list[Message] = []
    for index, message in enumerate(messages):
        if message.role != "tool":
            whole += waiting
            waiting = []
        whole.append(message)
        waiting += added[index]
    return whole + waiting, bound


def _same_call(asked: ToolCall, run: ToolCall) -> bool:
    """By id where both have one, else by name and arguments together; by name alone never."""
    if asked.name != run.name:
        return False
    if asked.id and run.id:
        return asked.id == run.id
    return asked.arguments is not None and asked.arguments == run.arguments
