"""Random numbers that a seed decides, cheap enough to begin anew for every turn of every rollout.

What belongs here: the stream of uniforms a turn draws from. What does not: how seeds are made of content
(`ids`), and the standard library's generator, whose start costs more than a whole turn draws.
"""

from functools import lru_cache

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Uniforms:
    """SplitMix64 (Steele, Lea and Flood 2014, OOPSLA, "Fast splittable pseudorandom number generators")."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        """Begin the stream of `seed`; only its low 64 bits count."""
        self._state = seed & _MASK

    def bits(self) -> int:
        """Draw 64 bits."""
        self._state = state = (self._state + _GAMMA) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def next(self) -> float:
        """Draw a number in [0, 1), a multiple of 2^-53."""
        return (self.bits() >> 11) * 2.0**-53


def derived_seed(seed: int, index: int) -> int:
    """Seed of the `index`-th (0, 1, ...) part of what `seed` decides: 63 bits, as APIs take them."""
    return Uniforms(seed ^ _mark(index)).bits() >> 1


@lru_cache(maxsize=1024)
def _mark(index: int) -> int:
    return Uniforms(index).bits()
