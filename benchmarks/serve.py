"""Requests a second of `while-pipeline serve`, and whether its traffic has all: python benchmarks/serve.py.

The requests are those of real conversations of the shipped example, every turn with its whole history and
all tools, each with its seed. The server is a process of its own on this machine, as started from the command
line; the client another. Each answer is held against what the policy says in process. A bare HTTP client
shows what the server can do; the `openai` client, what its callers get from one process of theirs.
"""

import argparse
import asyncio
import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import numpy as np
import openai

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.ids import seed_of
from while_pipeline.messages import from_openai, messages_json, to_openai
from while_pipeline.project import REPOSITORY, load_project
from while_pipeline.records import Message
from while_pipeline.serve.request import read_request
from while_pipeline.serve.traffic import FLUSH_S
from while_pipeline.simulate.axes import grid_of
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.plan import plan
from while_pipeline.simulate.rollout import system_message
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.watch.otlp import spans

PROJECT = load_project(REPOSITORY / "examples" / "telecom")
WEIGHTS = base_weights()
SYSTEM = system_message(PROJECT.policy_document)
TOOLS = [tool.openai() for tool in PROJECT.tools]
AT_ONCE = (1, 8, 64)


@dataclass(frozen=True)
class Turn:
    """One request, and the answer in process."""

    body: bytes
    answer: Message


@dataclass(frozen=True)
class Measured:
    """One client's run."""

    client: str
    at_once: int
    seconds: float
    each_s: Sequence[float]
    """Seconds from each request to its answer."""

    def row(self, server_s: float) -> str:
        """A row of the table; `server_s` is the CPU time that the server took."""
        middle, slow = np.quantile(self.each_s, [0.5, 0.99]) * 1000
        n = len(self.each_s)
        rate = f"{n / self.seconds:,.0f}"
        each = f"{middle:.1f} | {slow:.1f} | {server_s / n * 1000:.2f}"
        return f"| {self.client} | {self.at_once} | {n:,} | {rate} | {each} |"


def turns(conversations: int) -> list[Turn]:
    """Every request of as many conversations."""
    agent, made = EmbeddedAgent(WEIGHTS), list[Turn]()
    grid = grid_of(PROJECT.tools, PROJECT.policy_document, PROJECT.settings.seed)
    writer = ScenarioWriter(PROJECT.tools, PROJECT.policy_document)
    cells = plan(grid, [])[1]
    scenarios = (writer.write(cell, n) for n, cell in enumerate(cells[:conversations]))
    rollouts = play(
        scenarios, agent, PROJECT.tools, PROJECT.policy_document,
        samples=range(1), seed=1, policy_version=WEIGHTS.version,
    )  # fmt: skip
    for rollout in rollouts:
        messages = [SYSTEM, *rollout.messages]
        for i in (i for i, message in enumerate(messages) if message.role == "assistant"):
            seed = seed_of(rollout.rollout_id, i) & 0x7FFFFFFF
            body = {
                "model": WEIGHTS.version,
                "messages": [to_openai(m) for m in messages[:i]],
                "tools": TOOLS,
                "seed": seed,
            }
            answer = agent.respond(messages[:i], PROJECT.tools, seed).message
            made.append(Turn(json.dumps(body, ensure_ascii=False).encode(), answer))
    return made


@contextmanager
def served(traffic: Path) -> Iterator[tuple[str, int]]:
    """A server process; gives its base URL and its number."""
    command = [sys.executable, "-c", "from while_pipeline.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "serve", "--port", "0", "--policy", WEIGHTS.version, "--traffic", str(traffic)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+/v1", process.stdout.readline())
        if found is None:
            raise SystemExit("the server did not start")
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has taken, as Linux counts them; NaN elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def bare(base_url: str, requests: Sequence[Turn], at_once: int) -> Measured:
    """As many kept connections, each asking again as soon as it was answered."""
    parts, left, took = urlsplit(base_url), iter(requests), list[float]()
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: "

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for turn in left:
            began = time.perf_counter()
            writer.write(f"{head}{len(turn.body)}\r\n\r\n".encode() + turn.body)
            status, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            size = next(int(line.partition(":")[2]) for line in headers if line.startswith("content-length:"))
            text = await reader.readexactly(size)
            took.append(time.perf_counter() - began)
            check(turn, json.loads(text)["choices"][0]["message"] if " 200 " in status else text.decode())
        writer.close()
        await writer.wait_closed()

    start = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(at_once)))
    return Measured("bare HTTP", at_once, time.perf_counter() - start, took)


async def official(base_url: str, requests: Sequence[Turn], at_once: int) -> Measured:
    """The `openai` client."""
    left, took = iter(requests), list[float]()

    async def caller(client: openai.AsyncOpenAI) -> None:
        for turn in left:
            body = json.loads(turn.body)
            began = time.perf_counter()
            answer = await client.chat.completions.create(**body)
            took.append(time.perf_counter() - began)
            check(turn, answer.choices[0].message.to_dict())

    async with openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client:
        start = time.perf_counter()
        await asyncio.gather(*(caller(client) for _ in range(at_once)))
        return Measured("openai", at_once, time.perf_counter() - start, took)


def check(turn: Turn, message: object) -> None:
    """Stop at an answer that is not the policy's own."""
    if not isinstance(message, dict) or from_openai(message) != turn.answer:
        raise SystemExit(f"answered {message!r}, and in process {messages_json([turn.answer])}")


def in_process(requests: Sequence[Turn]) -> str:
    """Row of the policy alone, and with the reading of its requests."""
    agent, start = EmbeddedAgent(WEIGHTS), time.perf_counter()
    for turn in requests:
        asked = read_request(turn.body)
        agent.respond(asked.messages, asked.toolset.tools, asked.seed)
    seconds = time.perf_counter() - start
    n = len(requests)
    rate, each = f"{n / seconds:,.0f}", f"{seconds / n * 1000:.1f}"
    return f"| none: read and answered in process | 1 | {n:,} | {rate} | {each} |  |  |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--conversations", type=int, default=150)
    requests = turns(parser.parse_args().conversations)
    size = sum(len(turn.body) for turn in requests) / len(requests)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; {len(requests):,} requests of {size / 1000:.1f} kB\n"
    )
    print("| client | at once | requests | a second | ms, median | ms, 99 % | server CPU, ms each |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(in_process(requests))
    asked = 0
    with TemporaryDirectory() as folder:
        with served(Path(folder)) as (base_url, pid):
            asyncio.run(bare(base_url, requests[:100], 4))  # the first requests compile the lexicon
            asked += len(requests[:100])
            for client in (bare, official):
                for at_once in AT_ONCE:
                    before = cpu_s(pid)
                    measured = asyncio.run(client(base_url, requests, at_once))
                    time.sleep(2 * FLUSH_S)  # until the traffic is written, which counts as well
                    print(measured.row(cpu_s(pid) - before), flush=True)
                    asked += len(requests)
        lines = [line for path in Path(folder).rglob("*.jsonl") for line in path.read_text().splitlines()]
    kept = {span.span_id for n, line in enumerate(lines) for span in spans(json.loads(line), "", n)[0]}
    print(f"\n{asked:,} answers, {len(kept):,} spans in the traffic; every answer is the policy's own.")


if __name__ == "__main__":
    main()
