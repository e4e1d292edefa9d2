"""Numbers are checked where they enter a statistic, so that no figure comes silently from NaN or infinity.

Only refusals belong here. Each message names the function, the place, the value and what was expected.
"""

import math

import numpy as np
import numpy.typing as npt


def finite(
    function: str, what: str, values: npt.ArrayLike, *, low: float = -math.inf, high: float = math.inf
) -> npt.NDArray[np.float64]:
    """Take numbers in as floats.

    Args:
        function: Who asks, for the message.
        what: What one value is, for the message.
        values: Any shape; a flat position names the place.
        low: Least value allowed.
        high: Largest value allowed.

    Raises:
        ValueError: a value is NaN, infinite or outside `low` to `high`, or is no number.
    """
    numbers = np.asarray(values, dtype=np.float64)
    # NaN fails every comparison, so it is refused by the same test.
    good = np.isfinite(numbers) & (numbers >= low) & (numbers <= high)
    if not good.all():
        place = int(np.flatnonzero(~good)[0])
        expected = "a finite number" if low == -math.inf else _between(low, high)
        raise ValueError(f"{function}: {what} {place} is {numbers.flat[place]:g}, expected {expected}")
    return numbers


def whole(function: str, what: str, values: npt.ArrayLike, *, low: int = 0) -> npt.NDArray[np.float64]:
    """Take counts in: `finite`, and whole numbers of at least `low`.

    Raises:
        ValueError: a value is no whole number from `low` up.
    """
    numbers = finite(function, what, values, low=low)
    broken = np.flatnonzero(numbers != np.rint(numbers))
    if broken.size:
        raise ValueError(
            f"{function}: {what} {broken[0]} is {numbers.flat[broken[0]]:g}, expected a whole number"
        )
    return numbers


def at_least(function: str, what: str, value: float, low: float) -> None:
    """Refuse one number that is NaN, infinite or below `low`.

    Raises:
        ValueError: it is.
    """
    if not low <= value < math.inf:
        raise ValueError(f"{function}: {what} is {value:g}, expected {_between(low, math.inf)}")


def inside(function: str, what: str, value: float, low: float = 0.0, high: float = 1.0) -> None:
    """Refuse one number that is not strictly between two others: a level, an alpha, a power.

    Raises:
        ValueError: it is not.
    """
    if not low < value < high:
        raise ValueError(f"{function}: {what} is {value:g}, expected a number between {low:g} and {high:g}")


def _between(low: float, high: float) -> str:
    return f"a number of at least {low:g}" if high == math.inf else f"a number from {low:g} to {high:g}"
