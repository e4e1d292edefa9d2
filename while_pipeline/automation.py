"""When a day runs: the daily job, the sensor on new traffic, the nightly schedule.

What belongs here: what asks Dagster for a run of a day, and why it asks. What does not: what a run does
(`assets`) and what counts as changed traffic (`watch.signature`). Nothing here opens DuckDB: a sensor that
did would lock a run out of it.
"""

import datetime as dt
import os
import time
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import dagster as dg

# Dagster exports what makes such a job but not its type.
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field, ValidationError

from while_pipeline.records import Record
from while_pipeline.watch.signature import NO_TRAFFIC, Seen, last_change_ns, scan, traffic_signature

SIGNATURE_TAG = "while/traffic_signature"
"""Run tag: signature of the traffic that the run was started for."""

AUTOMATION_VARIABLE = "WHILE_AUTOMATION"
"""`on` starts the sensor and the schedule by themselves."""

NIGHTLY_CRON = "0 2 * * *"
"""02:00 in the partitions' time zone: the day is over, and its last exports have had two hours to land."""

NIGHTS = 7
"""Days back that a night mends: a week away from the desk loses nothing."""

DAYS_PER_TICK = 20
"""Days one tick of the sensor asks for at most; the rest of a backlog follows with the next ticks."""

_PARTITION_TAG = "dagster/partition"

_State = Literal["missing", "running", "failed", "changed", "served"]
"""Where a day stands by its newest run; `served` = it succeeded on the traffic that is there now."""

_WHY_DUE: Mapping[_State, str] = {
    "missing": "it never ran",
    "failed": "its last run did not succeed",
    "changed": "its traffic is not what its last run was started for",
}
"""Which states the night mends."""


class _Cursor(Record):
    """What the sensor keeps between ticks."""

    seen: Seen = Seen()
    requested: dict[str, str] = Field(default_factory=dict)
    """Signature by day that a run was last asked for, or was found to have run on."""
    told: dict[str, str] = Field(default_factory=dict)
    """Names that were reported as ignored: each is logged once, not every 30 s."""


def build_daily_job(hooks: Set[dg.HookDefinition] = frozenset()) -> UnresolvedAssetJobDefinition:
    """The job `daily`: every asset of one day, with its checks. Its partitions are those of the assets."""
    return dg.define_asset_job(
        "daily",
        selection=dg.AssetSelection.all(),
        # A process per step costs 7 to 10 s each; what is worth spreading is spread inside the rollouts step.
        executor_def=dg.in_process_executor,
        hooks=hooks,
        description="One day from its traffic to the decision on tomorrow's policy.",
    )


def build_traffic_sensor(
    job: UnresolvedAssetJobDefinition, partitions: dg.DailyPartitionsDefinition, traffic_folder: Path
) -> dg.SensorDefinition:
    """The sensor `traffic_sensor`: runs each day whose traffic is new, appended to or late, once per content.

    A day that the CLI or the night already ran on the same content is not run again, and one that is running
    or queued is asked for when that has ended. The sensor asks once per content: a failed run, or content
    changed back to what it once was, is left to the night.
    """

    @dg.sensor(
        name="traffic_sensor",
        job=job,
        default_status=dg.DefaultSensorStatus.RUNNING if _starts_on() else dg.DefaultSensorStatus.STOPPED,
        description=f"Runs a day when its traffic in {traffic_folder} is new, appended to or late.",
    )
    def traffic_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = _cursor(context)
        look = scan(traffic_folder, cursor.seen, now_ns=time.time_ns())
        outside = _outside(partitions, look.signatures)
        ignored, held, requested = look.ignored | outside, dict(look.held), dict(cursor.requested)
        for name, why in ignored.items():
            if cursor.told.get(name) != why:
                context.log.warning(f"{name} is ignored: {why}")
        requests: list[dg.RunRequest] = []
        for day, signature in look.signatures.items():
            if len(requests) == DAYS_PER_TICK:
                break
            if day in outside or requested.get(day) == signature:
                continue
            state = _state(context.instance, job.name, traffic_folder, day, signature)
            if state == "running":
                # Else a day whose traffic grows all the time would queue a run every tick.
                held[day] = "a run of it has not ended"
                continue
            requested[day] = signature
            if state != "served":
                requests.append(_request(day, signature, run_key=f"{day}:{signature}"))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else dg.SkipReason(_nothing_new(traffic_folder, held)),
            cursor=_Cursor(seen=look.seen, requested=requested, told=ignored).model_dump_json(),
        )

    return traffic_sensor


def build_nightly_schedule(
    job: UnresolvedAssetJobDefinition, partitions: dg.DailyPartitionsDefinition, traffic_folder: Path
) -> dg.ScheduleDefinition:
    """The schedule `nightly_schedule`: at 02:00 in the partitions' zone, runs what the last days still need.

    Of the last `NIGHTS` days, today not among them: those whose last run failed, whose traffic is not that of
    the last run, or that have traffic (or are yesterday) and never ran. A day that is running or queued is
    left alone. The traffic of these days is read to be signed: a tick has a minute, some 50 GB from a
    fast disk.
    """

    @dg.schedule(
        name="nightly_schedule",
        job=job,
        cron_schedule=NIGHTLY_CRON,
        execution_timezone=partitions.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if _starts_on() else dg.DefaultScheduleStatus.STOPPED,
        description=f"Runs those of the last {NIGHTS} days that are missing, failed, or got other traffic.",
    )
    def nightly_schedule(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        tonight = context.scheduled_execution_time.astimezone(ZoneInfo(partitions.timezone)).date()
        yesterday = tonight - dt.timedelta(days=1)
        requests: list[dg.RunRequest] = []
        for day in _days_before(tonight, partitions):
            signature = traffic_signature(traffic_folder, day)
            state = _state(context.instance, job.name, traffic_folder, day, signature)
            if state == "missing" and signature == NO_TRAFFIC and day != yesterday.isoformat():
                continue
            if why := _WHY_DUE.get(state):
                context.log.info(f"{day}: {why}")
                # The night is in the key, so that a day that fails is asked for again the next night.
                requests.append(_request(day, signature, run_key=f"{day}:{signature}:{tonight}"))
        return requests or dg.SkipReason(
            f"Nothing to do: of the {NIGHTS} days before {tonight}, none is missing, failed or changed."
        )

    return nightly_schedule


def _starts_on() -> bool:
    # Off unless asked for: who opens the UI to look around should not find runs started, and a project with
    # models behind endpoints would spend money on them. A server sets the variable once.
    return os.environ.get(AUTOMATION_VARIABLE) == "on"


def _cursor(context: dg.SensorEvaluationContext) -> _Cursor:
    """The last tick's cursor, or an empty one."""
    if context.cursor is None:
        return _Cursor()
    try:
        return _Cursor.model_validate_json(context.cursor)
    except ValidationError:
        # Of another version, or set by hand. Starting over costs one hashing: days that ran do not run again.
        context.log.warning("The cursor cannot be read; looking at all traffic anew")
        return _Cursor()


def _outside(partitions: dg.DailyPartitionsDefinition, days: Iterable[str]) -> dict[str, str]:
    """Those of the days that are no partition, with the reason."""
    first, last = partitions.get_first_partition_key(), partitions.get_last_partition_key()
    if first is None or last is None:
        return dict.fromkeys(days, "no day is a partition yet")
    return {day: f"outside the partitions, {first} to {last}" for day in days if not first <= day <= last}


def _days_before(tonight: dt.date, partitions: dg.DailyPartitionsDefinition) -> list[str]:
    """The last `NIGHTS` days before tonight that are partitions, oldest first: days build on each other."""
    first = partitions.start.date()
    days = [tonight - dt.timedelta(days=back) for back in range(NIGHTS, 0, -1)]
    return [day.isoformat() for day in days if day >= first]


def _request(day: str, signature: str, run_key: str) -> dg.RunRequest:
    return dg.RunRequest(partition_key=day, run_key=run_key, tags={SIGNATURE_TAG: signature})


def _state(
    instance: dg.DagsterInstance, job_name: str, traffic_folder: Path, day: str, signature: str
) -> _State:
    """Where a day stands by its newest run, whoever started it."""
    runs = dg.RunsFilter(job_name=job_name, tags={_PARTITION_TAG: day})
    record = next(iter(instance.get_run_records(runs, limit=1)), None)
    if record is None:
        return "missing"
    if not record.dagster_run.is_finished:
        return "running"
    if not record.dagster_run.is_success:
        # Cancelled counts as failed: its day is half done.
        return "failed"
    return "served" if _covers(record, traffic_folder, day, signature) else "changed"


def _covers(record: dg.RunRecord, traffic_folder: Path, day: str, signature: str) -> bool:
    """Whether a run was started for the traffic that is there now.

    True when there is none now: what was deleted after it was worked through is not to be worked again. A run
    without the tag was started by hand from the UI: the times of the files decide.
    """
    if signature == NO_TRAFFIC:
        return True
    tag = record.dagster_run.tags.get(SIGNATURE_TAG)
    if tag is None:
        return last_change_ns(traffic_folder, day) < record.create_timestamp.timestamp() * 1e9
    return tag == signature


def _nothing_new(traffic_folder: Path, held: Mapping[str, str]) -> str:
    if not traffic_folder.is_dir():
        return f"There is no traffic: {traffic_folder} does not exist."
    if held:
        return "Held for the next tick: " + "; ".join(f"{day}: {why}" for day, why in held.items())
    return "No traffic is new since the last tick."
