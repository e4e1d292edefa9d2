"""What `peer.py` asks of whileai, answered by its public calls in its own environment.

Reads one job from stdin and writes its answer to stdout, JSON both ways. A job names one of the functions
below and its arguments; `tools` are OpenAI tool definitions, `policy` the text of the policy document.
Nothing of this project is imported. Everything runs offline: its template writer, its seeded agent, its mock
world, its conduct rules as the grader.
"""

import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import whileai
from whileai.simulations import MockEnvironment

SUCCESS = {"ok", "created", "deleted"}


def simulate(job: dict[str, Any], **options: Any) -> Any:
    """One offline run with the job's tools and policy document."""
    agent = whileai.seeded_agent(job["tools"])
    return whileai.simulate(
        agent,
        tools=job["tools"],
        system_prompt=job["policy"],
        simulator=False,
        on_progress=lambda _: None,
        **options,
    )


def release(_: dict[str, Any]) -> Any:
    """The version that answers."""
    return version("whileai")


def rollouts(job: dict[str, Any]) -> Any:
    """Rows and seconds of one run of `budget` rows, graded and saved; `options` go to the call."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        data = simulate(job, budget=job["budget"], seed=job["seed"], grade="conduct", **job["options"])
        data.save(str(Path(folder) / "rows.jsonl"))
        return {"rows": len(data.rows()), "seconds": time.perf_counter() - start}


def prompts(job: dict[str, Any]) -> Any:
    """Distinct prompts of one run that asks for `budget` situations, and why it stopped."""
    data = simulate(job, budget=job["budget"], seed=job["seed"], unique_situations=True)
    return {
        "prompts": len({row["prompt"] for row in data.rows()}),
        "stopped": data.report()["stopped_because"],
    }


def texts(job: dict[str, Any]) -> Any:
    """Prompts of each stance, every other axis free: what carries the stance among `budget` rows."""
    return {
        stance: [
            row["prompt"]
            for row in simulate(
                job, budget=job["budget"], seed=job["seed"], dimensions={"stance": [stance]}
            ).rows()
            if row["scenario_dimensions"].get("stance") == stance
        ]
        for stance in job["stances"]
    }


def remembers(job: dict[str, Any]) -> Any:
    """Per list of calls: does the last answer differ from the first, in a world where the records exist?"""
    told = []
    for calls in job["calls"]:
        world = MockEnvironment(job["tools"], seed=job["seed"], world_state="entity exists")
        answers = [world.call(name, arguments) for name, arguments in calls]
        told.append(answers[0].get("status") in SUCCESS and answers[0] != answers[-1])
    return told


def retries(job: dict[str, Any]) -> Any:
    """Of first calls that timed out at a fault rate of one half, how many clear within `attempts` calls."""
    name, arguments = job["call"]
    failed = cleared = 0
    for seed in range(job["worlds"]):
        world = MockEnvironment(
            job["tools"],
            seed=seed,
            faults={name: {"mode": "timeout", "rate": 0.5}},
            world_state="entity exists",
        )
        answers = [world.call(name, arguments).get("status") for _ in range(job["attempts"])]
        failed += answers[0] == "timeout"
        cleared += answers[0] == "timeout" and set(answers) != {"timeout"}
    return {"failed": failed, "cleared": cleared}


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {
    job.__name__: job for job in (release, rollouts, prompts, texts, remembers, retries)
}


def main() -> None:
    """Answer one job."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    job = json.load(sys.stdin)
    json.dump(JOBS[job["ask"]](job), sys.stdout)


if __name__ == "__main__":
    main()
