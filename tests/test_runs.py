import os
import subprocess
import sys
from pathlib import Path

import click
import dagster as dg
import pytest

from while_pipeline.doctor import RUN_LOCK
from while_pipeline.errors import ProjectError
from while_pipeline.project import REPOSITORY
from while_pipeline.runs import CLI_TAG, dagster_surroundings, reap_dead_runs, run_lock


def test_the_run_lock_is_one_process_s_at_a_time_and_says_whose(tmp_path: Path) -> None:
    path = tmp_path / "data" / RUN_LOCK
    with run_lock(path, "promote"):
        said = rf"`while-pipeline promote` \(process {os.getpid()}\) is at work"
        with pytest.raises(click.ClickException, match=said), run_lock(path, "run"):
            pass
    with run_lock(path, "run"):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / RUN_LOCK
    code = (
        "import pathlib, sys, time\nfrom while_pipeline.runs import run_lock\n"
        "with run_lock(pathlib.Path(sys.argv[1]), 'run'):\n    print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(click.ClickException, match=f"process {holder.pid}"), run_lock(path, "run"):
            pass
        holder.kill()
    with run_lock(path, "run"):
        pass


# -- where Dagster keeps its state --------------------------------------------------------------------------


@dg.job
def daily() -> None: ...


def test_each_data_folder_has_a_dagster_of_its_own_with_the_settings_of_this_repository(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        data = tmp_path / name
        with dagster_surroundings(REPOSITORY, data) as home, dg.DagsterInstance.get() as instance:
            assert home == data / "dagster"
            assert Path(instance.root_directory) == Path(instance.storage_directory()).parent == home
            assert instance.get_settings("concurrency")["pools"]["default_limit"] == 1
            assert instance.get_runs() == []
            instance.create_run_for_job(daily)
        assert "DAGSTER_HOME" not in os.environ


def test_a_dagster_home_that_is_set_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dagster_surroundings(REPOSITORY, tmp_path / "data") as home:
        assert os.environ["DAGSTER_HOME"] == str(home) == str(tmp_path)
        assert list(tmp_path.iterdir()) == []
    assert os.environ["DAGSTER_HOME"] == str(tmp_path)


@pytest.mark.parametrize("home", ["relative", "/nowhere/at/all"])
def test_a_dagster_home_that_is_no_folder_is_named(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", home)
    surroundings = dagster_surroundings(REPOSITORY, REPOSITORY / "data")
    with pytest.raises(ProjectError, match=f"DAGSTER_HOME = '{home}'"), surroundings:
        pass


# -- runs that died -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_only_unfinished_runs_under_the_lock_are_reaped(tmp_path: Path) -> None:
    lock, other = tmp_path / "a" / RUN_LOCK, tmp_path / "b" / RUN_LOCK

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def daily() -> None:
        nothing()

    with dg.DagsterInstance.ephemeral() as instance:
        started = dg.DagsterRunStatus.STARTED
        left = instance.create_run_for_job(daily, tags={CLI_TAG: str(lock)}, status=started)
        kept = [
            instance.create_run_for_job(daily, tags={CLI_TAG: str(other)}, status=started),
            instance.create_run_for_job(daily, status=started),
            instance.create_run_for_job(daily, tags={CLI_TAG: str(lock)}, status=dg.DagsterRunStatus.SUCCESS),
        ]
        assert reap_dead_runs(instance, lock) == [left.run_id]
        reaped = instance.get_run_by_id(left.run_id)
        assert reaped is not None
        assert reaped.status is dg.DagsterRunStatus.FAILURE
        for run in kept:
            still = instance.get_run_by_id(run.run_id)
            assert still is not None
            assert still.status is run.status
        assert reap_dead_runs(instance, lock) == []


@pytest.mark.slow
def test_reaping_frees_the_slot_that_a_dead_run_held(tmp_path: Path) -> None:
    lock = tmp_path / RUN_LOCK

    @dg.op(pool="warehouse")
    def write() -> None: ...

    @dg.job
    def daily() -> None:
        write()

    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots("warehouse", 1)
        left = instance.create_run_for_job(
            daily, tags={CLI_TAG: str(lock)}, status=dg.DagsterRunStatus.STARTED
        )
        assert storage.claim_concurrency_slot("warehouse", left.run_id, "write").is_claimed
        reap_dead_runs(instance, lock)
        assert storage.get_concurrency_info("warehouse").active_slot_count == 0
