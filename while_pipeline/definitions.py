"""Everything Dagster loads: assets, checks, resources, the daily job and what starts it.

Definitions are built by a function, so that tests and the CLI swap folders and resources without patching.
"""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from assets import grade, prove, registry, simulate, train, watch
from assets.stored import PARTITIONS
from resources.models import Models
from resources.project import ProjectResource
from resources.warehouse import Warehouse
from while_pipeline.automation import build_daily_job, build_nightly_schedule, build_traffic_sensor
from while_pipeline.errors import ProjectError
from while_pipeline.project import DATABASE, data_root, project_root
from while_pipeline.settings import TrafficSettings, load_settings


def build_definitions(
    root: Path | None = None, data: Path | None = None, resources: Mapping[str, object] | None = None
) -> dg.Definitions:
    """Build the definitions of one project.

    Args:
        root: Project folder; the one `WHILE_PROJECT` names, or the shipped example, when not given.
        data: Folder for everything written; the one `WHILE_DATA` names, or `data/`, when not given.
        resources: Replaces resources by name.
    """
    root, data = root or project_root(), data or data_root()
    job = build_daily_job({prove.publish_after_failure})
    traffic = _traffic_folder(root)
    return dg.Definitions(
        assets=dg.load_assets_from_modules(
            [registry, watch, simulate, grade, train, prove], include_specs=True
        ),
        asset_checks=[
            *simulate.CHECKS,
            *grade.CHECKS,
            *train.CHECKS,
            *prove.CHECKS,
        ],
        jobs=[job],
        schedules=[build_nightly_schedule(job, PARTITIONS, traffic)],
        sensors=[build_traffic_sensor(job, PARTITIONS, traffic)],
        resources={
            "warehouse": Warehouse(database=str(data / DATABASE)),
            "project": ProjectResource(root=str(root)),
            "models": Models(data=str(data)),
            **(resources or {}),
        },
        executor=dg.in_process_executor,
    )


def _traffic_folder(root: Path) -> Path:
    try:
        traffic = load_settings(root).traffic
    except ProjectError:
        # Said with its mend by the run; the definitions load all the same, so that the UI can show it.
        traffic = TrafficSettings()
    return root / traffic.folder


defs = build_definitions()
