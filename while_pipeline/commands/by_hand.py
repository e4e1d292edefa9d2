"""What the commands that write by hand share: the run lock, the warehouse, telling Dagster and readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dagster as dg

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
def desk() -> Iterator[Desk]:
    """Open the desk while no run from the command line is at work.

    Raises:
        click.ClickException: such a run, or another decision, is at work: it is to be waited for.
        ProjectError: the project is wrong.
    """
    from while_pipeline.doctor import RUN_LOCK
    from while_pipeline.project import DATABASE, data_root, load_project, project_root
    from while_pipeline.runs import dagster_surroundings, run_lock

    root, data = project_root(), data_root()
    project = load_project(root)
    with run_lock(data / RUN_LOCK), dagster_surroundings(root, data):
        import dagster as dg

        from assets.registry import registry_of
        from resources.warehouse import Warehouse

        warehouse = Warehouse(database=str(data / DATABASE))
        with dg.DagsterInstance.get() as instance:
            yield Desk(project, warehouse, registry_of(warehouse), instance)
