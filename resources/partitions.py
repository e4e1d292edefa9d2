"""Which days there are: one partition per day of traffic, from the project's first one."""

import datetime as dt

import dagster as dg

from while_pipeline.errors import ProjectError
from while_pipeline.project import project_root
from while_pipeline.settings import Settings, load_settings

FIRST_DAY = "2026-01-01"
"""First partition of a project that has no traffic yet."""


def daily_partitions() -> dg.DailyPartitionsDefinition:
    """Partitions of the current project; today is open (`end_offset=1`): traffic is worked as it comes."""
    root = project_root()
    try:
        traffic = load_settings(root).traffic
    except ProjectError:
        # Reported with its mend when the project is loaded; a definition must not hide that by failing first.
        traffic = Settings(name="unreadable").traffic
    folder = root / traffic.folder
    days = [path.name for path in folder.glob("*") if _is_day(path.name)]
    first = min(days, default=FIRST_DAY)
    return dg.DailyPartitionsDefinition(start_date=first, timezone=traffic.timezone, end_offset=1)


def _is_day(name: str) -> bool:
    try:
        return dt.date.fromisoformat(name).isoformat() == name
    except ValueError:
        return False
