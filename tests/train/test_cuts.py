import json
from collections import Counter

import pytest

from tests.candidates import (
    BROKEN,
    CUTS,
    LOOK,
    TOOLS,
    agent,
    call,
    candidate,
    cutter,
    gates,
    group,
    tool,
    user,
)
from while_pipeline.records import Message
from while_pipeline.train.cuts import KEPT, advantages
from while_pipeline.train.privileged import Hidden

# -- SFT --------------------------------------------------------------------------------------------------


def test_sft_keeps_one_passing_rollout_per_scenario() -> None:
    cut = cutter(*group(3, 4, "a"), *group(1, 4, "b"), *group(0, 4, "c")).sft()
    assert [row["scenario_id"] for row in cut.rows] == ["a", "b"]
    assert all(row["reward"] == 1.0 for row in cut.rows)
    assert gates(cut)["a-1"] == "another row of its scenario"
    assert gates(cut)["c-0"] == "did not pass"


def test_sft_rows_begin_with_the_policy_document_and_carry_arguments_as_objects() -> None:
    (row,) = cutter(candidate("s", 0, 1.0, agent(None, call()), tool("open"), agent("Open."))).sft().rows
    messages = json.loads(row["messages"])
    assert messages[0] == {"role": "system", "content": "The rules."}
    assert messages[2]["tool_calls"][0]["function"]["arguments"] == {"bill_id": "B-1"}
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert json.loads(row["tools"]) == [TOOLS[0].openai()]


def test_sft_picks_are_spread_over_behaviours() -> None:
    made = [
        candidate(scenario, sample, 1.0, signature=signature)
        for scenario in "abc"
        for sample, signature in enumerate(("common", "rare", "odd"))
    ]
    cut = cutter(*made).sft()
    assert [row["rollout_id"] for row in cut.rows] == ["a-0", "b-1", "c-2"]


# -- DPO --------------------------------------------------------------------------------------------------


def test_dpo_is_cut_at_the_first_answer_that_differs_with_an_explicit_shared_prompt() -> None:
    cut = cutter(
        candidate("s", 0, 1.0, *LOOK, agent("It is open."), user("Thanks"), agent("Bye.")),
        candidate("s", 1, 0.0, *LOOK, agent("It is paid."), user("Oh"), agent("Yes.")),
    ).dpo()
    (row,) = cut.rows
    prompt, chosen, rejected = (json.loads(row[name]) for name in ("prompt", "chosen", "rejected"))
    assert [m["role"] for m in prompt] == ["system", "user", "assistant", "tool"]
    assert [m["content"] for m in (*chosen, *rejected)] == ["It is open.", "It is paid."]
    assert row["margin"] == 1.0
    assert set(gates(cut).values()) == {KEPT}


def test_dpo_tells_calls_apart_by_what_they_say_not_by_their_ids() -> None:
    same = cutter(
        candidate("s", 0, 1.0, agent(None, call(call_id="a")), tool("open", "a"), agent("Open.")),
        candidate("s", 1, 0.0, agent("", call(call_id="b")), tool("open", "b"), agent("Paid.")),
    ).dpo()
    assert json.loads(same.rows[0]["chosen"])[0]["content"] == "Open."
    other = cutter(
        candidate("s", 0, 1.0, agent(None, call("B-1")), tool("open")),
        candidate("s", 1, 0.0, agent(None, call("B-2")), tool("open")),
    ).dpo()
    assert "B-1" in other.rows[0]["chosen"]
    assert "B-2" in other.rows[0]["rejected"]


@pytest.mark.parametrize(
    "rejected",
    [
        (*LOOK, agent("Open.")),  # says the same throughout
        LOOK,  # stops earlier
        (agent(None, call()), tool("paid"), agent("Paid.")),  # the tool differs first
    ],
)
def test_a_pair_without_a_differing_answer_is_no_pair(rejected: tuple[Message, ...]) -> None:
    good = candidate("s", 0, 1.0, *LOOK, agent("Open."))
    cut = cutter(good, candidate("s", 1, 0.0, *rejected)).dpo()
    assert cut.rows == []
    assert set(gates(cut).values()) == {"the pair differs in no assistant turn"}


def test_dpo_pairs_the_answers_of_nearest_length_and_drops_the_rest_of_the_group() -> None:
    letters = {0: (1.0, 10), 1: (1.0, 50), 2: (0.0, 48), 3: (0.5, 90)}
    made = [
        candidate("s", i, reward, agent("x" * n), user("Go on."), agent("y" * 40 * i))
        for i, (reward, n) in letters.items()
    ]
    cut = cutter(*made).dpo()
    (row,) = cut.rows
    assert (row["chosen_rollout_id"], row["rejected_rollout_id"]) == ("s-1", "s-2")
    assert gates(cut)["s-0"] == gates(cut)["s-3"] == "not in the pair of nearest length"


def test_a_call_is_as_long_as_its_arguments() -> None:
    calls = {0: (1.0, "B-1"), 1: (0.0, "B-1" * 20), 2: (0.0, "B-2")}
    made = [candidate("s", i, reward, agent(None, call(bill))) for i, (reward, bill) in calls.items()]
    assert cutter(*made).dpo().rows[0]["rejected_rollout_id"] == "s-2"


def test_an_answer_spoilt_only_in_style_can_be_rejected_never_chosen() -> None:
    assert cutter(candidate("s", 0, 1.0), candidate("s", 1, 0.5)).dpo().rows[0]["margin"] == 0.5
    cut = cutter(candidate("s", 0, 0.5), candidate("s", 1, 0.0)).dpo()
    assert set(gates(cut).values()) == {"no contrast in its scenario"}


# -- GRPO -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "kept"),
    [(2, [1]), (5, [1, 2, 3, 4]), (8, [2, 3, 4, 5, 6]), (10, list(range(2, 9))), (16, list(range(4, 13)))],
)
def test_grpo_keeps_whole_groups_between_20_and_80_percent_inclusive(of: int, kept: list[int]) -> None:
    found = {n: len(cutter(*group(n, of)).grpo().rows) for n in range(of + 1)}
    assert found == {n: of if n in kept else 0 for n in range(of + 1)}


def test_two_passes_of_eight_have_the_textbook_advantages() -> None:
    rows = cutter(*group(2, 8)).grpo().rows
    assert [round(row["advantage"], 4) for row in rows] == [1.7321] * 2 + [-0.5774] * 6


def test_a_group_that_agrees_has_no_advantage() -> None:
    assert advantages(group(4, 4)) == advantages(group(0, 4)) == [0.0] * 4


def test_identical_answers_are_samples_not_duplicates_and_the_pass_rate_is_the_measured_one() -> None:
    same = [candidate("s", i, 1.0 if i < 3 else 0.0, agent("the same")) for i in range(8)]
    rows = cutter(*same).grpo().rows
    assert len(rows) == 8
    assert {row["pass_rate"] for row in rows} == {3 / 8}
    assert sum(row["passed"] for row in rows) / len(rows) == 3 / 8


def test_a_group_with_an_unknown_sample_is_not_whole() -> None:
    cut = cutter(*group(3, 7), candidate("s", 7, None)).grpo()
    assert cut.rows == []
    assert Counter(gates(cut).values()) == {"its group lost a sample": 7, "no verdict": 1}


def test_an_adaptive_night_gives_groups_of_two_and_of_k() -> None:
    cut = cutter(*group(1, 2, "a"), *group(2, 2, "b"), *group(0, 2, "c"), *group(3, 8, "d")).grpo()
    assert Counter(row["scenario_id"] for row in cut.rows) == {"a": 2, "d": 8}
    assert sorted(row["advantage"] for row in cut.rows if row["scenario_id"] == "a") == [-1.0, 1.0]
    assert gates(cut)["b-0"] == gates(cut)["c-1"] == "its group is outside the band"


def test_a_group_of_which_one_sample_may_not_be_told_is_dropped_whole() -> None:
    told = candidate("s", 0, 1.0, agent("It is REF-48213-XYZ."), hidden=Hidden(key=("REF-48213-XYZ",)))
    cut = cutter(told, *group(1, 4)[1:]).grpo()
    assert cut.rows == []
    assert Counter(gates(cut).values()) == {
        "tells what only the simulator knows": 1,
        "its group lost a sample": 3,
    }


def test_kinds_of_fault_take_turns_each_easy_to_hard() -> None:
    kinds = {
        "a": ("timeout", 2),
        "b": ("timeout", 6),
        "c": ("timeout", 4),
        "d": ("stale", 3),
        "e": ("stale", 5),
    }
    made = [c for name, (kind, n) in kinds.items() for c in group(n, 8, name, tool_condition=kind)]
    rows = cutter(*made).grpo().rows
    assert [row["scenario_id"] for row in rows[::8]] == ["e", "b", "d", "c", "a"]
    assert [row["tool_condition"] for row in rows[::8]] == ["stale", "timeout", "stale", "timeout", "timeout"]


def test_a_grpo_prompt_ends_with_the_customers_opening() -> None:
    prompt = json.loads(cutter(*group(1, 2)).grpo().rows[0]["prompt"])
    assert [m["role"] for m in prompt] == ["system", "user"]


@pytest.mark.parametrize("name", ["sft", "sft_random", "reward_model"])
@pytest.mark.parametrize(
    ("said", "last"),
    [
        ((agent("Done."), user("And now?")), "Done."),
        ((agent("Done."), user("And now?"), agent(" ")), "Done."),
        ((agent("Wait."), *LOOK), None),
        ((agent("Wait."), *LOOK, agent("Done.")), "Done."),
    ],
)
def test_a_conversation_is_cut_after_the_agents_last_turn(
    name: str, said: tuple[Message, ...], last: str | None
) -> None:
    (row,) = getattr(cutter(candidate("s", 0, 1.0, *said)), name)().rows
    final = json.loads(row["messages"])[-1]
    assert (final["role"], final.get("content")) == ("assistant", last)


# -- the random twin of SFT -------------------------------------------------------------------------------


def test_the_random_twin_has_a_row_for_each_row_of_the_sft_cut_whatever_its_reward() -> None:
    made = [c for n in range(60) for c in group(n % 3, 4, f"s{n:02}")]
    cuts = cutter(*made)
    chosen, drawn = cuts.sft().rows, cuts.sft_random().rows
    assert [row["scenario_id"] for row in drawn] == [row["scenario_id"] for row in chosen]
    rate = sum(row["reward"] for row in drawn) / len(drawn)
    measured = sum(row["pass_rate"] for row in drawn) / len(drawn)
    assert {row["reward"] for row in drawn} == {0.0, 1.0}
    assert abs(rate - measured) < 0.25, "as good as the policy is, not as good as the selection"
    assert gates(cuts.sft_random())["s00-0"] == "its scenario is not in the sft cut"


def test_the_draw_does_not_change_with_what_else_is_there() -> None:
    alone = cutter(*group(2, 8, "a")).sft_random().rows
    assert [
        row
        for row in cutter(*group(2, 8, "a"), *group(5, 8, "b")).sft_random().rows
        if "a-" in row["rollout_id"]
    ] == alone


# -- where a row stands -----------------------------------------------------------------------------------


def test_two_wordings_of_a_task_are_never_on_both_sides_of_the_split_in_any_cut() -> None:
    made = [
        c
        for n in range(300)
        for c in group(2, 4, f"s{n:03}", task=f"task {n // 3}", opening=f"Wording {n}", signature=str(n % 5))
    ]
    sides: dict[str, set[str]] = {}
    for name in CUTS:
        for row in getattr(cutter(*made), name)().rows:
            sides.setdefault(row["task_id"], set()).add(row["split"])
    assert all(len(found) == 1 for found in sides.values())
    assert len(sides) == 100
    valid = sum(found == {"valid"} for found in sides.values())
    assert 2 <= valid <= 20, "a tenth of the tasks, within what 100 of them may show"


def test_rows_come_easy_to_hard_with_the_measured_pass_rate_and_its_stage() -> None:
    passes = {"a": 1, "b": 10, "c": 5, "d": 2, "e": 8, "f": 9}
    made = [c for name, n in passes.items() for c in group(n, 10, name)]
    rows = cutter(*made).sft().rows
    assert [(row["scenario_id"], row["pass_rate"], row["stage"]) for row in rows] == [
        ("b", 1.0, "retire"),
        ("f", 0.9, "retire"),
        ("e", 0.8, "train"),
        ("c", 0.5, "train"),
        ("d", 0.2, "train"),
        ("a", 0.1, "hold"),
    ]


def test_the_pass_rate_counts_every_graded_rollout_even_one_that_a_gate_drops() -> None:
    copied = candidate("s", 3, 1.0, agent(None, BROKEN))
    rows = cutter(*group(1, 3), copied, candidate("s", 4, None)).reward_model().rows
    assert [row["pass_rate"] for row in rows] == [0.5] * 3
