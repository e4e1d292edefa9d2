import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from while_pipeline.errors import ProjectError
from while_pipeline.serve.checkpoint import checkpoint_command, checkpoint_environment
from while_pipeline.serve.listen import KEY_VARIABLE


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def _installed(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    def find(name: str) -> Any:
        return SimpleNamespace(name=name) if name in packages else None

    monkeypatch.setattr(importlib.util, "find_spec", find)


TRANSFORMERS = ("torch", "transformers", "fastapi", "uvicorn")


def test_transformers_serves_on_this_machine(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, *TRANSFORMERS)
    command = checkpoint_command(checkpoint, "127.0.0.1", 8001)
    assert command[2:] == [
        "transformers.cli.transformers",
        "serve",
        str(checkpoint),
        "--host",
        "127.0.0.1",
        "--port",
        "8001",
    ]


def test_vllm_is_taken_where_it_is_installed_and_parses_calls(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed(monkeypatch, *TRANSFORMERS, "vllm")
    command = checkpoint_command(checkpoint, "0.0.0.0", 8001)
    assert command[2] == "vllm.entrypoints.openai.api_server"
    assert command[command.index("--model") + 1] == str(checkpoint)
    assert "--enable-auto-tool-choice" in command


def test_the_key_reaches_vllm_by_its_environment_only() -> None:
    given = {"HOME": "/", KEY_VARIABLE: "sk-1"}
    assert checkpoint_environment("0.0.0.0", given) == {"HOME": "/", "VLLM_API_KEY": "sk-1"}
    assert checkpoint_environment("127.0.0.1", {"HOME": "/"}) == {"HOME": "/"}
    with pytest.raises(ProjectError, match=KEY_VARIABLE):
        checkpoint_environment("0.0.0.0", {})


def test_transformers_stays_on_this_machine(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, *TRANSFORMERS)
    with pytest.raises(ProjectError, match="stay on 127"):
        checkpoint_command(checkpoint, "0.0.0.0", 8001)


def test_without_the_packages_one_error_says_how_to_install_them(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _installed(monkeypatch, "torch", "uvicorn")
    with pytest.raises(ProjectError, match=r"transformers, fastapi.*pip install"):
        checkpoint_command(checkpoint, "127.0.0.1", 8001)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"config\.json"):
        checkpoint_command(tmp_path, "127.0.0.1", 8001)
