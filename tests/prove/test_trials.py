import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.endpoint_server import Answer, EndpointServer
from tests.example import BASE, DAY, DOCUMENT, GRID, SEED, TOOLS, WRITER
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.endpoint import EndpointPlayer, EndpointSettings
from while_pipeline.agents.policy import BIAS, HEADS, Weights
from while_pipeline.constants import MIN_CHANGED_TASKS
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.held_out import draw_held_out
from while_pipeline.prove.trials import CUSTOMER, Arm, about_trials, trial_rows
from while_pipeline.simulate.drive import AgentDown
from while_pipeline.simulate.user_world import WorldLost
from while_pipeline.tables import prove
from while_pipeline.tables.base import frame

TASKS = draw_held_out(GRID, WRITER, tasks=24, seed=SEED, day=DAY)
K = 3
_MESSAGES = pl.List(pl.Struct({"role": pl.String, "content": pl.String}))


def _always(head: str, choice: str) -> Weights:
    """The base policy with one decision as good as fixed."""
    table = {option: {BIAS: 50.0 if option == choice else -50.0} for option in HEADS[head]}
    return Weights(weights={**BASE.weights, head: table})


PLAIN, BOILERPLATE = _always("style", "plain"), _always("style", "boilerplate")
_POLICIES = {weights.version: weights for weights in (BASE, PLAIN, BOILERPLATE)}


def embedded(weights: Weights) -> Arm:
    return Arm(weights.version, EmbeddedAgent(weights))


@cache
def _played(before: str, after: str, seed: int) -> list[dict[str, Any]]:
    arms = {"before": embedded(_POLICIES[before]), "after": embedded(_POLICIES[after])}
    return trial_rows(TASKS, arms, TOOLS, DOCUMENT, RulesJudge(), k=K, seed=seed)


def _rows(before: Weights, after: Weights, seed: int = 1) -> list[dict[str, Any]]:
    return _played(before.version, after.version, seed)


def _by_attempt(rows: list[dict[str, Any]], arm: str) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["task_id"], row["sample"]): row for row in rows if row["arm"] == arm}


def test_every_arm_plays_every_task_k_times_and_the_rows_fit_their_table() -> None:
    rows = _rows(BASE, PLAIN)
    assert len(rows) == 2 * 24 * K
    attempts = {(task.task_id, sample) for task in TASKS for sample in range(K)}
    assert set(_by_attempt(rows, "before")) == set(_by_attempt(rows, "after")) == attempts
    assert frame(prove.Trials, DAY, rows).height == len(rows)


def test_identical_policies_give_identical_arms_and_no_difference_at_all() -> None:
    rows = _rows(BASE, BASE)
    before, after = (
        [{k: v for k, v in row.items() if k != "arm"} for row in rows if row["arm"] == arm]
        for arm in ("before", "after")
    )
    assert before == after
    assert 0 < sum(row["passed"] for row in before) < len(before)
    report = paired_delta(
        frame(prove.Trials, DAY, rows),
        level=0.95,
        min_changed=MIN_CHANGED_TASKS,
        min_effect=0.0,
        looks=1,
    )
    assert set(report["difference"].to_list()) == {0.0}
    assert set(report["n_changed"].to_list()) == {0}


def test_policies_that_differ_in_one_decision_talk_alike_until_it_is_taken() -> None:
    rows = _rows(BASE, BOILERPLATE)
    before, after = _by_attempt(rows, "before"), _by_attempt(rows, "after")
    for attempt, row in before.items():
        said, other = (json.loads(r["messages"]) for r in (row, after[attempt]))
        assert said[0] == other[0]
        different = next((a for a, b in zip(said, other, strict=False) if a != b), None)
        assert different is None or (different["role"], bool(different["content"])) == ("assistant", True)


def test_a_policy_spoilt_in_one_decision_is_never_better_on_the_same_luck() -> None:
    rows = _rows(PLAIN, BOILERPLATE)
    before, after = _by_attempt(rows, "before"), _by_attempt(rows, "after")
    assert sum(row["passed"] for row in before.values()) > 20
    assert not any(row["passed"] for row in after.values())


def test_both_arms_meet_the_same_scenario_and_say_how_it_ended() -> None:
    made = pl.DataFrame(_rows(BASE, PLAIN))
    per_task = made.group_by("task_id").agg(pl.col("scenario_id").n_unique())
    assert set(per_task["scenario_id"]) == {1}
    ended = made.select(
        "answered", "truncated", last=pl.col("messages").str.json_decode(_MESSAGES).list.last()
    )
    for row in ended.iter_rows(named=True):
        assert row["answered"] == (row["last"]["role"] == "assistant" and bool(row["last"]["content"]))
    assert made["answered"].any()


def test_a_lost_attempt_is_unanswered_and_nothing_else_is_known_of_it() -> None:
    class Broken:
        def __init__(self, world: object) -> None:
            raise WorldLost("no world today")

    arms = {"before": embedded(BASE)}
    rows = trial_rows(TASKS[:2], arms, TOOLS, DOCUMENT, RulesJudge(), k=1, seed=1, worlds=Broken)
    known = pl.DataFrame(rows).select("passed", "answered", "truncated", "findings")
    assert known.rows() == [(None, False, None, None)] * 2
    assert frame(prove.Trials, DAY, rows).height == 2


def test_a_model_behind_an_endpoint_plays_an_arm_on_the_same_tasks_and_no_answer_is_asked_for_twice(
    tmp_path: Path,
) -> None:
    with EndpointServer(lambda _: "I am sorry, I could not find that. Goodbye.") as server:
        settings = EndpointSettings(base_url=server.base_url, model="tuned")
        player = EndpointPlayer(settings, tmp_path / "responses.sqlite")
        arms = {"before": embedded(BASE), "after": Arm(settings.version, player)}
        twice = [trial_rows(TASKS[:3], arms, TOOLS, DOCUMENT, RulesJudge(), k=2, seed=1) for _ in range(2)]
        asked = [asked.body["seed"] for asked in server.asked]
    assert twice[0] == twice[1]
    assert len(asked) == len(set(asked)), "every turn draws its own luck, and none was asked for again"
    before, after = _by_attempt(twice[0], "before"), _by_attempt(twice[0], "after")
    assert before.keys() == after.keys()
    assert {row["policy_version"] for row in after.values()} == {settings.version}
    assert frame(prove.Trials, DAY, twice[0]).height == 12


def test_an_endpoint_that_never_answers_is_no_result(tmp_path: Path) -> None:
    with EndpointServer(lambda _: Answer(status=500)) as server:
        settings = EndpointSettings(base_url=server.base_url, model="tuned", max_retries=0)
        arms = {"after": Arm(settings.version, EndpointPlayer(settings, tmp_path / "responses.sqlite"))}
        with pytest.raises(AgentDown, match="tuned at"):
            trial_rows(TASKS[:8], arms, TOOLS, DOCUMENT, RulesJudge(), k=2, seed=1)


def test_the_report_names_both_policies_and_warns_of_tasks_seen_before() -> None:
    made = pl.DataFrame(_rows(BASE, PLAIN))
    about = about_trials(made, level=0.95, min_effect=0.0, looks=3)
    assert BASE.version in about.facts[0]
    assert PLAIN.version in about.facts[0]
    (caution,) = about.cautions
    assert "for the 3. time: the overall p is 6 times the plain one" in caution
    assert not about_trials(made, level=0.95, min_effect=0.0, looks=1).cautions
    assert not about_trials(made.clear(), level=0.95, min_effect=0.0, looks=1).facts


def test_another_seed_is_other_luck_on_the_same_tasks() -> None:
    first, other = _by_attempt(_rows(BASE, BASE), "before"), _by_attempt(_rows(BASE, BASE, 2), "before")
    assert set(first) == set(other)
    assert any(first[attempt]["messages"] != other[attempt]["messages"] for attempt in first)


def test_rows_name_the_policy_the_judge_the_customer_and_what_was_found() -> None:
    made = pl.DataFrame(_rows(BASE, BOILERPLATE))
    assert dict(made.select("arm", "policy_version").unique().iter_rows()) == {
        "before": BASE.version,
        "after": BOILERPLATE.version,
    }
    assert set(made["judge"]) == {RulesJudge().identity}
    assert set(made["customer"]) == {CUSTOMER}
    found = {rule for text in made.filter(arm="after")["findings"] for rule in json.loads(text)}
    assert "boilerplate" in found
