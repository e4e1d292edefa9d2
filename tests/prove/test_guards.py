import polars as pl
import pytest
from scipy import stats

from tests.arms import FIRST_TWO, GAIN, IN_AFTER, LOSS, SAME, finding, overall, scope, trials
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.intervals import holm, pseudo_pair_interval
from while_pipeline.prove.verdict import Verdict, promotable


def test_a_guard_is_the_share_of_rollouts_free_of_what_its_rule_finds() -> None:
    data = finding(
        trials({"a": GAIN, "b": SAME}), ("leak", IN_AFTER & FIRST_TWO), ("loops", pl.lit(value=True))
    )
    delta = paired_delta(data, guards=["leak", "loops", "broken_rule"])
    assert delta["kind"].to_list() == ["overall", "category", "category", "guard", "guard", "guard"]
    leak = scope(delta, "leak")
    assert (leak["before"], leak["after"], leak["n_tasks"], leak["verdict"]) == (1.0, 0.5, 40, Verdict.WORSE)
    assert (leak["low"], leak["high"]) == pytest.approx(pseudo_pair_interval([-0.5] * 40, 4))
    assert [scope(delta, rule)["before"] for rule in ("loops", "broken_rule")] == [0.0, 1.0]
    assert scope(delta, "loops")["reason"] == "none of 40 tasks changed"


def test_a_rule_whose_name_holds_anothers_is_another_rule() -> None:
    data = finding(trials({"a": SAME}), ("harness_leak", IN_AFTER))
    assert scope(paired_delta(data, guards=["leak"]), "leak")["verdict"] == Verdict.NO_DIFFERENCE


def test_a_guard_that_got_worse_stops_a_better_candidate() -> None:
    data = finding(trials({"refund": GAIN * 2}), ("leak", IN_AFTER & FIRST_TWO))
    assert promotable(paired_delta(data))[0]
    agreed, reason = promotable(paired_delta(data, guards=["leak"]))
    assert not agreed
    assert "overall is better" in reason
    assert "but leak is worse (-0.500 [" in reason


def test_a_guard_nobody_measured_stops_a_better_candidate() -> None:
    agreed, reason = promotable(paired_delta(trials({"refund": GAIN}), guards=["leak"]))
    assert not agreed
    assert "leak is not_comparable (missing rows: 80 of 80 before are absent or lack findings" in reason


def test_another_judge_does_not_touch_what_the_conduct_rules_measured() -> None:
    data = finding(trials({"a": SAME})).with_columns(judge=pl.col("arm"))
    delta = paired_delta(data, guards=["leak"])
    assert scope(delta, "overall")["reason"].startswith("other judge")
    assert scope(delta, "leak")["verdict"] == Verdict.NO_DIFFERENCE


def test_categories_and_guards_are_one_family() -> None:
    some = [(0, 1)] * 7 + [(1, 0)] + [(2, 2)] * 12
    data = finding(
        trials({"a": some, "b": LOSS}), ("leak", IN_AFTER & (pl.col("category") == "a") & FIRST_TWO)
    )
    delta = paired_delta(data, guards=["leak"])
    raw = [scope(delta, name)["p_sign_flip"] for name in ("a", "b", "leak")]
    assert [scope(delta, n)["p_adjusted"] for n in ("a", "b", "leak")] == pytest.approx(holm(raw).tolist())
    by_hochberg = stats.false_discovery_control(raw)
    assert [scope(delta, n)["q"] for n in ("a", "b", "leak")] == pytest.approx(by_hochberg.tolist())
    assert overall(delta)["q"] is None
