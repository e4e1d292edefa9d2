"""Whole days of the pipeline on small copies of the example, played once and shared by the tests."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import yaml

from assets.stored import key_of
from resources.warehouse import Warehouse
from while_pipeline.definitions import build_definitions
from while_pipeline.snapshot import read_snapshot, snapshot_path
from while_pipeline.tables import ALL
from while_pipeline.tables.base import Table, table_name

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "telecom"
SHARED = REPOSITORY.parent / "shared" / "data"
DAYS = ("2026-03-02", "2026-03-03", "2026-03-04")
"""Two days that the example has traffic of, and the day after them."""

SMALL = {"budget": {"scenarios": 60, "k": 3}, "prove": {"tasks": 48, "k": 3}}
"""Large enough to prove the first night's gain, small enough to play in seconds."""


@dataclass(frozen=True)
class Ran:
    """What a run left: the job's result and its events, asked in the words of the tests."""

    result: dg.ExecuteInProcessResult

    @property
    def succeeded(self) -> bool:
        return self.result.success

    @property
    def stored(self) -> dict[str, Mapping[str, dg.MetadataValue[Any]]]:
        """Metadata by table that was materialised."""
        return {name: made.metadata for name, made in self._materialisations.items()}

    @property
    def versions(self) -> dict[str, str]:
        """Data version by table."""
        return {
            name: (made.tags or {})["dagster/data_version"] for name, made in self._materialisations.items()
        }

    @property
    def _materialisations(self) -> dict[str, dg.AssetMaterialization]:
        events = self.result.get_asset_materialization_events()
        return {".".join(e.asset_key.path): e.materialization for e in events if e.asset_key}

    @property
    def red(self) -> dict[str, Mapping[str, dg.MetadataValue[Any]]]:
        """Metadata by `table check` of every check that did not pass."""
        found = self.result.get_asset_check_evaluations()
        return {f"{'.'.join(c.asset_key.path)} {c.check_name}": c.metadata for c in found if not c.passed}

    @property
    def errors(self) -> dict[str, str]:
        """What each failed step raised, by step; a blocking check that failed is one too."""
        return {
            event.step_key: _cause(event.step_failure_data)
            for event in self.result.all_events
            if event.is_step_failure and event.step_key
        }


def _cause(failure: Any) -> str:
    if failure.user_failure_data:
        return str(failure.user_failure_data.description)
    # Dagster wraps what a step raised; what that was raised from is not its message.
    return str((failure.error.cause or failure.error).message).strip()


@dataclass(frozen=True)
class Pipeline:
    """One project with one data folder."""

    root: Path
    data: Path
    resources: dict[str, object] = field(default_factory=dict)

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(database=str(self.data / "while.duckdb"))

    def run(self, day: str, *tables: type[Table]) -> Ran:
        """Run the daily job of a day, or only those tables of it, with their checks."""
        job = build_definitions(self.root, self.data, self.resources).resolve_job_def("daily")
        with dg.DagsterInstance.ephemeral() as instance:
            result = job.execute_in_process(
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                partition_key=day,
                instance=instance,
                raise_on_error=False,
                asset_selection=[key_of(table) for table in tables] or None,
            )
            return Ran(result)

    def digests(self, day: str) -> dict[str, str]:
        """Content hash of a day's slice, by table."""
        return {table_name(table): self.warehouse.digest(table, day) for table in ALL}

    def ask(self, sql: str) -> pl.DataFrame:
        """Answer a SELECT from the published snapshot, as people do."""
        return read_snapshot(snapshot_path(self.data / "while.duckdb"), sql)

    def with_models(self, models: dg.ConfigurableResource[Any]) -> "Pipeline":
        """The same pipeline with another one who plays or judges."""
        return Pipeline(self.root, self.data, {"models": models})


@dataclass(frozen=True)
class Telecom:
    """The example run for three days in order."""

    pipeline: Pipeline
    runs: Mapping[str, Ran]
    digests: Mapping[str, Mapping[str, str]]
    """Content hash by day and table, taken right after the day's run."""


def make_project(
    root: Path, *, tools: Path, policy: Path, settings: Mapping[str, Any], traffic: Mapping[str, Path]
) -> Path:
    """Write a project folder; `traffic` names a file or folder by day."""
    root.mkdir(parents=True)
    shutil.copy(tools, root / "tools.json")
    shutil.copy(policy, root / "policy.md")
    for day, source in traffic.items():
        files = [source] if source.is_file() else sorted(source.iterdir())
        (root / "traffic" / day).mkdir(parents=True)
        for file in files:
            shutil.copyfile(file, root / "traffic" / day / file.name)
    (root / "while.yaml").write_text(yaml.safe_dump({"name": root.name, **settings}))
    return root


def copy_of_example(root: Path, **changes: Any) -> Path:
    """The example with its own settings, those of `SMALL`, and then `changes` by section."""
    settings = yaml.safe_load((EXAMPLE / "while.yaml").read_text())
    return make_project(
        root,
        tools=EXAMPLE / "tools.json",
        policy=EXAMPLE / "policy.md",
        settings={**settings, **SMALL, **changes},
        traffic={day: EXAMPLE / "traffic" / day for day in DAYS[:2]},
    )


@pytest.fixture(scope="session")
def telecom(tmp_path_factory: pytest.TempPathFactory) -> Telecom:
    folder = tmp_path_factory.mktemp("telecom")
    pipeline = Pipeline(copy_of_example(folder / "telecom"), folder / "data")
    runs, digests = {}, {}
    for day in DAYS:
        runs[day] = pipeline.run(day)
        digests[day] = pipeline.digests(day)
    return Telecom(pipeline, runs, digests)


@pytest.fixture
def worked(telecom: Telecom, tmp_path: Path) -> Pipeline:
    """A copy of the three days, to spoil."""
    data = tmp_path / "data"
    data.mkdir()
    shutil.copyfile(telecom.pipeline.data / "while.duckdb", data / "while.duckdb")
    return Pipeline(telecom.pipeline.root, data)


@dataclass(frozen=True)
class Checkout:
    """A copy of the code with a project and a data folder of its own, worked from the command line.

    Dagster keeps its state in the data folder, and this repository's own is not for tests.
    """

    root: Path

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.root / "project", self.root / "data")

    def environment(self, **more: str) -> dict[str, str]:
        """What a process of this checkout needs; nothing of what this one was started with."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        own = {
            "PYTHONPATH": str(self.root),
            "WHILE_PROJECT": str(self.root / "project"),
            "WHILE_DATA": str(self.root / "data"),
        }
        return {**kept, **own, **more}

    def command(self, *arguments: str) -> list[str]:
        code = "from while_pipeline.cli import main; main()"
        return [sys.executable, "-c", code, *arguments]

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start `while-pipeline` with arguments; its output goes to `output.txt` of the checkout."""
        with (self.root / "output.txt").open("a") as output:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=self.root,
                env=self.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def events(self, step: str) -> list[str]:
        """Types of a step's events over all runs, as Dagster's own files hold them."""
        found: list[str] = []
        for file in (self.root / "data" / "dagster").rglob("*.db"):
            # A file may not be whole yet, or be of another kind.
            with (
                contextlib.suppress(sqlite3.OperationalError),
                contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as log,
            ):
                asked = "SELECT dagster_event_type FROM event_logs WHERE step_key = ? ORDER BY id"
                found += [kind for (kind,) in log.execute(asked, [step])]
        return found

    @property
    def output(self) -> str:
        return (self.root / "output.txt").read_text()


def make_checkout(root: Path) -> Checkout:
    """Copy the code, and the small example as its project."""
    for package in ("while_pipeline", "assets", "resources", "examples"):
        shutil.copytree(REPOSITORY / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dagster.yaml", "workspace.yaml", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, root / name)
    copy_of_example(root / "project")
    return Checkout(root)


def rows_by_table(ran: Ran) -> dict[str, Any]:
    """Row counts that a run reported."""
    return {table: metadata["dagster/partition_row_count"].value for table, metadata in ran.stored.items()}


def names(tables: Sequence[type[Table]]) -> set[str]:
    return {table_name(table) for table in tables}


@dataclass(frozen=True)
class Resumed:
    """A checkout whose first day was killed while it played rollouts and then run again."""

    checkout: Checkout
    killed_in: list[str]
    """Events of the step that was killed."""
    left: Mapping[str, int]
    """Rows by table after the kill."""
    code: int
    """Exit code of the second run."""


PATIENCE_S = 300.0
"""A loaded machine takes a minute for what a quiet one does in ten seconds."""


@pytest.fixture(scope="session")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    checkout = make_checkout(tmp_path_factory.mktemp("checkout") / "while")
    step = "simulate_rollouts"
    first = checkout.start("run", "--day", DAYS[0])
    deadline = time.monotonic() + PATIENCE_S
    while "STEP_START" not in checkout.events(step):
        assert first.poll() is None, checkout.output
        assert time.monotonic() < deadline, checkout.output
        time.sleep(0.02)
    first.kill()
    first.wait()
    warehouse = checkout.pipeline.warehouse
    left = {table_name(table): warehouse.read(table).height for table in ALL}
    killed_in = checkout.events(step)
    code = checkout.start("run", "--day", DAYS[0]).wait(PATIENCE_S)
    return Resumed(checkout, killed_in, left, code)
