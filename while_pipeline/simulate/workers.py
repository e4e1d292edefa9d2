"""Playing shards on this machine: in this process, or in several that are started anew and may die.

What belongs here: how many processes, what each is given, and what happens when one dies. What a shard is
and what it leaves belongs to `shards`.
"""

import gc
import math
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import Weights
from while_pipeline.agents.protocol import Agent, AsyncAgent
from while_pipeline.simulate.shards import (
    SHARD,
    Frames,
    Manifest,
    Player,
    Shard,
    Terms,
    finished_shard,
    rollout_tables,
    write_shard,
)
from while_pipeline.simulate.user_world import WorldFactory

SERVED_SHARD = 1_000
"""Rollouts per shard of an agent that may take seconds a turn: minutes between two lines of progress."""

POOL_FROM = 30_000
"""Rollouts from which processes pay: at 10,000, starting two took longer than they saved (`benchmarks`)."""

AHEAD = 2
"""Shards handed out per process, so that none waits for its next one."""

DEATHS = 3
"""Workers that may die in a row before a night is given up: chance does not kill three over the same work."""

MakeAgent = Callable[[], Agent | AsyncAgent]


class WorkerDied(Exception):
    """Processes that play shards die again and again."""


@dataclass(frozen=True)
class Site:
    """Where shards are played: what a process needs besides the shards. Picklable when its parts are."""

    terms: Terms
    agent: MakeAgent
    folder: Path
    tables: Callable[[Player, Shard], Frames] = rollout_tables
    """Module-level function that makes a shard's tables."""
    worlds: WorldFactory | None = None
    """What makes the worlds; the mock world by default."""

    @cached_property
    def player(self) -> Player:
        """This process's player."""
        return Player(self.terms, self.agent(), self.worlds)

    def finish(self, shard: Shard) -> Manifest:
        """Play a shard that is not finished; its manifest either way."""
        found = finished_shard(self.folder, shard.key)
        if found is not None:
            return found
        with _without_cycle_search():
            return write_shard(self.folder, shard.key, self.tables(self.player, shard))


@contextmanager
def _without_cycle_search() -> Iterator[None]:
    """Rollouts are freed when they are let go, for they hold no cycles; looking for some costs a tenth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def cast_of(agent: Agent | AsyncAgent, rollouts: int, setting: int | None) -> tuple[MakeAgent, int, int]:
    """How an agent plays a night of `rollouts`: how a process gets it, processes, and rollouts per shard.

    Only the embedded agent is made anew in other processes. An endpoint is asked concurrently from one, and
    what a callable holds, a model or a connection, is in the process that loaded it.
    """
    if type(agent) is not EmbeddedAgent:  # a subclass may hold anything
        return lambda: agent, 1, SERVED_SHARD
    bare = Weights(weights=agent.weights.weights)  # without what they remember
    return partial(EmbeddedAgent, bare), processes_for(rollouts, setting), SHARD


def processes_for(rollouts: int, setting: int | None) -> int:
    """Processes that play `rollouts`: as the setting says, but one when so few do not pay for more.

    None is one per core that this process may use.
    """
    if rollouts < POOL_FROM:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(setting or cores, math.ceil(rollouts / SHARD))


def finish_shards(site: Site, shards: Iterable[Shard], processes: int = 1) -> Iterator[Manifest]:
    """Play all shards that are not finished, and give every manifest in the shards' order.

    One process is this one. More are started anew, without what this one holds, and what they write is the
    same. When one dies, what it played is played again.

    Args:
        site: Where they are played; for several processes it must be picklable.
        shards: Taken as they are needed.
        processes: How many play.

    Raises:
        AgentDown: the agent fails every time.
        WorkerDied: processes died `DEATHS` times without a shard finished in between.
    """
    site.folder.mkdir(parents=True, exist_ok=True)
    if processes == 1:
        yield from map(site.finish, shards)
        return
    source, window, deaths = iter(shards), deque[Shard](), 0
    while True:
        # Forked processes would inherit locks that other threads hold; DuckDB, polars and Dagster have some.
        pool = ProcessPoolExecutor(
            processes, multiprocessing.get_context("spawn"), initializer=_move_in, initargs=(site,)
        )
        try:
            futures = deque[Future[Manifest]](pool.submit(_finish, shard) for shard in window)
            while True:
                for shard in islice(source, AHEAD * processes - len(window)):
                    window.append(shard)
                    futures.append(pool.submit(_finish, shard))
                if not futures:
                    return
                manifest = futures.popleft().result()
                window.popleft()
                deaths = 0
                yield manifest
        except BrokenProcessPool as error:
            deaths += 1
            if deaths == DEATHS:
                raise WorkerDied(
                    f"processes died {DEATHS} times over shard {window[0].key} or one of the "
                    f"{len(window) - 1} after it; what is finished is kept. If memory ran out, play with "
                    f"fewer processes."
                ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def progress(manifests: Sequence[Manifest], shards: int, seconds: float) -> str:
    """A line for the log: what is finished of `shards` after `seconds`, how fast, and what is left."""
    seconds = max(seconds, 1e-9)  # a coarse clock may not have moved
    rows = sum(file.rows for one in manifests for file in one.files if file.table == "simulate.rollouts")
    left = seconds / len(manifests) * (shards - len(manifests))
    return (
        f"{rows:,} rollouts in {len(manifests):,} of {shards:,} shards, "
        f"{rows / seconds:,.0f} a second, {left:,.0f} s left"
    )


_here: Site | None = None
"""Where this process plays, when it is one of several."""


def _move_in(site: Site) -> None:
    global _here
    _here = site
    # An interrupt goes to every process of a terminal; the one that started the others ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A parent that is killed ends nobody; without it nothing that is played here would be used."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _finish(shard: Shard) -> Manifest:
    assert _here is not None, "a worker has moved in before it plays"
    return _here.finish(shard)
