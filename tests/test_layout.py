"""The shape of the house: who imports whom, how long a module gets, what importing the package costs."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from importlinter import cli as import_linter

import assets
import resources
import while_pipeline

ROOT = Path(__file__).parents[1]
LONGEST_MODULE = 450

MODULES = sorted(
    path
    for folder in ("while_pipeline", "assets", "resources", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_dependencies_point_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert import_linter.lint_imports(no_cache=True) == import_linter.EXIT_STATUS_SUCCESS


def test_every_engine_module_is_under_the_import_contract(pyproject: dict[str, Any]) -> None:
    speaks_dagster = ("definitions", "automation", "runs", "cli", "commands", "progress")
    orchestration = {f"while_pipeline.{name}" for name in speaks_dagster}
    package = ROOT / "while_pipeline"
    engine = {
        f"while_pipeline.{path.stem}"
        for path in package.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    contract = pyproject["tool"]["importlinter"]["contracts"][0]
    assert engine - orchestration <= set(contract["source_modules"])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_stays_short_enough_to_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) < LONGEST_MODULE


def test_the_three_packages_are_this_checkouts_own() -> None:
    for package in (while_pipeline, assets, resources):
        assert package.__file__ is not None
        assert Path(package.__file__).is_relative_to(ROOT), "another distribution shadows the package"


def test_the_code_location_has_one_name_everywhere(pyproject: dict[str, Any]) -> None:
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    location = workspace["load_from"][0]["python_module"]["location_name"]
    assert location == pyproject["tool"]["dg"]["project"]["code_location_name"]


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    code = "import sys, while_pipeline; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"dagster", "polars", "duckdb", "pandera", "scipy", "numpy", "openai"} & set(loaded)


def test_the_lock_file_names_no_host_and_pins_every_package_by_hash() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert not [line for line in lines if "://" in line or line.startswith("-")]
    pinned = [line for line in lines if not line.startswith((" ", "#"))]
    assert all("==" in line and line.endswith("\\") for line in pinned)
