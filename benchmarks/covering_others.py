"""The other covering array generators, each with its own defaults.

Run by `covering.py` in an environment that has them; nothing of this project is imported. Reads a list of
grids from stdin (a grid is a list of axes, an axis a list of distinct values) and writes, per package, its
version and for each grid its rows and CPU seconds. JSON both ways.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

from allpairspy import AllPairs
from covertable import make

Grid = list[list[str]]

PACKAGES: dict[str, Callable[[Grid], list[list[str]]]] = {
    "allpairspy": lambda grid: [list(row) for row in AllPairs(grid)],
    "covertable": lambda grid: [list(row) for row in make(grid)],
}


def main() -> None:
    """Answer stdin on stdout."""
    grids: list[Grid] = json.load(sys.stdin)
    answer = {}
    for package, plan in PACKAGES.items():
        arrays = []
        for grid in grids:
            start = time.process_time()
            rows = plan(grid)
            arrays.append({"rows": rows, "seconds": time.process_time() - start})
        answer[package] = {"version": version(package), "arrays": arrays}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
