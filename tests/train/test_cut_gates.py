from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.candidates import (
    BROKEN,
    CUTS,
    DAY,
    LOOK,
    TOOLS,
    agent,
    candidate,
    cutter,
    gates,
    group,
    tool,
    user,
)
from while_pipeline.records import ToolCall
from while_pipeline.tables import train
from while_pipeline.tables.base import frame
from while_pipeline.train.cuts import KEPT, Candidate, Cut, Cutter, training_message, why_dropped
from while_pipeline.train.decontaminate import SealedPrompts
from while_pipeline.train.privileged import Hidden

# -- gates every cut shares -------------------------------------------------------------------------------

COPIED = "please look at my bill from march and pay it today if you can"
SECRET = "REF-48213-XYZ"
KEY, WHY = Hidden(key=(SECRET,)), Hidden(grading=("as the key asks",))


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize(
    ("dropped", "gate"),
    [
        (candidate("s", 0, None), "no verdict"),
        (candidate("s", 0, 1.0, agent(None, BROKEN)), "arguments are not a JSON object"),
        (candidate("s", 0, 1.0, opening=COPIED.upper() + "!"), "near copy of a sealed prompt"),
        (
            candidate("s", 0, 1.0, agent(f"It is {SECRET}."), hidden=KEY),
            "tells what only the simulator knows",
        ),
        (
            candidate("s", 0, 1.0, tool("Judged: as the key asks"), agent("Done."), hidden=WHY),
            "tells what only the simulator knows",
        ),
        (candidate("s", 0, 1.0, agent("Write to jo@acme.io.")), "personal data or a secret"),
        (
            candidate("s", 0, 1.0, agent(f"{SECRET}, jo@acme.io"), hidden=KEY),
            "tells what only the simulator knows",
        ),
        (candidate("s", 0, None, agent(None, BROKEN), opening=COPIED), "no verdict"),
        (candidate("s", 0, 0.0, agent(None, BROKEN), opening=COPIED), "arguments are not a JSON object"),
    ],
)
def test_the_first_gate_that_drops_a_rollout_is_named(name: str, dropped: Candidate, gate: str) -> None:
    cut: Cut = getattr(cutter(dropped, sealed={"sealed task": COPIED}), name)()
    assert cut.rows == []
    assert gates(cut) == {"s-0": gate}


def test_what_customer_or_tool_said_before_is_no_secret_and_an_own_address_no_personal_data() -> None:
    heard = candidate("s", 0, 1.0, tool(SECRET), agent(f"It is {SECRET}."), hidden=KEY)
    assert len(cutter(heard).sft().rows) == 1
    asked = candidate("s", 0, 1.0, agent("Write to care@acme.io."))
    made = Cutter([asked], TOOLS, "Complaints go to care@acme.io.", SealedPrompts({}))
    assert len(made.sft().rows) == 1


STRANGE = ToolCall(id="1", name="no_such_tool", arguments={})


@pytest.mark.parametrize("name", [name for name in CUTS if name != "grpo"])
def test_a_rollout_that_calls_a_tool_that_is_not_there_is_in_no_cut_that_shows_its_turns(name: str) -> None:
    called = [candidate("s", n, float(n), agent(None, STRANGE), tool("no"), agent("Oh.")) for n in range(2)]
    cut: Cut = getattr(cutter(*called), name)()
    assert cut.rows == []
    assert set(cut.fate.values()) == {("calls a tool that is not there", "no_such_tool")}
    assert len(cutter(*called).grpo().rows) == 2, "of a group there is the prompt alone"


def test_why_dropped_does_not_repeat_personal_data() -> None:
    cut = cutter(candidate("s", 0, 1.0, agent("Write to jo@acme.io."))).sft()
    assert cut.fate["s-0"] == ("personal data or a secret", "email jo…")


def test_the_reward_model_learns_from_every_graded_rollout() -> None:
    cut = cutter(candidate("s", 0, 1.0), candidate("s", 1, 0.5), candidate("s", 2, None)).reward_model()
    assert [row["reward"] for row in cut.rows] == [1.0, 0.5]
    assert gates(cut) == {"s-0": KEPT, "s-1": KEPT, "s-2": "no verdict"}


def test_a_training_message_without_calls_is_plain() -> None:
    assert training_message(user("Hi")) == {"role": "user", "content": "Hi"}


# -- any day ----------------------------------------------------------------------------------------------

ANSWERS = st.sampled_from(
    [(agent("a"),), (agent("b"),), (*LOOK, agent("a")), (*LOOK, agent("c")), (agent(None, BROKEN),)]
)
SAMPLES = st.tuples(
    st.sampled_from([None, 0.0, 0.5, 1.0, 1.0]),
    ANSWERS,
    st.sampled_from("xyz"),
    st.sampled_from(("stale", "timeout")),
)
DAYS = st.lists(st.lists(SAMPLES, min_size=1, max_size=6), max_size=5)
OPENINGS = ("Hi", COPIED, "Hello there")


def _candidates(day: list[list[tuple[Any, ...]]]) -> list[Candidate]:
    return [
        candidate(
            f"s{s}", i, reward, *said, opening=OPENINGS[s % 3], signature=signature, tool_condition=kind
        )
        for s, samples in enumerate(day)
        for i, (reward, said, signature, kind) in enumerate(samples)
    ]


def _all(made: Cutter) -> dict[str, Cut]:
    return {name: getattr(made, name)() for name in CUTS}


def _kept(cut: Cut) -> list[str]:
    ids = ("rollout_id", "chosen_rollout_id", "rejected_rollout_id")
    return sorted(row[name] for row in cut.rows for name in ids if name in row)


@settings(max_examples=60, deadline=None)
@given(DAYS)
def test_every_rollout_is_accounted_for_once_per_cut_and_what_is_kept_is_in_the_cut(
    day: list[list[tuple[Any, ...]]],
) -> None:
    candidates = _candidates(day)
    cuts = _all(cutter(*candidates, sealed={"t": COPIED}))
    fates = why_dropped(cuts.values())
    expected = {(c.rollout_id, name) for c in candidates for name in CUTS}
    assert Counter((row["rollout_id"], row["cut"]) for row in fates) == Counter(expected)
    for name, cut in cuts.items():
        kept = sorted(row["rollout_id"] for row in fates if row["cut"] == name and row["gate"] == KEPT)
        assert kept == _kept(cut)
        assert len(set(kept)) == len(kept)


@settings(max_examples=60, deadline=None)
@given(DAYS)
def test_no_pair_is_identical_and_no_group_is_bent(day: list[list[tuple[Any, ...]]]) -> None:
    candidates = _candidates(day)
    cuts = _all(cutter(*candidates))
    for row in cuts["dpo"].rows:
        assert row["chosen"] != row["rejected"]
    for scenario, rate in {(row["scenario_id"], row["pass_rate"]) for row in cuts["grpo"].rows}:
        measured = [c.passed for c in candidates if c.scenario_id == scenario]
        in_file = [row["passed"] for row in cuts["grpo"].rows if row["scenario_id"] == scenario]
        assert None not in measured
        assert sum(in_file) / len(in_file) == rate == sum(map(bool, measured)) / len(measured)


@settings(max_examples=20, deadline=None)
@given(DAYS, st.randoms(use_true_random=False))
def test_the_order_rollouts_arrive_in_changes_nothing(day: list[list[tuple[Any, ...]]], rng: Any) -> None:
    candidates = _candidates(day)
    shuffled = rng.sample(candidates, len(candidates))
    assert _all(cutter(*candidates)) == _all(cutter(*shuffled))


def test_every_cut_is_a_frame_its_table_accepts() -> None:
    made = cutter(*group(3, 8, "a"), *group(8, 8, "b"), candidate("c", 0, None))
    cuts = _all(made)
    for name, cut in cuts.items():
        assert frame(CUTS[name], DAY, cut.rows).height == len(cut.rows) > 0
    assert frame(train.WhyDropped, DAY, why_dropped(cuts.values())).height == 17 * 5
