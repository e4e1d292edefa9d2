"""Nothing calls out: a whole day under a guard on every socket, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.orchestration.conftest import DAYS, REPOSITORY, Telecom, copy_of_example
from while_pipeline.project import DATA_VARIABLE, PROJECT_VARIABLE

pytestmark = pytest.mark.slow

GUARD = """
import json, os, sys

LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}

def local(host):
    return host in (None, "", b"", "localhost", "0.0.0.0", "::", "::1") or str(host).startswith("127.")

def guard(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None
    elif event in LOOKUPS:
        host = arguments[0] if not isinstance(arguments[0], tuple) else arguments[0][0]
    else:
        return
    if not local(host):
        with open(os.environ["GUARD_LOG"], "a") as log:
            log.write(json.dumps([event, str(host)]) + "\\n")
        raise PermissionError(f"{event} {host}")

sys.addaudithook(guard)
"""
"""An audit hook sees every socket of Python, whoever opens it, and cannot be taken off again."""

ONE_DAY = """
import sys
from pathlib import Path
from tests.orchestration.conftest import Pipeline
import json
pipeline = Pipeline(Path(sys.argv[1]), Path(sys.argv[2]))
ran = pipeline.run(sys.argv[3])
print(json.dumps({"errors": ran.errors, "red": list(ran.red), "digests": pipeline.digests(sys.argv[3])}))
"""


def guarded(folder: Path, code: str, *arguments: str, **environment: str) -> tuple[str, list[list[str]]]:
    """Run Python code under the guard; return what it printed last and what the guard refused."""
    (folder / "guard").mkdir()
    (folder / "guard" / "sitecustomize.py").write_text(GUARD)
    log = folder / "refused.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=REPOSITORY,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "PYTHONPATH": f"{folder / 'guard'}:{REPOSITORY}",
            "GUARD_LOG": str(log),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused = log.read_text().splitlines() if log.exists() else []
    return done.stdout.splitlines()[-1], [json.loads(line) for line in refused]


def test_the_guard_sees_connections_and_look_ups(tmp_path: Path) -> None:
    code = """
import asyncio, contextlib, socket, urllib.request
for call in (
    lambda: socket.create_connection(("192.0.2.1", 9), timeout=0.1),
    lambda: socket.getaddrinfo("example.invalid", 443),
    lambda: urllib.request.urlopen("http://example.invalid/", timeout=0.1),
    lambda: asyncio.run(asyncio.open_connection("192.0.2.1", 9)),
):
    with contextlib.suppress(OSError):
        call()
print("done")
"""
    _, refused = guarded(tmp_path, code)
    assert [host for _, host in refused] == ["192.0.2.1", "example.invalid", "example.invalid", "192.0.2.1"]


def test_a_day_in_another_process_calls_nobody_and_gives_the_same_tables(
    telecom: Telecom, tmp_path: Path
) -> None:
    """Another hash seed, another data folder, another project folder of the same content."""
    root, data = copy_of_example(tmp_path / "telecom"), tmp_path / "data"
    surroundings = {PROJECT_VARIABLE: str(root), DATA_VARIABLE: str(data), "PYTHONHASHSEED": "4711"}
    told, refused = guarded(tmp_path, ONE_DAY, str(root), str(data), DAYS[0], **surroundings)
    assert refused == []
    found = json.loads(told)
    assert (found["errors"], found["red"]) == ({}, [])
    assert found["digests"] == telecom.digests[DAYS[0]]
