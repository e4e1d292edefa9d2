import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from scipy.stats import entropy

from tests.decisions import DECISIONS, decision, likelihood
from tests.example import BASE
from while_pipeline.agents.policy import HEADS
from while_pipeline.records import Decision
from while_pipeline.train.fit_sft import fit_sft
from while_pipeline.train.policy_report import ALL_HEADS, Age, Taught, age_of, heads_markdown, moves

ASKED, INVENTED = decision("argument", "ask"), decision("argument", "invent", "f0")


@settings(max_examples=8, deadline=None)
@given(DECISIONS)
def test_every_figure_is_a_mean_over_the_decisions(made: list[Decision]) -> None:
    """Oracle: scipy's divergence and entropy of each decision's distribution, as the policies give it."""
    fitted = fit_sft(BASE, made).weights
    overall = moves(BASE, fitted, Taught(made[1:], made[:1]))[0]
    new, old = (
        [np.exp(list(weights.log_probabilities(d.head, d.features).values())) for d in made]
        for weights in (fitted, BASE)
    )
    assert overall.kl == pytest.approx(np.mean([entropy(n, o) for n, o in zip(new, old, strict=True)]))
    assert overall.entropy_before == pytest.approx(np.mean([entropy(o) for o in old]))
    assert overall.entropy_after == pytest.approx(np.mean([entropy(n) for n in new]))
    assert (overall.n_wanted, overall.n_unwanted) == (len(made) - 1, 1)
    assert overall.unwanted_before == pytest.approx(made[0].logprob)
    assert overall.unwanted_after == pytest.approx(likelihood(fitted, made[:1]))
    if made[1:]:
        assert overall.logprob_before == pytest.approx(likelihood(BASE, made[1:]))
        assert overall.logprob_after == pytest.approx(likelihood(fitted, made[1:]))
    else:
        assert overall.logprob_before is None


@settings(max_examples=8, deadline=None)
@given(DECISIONS)
def test_the_heads_add_up_to_the_whole(made: list[Decision]) -> None:
    fitted = fit_sft(BASE, made).weights
    overall, *heads = moves(BASE, fitted, Taught(made))
    assert [overall.head, *(move.head for move in heads)] == [ALL_HEADS, *HEADS]
    assert sum(move.n_wanted for move in heads) == len(made)
    shares = [move.n_wanted * (move.kl or 0.0) for move in heads]
    assert overall.kl == pytest.approx(math.fsum(shares) / len(made))


def test_a_head_that_learnt_nothing_is_unmeasured_not_unmoved() -> None:
    stale = next(move for move in moves(BASE, BASE, Taught([ASKED])) if move.head == "stale")
    assert stale[1:] == (0, 0, *[None] * 7)
    asked = next(move for move in moves(BASE, BASE, Taught([ASKED])) if move.head == "argument")
    assert (asked.kl, asked.unwanted_before) == (0.0, None)


def test_the_moves_read_as_a_table() -> None:
    lines = heads_markdown(moves(BASE, BASE, Taught([ASKED], [INVENTED]))).splitlines()
    assert len(lines) == 2 + 1 + len(HEADS)
    assert lines[2].startswith("| all | 1 | 1 | -0.2231 | -0.2231 | -1.6094 |")
    assert "| stale | 0 | 0 |  |  |" in lines[2 + 1 + list(HEADS).index("stale")]


# -- how old the rollouts were ----------------------------------------------------------------------------


def served(*versions: str) -> pl.DataFrame:
    """`watch.agent` of days on end."""
    start = pl.date(2026, 3, 1)
    return pl.DataFrame({"policy_version": versions}).select(
        start.dt.offset_by(pl.format("{}d", pl.int_range(pl.len()))).alias("day"), "policy_version"
    )


def test_rollouts_of_the_serving_policy_are_of_today() -> None:
    assert age_of(["b", "b"], served("a", "b")) == Age(n_stale=0, versions_behind=0, days_behind=0)


def test_the_oldest_stale_rollout_counts() -> None:
    """`a` served last three days ago, and two promotions have come since."""
    assert age_of(["a", "c", "b", "a"], served("a", "a", "b", "b", "c")) == Age(3, 2, 3)


def test_a_policy_rolled_back_to_is_as_fresh_as_its_last_day() -> None:
    assert age_of(["a", "b"], served("a", "b", "a")) == Age(1, 1, 1)


def test_a_version_that_never_served_has_no_known_age() -> None:
    assert age_of(["a", "x"], served("a")) == Age(1, None, None)
