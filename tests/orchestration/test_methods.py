"""Which cut the candidate is fitted to is a setting, and each method's fit tells how far it moved."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.orchestration.conftest import DAYS, Pipeline, copy_of_example
from while_pipeline.agents.policy import HEADS, base_weights
from while_pipeline.tables import grade, train, watch
from while_pipeline.tables.base import Table

pytestmark = pytest.mark.slow

DAY = DAYS[0]
FITTED = (train.Policies, train.PolicyHeads)
CUTS: dict[str, type[Table]] = {"sft": train.Sft, "dpo": train.Dpo, "grpo": train.Grpo}


def by(method: str, worked: Pipeline, folder: Path) -> Pipeline:
    """The same data, fitted by another method."""
    return Pipeline(copy_of_example(folder / method, train={"method": method}), worked.data)


@pytest.mark.parametrize("method", ["dpo", "grpo"])
def test_the_method_that_is_set_decides_what_is_fitted(method: str, worked: Pipeline, tmp_path: Path) -> None:
    by_sft = worked.warehouse.read(train.Policies, DAY)["policy_version"].item()
    ran = by(method, worked, tmp_path).run(DAY, *FITTED)
    assert ran.errors == {}
    (row,) = worked.warehouse.read(train.Policies, DAY).to_dicts()
    assert row["method"] == method
    assert row["parent"] == base_weights().version
    assert row["policy_version"] not in (by_sft, row["parent"])
    assert row["n_rows"] + row["n_valid"] == worked.warehouse.read(CUTS[method], DAY).height
    assert (row["n_stale"], row["versions_behind"], row["days_behind"]) == (0, 0, 0)
    assert "beta" in json.loads(row["settings"])
    shown = ran.stored["train.policies"]
    assert shown["kl"].value == pytest.approx(row["kl"])
    assert f"| {next(iter(HEADS))} |" in str(shown["heads"].value)
    heads = worked.warehouse.read(train.PolicyHeads, DAY)
    assert heads["head"].to_list() == list(HEADS)


def test_rollouts_of_a_policy_that_serves_no_more_are_counted_as_stale(worked: Pipeline) -> None:
    """The second day's rollouts, after the day has been given back to the base policy."""
    worked.run(DAYS[1], *FITTED)
    (before,) = worked.warehouse.read(train.Policies, DAYS[1]).to_dicts()
    assert before["n_stale"] == 0
    spoil_agent(worked, DAYS[1])
    worked.run(DAYS[1], *FITTED)
    (after,) = worked.warehouse.read(train.Policies, DAYS[1]).to_dicts()
    assert after["parent"] == base_weights().version
    assert after["n_stale"] == after["n_rows"] > 0
    # The policy that played never served a day that is stored any more.
    assert after["versions_behind"] is None


def spoil_agent(pipeline: Pipeline, day: str) -> None:
    first = pipeline.warehouse.read(watch.Agent, DAYS[0]).select("policy_version", "weights").row(0)
    rows = pipeline.warehouse.read(watch.Agent, day)
    given_back = rows.with_columns(policy_version=pl.lit(first[0]), weights=pl.lit(first[1]))
    pipeline.warehouse.replace_slice(watch.Agent, day, given_back)


def test_a_hacked_reward_trains_no_policy_even_when_the_cut_was_made_before(
    worked: Pipeline, tmp_path: Path
) -> None:
    rows = worked.warehouse.read(grade.HackScan, DAY)
    worked.warehouse.replace_slice(grade.HackScan, DAY, rows.with_columns(hacked=pl.lit(True)))
    before = worked.digests(DAY)
    ran = by("grpo", worked, tmp_path).run(DAY, *FITTED)
    assert "the reward is hacked" in ran.errors["train_policies"]
    assert worked.digests(DAY) == before


def test_a_cut_without_rows_makes_no_candidate_and_the_metadata_says_why(worked: Pipeline) -> None:
    worked.warehouse.replace_slice(train.Sft, DAY, worked.warehouse.read(train.Sft, DAY).clear())
    ran = worked.run(DAY, train.Publication, *FITTED)
    assert ran.errors == {}
    why = ran.stored["train.policies"]["no_candidate"].value
    assert why.startswith("publication refused sft: not_empty: no row is left")
    assert worked.warehouse.read(train.Policies, DAY).is_empty()
    assert worked.warehouse.read(train.PolicyHeads, DAY).is_empty()
