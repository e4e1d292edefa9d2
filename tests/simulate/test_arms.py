import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.example import GRID, SEED, WRITER, planned
from while_pipeline.constants import EXPLORATION_FLOOR
from while_pipeline.records import Arm, Situation, Usage
from while_pipeline.simulate.arms import Choice, Chooser, Spot
from while_pipeline.simulate.axes import AXES, NONE, Grid, is_held_out, row_of, situation, task_id
from while_pipeline.simulate.plan import plan
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.search import ARMS, Probed

PLAN = planned()
SPOTS = (
    Spot("a", "pay_bill", "timeout", "hurried", 0.75),
    Spot("b", NONE, "success", "adversarial", 0.25),
)


def _chooser(spots: Sequence[Spot] = SPOTS, seed: int = 3, grid: Grid = GRID) -> Chooser:
    return Chooser(grid, PLAN, spots, seed)


def _probed(cell: Situation, signature: str, failed: bool = False) -> Probed:
    scenario = WRITER.write(cell, 1)
    rollout = Rollout(
        rollout_id="r", scenario=scenario, sample=0, seed=0, policy_version="p", messages=(), decisions=(),
        ended="satisfied", lost=None, diff={}, logprob=None, finish_reason=None, usage=Usage(),
    )  # fmt: skip
    return Probed(scenario, 0, None, rollout, signature, (), failed)


def _changed(a: Situation, b: Situation) -> list[str]:
    return [axis for axis in AXES if getattr(a, axis) != getattr(b, axis)]


def _within(count: int, n: int, share: float) -> bool:
    """Within four standard deviations of a binomial."""
    return abs(count - n * share) < 4 * math.sqrt(n * share * (1 - share))


SEEN = [_probed(cell, str(i // 2), failed=i % 3 == 0) for i, cell in enumerate(PLAN[:30])]


@pytest.mark.parametrize("arm", ARMS)
def test_no_arm_chooses_a_sealed_or_impossible_situation(arm: Arm) -> None:
    choices = _chooser().choose(arm, 150, SEEN)
    assert len(choices) == 150
    for choice in choices:
        assert not is_held_out(task_id(choice.cell), SEED)
        assert GRID.allowed(row_of(choice.cell))


@pytest.mark.parametrize("arm", ARMS)
def test_equal_seeds_choose_alike_and_others_differently(arm: Arm) -> None:
    first, again, other = (_chooser(seed=seed).choose(arm, 20, SEEN) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("arm", ARMS)
def test_every_choice_has_a_world_of_its_own(arm: Arm) -> None:
    assert len({choice.seed for choice in _chooser().choose(arm, 100, SEEN)}) == 100


def test_structured_plays_the_plan_in_order_and_then_again_in_other_worlds() -> None:
    choices = _chooser().choose("structured", 2 * len(PLAN), [])
    assert [choice.cell for choice in choices] == [*PLAN, *PLAN]
    assert {choice.spot_id for choice in choices} == {None}


def test_without_a_plan_structured_has_nothing() -> None:
    assert Chooser(GRID, [], [], 1).choose("structured", 5, []) == []


def test_steered_aims_at_weak_spots_by_share_and_leaves_a_fifth_to_exploration() -> None:
    n = 1500
    choices = _chooser().choose("llm_guided", n, [])
    aimed = Counter(choice.spot_id for choice in choices)
    assert _within(aimed[None], n, EXPLORATION_FLOOR)
    assert _within(aimed["a"], n, (1 - EXPLORATION_FLOOR) * 0.75)
    assert sum(aimed.values()) == n
    for spot in SPOTS:
        held = {
            (c.cell.tool, c.cell.tool_condition, c.cell.stance) for c in choices if c.spot_id == spot.spot_id
        }
        assert held == {(spot.tool, spot.tool_condition, spot.stance)}


def test_a_spot_keeps_what_the_grid_knows_and_frees_what_it_does_not() -> None:
    spot = Spot("c", "pay_bill", "internal_error", "hurried", 1.0)
    choices = [c for c in _chooser([spot]).choose("llm_guided", 100, []) if c.spot_id]
    assert {(c.cell.tool, c.cell.stance) for c in choices} == {("pay_bill", "hurried")}
    assert len({c.cell.tool_condition for c in choices}) > 1


def test_steered_fills_the_open_axes_evenly() -> None:
    choices = _chooser([]).choose("llm_guided", 560, [])
    for axis in ("policy_rule", "stance", "history"):
        played = Counter(getattr(c.cell, axis) for c in choices)
        mean = len(choices) / len(GRID.axes[axis])
        assert max(played.values()) <= 1.1 * mean
        assert min(played[value] for value in GRID.axes[axis]) >= 0.9 * mean


def test_open_ended_reaches_every_value_of_every_axis() -> None:
    choices = _chooser().choose("open_ended", 600, [])
    for axis in AXES:
        assert {getattr(c.cell, axis) for c in choices} == set(GRID.axes[axis])


def test_targeted_changes_one_axis_of_what_behaved_most_rarely() -> None:
    rare = [_probed(PLAN[0], "once"), _probed(PLAN[1], "also once")]
    common = [_probed(cell, "often") for cell in PLAN[2:10]]
    choices = _chooser().choose("behavior_targeted", 200, [*common, *rare])
    sources = [next(c for c in PLAN[:2] if len(_changed(c, choice.cell)) == 1) for choice in choices]
    assert set(sources) == {PLAN[0], PLAN[1]}


def test_mutation_says_only_failed_situations_again_in_other_words_or_one_axis_away() -> None:
    failed, sound = PLAN[:2], PLAN[2:10]
    probed = [*(_probed(c, "x") for c in sound), *(_probed(c, "x", failed=True) for c in failed)]
    choices = _chooser().choose("failure_mutation", 400, probed)
    nearest = [min((_changed(c, choice.cell) for c in failed), key=len) for choice in choices]
    assert {len(changed) for changed in nearest} == {0, 1}
    reworded = [choice for choice, changed in zip(choices, nearest, strict=True) if not changed]
    assert _within(len(reworded), 400, 0.5)
    assert all(choice.phrasing >= 1 for choice in reworded)


@pytest.mark.parametrize("arm", ["behavior_targeted", "failure_mutation"])
def test_the_rare_arms_have_nothing_before_anything_was_seen_or_failed(arm: Arm) -> None:
    assert _chooser().choose(arm, 5, []) == []
    sound = [_probed(PLAN[0], "x")]
    assert bool(_chooser().choose(arm, 5, sound)) is (arm == "behavior_targeted")


def test_where_everything_is_sealed_no_arm_finds_anything() -> None:
    cell = PLAN[0]
    tiny = {axis: (getattr(cell, axis),) for axis in AXES}
    sealing = next(seed for seed in range(1000) if is_held_out(task_id(cell), seed))
    grid = replace(GRID, axes=tiny, sealed_by=sealing)
    chooser = Chooser(grid, plan(grid, [])[1], [], 1)
    for arm in ("structured", "llm_guided", "open_ended", "behavior_targeted"):
        assert chooser.choose(arm, 3, [_probed(cell, "x")]) == []


def test_a_choice_can_be_written() -> None:
    choice: Choice = _chooser().choose("open_ended", 1, [])[0]
    assert WRITER.write(choice.cell, choice.seed).situation == situation(row_of(choice.cell))
