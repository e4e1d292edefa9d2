"""A day that is graded batch by batch is the day graded at once; a day without rows has no figures."""

from functools import partial

import dagster as dg
import pytest

import assets.grade
from assets.grade import judge_is_trusted
from tests.orchestration.conftest import DAYS, Pipeline, Telecom
from while_pipeline.grade.batches import scenario_batches
from while_pipeline.tables import grade

pytestmark = pytest.mark.slow

_, DAY, _ = DAYS
NO_DAY = "2026-03-09"


def test_batches_change_no_row_and_no_figure(
    telecom: Telecom, worked: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {table: worked.warehouse.read(table, DAY) for table in (grade.Conduct, grade.Grades)}
    monkeypatch.setattr(assets.grade, "scenario_batches", partial(scenario_batches, most=25))
    assert len(list(assets.grade.batches_of(worked.warehouse, DAY))) > 5
    ran = worked.run(DAY, *before)
    for table, rows in before.items():
        assert rows.height
        assert worked.warehouse.read(table, DAY).equals(rows)
    assert worked.digests(DAY) == telecom.digests[DAY]
    whole = telecom.runs[DAY].stored["grade.grades"]
    assert "passed" in whole
    assert ran.stored["grade.grades"] == whole


def test_a_day_without_a_verdict_has_no_pass_rate_rather_than_zero(worked: Pipeline) -> None:
    ran = worked.run(NO_DAY, grade.Conduct, grade.Grades, grade.PassAt)
    assert ran.succeeded
    assert "pass_at_1" in worked.run(DAY, grade.PassAt).stored["grade.pass_at"]
    assert "pass_at_1" not in ran.stored["grade.pass_at"]
    assert "passed" not in ran.stored["grade.grades"]
    assert ran.stored["grade.grades"]["passed_n"].value == 0


def test_a_day_without_a_measured_judge_fails_the_check_with_the_gates_reason(worked: Pipeline) -> None:
    # A run that evaluates a check alone has no partition, so it is asked directly.
    context = dg.build_op_context(partition_key=NO_DAY)
    check = judge_is_trusted(context, warehouse=worked.warehouse)
    assert isinstance(check, dg.AssetCheckResult)
    assert not check.passed
    assert check.metadata.keys() == {"reason"}
    assert f"grade.judge_trust has no row for {NO_DAY}" in str(check.metadata["reason"].value)
