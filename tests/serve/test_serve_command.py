"""`while-pipeline serve` as a process of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.example import BASE, PROJECT, ROOT
from while_pipeline.cli import main
from while_pipeline.watch.read import read_traffic

PATIENCE_S = 60.0
ASK = {"model": PROJECT.settings.name, "messages": [{"role": "user", "content": "Hello"}]}


@contextmanager
def _started(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process; gives it and the URL it says it answers at."""
    code = "from while_pipeline.cli import main; main()"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            "serve",
            "--port",
            "0",
            "--traffic",
            str(folder / "traffic"),
            *arguments,
        ],
        env={"PYTHONPATH": str(ROOT), "WHILE_DATA": str(folder), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        told = process.stdout.readline()
        found = re.search(r"http://\S+/v1", told)
        assert found, told + process.stdout.read()
        yield process, found[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_every_answer_given_before_the_signal_is_in_the_traffic(tmp_path: Path, stop: signal.Signals) -> None:
    answered: list[str] = []
    with _started(tmp_path) as (process, url):

        def ask(who: int) -> None:
            with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
                for n in range(10_000):
                    said = {**ASK, "messages": [{"role": "user", "content": f"Hello {who} {n}"}]}
                    try:
                        response = client.post("/chat/completions", json=said)
                    except httpx.HTTPError:
                        return  # the server is gone
                    assert response.status_code == 200
                    answered.append(f"Hello {who} {n}")

        threads = [threading.Thread(target=ask, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while len(answered) < 40 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(stop)
        assert process.wait(PATIENCE_S) == 0
        for thread in threads:
            thread.join(PATIENCE_S)
        assert process.stdout is not None
        told = process.stdout.read()
    folder = tmp_path / "traffic"
    traffic = read_traffic(sorted(folder.rglob("*.jsonl")), folder, None)
    kept = {conversation.messages[0].content for conversation in traffic.conversations}
    assert traffic.rejects == ()
    assert len(answered) >= 40
    assert set(answered) <= kept
    assert f"{len(kept)} answers are in the traffic" in told
    assert "Traceback" not in told
    assert {path.name for path in folder.rglob("*.jsonl")} == {f"served-{BASE.version}.jsonl"}


# -- refused before anything listens ------------------------------------------------------------------------


def _refused(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str, **environment: str) -> Result:
    for name in ("WHILE_SERVE_KEY", "WHILE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WHILE_DATA", str(folder))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(main, ["serve", "--traffic", str(folder / "traffic"), *arguments])
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.output
    return result


def test_others_than_this_machine_need_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _refused(monkeypatch, tmp_path, "--host", "0.0.0.0")
    assert "WHILE_SERVE_KEY" in result.output
    assert not (tmp_path / "traffic").exists()


def test_an_unknown_policy_names_the_known_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BASE.version in _refused(monkeypatch, tmp_path, "--policy", "p-nobody").output


def test_a_port_that_is_taken_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in _refused(monkeypatch, tmp_path, "--port", port).output


def test_a_traffic_folder_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("a file")
    assert "Cannot serve" in _refused(monkeypatch, tmp_path / "file").output


def test_a_checkpoint_has_no_traffic_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--checkpoint goes with" in _refused(monkeypatch, tmp_path, "--checkpoint", str(tmp_path)).output
