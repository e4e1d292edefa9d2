"""How often intervals and verdicts of `prove` are right: python -m benchmarks.calibration.

Simulates every cell of the grid, thirty nights of looking and thirty of promoting, and the rate of one
policy, and writes figures, page and picture to `docs/`. `--show` only makes page and picture anew from the
figures that are there.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

# One thread each: the cells are spread over processes, and small products gain nothing from more.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.calibration import drift, nights, published, rates
from benchmarks.calibration.cells import Effort, grid, simulate
from while_pipeline.project import REPOSITORY

NIGHT_RUNS, PROMOTION_RUNS, RATE_RUNS = 5_000, 2_000, 4_000


def main() -> None:
    """Simulate and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs", help="folder to write to")
    parser.add_argument("--show", action="store_true", help="simulate nothing")
    asked = parser.parse_args()
    if asked.show:
        published.show(asked.out)
    else:
        published.write(asked.out, simulated(asked.processes))


def simulated(processes: int) -> published.Figures:
    """Simulate everything. The figures do not depend on the number of processes."""
    # Spawned: a fork would copy polars' threads, which are not there any more.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        looks = pool.submit(nights.simulate, NIGHT_RUNS)
        promotions = pool.submit(drift.simulate, PROMOTION_RUNS)
        of_one = pool.submit(rates.simulate, RATE_RUNS)
        cells = pool.map(partial(simulate, effort=Effort()), grid(), chunksize=8)
        return published.Figures(
            list(chain.from_iterable(cells)), looks.result(), promotions.result(), of_one.result()
        )


if __name__ == "__main__":
    main()
