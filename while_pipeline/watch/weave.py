"""Requests to threads: each request resends the history, so a conversation shows up many times, each longer.

What belongs here: deciding which requests continue which. Whose spans may be compared at all (same id, same
file) belongs to `threads`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from while_pipeline.ids import canonical_json
from while_pipeline.records import Message
from while_pipeline.watch.genai import Exchange
from while_pipeline.watch.otlp import Span

_Signature = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(eq=False)
class Thread:
    """One conversation while it grows."""

    system: Sequence[Message] = ()
    """The leading system messages of the newest request; they may change under way and decide little."""
    dialogue: list[Message] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    """For each message of `dialogue`, the number of the history that ends with it."""
    spans: list[Span] = field(default_factory=list)
    problem: str | None = None


class _Join(NamedTuple):
    """The thread's first `kept` messages, then the history from `start` on."""

    thread: Thread
    kept: int
    start: int


def weave(exchanges: Iterable[Exchange], keyed: bool) -> list[Thread]:
    """Join requests into threads, in the order the threads began.

    A request continues a thread when its history begins with the whole thread. Call ids are not compared:
    some agents number them anew when they resend. A request seen twice at the same time in one trace (two
    instrumentations of one call) counts once.

    Args:
        exchanges: Requests in order of time; of two that start together, the outer first.
        keyed: They carry the same conversation id. Then a history that was rewritten, shortened at the front,
            cut by a limit or not resent at all continues its thread too.
    """
    weaver = _Weaver()
    for exchange in exchanges:
        weaver.add(exchange, keyed)
    return weaver.threads


class _Weaver:
    def __init__(self) -> None:
        self.threads: list[Thread] = []
        # A trie: number of a history and the next message -> number of the longer history.
        self._numbers: dict[tuple[int, _Signature], int] = {}
        self._ending: dict[int, list[Thread]] = defaultdict(list)
        self._of_trace: dict[str, list[Thread]] = defaultdict(list)

    def add(self, exchange: Exchange, keyed: bool) -> None:
        span, roles = exchange.span, [message.role for message in exchange.history]
        leading = next((i for i, role in enumerate(roles) if role != "system"), len(roles))
        system, history = exchange.history[:leading], exchange.history[leading:]
        path = self._path(0, history)
        whole = path + self._path(path[-1] if path else 0, exchange.output)
        of_trace = self._of_trace[span.trace_id]
        if whole and any(_overlap(t.spans[-1], span) and whole[-1] in t.path for t in of_trace):
            return
        join = self._extension(path, span.trace_id)
        if join is None and keyed:
            join = self._continuation(exchange, system, history, path)
        if join is None:
            join = _Join(Thread(), 0, 0)
            self.threads.append(join.thread)
        thread, kept, start = join
        if thread.path:
            self._ending[thread.path[-1]].remove(thread)
        resent = kept == start
        thread.problem = exchange.problem if resent else exchange.problem or thread.problem
        thread.system = system or thread.system
        thread.dialogue = [*thread.dialogue[:kept], *history[start:], *exchange.output]
        thread.path = whole if resent else self._path(0, thread.dialogue)
        thread.spans.append(span)
        if thread.path:
            self._ending[thread.path[-1]].append(thread)
        if thread not in of_trace:
            of_trace.append(thread)

    def _extension(self, path: Sequence[int], trace_id: str) -> _Join | None:
        """The longest thread that the history begins with, one of the same trace before others."""
        for depth in range(len(path), 0, -1):
            if ending := self._ending.get(path[depth - 1]):
                thread = next((t for t in ending if t.spans[-1].trace_id == trace_id), ending[0])
                return _Join(thread, depth, depth)
        return None

    def _continuation(
        self,
        exchange: Exchange,
        system: Sequence[Message],
        history: Sequence[Message],
        path: Sequence[int],
    ) -> _Join | None:
        """How a history that does not contain the whole thread can still continue it."""
        for thread in reversed(self.threads):
            common, size, kept = _common(thread.path, path), len(path), len(thread.path)
            if exchange.problem and common == size:
                return _Join(thread, kept, size)
            if common > 0 and size >= kept:
                return _Join(thread, common, common)
            same_agent = not system or list(system) == list(thread.system)
            later = (thread.spans[-1].end_ns or 0) <= (exchange.span.start_ns or 0)
            if common == 0 and same_agent and later:
                return _Join(thread, kept, _resent(thread.dialogue, history))
        return None

    def _path(self, start: int, messages: Sequence[Message]) -> list[int]:
        path: list[int] = []
        for message in messages:
            start = self._numbers.setdefault((start, _signature(message)), len(self._numbers) + 1)
            path.append(start)
        return path


def _signature(message: Message) -> _Signature:
    calls = tuple((call.name, call.raw or canonical_json(call.arguments)) for call in message.tool_calls)
    return message.role, message.content or "", calls


def _overlap(one: Span, other: Span) -> bool:
    return (one.start_ns or 0) < (other.end_ns or 0) and (other.start_ns or 0) < (one.end_ns or 0)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _resent(dialogue: Sequence[Message], history: Sequence[Message]) -> int:
    """How many messages at the front of `history` repeat the end of `dialogue`."""
    old, new = [_signature(m) for m in dialogue], [_signature(m) for m in history]
    sizes = range(min(len(old), len(new)), 0, -1)
    return next((size for size in sizes if old[-size:] == new[:size]), 0)
