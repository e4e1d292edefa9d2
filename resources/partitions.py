"""Which days there are: one partition per day of traffic, from the project's first one."""

import re

import dagster as dg

from while_pipeline.errors import ProjectError
from while_pipeline.project import project_root
from while_pipeline.settings import Settings, load_settings

FIRST_DAY = "2026-01-01"
"""First partition of a project that has no traffic yet."""


def daily_partitions() -> dg.DailyPartitionsDefinition:
    """Partitions of the current project; today is open (`end_offset=1`), so its traffic is worked as it comes."""
    root = project_root()
    try:
        traffic = load_settings(root).traffic
    except ProjectError:
        # Reported with its mend when the project is loaded; a definition must not hide that by failing first.
        traffic = Settings(name="unreadable").traffic
    folder = root / traffic.folder
    days = sorted(p.name for p in folder.glob("*") if re.fullmatch(r"\d{4}-\d{2}-\d{2}", p.name))
    return dg.DailyPartitionsDefinition(
        start_date=min([*days[:1], FIRST_DAY]) if days else FIRST_DAY, timezone=traffic.timezone, end_offset=1
    )
