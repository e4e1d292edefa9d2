import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from benchmarks.llmbar import JUDGES, SETS, Measured, measured
from tests.example import SHARED

FOLDER = SHARED / "judge" / "llmbar"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is not there")

ALL = [(name, judge) for name in SETS for judge in JUDGES]
NATURAL, MANUAL = SETS


def file(name: str, judge: str) -> Path:
    return FOLDER / f"{name}.{judge}.result.json"


@cache
def found(name: str, judge: str) -> Measured:
    return measured(file(name, judge))


def said(name: str, judge: str) -> list[tuple[int, list[list[str | None]]]]:
    """(label, winners of both orders round by round) of every pair: the file as it is."""
    pairs: list[dict[str, Any]] = json.loads(file(name, judge).read_text())
    return [(p["label"], [[order["winner"] for order in r.values()] for r in p["results"]]) for p in pairs]


@pytest.mark.parametrize(("name", "judge"), ALL)
def test_accuracy_kappa_and_unread_verdicts_equal_an_independent_computation(name: str, judge: str) -> None:
    every = [(label, winner) for label, rounds in said(name, judge) for orders in rounds for winner in orders]
    read = [(str(label), winner) for label, winner in every if winner in ("1", "2")]
    counts = [[sum(pair == (gold, winner) for pair in read) for winner in "12"] for gold in "12"]
    kappa = cohens_kappa(counts)

    row = found(name, judge).trust
    assert (row.n, row.n_skipped) == (len(read), len(every) - len(read))
    assert row.agreement == pytest.approx(sum(label == winner for label, winner in read) / len(read))
    assert row.kappa == pytest.approx(kappa.kappa)
    # Two orders of a pair tend to err together, which two independent labels would not.
    assert row.kappa_low is not None
    assert row.kappa_low <= kappa.kappa_low + 1e-9
    assert (row.sensitivity, row.specificity) == pytest.approx(
        (counts[0][0] / sum(counts[0]), counts[1][1] / sum(counts[1]))
    )


@pytest.mark.parametrize(("name", "judge"), ALL)
def test_swap_consistency_equals_an_independent_computation(name: str, judge: str) -> None:
    first = [rounds[0] for _, rounds in said(name, judge)]
    whole = [orders for orders in first if None not in orders]
    row = found(name, judge).swap
    assert (row.n, row.n_skipped) == (len(whole), len(first) - len(whole))
    assert row.n - row.flipped == sum(one == other for one, other in whole)


@pytest.mark.parametrize(
    ("name", "judge", "accuracy"),
    [
        (NATURAL, "GPT-4_Vanilla", 0.955),
        (MANUAL, "GPT-4_Vanilla", 0.804),
        (NATURAL, "ChatGPT_Swap", 0.699),
        (MANUAL, "ChatGPT_Swap", 0.366),
    ],
)
def test_the_known_accuracies_are_found_where_an_unread_verdict_counts_as_wrong(
    name: str, judge: str, accuracy: float
) -> None:
    row = found(name, judge).trust
    assert row.agreement is not None
    assert row.agreement * row.n / (row.n + row.n_skipped) == pytest.approx(accuracy, abs=5e-4)


@pytest.mark.parametrize(("name", "consistent"), [(NATURAL, 0.62), (MANUAL, 0.52)])
def test_the_known_swap_consistencies_are_found(name: str, consistent: float) -> None:
    row = found(name, "ChatGPT_Swap").swap
    assert (row.n - row.flipped) / (row.n + row.n_skipped) == pytest.approx(consistent, abs=5e-3)
    assert row.flagged


def test_one_verdict_of_all_could_not_be_read() -> None:
    unread = {(name, judge): found(name, judge).trust.n_skipped for name, judge in ALL}
    assert {key: n for key, n in unread.items() if n} == {(MANUAL, "ChatGPT_Swap"): 1}


@pytest.mark.parametrize(
    ("name", "judge", "trusted"),
    [
        (NATURAL, "GPT-4_Vanilla", True),
        (NATURAL, "GPT-4_Swap", True),
        (NATURAL, "ChatGPT_Vanilla", False),
        (NATURAL, "ChatGPT_Swap", False),
        (MANUAL, "GPT-4_Vanilla", False),
        (MANUAL, "ChatGPT_Vanilla", False),
        (MANUAL, "ChatGPT_Swap", False),
    ],
)
def test_the_strong_judge_is_trusted_on_natural_pairs_and_none_on_adversarial_ones(
    name: str, judge: str, trusted: bool
) -> None:
    assert found(name, judge).trust.trusted is trusted


def test_a_judge_worse_than_a_coin_is_told_that_labels_will_not_help() -> None:
    row = found(MANUAL, "ChatGPT_Vanilla").trust
    assert row.kappa is not None
    assert row.kappa < 0
    assert "no number of labels is enough" in row.reason
