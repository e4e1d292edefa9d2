"""A served policy for tests that speak real HTTP: the application on a free port of this machine.

What belongs here: starting and stopping it, and reading its traffic back. No assertion belongs here.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from while_pipeline.agents.policy import Weights
from while_pipeline.project import Project
from while_pipeline.serve.app import Site, build_app
from while_pipeline.serve.listen import listening, server_of, url_of
from while_pipeline.serve.policy import ServedPolicy
from while_pipeline.serve.traffic import TrafficLog
from while_pipeline.watch.read import SUFFIXES, Traffic, read_traffic

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Served:
    """A running server."""

    base_url: str
    policy: ServedPolicy
    log: TrafficLog

    def traffic(self) -> Traffic:
        """What it has answered so far, read back as the pipeline reads traffic."""
        self.log.flush()
        files = [p for p in self.log.folder.rglob("*") if p.name.endswith(SUFFIXES)]
        return read_traffic(files, self.log.folder, None)


@contextmanager
def serving(
    project: Project,
    weights: Weights,
    folder: Path,
    *,
    key: str | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> Iterator[Served]:
    """Serve a policy of a project, with its traffic below `folder`."""
    policy = ServedPolicy(weights, project.settings.name, project.policy_document.text)
    log = TrafficLog(
        folder,
        project.settings.name,
        policy.version,
        project.settings.traffic.timezone,
        policy.policy_document,
    )
    with listening("127.0.0.1", 0) as listener, log:
        server = server_of(build_app(Site(policy, log, key, clock)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        try:
            yield Served(url_of(listener), policy, log)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
