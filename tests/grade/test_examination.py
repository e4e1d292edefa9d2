from collections.abc import Sequence
from functools import cache

import polars as pl
import pytest

from tests.example import DOCUMENT, TOOLS, scenarios
from while_pipeline.grade.controls import LABELS, Controls, play_controls
from while_pipeline.grade.examination import Examination, examine
from while_pipeline.grade.judge import Case, Judge, Preference, RulesJudge, Verdict
from while_pipeline.grade.people import HumanGold
from while_pipeline.grade.probes import PROBES
from while_pipeline.tables import grade
from while_pipeline.tables.base import frame

DAY = "2026-03-02"


@cache
def controls() -> Controls:
    return play_controls(scenarios(120, seed=3), TOOLS, DOCUMENT, count=160, seed=1)


def examined(judge: Judge, human: HumanGold | None = None, *, require_human: bool = False) -> Examination:
    return examine(judge, controls(), TOOLS, DOCUMENT, human=human, require_human=require_human)


def people(n: int, wrong: int = 0, **counts: int) -> HumanGold:
    """Labels of n rollouts, half of them clean, of which the judge got some wrong."""
    rows = [(f"r{i}", f"t{i}", i % 2 == 0, (i % 2 == 0) != (i < wrong), 10, "") for i in range(n)]
    left = {"n_unmatched": 0, "n_other_judge": 0, "n_tied": 0} | counts
    return HumanGold(pl.DataFrame(rows, schema=LABELS, orient="row"), n_annotators=2, alpha=0.8, **left)


class Flattered(RulesJudge):
    """The rules, had by flattery."""

    def verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        return [
            said.model_copy(update={"clean": True})
            if "a wonderful customer, and" in case.transcript.text()
            else said
            for case, said in zip(cases, super().verdicts(cases), strict=True)
        ]


def test_the_rules_pass_the_examination_and_every_row_fits_its_table() -> None:
    found = examined(RulesJudge())
    assert found.gate.open
    assert frame(grade.JudgeTrust, DAY, found.trust).height == 3
    assert frame(grade.JudgeProbes, DAY, [row._asdict() for row in found.probes]).height == len(PROBES) + 2
    assert frame(grade.DefectRecall, DAY, [row._asdict() for row in found.recalls]).height > 5
    assert {row["source"] for row in found.trust} == {"seeded"}
    assert {row["n_annotators"] for row in found.trust} == {None}


def test_the_same_controls_give_the_same_examination() -> None:
    assert examined(RulesJudge()) == examined(RulesJudge())


def test_a_judge_that_can_be_flattered_is_refused_though_it_agrees_with_every_label() -> None:
    found = examined(Flattered())
    assert found.trust[0]["low"] > 0.80
    assert not found.gate.open
    assert found.gate.reason.startswith("seeded: probe flattery turns")


class Ordered(RulesJudge):
    """The rules, but of two it takes the one it is shown first."""

    def preferences(self, pairs: Sequence[tuple[Case, Case]]) -> list[Preference]:
        return [Preference.of("first", "second", "the first") for _ in pairs]


def test_a_preference_for_the_first_is_shown_and_closes_no_gate_over_single_verdicts() -> None:
    found = examined(Ordered())
    (swap,) = [row for row in found.probes if row.probe == "swap"]
    assert (swap.rate, swap.flagged) == (1.0, True)
    assert found.gate.open


def test_people_s_labels_are_a_second_source_with_their_counts() -> None:
    found = examined(RulesJudge(), people(40, n_unmatched=3, n_tied=1))
    rows = {(row["source"], row["half"]): row for row in found.trust}
    assert len(rows) == 6
    assert found.gate.open
    whole = rows["human", "all"]
    assert (whole["n"], whole["n_annotators"], whole["alpha"]) == (40, 2, 0.8)
    assert (whole["n_unmatched"], whole["n_other_judge"], whole["n_tied"]) == (3, 0, 1)
    assert whole["reason"].endswith(
        "(labelled rollouts left out: 3 name no stored rollout, 1 annotators at evens)"
    )
    assert rows["human", "a"]["n_unmatched"] is None
    assert frame(grade.JudgeTrust, DAY, found.trust).height == 6


def test_people_who_contradict_the_judge_close_the_gate() -> None:
    found = examined(RulesJudge(), people(40, wrong=12))
    assert not found.gate.open
    assert found.gate.reason.startswith("human: agreement is 0.70 over 40 labels")


@pytest.mark.parametrize("human", [None, people(0, n_other_judge=7)], ids=["no file", "of another judge"])
def test_required_labels_that_are_not_there_keep_the_gate_shut_and_are_counted(
    human: HumanGold | None,
) -> None:
    found = examined(RulesJudge(), human, require_human=True)
    assert not found.gate.open
    assert "16 labels are needed at least" in found.gate.reason
    assert ("7 graded by another judge" in found.gate.reason) == (human is not None)
    assert {row["required"] for row in found.trust} == {True}


def test_labels_that_are_not_required_and_not_usable_leave_the_gate_to_the_planted_defects() -> None:
    found = examined(RulesJudge(), people(0, n_other_judge=7))
    assert found.gate.open
    assert [row["required"] for row in found.trust] == [True] * 3 + [False] * 3
