"""What the commands that write by hand share: the run lock, the warehouse, telling Dagster and readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import dagster as dg
    import polars as pl

    from resources.warehouse import Warehouse
    from while_pipeline.project import Project
    from while_pipeline.tables.base import Table
    from while_pipeline.train.registry import Registry


@dataclass(frozen=True)
class Desk:
    """Where a person decides: the project, its warehouse, and what is stored of policies."""

    project: "Project"
    warehouse: "Warehouse"
    registry: "Registry"
    instance: "dg.DagsterInstance"
    untold: "pl.DataFrame"
    """Decisions that were stored by a command that died before it published them: nobody was told."""

    def cut_short(
        self, action: str, version: str | None, *, reason: str, decided_by: str
    ) -> dict[str, Any] | None:
        """The decision that this very command stored when it died; None without.

        To keep it again completes it; taking it anew would go back two promotions where one was meant.

        Args:
            action: What is done.
            version: Policy it is done with; None for the one that a rollback finds by itself.
            reason: Why, as given.
            decided_by: Who decides, as given.
        """
        same = self.untold.filter(action=action, reason=reason.strip(), decided_by=decided_by.strip())
        if version is not None:
            same = same.filter(policy_version=version)
        return same.drop("day").row(-1, named=True) if same.height else None

    def keep(self, model: "type[Table]", day: str, row: dict[str, Any]) -> None:
        """Store a row, publish it for readers, and put it in Dagster's history of its table."""
        from assets.registry import add_by_hand

        self._tell(add_by_hand(self.warehouse, model, day, row))

    def clear(self, model: "type[Table]", day: str) -> None:
        """Take back the rows of a day, and tell as `keep` does."""
        from assets.registry import clear_by_hand

        self._tell(clear_by_hand(self.warehouse, model, day))

    def _tell(self, made: "dg.AssetMaterialization") -> None:
        from assets.prove import publish

        publish(self.warehouse)
        self.instance.report_runless_asset_event(made)


@contextmanager
def desk(command: str) -> Iterator[Desk]:
    """Open the desk while nothing else from the command line is at work.

    What a command that died had stored and not published is published first.

    Args:
        command: Who sits there.

    Raises:
        click.ClickException: a run, or another decision, is at work: it is to be waited for.
        ProjectError: the project is wrong.
    """
    from while_pipeline.doctor import RUN_LOCK
    from while_pipeline.project import DATABASE, data_root, load_project, project_root
    from while_pipeline.runs import dagster_surroundings, run_lock

    root, data = project_root(), data_root()
    project = load_project(root)
    with run_lock(data / RUN_LOCK, command), dagster_surroundings(root, data):
        import dagster as dg

        from assets.prove import publish
        from assets.registry import registry_of
        from resources.warehouse import Warehouse

        warehouse = Warehouse(database=str(data / DATABASE))
        stored, told = registry_of(warehouse), _published(data)
        if not stored.equals(told):
            publish(warehouse)
        untold = stored.decisions.join(told.decisions, on="decision_id", how="anti", maintain_order="left")
        with dg.DagsterInstance.get() as instance:
            yield Desk(project, warehouse, stored, instance, untold)


def _published(data: "Path") -> "Registry":
    """What readers know of policies: nothing before the first snapshot."""
    from while_pipeline.snapshot import SnapshotError
    from while_pipeline.train.registry import EMPTY, published_registry

    try:
        return published_registry(data)
    except SnapshotError:
        return EMPTY
