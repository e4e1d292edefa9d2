import json
from dataclasses import replace
from typing import Any

import pytest

from while_pipeline.constants import ANSWER_KEY_QUOTE
from while_pipeline.simulate.axes import is_held_out
from while_pipeline.tables import train
from while_pipeline.tables.base import frame
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.publication import Check, Gate, check_cut

SEED = 7
OPEN_TASK = next(t for t in map(str, range(100)) if not is_held_out(t, SEED))
SEALED_TASK = next(t for t in map(str, range(100)) if is_held_out(t, SEED))
SEALED_PROMPT = "please look at my bill from march and pay it today if you can"
SECRET = "REF-48213-XYZ"
assert len(SECRET) >= ANSWER_KEY_QUOTE

GATE = Gate(
    split_seed=SEED,
    sealed=SealedPrompts({"sealed": SEALED_PROMPT}),
    facts={"r1": (SECRET, "open")},
    trusted=True,
    trust_reason="every threshold is met",
    hacked=False,
    hack_reason="no feature explains the reward",
)

SYSTEM = {"role": "system", "content": "The rules."}


def user(text: str = "Hello") -> dict[str, Any]:
    return {"role": "user", "content": text}


def agent(text: str | None = "It is open.", arguments: Any = None) -> dict[str, Any]:
    function = {"name": "get_bill", "arguments": arguments}
    calls = (
        {} if arguments is None else {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
    )
    return {"role": "assistant", "content": text, **calls}


def tool(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": "1"}


def conversation(*messages: dict[str, Any], task: str = OPEN_TASK) -> dict[str, Any]:
    return {"rollout_id": "r1", "task_id": task, "messages": json.dumps([SYSTEM, *messages])}


def pair(prompt: list[dict[str, Any]], chosen: dict[str, Any], rejected: dict[str, Any]) -> dict[str, Any]:
    return {
        "row_id": "p1",
        "task_id": OPEN_TASK,
        "chosen_rollout_id": "r1",
        "rejected_rollout_id": "r2",
        "prompt": json.dumps([SYSTEM, *prompt]),
        "chosen": json.dumps([chosen]),
        "rejected": json.dumps([rejected]),
    }


def sample(passed: bool, scenario: str = "s", prompt: str = "Hello") -> dict[str, Any]:
    return {
        "rollout_id": "r1",
        "scenario_id": scenario,
        "task_id": OPEN_TASK,
        "prompt": json.dumps([SYSTEM, user(prompt)]),
        "passed": passed,
        "advantage": 0.0,
    }


GOOD = conversation(user(), agent(None, {"bill_id": "B-1"}), tool(f"open, {SECRET}"), agent(SECRET))


def failing(cut: str, *rows: dict[str, Any], gate: Gate = GATE) -> dict[str, Check]:
    return {check.check: check for check in check_cut(cut, rows, gate) if not check.passed}


@pytest.mark.parametrize(
    ("cut", "rows"),
    [
        ("sft", [GOOD]),
        ("reward_model", [GOOD, GOOD]),
        ("dpo", [pair([user()], agent("Yes."), agent("No."))]),
        ("grpo", [sample(True), sample(False)]),
        ("sft", []),
    ],
)
def test_a_good_cut_passes_every_check(cut: str, rows: list[dict[str, Any]]) -> None:
    checks = check_cut(cut, rows, GATE)
    assert all(check.passed and check.n_refused == 0 for check in checks)
    assert {check.n_rows for check in checks} == {len(rows)}
    assert frame(train.Publication, "2026-03-02", [vars(check) for check in checks]).height == len(checks)


@pytest.mark.parametrize(
    ("cut", "bad", "check", "detail"),
    [
        ("sft", conversation(user(), agent(), task=SEALED_TASK), "no_sealed_task", SEALED_TASK),
        ("sft", conversation(user(SEALED_PROMPT.upper()), agent()), "no_sealed_prompt", "sealed"),
        ("dpo", pair([user(SEALED_PROMPT)], agent("a"), agent("b")), "no_sealed_prompt", "sealed"),
        ("sft", conversation(user(), agent(f"It is {SECRET}."), tool(SECRET)), "no_answer_key", SECRET),
        ("dpo", pair([user()], agent(f"It is {SECRET}."), agent("b")), "no_answer_key", SECRET),
        ("sft", conversation(user(), agent(None, '{"bill_id": "B-1"}')), "arguments_decode", "bill_id"),
        ("dpo", pair([user()], agent("a"), agent(None, "{oops")), "arguments_decode", "{oops"),
        ("sft", conversation(user(), tool("open")), "something_to_learn", "r1"),
    ],
)
def test_a_bad_row_is_refused_by_its_own_check_with_an_example(
    cut: str, bad: dict[str, Any], check: str, detail: str
) -> None:
    good = pair([user()], agent("a"), agent("b")) if cut == "dpo" else GOOD
    found = failing(cut, good, bad)
    assert list(found) == [check]
    assert (found[check].n_rows, found[check].n_refused) == (2, 1)
    assert detail in found[check].detail


def test_an_answer_key_text_heard_from_customer_or_tool_may_be_said() -> None:
    assert failing("sft", conversation(user(SECRET), agent(SECRET))) == {}
    assert failing("dpo", pair([user(), tool(SECRET)], agent(SECRET), agent("b"))) == {}


def test_a_short_answer_key_text_is_no_secret_at_eleven_characters_and_is_one_at_twelve() -> None:
    for length in (ANSWER_KEY_QUOTE - 1, ANSWER_KEY_QUOTE):
        quoted = "Q" * length
        gate = replace(GATE, facts={"r1": (quoted,)})
        refused = failing("sft", conversation(user(), agent(quoted)), gate=gate)
        assert bool(refused) is (length >= ANSWER_KEY_QUOTE)


def test_grpo_needs_groups_that_disagree() -> None:
    found = failing("grpo", sample(True), sample(False), sample(True, "t"), sample(True, "t"))
    assert list(found) == ["groups_mixed"]
    assert found["groups_mixed"].n_refused == 1
    assert found["groups_mixed"].detail.endswith(" t")


def test_no_cut_passes_without_a_trusted_judge() -> None:
    distrust = replace(GATE, trusted=False, trust_reason="needs 40 more labels")
    rows = {
        "sft": [GOOD],
        "reward_model": [GOOD],
        "dpo": [pair([user()], agent("a"), agent("b"))],
        "grpo": [sample(True), sample(False)],
    }
    for cut, held in rows.items():
        found = failing(cut, *held, gate=distrust)
        assert list(found) == ["judge_trusted"]
        assert found["judge_trusted"].detail == "needs 40 more labels"
        assert found["judge_trusted"].n_refused == len(held)


@pytest.mark.parametrize(("hacked", "refused"), [(True, True), (False, False), (None, False)])
def test_a_hacked_reward_closes_the_grpo_cut_alone_and_an_unmeasured_one_does_not(
    hacked: bool | None, refused: bool
) -> None:
    gate = replace(GATE, hacked=hacked, hack_reason="n_words")
    assert ("reward_not_hacked" in failing("grpo", sample(True), sample(False), gate=gate)) is refused
    assert failing("sft", GOOD, gate=gate) == {}
