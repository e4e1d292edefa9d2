"""The one error people meet when their input is wrong: file, key, value, mend."""

from typing import Any


class ProjectError(Exception):
    """Something in the user's project is wrong."""

    def __init__(self, source: str, key: str, value: Any, mend: str) -> None:
        """Compose the message from where it is, what it is, and what to do."""
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        super().__init__(f"{source}: {key} = {shown}: {mend}")
        self.source, self.key, self.value, self.mend = source, key, value, mend
