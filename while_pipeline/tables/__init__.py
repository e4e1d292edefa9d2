"""One pandera model per stored table: columns, checks and column comments, by schema."""

from while_pipeline.tables import grade, prove, simulate, train, watch
from while_pipeline.tables.base import Table

ALL: tuple[type[Table], ...] = tuple(
    model
    for module in (watch, simulate, grade, train, prove)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, Table) and model.__module__ == module.__name__
)
"""Every stored table."""
