"""Long texts that say nothing, for what reads the words of others: its time may grow with their length only.

No assertion belongs here.
"""

import time
from collections.abc import Callable

LENGTH = 100_000
PATIENCE_S = 3.0
"""Of CPU time. A text of `LENGTH` is read in a tenth of it at most; with its square, many times that."""
SIGNS = (
    "{", "[", '"', "(", "<", ".", "-", "_", "7", " ", "\n", "\\", "[[a", '{"a":', "a ", "A1 ", "a, ", "a; ",
    "a. ", "yes ", "are ", "what is ", "my ",
)  # fmt: skip
"""One sign or word again and again. Not among them is one letter: that is a word, see `test_lexicon`."""


def long(sign: str) -> str:
    """A text of `LENGTH` characters."""
    return sign * (LENGTH // len(sign))


def cpu_seconds(read: Callable[[], object]) -> float:
    """CPU time of this process, which other work on the machine does not lengthen."""
    began = time.process_time()
    read()
    return time.process_time() - began
