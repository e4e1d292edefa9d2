"""Shards by one process or several: the same files, whatever dies on the way."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.example import BASE, DAY, DOCUMENT, ROOT, TOOLS, scenarios
from while_pipeline.agents.callable_agent import CallableAgent
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.records import Message
from while_pipeline.simulate import workers
from while_pipeline.simulate.drive import AgentDown
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.simulate.shards import (
    SHARD,
    Frames,
    Manifest,
    Player,
    Shard,
    ShardFile,
    Terms,
    cut,
    rollout_tables,
)
from while_pipeline.simulate.workers import (
    POOL_FROM,
    SERVED_SHARD,
    Site,
    WorkerDied,
    cast_of,
    finish_shards,
    processes_for,
    progress,
)
from while_pipeline.tables import simulate
from while_pipeline.tables.base import polars_schema
from while_pipeline.tools import Tool

TERMS = Terms(
    day=DAY,
    tools=tuple(tool.model_dump() for tool in TOOLS),
    policy_document=DOCUMENT.text,
    policy_version=BASE.version,
    seed=5,
    k=4,
    first=4,
)
WRITTEN = pl.DataFrame([scenario_row(one) for one in scenarios(12)])
UNPROBED = pl.DataFrame(schema=polars_schema(simulate.Probes))
EMBEDDED = partial(EmbeddedAgent, BASE)


def night(size: int) -> list[Shard]:
    return list(cut(TERMS, WRITTEN, UNPROBED, size))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def no_agent() -> EmbeddedAgent:
    raise AssertionError("an agent was made to play what is finished")


def test_finished_shards_are_never_played_again(tmp_path: Path) -> None:
    first = list(finish_shards(Site(TERMS, EMBEDDED, tmp_path), night(16)))
    assert [file.rows for one in first for file in one.files if "rollouts" in file.name] == [16, 16, 16]
    assert list(finish_shards(Site(TERMS, no_agent, tmp_path), iter(night(16)))) == first


def test_a_shard_that_is_not_whole_is_played_again(tmp_path: Path) -> None:
    (first, *_) = finish_shards(Site(TERMS, EMBEDDED, tmp_path), night(16))
    before = bytes_of(tmp_path)
    (tmp_path / first.files[0].name).write_bytes(b"PAR1")
    list(finish_shards(Site(TERMS, EMBEDDED, tmp_path), night(16)))
    assert bytes_of(tmp_path) == before


def killed_once(player: Player, shard: Shard, *, scene: Path) -> Frames:
    """The third shard kills its process the first time that it is played."""
    if shard.scenarios["scenario_id"][0] == WRITTEN["scenario_id"][4] and not scene.exists():
        scene.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return rollout_tables(player, shard)


@pytest.mark.slow
def test_two_processes_one_killed_on_the_way_write_what_one_process_writes(tmp_path: Path) -> None:
    made = night(8)
    alone, together, scene = tmp_path / "alone", tmp_path / "together", tmp_path / "scene"
    expected = list(finish_shards(Site(TERMS, EMBEDDED, alone), made))
    finished = list(finish_shards(Site(TERMS, EMBEDDED, together), made[:1]))
    (before,) = {path.stat().st_mtime_ns for path in together.glob("*.json")}
    site = Site(TERMS, EMBEDDED, together, partial(killed_once, scene=scene))
    assert list(finish_shards(site, iter(made), processes=2)) == expected
    assert scene.exists()
    assert bytes_of(together) == bytes_of(alone)
    kept = (together / f"{finished[0].key}.json").stat().st_mtime_ns
    assert kept == before, "a finished shard was played again"


def killed_always(player: Player, shard: Shard) -> Frames:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


@pytest.mark.slow
def test_a_shard_that_kills_every_process_ends_the_night_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "DEATHS", 1)
    made = night(1000)
    with pytest.raises(WorkerDied, match=f"died 1 times over shard {made[0].key}"):
        list(finish_shards(Site(TERMS, EMBEDDED, tmp_path, killed_always), made, processes=2))


class Down:
    """An agent that never answers."""

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        raise AgentError("no weights loaded")


@pytest.mark.slow
def test_an_agent_that_is_down_ends_the_night_from_another_process_too(tmp_path: Path) -> None:
    made = night(16)
    for processes in (1, 2):
        with pytest.raises(AgentDown, match="no weights loaded"):
            list(finish_shards(Site(TERMS, Down, tmp_path), made, processes))
    assert not list(tmp_path.glob("*.json"))


def sleeps(player: Player, shard: Shard) -> Frames:
    (Path(os.environ["SCENE"]) / str(os.getpid())).touch()
    time.sleep(600)
    raise AssertionError("unreachable")


ORPHANS = """
import sys
from pathlib import Path
from tests.simulate import test_workers as t
if __name__ == "__main__":
    made = t.night(8)
    list(t.finish_shards(t.Site(t.TERMS, t.EMBEDDED, Path(sys.argv[1]), t.sleeps), made, 2))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks processes up in /proc")
def test_processes_leave_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    night = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, str(tmp_path / "shards")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SCENE": str(tmp_path)},
    )
    deadline = time.monotonic() + 120
    while len(started := [p.name for p in tmp_path.iterdir() if p.name.isdigit()]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    night.kill()
    night.wait()
    while any(Path("/proc", pid).exists() for pid in started):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_few_rollouts_get_one_process_and_many_get_what_was_asked_for() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert processes_for(POOL_FROM - 1, 8) == processes_for(0, None) == 1
    assert processes_for(10**6, 8) == 8
    assert processes_for(10**6, None) == cores
    assert processes_for(POOL_FROM, 1000) == math.ceil(POOL_FROM / SHARD), "none has nothing to do"


def test_only_the_embedded_agent_is_made_anew_elsewhere() -> None:
    make, processes, size = cast_of(EMBEDDED(), 10**6, 3)
    made = make()
    assert isinstance(made, EmbeddedAgent)
    assert made.weights == BASE
    assert (processes, size) == (3, SHARD)
    own = CallableAgent(lambda _messages, _tools: "Hi.")
    make, processes, size = cast_of(own, 10**6, 3)
    assert make() is own
    assert (processes, size) == (1, SERVED_SHARD)


def test_progress_says_what_is_done_how_fast_and_what_is_left() -> None:
    files = tuple(
        ShardFile(table=f"simulate.{name}", name=name, sha256="", rows=n)
        for name, n in [("rollouts", 1500), ("steps", 9)]
    )
    made = [Manifest(key=str(i), files=files) for i in range(2)]
    assert progress(made, 8, 10.0) == "3,000 rollouts in 2 of 8 shards, 300 a second, 30 s left"
    assert progress(made, 2, 0.0).endswith("0 s left")
