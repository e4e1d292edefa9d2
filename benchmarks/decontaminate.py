"""Keeping sealed prompts out of training, beside whileai on the same prompts.

    python benchmarks/decontaminate.py --python OTHER_VENV/bin/python

Training and sealed prompts are written by the pipeline's own writer for the example, from different seeds; a
hundred of the training ones are long sealed ones with the last word changed, so that there is something to
find. whileai answers in its own environment (`pip install whileai`), through `decontaminate_peer.py`, in
growing sizes and no further than what would take it over `--limit` seconds if its time grew no faster than
the prompts. Writing the prompts is not counted, indexing the sealed ones is. Seconds are of CPU: neither side
has threads.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from while_pipeline.project import REPOSITORY, Project, load_project
from while_pipeline.simulate.axes import grid_of, situation
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.train.decontaminate import GRAM, SealedPrompts

EXAMPLE = REPOSITORY / "examples" / "telecom"
SIZES = (1_000, 10_000, 100_000)
SEALED = (120, 1_000, 10_000)
"""A night's default, and what a hundred nights would seal."""
PLANTED = 100
BAR = 10.0
"""Seconds that ours may take for the largest size."""
ALIKE_WORDS, ALIKE_SEALED, ALIKE_PROMPTS = 30, 10_000, 20_000
"""The hard case: every prompt and every sealed one begin with the same words."""
BOILERPLATE_WORDS, PART_WORDS, PARTS, VOCABULARY = 60, 14, 20, 3_000
"""Prompts of a form: the same words in all, then one of a few parts, then a customer's own words."""


class Answer(NamedTuple):
    """Copies that one side found, and the seconds it took."""

    found: int
    seconds: float


def prompts(project: Project, count: int, seed: int) -> list[str]:
    """Openings of random situations of the example."""
    writer = ScenarioWriter(project.tools, project.policy_document)
    grid, rng, made = (
        grid_of(project.tools, project.policy_document, project.settings.seed),
        random.Random(seed),
        list[str](),
    )
    while len(made) < count:
        row = [rng.choice(values) for values in grid.axes.values()]
        if grid.allowed(row):
            made.append(writer.write(situation(row), rng.getrandbits(32)).script.opening)
    return made


def with_copies(training: Sequence[str], sealed: Sequence[str]) -> list[str]:
    """The training prompts, the first of them sealed ones of 30 words and more with the last word changed."""
    long = [text for text in sealed if len(text.split()) >= 4 * GRAM - 2]
    copies = [f"{text.rsplit(maxsplit=1)[0]} instead" for text in long[:PLANTED]]
    return [*copies, *training[len(copies) :]]


def ours(training: Sequence[str], sealed: Sequence[str]) -> Answer:
    """Index the sealed prompts and look every training prompt up."""
    start = time.process_time()
    index = SealedPrompts({f"sealed-{number:06}": text for number, text in enumerate(sealed)})
    found = sum(index.copied(text) is not None for text in training)
    return Answer(found, time.process_time() - start)


def alike(extra: int) -> Answer:
    """Prompts and sealed prompts that share their first words and end in `extra` words of their own."""
    rng, shared = random.Random(extra), " ".join(f"w{number}" for number in range(ALIKE_WORDS))

    def made(count: int, letter: str) -> list[str]:
        ends = [" ".join(f"{letter}{rng.randrange(10**6)}" for _ in range(extra)) for _ in range(count)]
        return [f"{shared} {end}" for end in ends]

    return ours(made(ALIKE_PROMPTS, "p"), made(ALIKE_SEALED, "s"))


def boilerplate(own: int, looked_up: int, sealed: int) -> Answer:
    """Prompts and sealed prompts of one form that end in `own` words of their own."""
    rng = random.Random(own)
    shared, *parts = (_words(rng, size) for size in (BOILERPLATE_WORDS, *[PART_WORDS] * PARTS))

    def made(count: int) -> list[str]:
        return [f"{shared} {rng.choice(parts)} {_words(rng, own)}" for _ in range(count)]

    return ours(made(looked_up), made(sealed))


def _words(rng: random.Random, count: int) -> str:
    return " ".join(f"w{rng.randrange(VOCABULARY)}" for _ in range(count))


class Peer:
    """whileai in its own environment."""

    def __init__(self, python: str, limit: float) -> None:
        self._python, self._limit = python, limit
        self.version = self._ask(ask="release")

    def largest(self, training: Sequence[str], sealed: Sequence[str]) -> tuple[int, Answer]:
        """Its answer at the largest size that the limit lets it reach."""
        for size, following in zip(SIZES, (*SIZES[1:], None), strict=True):
            with tempfile.TemporaryDirectory() as folder:
                files = {"training": training[:size], "sealed": sealed}
                for name, texts in files.items():
                    Path(folder, name).write_text(json.dumps(texts), "utf-8")
                answer = Answer(**self._ask(ask="decontaminate", folder=folder))
            if following is None or answer.seconds * following / size > self._limit:
                break
        return size, answer

    def _ask(self, **job: Any) -> Any:
        script = Path(__file__).with_name("decontaminate_peer.py")
        ran = subprocess.run(
            [self._python, str(script)], input=json.dumps(job), capture_output=True, text=True, check=False
        )
        if ran.returncode:
            sys.exit(f"{script.name} failed in {self._python}:\n{ran.stderr}")
        return json.loads(ran.stdout)


def _line(training: Sequence[str], sealed: Sequence[str], peer: Peer) -> str:
    mixed = with_copies(training, sealed)
    answers = {size: ours(mixed[:size], sealed) for size in SIZES}
    reached, theirs = peer.largest(mixed, sealed)
    largest = SIZES[-1]
    short = "" if reached == largest else f" at {reached:,}"
    seconds = " / ".join(f"{answers[size].seconds:.2f}" for size in SIZES)
    return (
        f"| {largest:,} against {len(sealed):,} | {BAR:g} s | {seconds} s | {theirs.seconds:.3g} s{short} "
        f"| {answers[reached].found}, {theirs.found} |"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", required=True, help="a Python with whileai")
    parser.add_argument("--limit", type=float, default=120, help="seconds whileai may take for one answer")
    given = parser.parse_args()
    peer, project = Peer(given.python, given.limit), load_project(EXAMPLE)
    training, sealed = prompts(project, SIZES[-1], 1), prompts(project, SEALED[-1], 2)
    sizes = " / ".join(f"{size:,}" for size in SIZES)
    print(f"| prompts | bar | while_pipeline at {sizes} | whileai {peer.version} | both find there |")
    print("| --- |" + " ---: |" * 4, flush=True)
    for count in SEALED:
        print(_line(training, sealed[:count], peer), flush=True)
    print(f"\n| {ALIKE_WORDS} words alike, then | near copies | {ALIKE_PROMPTS:,} against {ALIKE_SEALED:,} |")
    print("| --- | ---: | ---: |", flush=True)
    for extra in (3, 6, 8, 12, 20):
        found, seconds = alike(extra)
        print(f"| {extra} of its own | {found:,} | {seconds:.2f} s |", flush=True)
    print(f"\n| a form of {BOILERPLATE_WORDS} + {PART_WORDS} words, then | bar | near copies | CPU |")
    print("| --- | ---: | ---: | ---: |", flush=True)
    for own in (3, 14, 22):
        found, seconds = boilerplate(own, SIZES[-1], SEALED[-1])
        what = f"{own} of its own, {SIZES[-1]:,} against {SEALED[-1]:,}"
        print(f"| {what} | {BAR:g} s | {found:,} | {seconds:.2f} s |", flush=True)
    _, seconds = boilerplate(22, 0, SIZES[-1])
    print(
        f"| 22 of its own, {SIZES[-1]:,} sealed, indexing alone | {BAR:g} s | | {seconds:.2f} s |", flush=True
    )
    print(f"\n{os.cpu_count()} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
