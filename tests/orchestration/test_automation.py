import datetime as dt
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from logging.handlers import BufferingHandler
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from while_pipeline import automation
from while_pipeline.automation import (
    AUTOMATION_VARIABLE,
    SIGNATURE_TAG,
    build_daily_job,
    build_nightly_schedule,
    build_traffic_sensor,
)
from while_pipeline.watch.signature import NO_TRAFFIC, traffic_signature

PARTITIONS = dg.DailyPartitionsDefinition("2026-03-01", end_offset=1)
JOB = build_daily_job()
LONG_AGO = 1_600_000_000
TONIGHT = dt.datetime(2026, 3, 9, 2, tzinfo=dt.UTC)
YESTERDAY = "2026-03-08"
BROKEN = {"broken": "yes"}


@dg.asset(partitions_def=PARTITIONS)
def work(context: dg.AssetExecutionContext) -> None:
    if "broken" in context.run.tags:
        raise dg.Failure("as the test wants it")


DEFINITIONS = dg.Definitions(assets=[work], jobs=[JOB])


@dataclass
class World:
    """A traffic folder, Dagster's memory of runs, and one sensor's cursor."""

    traffic: Path
    instance: dg.DagsterInstance
    cursor: str | None = None
    log: list[str] = field(default_factory=list)

    def put(self, name: str, text: str = "{}\n", mtime: float = LONG_AGO) -> Path:
        path = self.traffic / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (mtime, mtime))
        return path

    def tick(self) -> dg.SensorResult:
        """One tick of the sensor, with the cursor of the last."""
        context = dg.build_sensor_context(self.instance, self.cursor, definitions=DEFINITIONS)
        lines = BufferingHandler(capacity=1000)
        context.log.addHandler(lines)
        result = build_traffic_sensor(JOB, PARTITIONS, self.traffic)(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        self.log = [record.getMessage() for record in lines.buffer]
        return result

    def asked(self) -> list[str]:
        """Days that one tick asks for."""
        return [str(request.partition_key) for request in self.tick().run_requests or []]

    def night(
        self, at: dt.datetime = TONIGHT, partitions: dg.DailyPartitionsDefinition = PARTITIONS
    ) -> list[dg.RunRequest] | dg.SkipReason:
        schedule = build_nightly_schedule(JOB, partitions, self.traffic)
        result = schedule(dg.build_schedule_context(self.instance, at))
        assert isinstance(result, list | dg.SkipReason)
        return result

    def due(self, at: dt.datetime = TONIGHT) -> list[str]:
        """Days that one night asks for."""
        result = self.night(at)
        return [] if isinstance(result, dg.SkipReason) else [str(request.partition_key) for request in result]

    def execute(self, day: str, *, broken: bool = False) -> None:
        """Run a day's job as the CLI does."""
        job = DEFINITIONS.resolve_job_def(JOB.name)
        tags = self.tags(day) | (BROKEN if broken else {})
        job.execute_in_process(instance=self.instance, partition_key=day, tags=tags, raise_on_error=False)

    def record(
        self, day: str, status: dg.DagsterRunStatus = dg.DagsterRunStatus.SUCCESS, *, tagged: bool = True
    ) -> dg.DagsterRun:
        """Leave in Dagster's memory what a run of a day leaves there, in a hundredth of the time."""
        tags = {"dagster/partition": day} | (self.tags(day) if tagged else {})
        return self.instance.add_run(dg.DagsterRun(job_name=JOB.name, status=status, tags=tags))

    def tags(self, day: str) -> dict[str, str]:
        return {SIGNATURE_TAG: traffic_signature(self.traffic, day)}


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    # On disk, as a schedule's context takes no other; one for all, as creating it takes half a second.
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:
        yield instance


@pytest.fixture
def world(tmp_path: Path, instance: dg.DagsterInstance) -> World:
    instance.wipe()
    return World(tmp_path / "traffic", instance)


# The sensor


def test_new_traffic_asks_for_its_day_once_keyed_and_tagged_by_its_content(world: World) -> None:
    world.put("2026-03-02/a.jsonl")
    world.put("2026-03-03/a.jsonl", "other")
    requests = world.tick().run_requests
    assert requests is not None
    signatures = {day: traffic_signature(world.traffic, day) for day in ("2026-03-02", "2026-03-03")}
    assert [(r.partition_key, r.run_key, r.tags[SIGNATURE_TAG]) for r in requests] == [
        (day, f"{day}:{signature}", signature) for day, signature in signatures.items()
    ]
    again = world.tick()
    assert not again.run_requests
    assert again.skip_reason == dg.SkipReason("No traffic is new since the last tick.")


def test_dagster_takes_what_the_sensor_and_the_night_ask_for(world: World) -> None:
    world.put("2026-03-02/a.jsonl")
    sensor = build_traffic_sensor(JOB, PARTITIONS, world.traffic)
    schedule = build_nightly_schedule(JOB, PARTITIONS, world.traffic)
    repository = dg.Definitions(
        assets=[work], jobs=[JOB], sensors=[sensor], schedules=[schedule]
    ).get_repository_def()
    asked = repository.get_sensor_def("traffic_sensor").evaluate_tick(
        dg.build_sensor_context(world.instance, repository_def=repository)
    )
    due = repository.get_schedule_def("nightly_schedule").evaluate_tick(
        dg.build_schedule_context(world.instance, TONIGHT, repository_def=repository)
    )
    assert [request.tags["dagster/partition"] for request in asked.run_requests or []] == ["2026-03-02"]
    assert [request.tags["dagster/partition"] for request in due.run_requests or []] == [
        "2026-03-02",
        YESTERDAY,
    ]


def test_a_touched_file_runs_nothing_and_an_appended_one_runs_its_day_once(world: World) -> None:
    world.put("2026-03-02/a.jsonl", "{}\n")
    world.put("2026-03-03/a.jsonl", "{}\n")
    assert world.asked() == ["2026-03-02", "2026-03-03"]
    world.put("2026-03-02/a.jsonl", "{}\n", LONG_AGO + 1)
    assert world.asked() == []
    world.put("2026-03-02/a.jsonl", "{}\n{}\n", LONG_AGO + 2)
    # It grew since the last tick, so it may still be growing.
    assert [world.asked() for _ in range(3)] == [[], ["2026-03-02"], []]


def test_a_late_file_of_an_old_day_runs_that_day(world: World) -> None:
    for number in range(1, 12):
        world.put(f"2026-03-{number:02}/a.jsonl")
    assert len(world.asked()) == 11
    world.put("2026-03-01/late.jsonl")
    assert world.asked() == ["2026-03-01"]


def test_a_file_still_being_written_holds_its_day_and_the_skip_says_so(world: World) -> None:
    world.put("2026-03-02/a.jsonl", mtime=time.time())
    result = world.tick()
    assert not result.run_requests
    assert result.skip_reason == dg.SkipReason(
        "Held for the next tick: 2026-03-02: a.jsonl was written less than 5 s ago"
    )


def test_a_traffic_folder_that_does_not_exist_is_a_skip_that_names_it(world: World) -> None:
    result = world.tick()
    assert result.skip_reason == dg.SkipReason(f"There is no traffic: {world.traffic} does not exist.")


def test_bad_names_and_days_outside_the_partitions_are_logged_once_and_run_nothing(world: World) -> None:
    world.put("march/a.jsonl")
    world.put("2026-02-28/a.jsonl")
    world.put("2999-01-01/a.jsonl")
    world.put("2026-03-02/a.jsonl")
    assert world.asked() == ["2026-03-02"]
    assert [line.split(" is ignored: ")[0] for line in world.log] == ["march", "2026-02-28", "2999-01-01"]
    assert "outside the partitions, 2026-03-01 to " in world.log[1]
    world.tick()
    assert world.log == []


def test_todays_traffic_is_worked_as_it_comes(world: World) -> None:
    today = dt.datetime.now(dt.UTC).date().isoformat()
    world.put(f"{today}/a.jsonl")
    assert world.asked() == [today]


def test_a_backlog_is_asked_for_oldest_first_over_several_ticks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automation, "DAYS_PER_TICK", 2)
    for number in (5, 3, 1, 4, 2):
        world.put(f"2026-03-0{number}/a.jsonl")
    assert [world.asked() for _ in range(4)] == [
        ["2026-03-01", "2026-03-02"],
        ["2026-03-03", "2026-03-04"],
        ["2026-03-05"],
        [],
    ]


def test_a_day_that_ran_on_the_same_traffic_without_the_sensor_is_not_run_again(world: World) -> None:
    for day in ("2026-03-02", "2026-03-03", "2026-03-04"):
        world.put(f"{day}/a.jsonl")
    world.record("2026-03-02")
    world.record("2026-03-03")
    world.record("2026-03-04", dg.DagsterRunStatus.FAILURE)
    world.put("2026-03-03/late.jsonl")
    assert world.asked() == ["2026-03-03", "2026-03-04"]


def test_a_day_that_is_running_is_asked_for_when_its_run_has_ended(world: World) -> None:
    world.put("2026-03-02/a.jsonl")
    run = world.record("2026-03-02", dg.DagsterRunStatus.STARTED)
    world.put("2026-03-02/b.jsonl")
    result = world.tick()
    assert not result.run_requests
    assert result.skip_reason == dg.SkipReason(
        "Held for the next tick: 2026-03-02: a run of it has not ended"
    )
    world.instance.report_run_failed(run)
    assert [world.asked() for _ in range(2)] == [["2026-03-02"], []]


@pytest.mark.parametrize("cursor", ["", "not JSON", '{"files": {}}'])
def test_a_cursor_that_cannot_be_read_starts_over(world: World, cursor: str) -> None:
    world.put("2026-03-02/a.jsonl")
    world.put("2026-03-03/a.jsonl")
    world.record("2026-03-02")
    world.cursor = cursor
    assert world.asked() == ["2026-03-03"]


# The night


def test_the_night_asks_for_days_with_traffic_that_never_ran_and_for_yesterday(world: World) -> None:
    world.put("2026-03-03/a.jsonl")
    world.put("2026-03-06/a.jsonl")
    assert world.due() == ["2026-03-03", "2026-03-06", YESTERDAY]


def test_the_night_leaves_today_and_what_is_older_than_a_week(world: World) -> None:
    for day in ("2026-03-01", "2026-03-02", "2026-03-08", "2026-03-09", "2026-03-10"):
        world.put(f"{day}/a.jsonl")
    assert world.due() == ["2026-03-02", "2026-03-08"]


def test_the_night_asks_for_no_day_before_the_first_partition(world: World) -> None:
    world.put("2026-02-28/a.jsonl")
    assert world.due(dt.datetime(2026, 3, 2, 2, tzinfo=dt.UTC)) == ["2026-03-01"]
    assert world.due(dt.datetime(2026, 3, 1, 2, tzinfo=dt.UTC)) == []


def test_a_night_with_nothing_to_do_says_so(world: World) -> None:
    world.put("2026-03-05/a.jsonl")
    world.record("2026-03-05")
    world.record(YESTERDAY)
    assert world.night() == dg.SkipReason(
        "Nothing to do: of the 7 days before 2026-03-09, none is missing, failed or changed."
    )


def test_a_failed_day_is_asked_for_every_night_under_a_new_key_until_it_succeeds(world: World) -> None:
    world.put("2026-03-07/a.jsonl")
    world.record(YESTERDAY)
    world.record("2026-03-07")
    world.record("2026-03-07", dg.DagsterRunStatus.FAILURE)
    keys = []
    for at in (TONIGHT, TONIGHT, TONIGHT + dt.timedelta(days=1)):
        requests = world.night(at)
        assert isinstance(requests, list)
        keys += [request.run_key for request in requests if request.partition_key == "2026-03-07"]
    assert len(keys) == 3
    assert keys[0] == keys[1] != keys[2], "one tick evaluated twice must give one run"
    world.record("2026-03-07")
    assert world.due() == []


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
def test_a_failed_or_cancelled_day_is_retried_even_without_traffic(
    world: World, status: dg.DagsterRunStatus
) -> None:
    world.record("2026-03-05", status)
    world.record(YESTERDAY)
    assert world.due() == ["2026-03-05"]


def test_sensor_and_night_read_what_real_runs_left(world: World) -> None:
    world.put(f"{YESTERDAY}/a.jsonl")
    world.execute(YESTERDAY)
    assert world.due() == []
    assert world.asked() == []
    world.execute(YESTERDAY, broken=True)
    assert world.due() == [YESTERDAY]


def test_changed_traffic_is_due_and_touched_traffic_is_not(world: World) -> None:
    world.record(YESTERDAY)
    for day in ("2026-03-04", "2026-03-05"):
        world.put(f"{day}/a.jsonl")
        world.record(day)
    world.put("2026-03-04/a.jsonl", mtime=LONG_AGO + 1)
    world.put("2026-03-05/late.jsonl")
    requests = world.night()
    assert isinstance(requests, list)
    assert [r.partition_key for r in requests] == ["2026-03-05"]
    assert requests[0].tags == {SIGNATURE_TAG: traffic_signature(world.traffic, "2026-03-05")}


def test_traffic_that_comes_after_a_day_without_any_is_due(world: World) -> None:
    world.record(YESTERDAY)
    assert world.due() == []
    world.put(f"{YESTERDAY}/a.jsonl")
    assert world.due() == [YESTERDAY]


def test_traffic_deleted_after_it_was_worked_through_is_not_worked_again(world: World) -> None:
    path = world.put(f"{YESTERDAY}/a.jsonl")
    world.record(YESTERDAY)
    path.unlink()
    assert traffic_signature(world.traffic, YESTERDAY) == NO_TRAFFIC
    assert world.due() == []


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
def test_the_night_leaves_a_day_alone_whose_run_has_not_ended(
    world: World, status: dg.DagsterRunStatus
) -> None:
    world.record(YESTERDAY, status)
    world.put(f"{YESTERDAY}/a.jsonl")
    assert world.due() == []


@pytest.mark.parametrize(
    ("change", "due"),
    [
        (lambda world: None, []),
        (lambda world: world.put(f"{YESTERDAY}/a.jsonl", "{}\n{}\n", time.time() + 60), [YESTERDAY]),
        (lambda world: world.put(f"{YESTERDAY}/moved_in.jsonl", mtime=LONG_AGO), [YESTERDAY]),
    ],
    ids=["unchanged", "appended", "moved in"],
)
def test_a_run_that_nobody_tagged_is_held_against_the_times_of_the_files(
    world: World, change: Callable[[World], object], due: list[str]
) -> None:
    world.put(f"{YESTERDAY}/a.jsonl")
    time.sleep(0.02)  # The file system's clock is coarser than the run's.
    world.record(YESTERDAY, tagged=False)
    time.sleep(0.02)
    change(world)
    assert world.due() == due


def test_the_night_falls_at_two_in_the_projects_own_time_zone(world: World) -> None:
    partitions = dg.DailyPartitionsDefinition("2026-03-01", timezone="America/New_York", end_offset=1)
    schedule = build_nightly_schedule(JOB, partitions, world.traffic)
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 2 * * *", "America/New_York")
    # 02:00 UTC is the evening before in New York, where yesterday is the day before that.
    requests = world.night(TONIGHT.astimezone(ZoneInfo("UTC")), partitions)
    assert isinstance(requests, list)
    assert [request.partition_key for request in requests] == ["2026-03-07"]


# What is on


@pytest.mark.parametrize(("value", "status"), [(None, "STOPPED"), ("off", "STOPPED"), ("on", "RUNNING")])
def test_nothing_starts_by_itself_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, status: str
) -> None:
    monkeypatch.delenv(AUTOMATION_VARIABLE, raising=False)
    if value:
        monkeypatch.setenv(AUTOMATION_VARIABLE, value)
    assert build_traffic_sensor(JOB, PARTITIONS, tmp_path).default_status.value == status
    assert build_nightly_schedule(JOB, PARTITIONS, tmp_path).default_status.value == status


def test_the_daily_job_runs_every_asset_in_one_process() -> None:
    assert isinstance(JOB, UnresolvedAssetJobDefinition)
    job = DEFINITIONS.resolve_job_def("daily")
    assert job.executor_def is dg.in_process_executor
    assert job.asset_layer.executable_asset_keys == {work.key}
