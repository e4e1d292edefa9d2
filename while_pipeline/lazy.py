"""Properties computed once, for objects that are made by the million.

What belongs here: `functools.cached_property` without its lock, which Python has itself from 3.12 on and
which costs more than most of what is computed here. What does not: properties of objects made a few times.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):
    """A property whose first value stays: it becomes an attribute that hides this descriptor."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        """Decorate a method without arguments."""
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the attribute's name."""
        self._name = name

    def __get__(self, instance: Any, owner: type) -> T:
        """Compute the value and leave it on the instance."""
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
