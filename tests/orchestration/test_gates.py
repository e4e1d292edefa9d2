"""The gates of the loop, each held shut by something that must not pass it."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest

from resources.models import Models
from tests.orchestration.conftest import DAYS, Pipeline, copy_of_example
from tests.policy_history import made, nights, nth, policy
from while_pipeline.grade.judge import Case, Judge, Preference, Verdict
from while_pipeline.project import Project, load_project
from while_pipeline.tables import grade, prove, simulate, train, watch
from while_pipeline.tables.base import frame, polars_schema, table_name
from while_pipeline.train.cuts import Cutter
from while_pipeline.train.publication import rows_hash
from while_pipeline.train.rows import candidates_from, sealed_prompts

pytestmark = pytest.mark.slow

_, DAY, _ = DAYS
CUTS = (train.Sft, train.Dpo, train.Grpo, train.RewardModel)
TRUST = (grade.JudgeTrust, grade.JudgeProbes, grade.DefectRecall)
FITTED = (train.Policies, train.PolicyHeads)


class EasyJudge:
    """Everything is fine."""

    identity = "easy"
    rubric = settings = None

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        return [Verdict(clean=True, reason="fine") for _ in cases]

    def preferences(self, pairs: Sequence[tuple[Case, Case]]) -> list[Preference]:
        return [Preference.of("tie", "tie", "fine") for _ in pairs]


class WordyJudge:
    """Pays for length: of the right answers to a customer, the longer half is clean."""

    identity = "wordy"
    rubric = settings = None

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        words = defaultdict[str, list[int]](list)
        for case in cases:
            if case.outcome.ok:
                words[self._customer(case)].append(case.transcript.agent_words)
        middle = {customer: median(counts) for customer, counts in words.items()}
        return [
            Verdict(
                clean=case.transcript.agent_words > middle.get(self._customer(case), 0), reason="by length"
            )
            for case in cases
        ]

    def _customer(self, case: Case) -> str:
        return case.transcript.messages[0].content or ""


class EasyModels(Models):
    def judge(self, project: Project) -> Judge:
        return EasyJudge()


class WordyModels(Models):
    def judge(self, project: Project) -> Judge:
        return WordyJudge()


def test_a_judge_that_calls_everything_clean_is_not_trusted_and_no_cut_is_made(worked: Pipeline) -> None:
    easy = worked.with_models(EasyModels(data=str(worked.data)))
    ran = easy.run(DAY, *TRUST, *CUTS)
    assert not ran.succeeded
    assert list(ran.red) == ["grade.judge_trust judge_is_trusted"]
    assert ran.stored.keys() == {table_name(table) for table in TRUST}


def test_the_cuts_stay_shut_in_a_run_of_their_own(worked: Pipeline) -> None:
    """A blocking check blocks only the run it is part of."""
    easy = worked.with_models(EasyModels(data=str(worked.data)))
    easy.run(DAY, *TRUST)
    before = worked.digests(DAY)
    ran = worked.run(DAY, *CUTS)
    assert not ran.succeeded
    assert not ran.stored
    assert ran.errors.keys() == {"train_sft", "train_dpo", "train_grpo", "train_reward_model"}
    assert all("the judge is not trusted" in why for why in ran.errors.values())
    assert worked.digests(DAY) == before


def test_a_cut_of_a_day_without_a_measured_judge_says_what_to_materialise(worked: Pipeline) -> None:
    ran = worked.run("2026-03-09", train.Sft)
    assert "grade.judge_trust has no row for 2026-03-09" in ran.errors["train_sft"]


def test_a_reward_that_pays_for_length_closes_the_rl_cut(worked: Pipeline) -> None:
    # The first day's policy is not good yet: its answers differ in length.
    wordy = worked.with_models(WordyModels(data=str(worked.data)))
    ran = wordy.run(DAYS[0], grade.Grades, grade.HackScan, train.Grpo)
    assert list(ran.red) == ["grade.hack_scan reward_is_not_hacked"]
    reason = str(ran.red["grade.hack_scan reward_is_not_hacked"]["reason"].value)
    # Not always the length itself: the words that make an answer longer may go along with it more closely.
    assert "beyond the endorsed columns the reward follows" in reason
    rows = worked.warehouse.read(grade.HackScan, DAYS[0])
    assert rows.filter(pl.col("feature") == "n_words")["residual"].item() > 0.2
    assert "train.grpo" not in ran.stored
    alone = worked.run(DAYS[0], train.Grpo)
    assert "the reward is hacked" in alone.errors["train_grpo"]


def wave_through(worked: Pipeline) -> None:
    """As if the publication gate had looked at the SFT cut as it is now, and seen nothing."""
    seen = pl.lit(rows_hash(worked.warehouse.read(train.Sft, DAY)))
    checks = worked.warehouse.read(train.Publication, DAY).with_columns(
        rows_hash=pl.when(pl.col("cut") == "sft").then(seen).otherwise("rows_hash")
    )
    worked.warehouse.replace_slice(train.Publication, DAY, checks)


def test_a_candidate_taught_on_failures_is_not_promoted(worked: Pipeline) -> None:
    spoil_sft(worked)
    unseen = worked.run(DAY, *FITTED)
    assert unseen.stored["train.policies"]["no_candidate"].value == (
        "the rows of sft are not those that the gate looked at"
    )
    wave_through(worked)
    ran = worked.run(DAY, *FITTED, prove.Trials, prove.Delta, prove.Looks, prove.Promotion)
    assert ran.errors == {}
    assert list(ran.red) == ["prove.delta nothing_got_worse"]
    assert "overall" in str(ran.red["prove.delta nothing_got_worse"]["worse"].value)
    (decision,) = worked.warehouse.read(prove.Promotion, DAY).to_dicts()
    assert not decision["promoted"]
    assert decision["reason"].startswith("Not promoted: overall is worse")
    worked.run(DAYS[2], watch.Agent)
    (agent,) = worked.warehouse.read(watch.Agent, DAYS[2]).to_dicts()
    assert agent["policy_version"] == decision["serving"]


def test_publication_refuses_a_planted_sealed_task(worked: Pipeline) -> None:
    sealed = worked.warehouse.read(prove.HeldOut, DAY).row(0, named=True)
    rows = worked.warehouse.read(train.Sft, DAY)
    planted = rows.with_columns(
        task_id=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(sealed["task_id"])).otherwise("task_id")
    )
    worked.warehouse.replace_slice(train.Sft, DAY, planted)
    ran = worked.run(DAY, train.Publication, *FITTED)
    assert list(ran.red) == ["train.publication cuts_may_be_published"]
    (refused,) = worked.warehouse.read(train.Publication, DAY).filter(~pl.col("passed")).to_dicts()
    assert (refused["cut"], refused["check"], refused["n_refused"]) == ("sft", "no_sealed_task", 1)
    assert sealed["task_id"] in refused["detail"]
    assert "train.policies" not in ran.stored
    alone = worked.run(DAY, *FITTED)
    assert "publication refused sft: no_sealed_task" in alone.errors["train_policies"]


def test_publication_refuses_a_sealed_prompt_copied_under_another_name(worked: Pipeline) -> None:
    prompt = worked.warehouse.read(prove.HeldOut, DAY)["prompt"][0]
    rows = worked.warehouse.read(train.Sft, DAY).to_dicts()
    messages = json.loads(rows[0]["messages"])
    next(m for m in messages if m["role"] == "user")["content"] = prompt.upper() + " !"
    rows[0]["messages"] = json.dumps(messages)
    worked.warehouse.replace_slice(train.Sft, DAY, pl.DataFrame(rows, schema=polars_schema(train.Sft)))
    ran = worked.run(DAY, train.Publication)
    assert list(ran.red) == ["train.publication cuts_may_be_published"]
    refused = worked.warehouse.read(train.Publication, DAY).filter(~pl.col("passed"))
    assert refused.select("cut", "check", "n_refused").rows() == [("sft", "no_sealed_prompt", 1)]


def spoil_sft(pipeline: Pipeline) -> None:
    """Fill the day's SFT cut with what failed, as a cut with its sign turned round would."""
    loaded = load_project(pipeline.root)
    candidates = candidates_from(
        *pipeline.warehouse.read_day(DAY, simulate.Rollouts, grade.Grades, simulate.Scenarios)
    )
    turned = [replace(one, passed=one.passed is False, reward=1.0) for one in candidates]
    sealed = sealed_prompts(pipeline.warehouse.read(prove.HeldOut, DAY))
    rows = Cutter(turned, loaded.tools, loaded.policy_document.text, sealed).sft().rows
    pipeline.warehouse.replace_slice(train.Sft, DAY, frame(train.Sft, DAY, rows))


def test_people_s_labels_of_any_day_up_to_this_one_are_a_second_source(
    worked: Pipeline, tmp_path: Path
) -> None:
    labelled = Pipeline(copy_of_example(tmp_path / "labelled", judge={"gold": "gold.csv"}), worked.data)
    every = {day: worked.warehouse.read(grade.Grades, day).drop_nulls("verdict") for day in DAYS}
    judged = {day: rows.gather_every(4).head(30) for day, rows in every.items()}
    named = [(row["rollout_id"], row["verdict"]) for day in DAYS[:2] for row in judged[day].to_dicts()]
    later = judged[DAYS[2]]["rollout_id"][0]
    lines = [f"{rollout},{'pass' if clean else 'fail'}" for rollout, clean in [*named, (later, True)]]
    (labelled.root / "gold.csv").write_text("\n".join(["rollout_id,label", *lines, "nobody,pass"]))

    assert labelled.run(DAY, *TRUST).red == {}
    row = human_row(labelled)
    assert (row["n"], row["agreement"], row["trusted"], row["required"]) == (60, 1.0, True, False)
    assert (row["n_unmatched"], row["n_other_judge"], row["alpha"]) == (2, 0, None)

    none_is_clean = [f"{rollout},fail" for rollout, _ in named]
    (labelled.root / "gold.csv").write_text("\n".join(["rollout_id,label", *none_is_clean]))
    ran = labelled.run(DAY, *TRUST, train.Sft)
    assert list(ran.red) == ["grade.judge_trust judge_is_trusted"]
    assert "train.sft" not in ran.stored
    assert "the judge is not trusted: human: agreement is" in worked.run(DAY, train.Sft).errors["train_sft"]


def test_required_labels_that_nobody_gave_keep_the_cuts_shut_and_are_counted(
    worked: Pipeline, tmp_path: Path
) -> None:
    strict = Pipeline(copy_of_example(tmp_path / "strict", judge={"require_human": True}), worked.data)
    ran = strict.run(DAY, *TRUST)
    assert list(ran.red) == ["grade.judge_trust judge_is_trusted"]
    assert not human_row(strict)["trusted"]
    assert "16 labels are needed at least" in worked.run(DAY, train.Dpo).errors["train_dpo"]


def test_a_label_that_cannot_be_read_stops_the_examination_with_its_mend(
    worked: Pipeline, tmp_path: Path
) -> None:
    spoilt = Pipeline(copy_of_example(tmp_path / "spoilt", judge={"gold": "gold.csv"}), worked.data)
    (spoilt.root / "gold.csv").write_text("rollout_id,label\nr1,maybe\n")
    before = worked.digests(DAY)
    error = spoilt.run(DAY, *TRUST).errors["grade_judge_trust"]
    assert "gold.csv: line 2, label = 'maybe': write one of pass" in error
    assert worked.digests(DAY) == before


def human_row(pipeline: Pipeline) -> dict[str, Any]:
    rows = pipeline.warehouse.read(grade.JudgeTrust, DAY).to_dicts()
    (row,) = [row for row in rows if (row["source"], row["half"]) == ("human", "all")]
    return row


def test_a_proof_of_another_candidate_promotes_nobody(tmp_path: Path) -> None:
    pipeline = Pipeline(copy_of_example(tmp_path / "telecom"), tmp_path / "data")
    history = nights((policy(1.0), True))
    pipeline.warehouse.replace_slices(
        DAYS[0],
        {
            train.Policies: history.table("policies"),
            watch.Agent: history.table("agents"),
            prove.Looks: made(prove.Looks, nth(0), {"candidate": "m-withdrawn", "tasks": "[]"}),
        },
    )
    ran = pipeline.run(DAYS[0], prove.Promotion)
    assert "the day's trials are of m-withdrawn" in ran.errors["prove_promotion"]
    assert pipeline.warehouse.read(prove.Promotion).is_empty()
