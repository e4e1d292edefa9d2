"""What `proof.py` asks of whileai, answered by its public calls in its own environment.

Reads one job from stdin and writes its answer to stdout, JSON both ways. A job names one of the functions
below and the files of rows, one JSON object a line.
Nothing of this project is imported; reading is not timed.
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
from whileai.simulations import compare_runs

Rows = list[dict[str, Any]]


def release(_: dict[str, Any]) -> Any:
    """The version that answers."""
    return version("whileai")


def pass_at(job: dict[str, Any]) -> Any:
    """pass@1, pass@k and pass^k at one k, each with its bootstrap interval."""
    [rows] = _rows(job)
    return _timed(lambda: whileai.pass_at(rows, k=job["k"]).pass_at_k)


def sign_flip(job: dict[str, Any]) -> Any:
    """Its quick comparison, the only public call with its sign-flip p: 2,000 patterns, and a bootstrap."""
    before, after = _rows(job)
    return _timed(lambda: compare_runs(before, after)["p_value"])


def delta(job: dict[str, Any]) -> Any:
    """Its report, by category as it does by default."""
    before, after = _rows(job)
    return _timed(lambda: whileai.compare(before, after)["metrics"]["pass_at_1"]["delta"])


def hack(job: dict[str, Any]) -> Any:
    """Its scan of the given features alone. It groups by prompt where we group by task."""
    rows = [{"prompt": row["task_id"], **row} for row in _rows(job)[0]]
    features = {name: _column(name) for name in job["features"]}
    return _timed(
        lambda: whileai.hack_scan(rows, features=features, auto=False, n_perm=job["permutations"])[
            "features"
        ][0]["rho"]
    )


def _rows(job: dict[str, Any]) -> list[Rows]:
    return [[json.loads(line) for line in Path(path).read_text().splitlines()] for path in job["files"]]


def _column(name: str) -> Callable[[dict[str, Any]], float]:
    return lambda row: row[name]


def _timed(call: Callable[[], float]) -> dict[str, float]:
    start = time.perf_counter()
    figure = call()
    return {"figure": figure, "seconds": time.perf_counter() - start}


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {
    job.__name__: job for job in (release, pass_at, sign_flip, delta, hack)
}


def main() -> None:
    """Answer one job."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    job = json.load(sys.stdin)
    json.dump(JOBS[job["ask"]](job), sys.stdout)


if __name__ == "__main__":
    main()
