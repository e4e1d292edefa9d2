import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from while_pipeline.constants import ANSWER_KEY_QUOTE
from while_pipeline.simulate.axes import is_held_out
from while_pipeline.tables import train
from while_pipeline.tables.base import frame
from while_pipeline.train.curriculum import split_of
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.privileged import Hidden
from while_pipeline.train.publication import Check, Gate, Graded, refusal, rows_hash
from while_pipeline.train.set_checks import check_cut

SEED, DAY = 7, "2026-03-02"
OPEN_TASKS = [task for task in map(str, range(100)) if not is_held_out(task, SEED)]
OPEN_TASK = OPEN_TASKS[0]
SEALED_TASK = next(t for t in map(str, range(100)) if is_held_out(t, SEED))
SEALED_PROMPT = "please look at my bill from march and pay it today if you can"
SECRET, LINE, REASON = "REF-48213-XYZ", "I'd rather not say why.", "not told: the due date"
EMAIL = "jo.doe@acme.io"
assert len(SECRET) >= ANSWER_KEY_QUOTE

HIDDEN = Hidden(key=(SECRET, "open"), script=(LINE,), grading=(REASON,))
GATE = Gate(
    split_seed=SEED,
    sealed=SealedPrompts({"sealed": SEALED_PROMPT, OPEN_TASKS[9]: "Hello there"}),
    hidden={"r1": HIDDEN, "r2": HIDDEN},
    graded={"r1": Graded("s", 1.0, True), "r2": Graded("s", 0.0, False)},
    own="Complaints go to care@acme.io.",
    dropped={"sft": "334 did not pass, 60 another row of its scenario"},
    trusted=True,
    trust_reason="every threshold is met",
    hacked=False,
    hack_reason="no feature explains the reward",
)

SYSTEM = {"role": "system", "content": "The rules."}
TOOLS = json.dumps([{"type": "function", "function": {"name": "get_bill", "parameters": {"type": "object"}}}])
OTHER_TOOLS = json.dumps([{"type": "function", "function": {"name": "pay_bill", "parameters": {}}}])


def user(text: str = "Hello") -> dict[str, Any]:
    return {"role": "user", "content": text}


def agent(text: str | None = "It is open.", arguments: Any = None) -> dict[str, Any]:
    function = {"name": "get_bill", "arguments": arguments}
    calls = (
        {} if arguments is None else {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
    )
    return {"role": "assistant", "content": text, **calls}


def calling(name: str) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": {}}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


LOOK = agent(None, {"bill_id": "B-1"})
"""A call, not answered yet."""


def tool(text: str, call_id: str = "1") -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call_id}


def place(task: str = OPEN_TASK, scenario: str = "s", rate: float = 0.5) -> dict[str, Any]:
    return {
        "scenario_id": scenario,
        "task_id": task,
        "split": split_of(task),
        "pass_rate": rate,
        "tools": TOOLS,
    }


def conversation(*messages: dict[str, Any], rollout: str = "r1", **fields: Any) -> dict[str, Any]:
    graded = GATE.graded[rollout]
    row = {"rollout_id": rollout, "messages": json.dumps([SYSTEM, *messages]), "reward": graded.reward}
    return {**place(), **row, "passed": graded.passed, **fields}


def pair(
    prompt: list[dict[str, Any]], chosen: dict[str, Any], rejected: dict[str, Any], **fields: Any
) -> dict[str, Any]:
    return {
        **place(),
        "row_id": "p1",
        "chosen_rollout_id": "r1",
        "rejected_rollout_id": "r2",
        "prompt": json.dumps([SYSTEM, *prompt]),
        "chosen": json.dumps([chosen]),
        "rejected": json.dumps([rejected]),
        **fields,
    }


def sample(rollout: str, prompt: str = "Hello", **fields: Any) -> dict[str, Any]:
    graded = GATE.graded[rollout]
    row = {
        "rollout_id": rollout,
        "prompt": json.dumps([SYSTEM, user(prompt)]),
        "reward": graded.reward,
        "passed": graded.passed,
        "advantage": 1.0 if graded.passed else -1.0,
    }
    return {**place(), **row, **fields}


GOOD = conversation(user(), agent(None, {"bill_id": "B-1"}), tool(f"open, {SECRET}"), agent(SECRET))
BAD = conversation(user(), agent("It is paid."), rollout="r2")
CUTS: dict[str, list[dict[str, Any]]] = {
    "sft": [GOOD],
    "sft_random": [BAD],
    "reward_model": [GOOD, BAD],
    "dpo": [pair([user()], agent("Yes."), agent("No."))],
    "grpo": [sample("r1"), sample("r2")],
}


def failing(cut: str, rows: Sequence[dict[str, Any]], gate: Gate = GATE) -> dict[str, Check]:
    return {check.check: check for check in check_cut(cut, rows, gate) if not check.passed}


def stored_checks(checks: Iterable[Check], seen: str = "") -> pl.DataFrame:
    """As `train.publication` has them."""
    return frame(train.Publication, DAY, [{**vars(check), "rows_hash": seen} for check in checks])


@pytest.mark.parametrize("cut", CUTS)
def test_a_good_cut_passes_every_check(cut: str) -> None:
    checks = check_cut(cut, CUTS[cut], GATE)
    assert [check for check in checks if not check.passed or check.n_refused] == []
    assert {check.n_rows for check in checks} == {len(CUTS[cut])}
    stored = stored_checks(checks)
    assert stored.height == len(checks)
    assert refusal(stored, cut) is None


# -- the verdict and its rows -----------------------------------------------------------------------------

KEPT = frame(
    train.RewardModel,
    DAY,
    [
        {
            **{name: row[name] for name in ("rollout_id", "messages", "tools", "passed", "reward")},
            **{name: row[name] for name in ("scenario_id", "task_id", "split", "pass_rate")},
            "stage": "train",
        }
        for row in (GOOD, BAD)
    ],
)


def test_a_verdict_is_about_the_rows_it_saw_in_any_order() -> None:
    checks = stored_checks(check_cut("reward_model", KEPT.iter_rows(named=True), GATE), rows_hash(KEPT))
    assert refusal(checks, "reward_model", KEPT) is None
    assert refusal(checks, "reward_model", KEPT.reverse()) is None
    for other in (KEPT.head(1), KEPT.with_columns(reward=0.5), pl.concat([KEPT, KEPT.head(1)])):
        assert "not those that the gate looked at" in str(refusal(checks, "reward_model", other))


def test_where_no_gate_has_looked_nothing_may_be_trained_on() -> None:
    nobody = stored_checks([])
    assert refusal(nobody) == "no gate has looked at the cuts yet"
    assert refusal(nobody, "dpo") == "no gate has looked at dpo yet"
    others = stored_checks(check_cut("sft", [GOOD], GATE))
    assert refusal(others) is None
    assert refusal(others, "dpo") == "no gate has looked at dpo yet"


# -- single rows ------------------------------------------------------------------------------------------


def refused(cut: str, bad: dict[str, Any], check: str, why: str) -> None:
    """`bad` is refused by `check` alone, in its own words, beside rows that pass."""
    good = [
        row for row in CUTS[cut] if row.get("rollout_id") != bad.get("rollout_id") and "row_id" not in row
    ]
    found = failing(cut, [*good, bad])
    assert list(found) == [check]
    assert (found[check].n_rows, found[check].n_refused) == (len(good) + 1, 1)
    assert why in found[check].detail
    (example,) = json.loads(found[check].examples)
    assert example["row"] == (bad.get("row_id") or bad["rollout_id"])
    assert why in example["why"]


@pytest.mark.parametrize("cut", ["sft", "sft_random", "reward_model"])
@pytest.mark.parametrize(
    ("messages", "check", "why"),
    [
        ((user(SEALED_PROMPT.upper()), agent()), "no_sealed_prompt", "sealed"),
        ((user(), agent(f"It is {SECRET}.", {}), tool(SECRET), agent()), "no_answer_key", SECRET),
        ((user(), agent(None, {"reference": SECRET})), "no_answer_key", SECRET),
        ((user(), agent(LINE)), "nothing_privileged", LINE),
        ((user(f"Hi. {REASON}"), agent()), "nothing_privileged", REASON),
        ((user(), LOOK, tool(f'{{"by": "{EMAIL}"}}'), agent()), "no_personal_data", "email jo…"),
        ((user(), LOOK, tool(f'{{"{EMAIL}": 1}}'), agent()), "no_personal_data", "email jo…"),
        ((user(), agent(None, {EMAIL: 1})), "no_personal_data", "email jo…"),
        ((user(), agent(None, {"key": "sk-abcdefghijklmnopqrstuvwx"})), "no_personal_data", "secret sk…"),
        ((user(), agent(None, '{"bill_id": "B-1"}')), "arguments_decode", "bill_id"),
        ((user(), agent(None, ["B-1"])), "arguments_decode", "B-1"),
        ((user(), LOOK, agent()), "calls_answered", "call 1 has no result"),
        ((user(), LOOK, user(), tool("open"), agent()), "calls_answered", "call 1 has no result"),
        ((user(), tool("open"), agent()), "calls_answered", "a result for 1, which no call asked for"),
        ((user(), LOOK, tool("open"), tool("open"), agent()), "calls_answered", "a result for 1"),
        ((user(), calling("pay_bill")), "calls_declared", "pay_bill is not among the tools"),
        ((user(), agent(), user("Bye")), "ends_on_agent", "a message of user after the agent's last turn"),
        ((user(), LOOK, tool("open")), "ends_on_agent", "a message of tool after"),
        ((user(), agent(), agent("")), "ends_on_agent", "a message of assistant after"),
        ((user(), user()), "something_to_learn", "no turn"),
        ((user(), agent(""), agent(None), agent(" \n")), "something_to_learn", "no turn"),
    ],
)
def test_a_bad_conversation_is_refused_by_its_own_check_with_an_example(
    cut: str, messages: tuple[dict[str, Any], ...], check: str, why: str
) -> None:
    refused(cut, conversation(*messages), check, why)


@pytest.mark.parametrize(
    ("bad", "check", "why"),
    [
        (pair([user(SEALED_PROMPT)], agent("a"), agent("b")), "no_sealed_prompt", "sealed"),
        (pair([user()], agent(SECRET), agent("b")), "no_answer_key", SECRET),
        (pair([user()], agent("a"), agent(SECRET)), "no_answer_key", SECRET),
        (pair([user()], agent("a"), agent(LINE)), "nothing_privileged", LINE),
        (pair([user()], agent(f"To {EMAIL}."), agent("b")), "no_personal_data", "email jo…"),
        (pair([user()], agent("a"), agent(None, "{oops")), "arguments_decode", "{oops"),
        (pair([user(), agent("before")], agent(""), agent("b")), "something_to_learn", "empty"),
        (pair([user()], agent("a"), user("b")), "something_to_learn", "empty"),
        (pair([user(), LOOK], agent("a"), agent("b")), "calls_answered", "call 1 has no result"),
        (pair([user()], LOOK, calling("pay_bill")), "calls_declared", "pay_bill"),
    ],
)
def test_a_bad_pair_is_refused_by_its_own_check(bad: dict[str, Any], check: str, why: str) -> None:
    refused("dpo", bad, check, why)


def test_a_text_heard_from_customer_or_tool_may_be_said_and_an_own_address_told() -> None:
    assert failing("sft", [conversation(user(SECRET), agent(SECRET))]) == {}
    assert failing("sft", [conversation(user(LINE), agent(f"You said: {LINE}"))]) == {}
    assert failing("dpo", [pair([user(), LOOK, tool(SECRET)], agent(SECRET), agent("b"))]) == {}
    assert failing("sft", [conversation(user(), agent("Write to care@acme.io."))]) == {}


def test_calls_of_one_turn_are_answered_in_any_order_and_those_of_the_last_turn_need_no_answer() -> None:
    both = LOOK | {"tool_calls": [{**LOOK["tool_calls"][0], "id": name} for name in "ab"]}
    answers = [tool("open", "b"), tool("open", "a")]
    assert failing("sft", [conversation(user(), both, *answers, agent())]) == {}
    assert failing("sft", [conversation(user(), both, *answers, LOOK)]) == {}
    assert failing("dpo", [pair([user()], LOOK, both)]) == {}


def test_a_short_answer_key_text_is_no_secret_at_eleven_characters_and_is_one_at_twelve() -> None:
    for length in (ANSWER_KEY_QUOTE - 1, ANSWER_KEY_QUOTE):
        gate = replace(GATE, hidden={"r1": Hidden(key=("Q" * length,))})
        found = failing("sft", [conversation(user(), agent("Q" * length))], gate)
        assert bool(found) is (length >= ANSWER_KEY_QUOTE)


@pytest.mark.parametrize("task", [SEALED_TASK, OPEN_TASKS[9]])
@pytest.mark.parametrize("cut", CUTS)
def test_a_held_out_task_is_refused_by_hash_or_because_it_is_sealed_today(cut: str, task: str) -> None:
    rows = [row | {"task_id": task, "split": split_of(task)} for row in CUTS[cut]]
    found = failing(cut, rows)
    assert list(found) == ["no_sealed_task"]
    assert task in found["no_sealed_task"].detail


@pytest.mark.parametrize("cut", CUTS)
def test_a_row_on_the_wrong_side_of_the_split_is_refused(cut: str) -> None:
    wrong = "train" if split_of(OPEN_TASK) == "valid" else "valid"
    assert list(failing(cut, [row | {"split": wrong} for row in CUTS[cut]])) == ["split_by_task"]


@pytest.mark.parametrize("cut", CUTS)
def test_a_pass_rate_that_was_not_measured_is_refused(cut: str) -> None:
    found = failing(cut, [row | {"pass_rate": 0.75} for row in CUTS[cut]])
    assert list(found) == ["pass_rate_as_measured"]
    assert "0.750, 1 of 2 passed" in found["pass_rate_as_measured"].detail


@pytest.mark.parametrize("cut", CUTS)
def test_a_row_of_a_rollout_nobody_graded_is_refused(cut: str) -> None:
    names = {"rollout_id": "r9", "chosen_rollout_id": "r9"}
    first, *rest = CUTS[cut]
    planted = first | {name: value for name, value in names.items() if name in first}
    assert "labels_as_graded" in failing(cut, [planted, *rest])


@pytest.mark.parametrize(
    ("cut", "bad"),
    [
        ("sft", GOOD | {"reward": 0.5}),
        ("reward_model", BAD | {"reward": 1.0}),
        ("reward_model", BAD | {"passed": True}),
        ("dpo", CUTS["dpo"][0] | {"chosen_rollout_id": "r2", "rejected_rollout_id": "r1"}),
    ],
)
def test_labels_that_were_turned_round_are_refused(cut: str, bad: dict[str, Any]) -> None:
    assert "labels_as_graded" in failing(cut, [bad])


def test_no_more_than_three_examples_are_kept_and_all_are_counted() -> None:
    gate = replace(GATE, graded={f"r{n}": Graded("s", 1.0, True) for n in range(5)})
    rows = [GOOD | {"rollout_id": f"r{n}", "pass_rate": 1.0, "task_id": SEALED_TASK} for n in range(5)]
    check = failing("sft", [row | {"split": split_of(SEALED_TASK)} for row in rows], gate)["no_sealed_task"]
    assert check.n_refused == 5
    assert [one["row"] for one in json.loads(check.examples)] == ["r0", "r1", "r2"]


# -- the rows together ------------------------------------------------------------------------------------


def test_rows_with_other_tools_are_refused_however_they_are_spaced() -> None:
    spaced = GOOD | {"tools": json.dumps(json.loads(TOOLS), indent=2)}
    assert failing("reward_model", [spaced, BAD]) == {}
    found = failing("reward_model", [GOOD, BAD | {"tools": OTHER_TOOLS}])
    assert list(found) == ["tools_equal"]
    assert "pay_bill" in found["tools_equal"].detail


def test_a_rollout_in_two_rows_is_refused_but_in_groups_which_are_counted() -> None:
    assert list(failing("sft", [GOOD, GOOD])) == ["no_rollout_twice"]
    assert list(failing("grpo", [*CUTS["grpo"], CUTS["grpo"][0]])) == ["groups_whole"]


def test_a_group_without_one_of_its_samples_is_refused() -> None:
    third = Graded("s", 0.0, False)
    gate = replace(GATE, graded={**GATE.graded, "r3": third})
    rows = [row | {"pass_rate": 1 / 3} for row in CUTS["grpo"]]
    found = failing("grpo", rows, gate)
    assert list(found) == ["groups_whole"]
    assert "2 rows of 2 rollouts, 3 were graded" in found["groups_whole"].detail
    unknown = replace(GATE, graded={**GATE.graded, "r3": third._replace(passed=None, reward=None)})
    assert list(failing("grpo", CUTS["grpo"], unknown)) == ["groups_whole"]


def test_an_advantage_that_the_passes_do_not_give_is_refused() -> None:
    found = failing("grpo", [sample("r1"), sample("r2", advantage=0.0)])
    assert list(found) == ["groups_whole"]
    assert "advantage 0.0000 of r2, not -1.0000" in found["groups_whole"].detail


def test_grpo_needs_groups_that_disagree() -> None:
    gate = replace(GATE, graded={"r1": Graded("s", 1.0, True), "r2": Graded("s", 1.0, True)})
    fields = {"pass_rate": 1.0, "passed": True, "reward": 1.0, "advantage": 0.0}
    found = failing("grpo", [sample("r1") | fields, sample("r2") | fields], gate)
    assert list(found) == ["groups_mixed"]
    assert found["groups_mixed"].detail == "for example s: all pass"


@pytest.mark.parametrize("passed", [True, False])
def test_a_reward_model_of_labels_of_one_side_is_held_back_alone(passed: bool) -> None:
    graded = Graded("s", float(passed), passed)
    gate = replace(GATE, graded={"r1": graded, "r2": graded})
    label = {"passed": passed, "reward": float(passed), "pass_rate": float(passed)}
    checks = check_cut("reward_model", [GOOD | label, BAD | label], gate)
    assert [check.check for check in checks if not check.passed] == ["labels_two_sided"]
    stored = stored_checks([*check_cut("sft", [GOOD], GATE), *checks])
    assert refusal(stored) is None
    assert refusal(stored, "sft") is None
    assert "labels_two_sided: " in (refusal(stored, "reward_model") or "")


def pairs_of_length(longer: int, shorter: int) -> tuple[list[dict[str, Any]], Gate]:
    """Pairs, a task each, of which so many have the longer and so many the shorter answer chosen."""
    rows, graded = [], {}
    for n in range(longer + shorter):
        good, bad, scenario = f"g{n}", f"b{n}", f"s{n}"
        graded |= {good: Graded(scenario, 1.0, True), bad: Graded(scenario, 0.0, False)}
        texts = ("Yes, it is.", "No.") if n < longer else ("No.", "Yes, it is.")
        ids = {"row_id": f"p{n}", "chosen_rollout_id": good, "rejected_rollout_id": bad}
        rows.append(
            pair([user()], *map(agent, texts)) | place(OPEN_TASKS[n % len(OPEN_TASKS)], scenario) | ids
        )
    return rows, replace(GATE, graded=graded, sealed=SealedPrompts({}))


@pytest.mark.parametrize(
    ("longer", "shorter", "tells"),
    [(60, 0, True), (0, 60, True), (30, 30, False), (42, 18, False), (6, 0, False)],
)
def test_a_length_that_tells_the_better_answer_is_worth_a_look_and_holds_nothing_back(
    longer: int, shorter: int, tells: bool
) -> None:
    rows, gate = pairs_of_length(longer, shorter)
    checks = check_cut("dpo", rows, gate)
    assert [check.check for check in checks if not check.passed] == ["length_does_not_tell"] * tells
    assert refusal(stored_checks(checks), "dpo") is None


def test_the_share_of_longer_answers_is_over_tasks_with_a_wilson_interval() -> None:
    rows, gate = pairs_of_length(3, 1)
    said = next(c.detail for c in check_cut("dpo", rows, gate) if c.check == "length_does_not_tell")
    assert said == "the chosen answer is the longer one in 0.750 [0.301, 0.954] of 4 tasks"
    one_task = [row | {"task_id": OPEN_TASK} for row in rows]
    said = next(c.detail for c in check_cut("dpo", one_task, gate) if c.check == "length_does_not_tell")
    assert "0.750" in said
    assert said.endswith("of 1 tasks")


@pytest.mark.parametrize("cut", CUTS)
def test_an_empty_cut_is_named_with_what_dropped_its_rows_and_held_back_alone(cut: str) -> None:
    gate = replace(GATE, dropped={cut: "334 did not pass, 146 no verdict"})
    checks = check_cut(cut, [], gate)
    assert [check.check for check in checks if not check.passed] == ["not_empty"]
    stored = stored_checks(checks)
    assert refusal(stored) is None
    assert refusal(stored, cut) == (
        f"publication refused {cut}: not_empty: no row is left: 334 did not pass, 146 no verdict"
    )


# -- the judge and the reward -----------------------------------------------------------------------------


@pytest.mark.parametrize("cut", CUTS)
def test_no_cut_passes_without_a_trusted_judge_and_nothing_else_of_the_day_does(cut: str) -> None:
    distrust = replace(GATE, trusted=False, trust_reason="needs 40 more labels")
    found = failing(cut, CUTS[cut], distrust)
    assert list(found) == ["judge_trusted"]
    assert found["judge_trusted"].detail == "needs 40 more labels"
    assert found["judge_trusted"].n_refused == len(CUTS[cut])
    stored = stored_checks(found.values())
    assert refusal(stored) == f"publication refused {cut}: judge_trusted: needs 40 more labels"


def test_a_hacked_reward_closes_the_grpo_cut_alone() -> None:
    gate = replace(GATE, hacked=True, hack_reason="n_words")
    for cut, rows in CUTS.items():
        assert list(failing(cut, rows, gate)) == (["reward_not_hacked"] if cut == "grpo" else [])
