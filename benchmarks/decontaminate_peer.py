"""What `decontaminate.py` asks of whileai, answered by its public call in its own environment.

Reads one job from stdin and writes its answer to stdout, JSON both ways. A job names one of the functions
below; its folder holds the prompts, two JSON lists. Nothing of this project is imported; reading is not
timed.
"""

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import whileai


def release(_: dict[str, Any]) -> Any:
    """The version that answers."""
    return version("whileai")


def decontaminate(job: dict[str, Any]) -> Any:
    """Rows whose prompt copies a sealed one, by its default rules; every row is a task of its own."""
    training, sealed = (
        [{"prompt": text, "task_id": f"{name}-{number}"} for number, text in enumerate(_texts(job, name))]
        for name in ("training", "sealed")
    )
    start = time.process_time()
    _, report = whileai.decontaminate(training, sealed)
    return {"found": report["n_contaminated"], "seconds": time.process_time() - start}


def _texts(job: dict[str, Any], name: str) -> list[str]:
    texts: list[str] = json.loads(Path(job["folder"], name).read_text("utf-8"))
    return texts


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {job.__name__: job for job in (release, decontaminate)}


def main() -> None:
    """Answer one job."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    job = json.load(sys.stdin)
    json.dump(JOBS[job["ask"]](job), sys.stdout)


if __name__ == "__main__":
    main()
