"""What holds for every test. Set-up that one folder alone needs belongs in that folder."""

import ssl
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def _certificates_are_read_once() -> Iterator[None]:
    """Each endpoint client reads the certificate store anew, 50 ms a time; here none speaks TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_dagster_of_somebody_elses() -> Iterator[None]:
    """Commands use the Dagster that is set: here each data folder has its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        yield


ON_SHARED_DAYS = tuple(
    f"tests/orchestration/test_{name}.py"
    for name in ("documents", "gates", "network", "pipeline", "resume", "rubric", "served_day", "ui")
)
"""Files whose tests share whole days that are played once a process."""


class _Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out test by test, but all that share played days to one process, and those first."""

    def _split_scope(self, nodeid: str) -> str:
        return "the shared days" if nodeid.startswith(ON_SHARED_DAYS) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduler:
    """Schedule by `_Scheduler`, whatever `--dist` says."""
    return _Scheduler(config, log)
