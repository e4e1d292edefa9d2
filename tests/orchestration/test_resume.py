"""A run that is killed leaves nothing half written and nothing locked."""

import sqlite3
import time
from pathlib import Path

import pytest

from tests.orchestration.conftest import DAYS, Checkout, Telecom
from while_pipeline.tables import grade, simulate, watch

pytestmark = pytest.mark.slow

DAY = DAYS[0]
PATIENCE_S = 240.0


def events(checkout: Checkout, step: str) -> list[str]:
    """Types of the events of a step over all runs, as Dagster's own files hold them."""
    found: list[str] = []
    for file in (checkout.root / "data" / "dagster").rglob("*.db"):
        try:
            with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as log:
                asked = "SELECT dagster_event_type FROM event_logs WHERE step_key = ?"
                found += [kind for (kind,) in log.execute(asked, [step])]
        except sqlite3.OperationalError:
            # Not made yet, or another kind of file.
            continue
    return found


def test_a_run_killed_while_playing_completes_when_run_again_with_the_same_tables(
    checkout: Checkout, telecom: Telecom
) -> None:
    killed = checkout.start("run", "--day", DAY)
    deadline = time.monotonic() + PATIENCE_S
    while "STEP_START" not in events(checkout, "simulate_rollouts"):
        assert killed.poll() is None, checkout.output
        assert time.monotonic() < deadline, checkout.output
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert "STEP_SUCCESS" not in events(checkout, "simulate_rollouts"), "it was killed too late to test anything"
    left = checkout.pipeline.warehouse
    assert left.read(watch.Conversations, DAY).height > 0
    assert left.read(simulate.Rollouts).is_empty()
    assert left.read(grade.Grades).is_empty()

    again = checkout.start("run", "--day", DAY)
    assert again.wait(PATIENCE_S) == 0, checkout.output
    assert "was left over by a process that died" in checkout.output
    assert checkout.pipeline.digests(DAY) == telecom.digests[DAY]
    assert not list(Path(checkout.root / "data").glob("*.fresh*"))
