import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from tests.example import GRID, SEED, WRITER, ordinary, planned, played
from while_pipeline.constants import EXPLORATION_FLOOR, MAX_MUTATIONS
from while_pipeline.records import Arm, Situation
from while_pipeline.simulate.arms import Choice, Chooser
from while_pipeline.simulate.axes import AXES, NONE, Grid, is_held_out, row_of, situation, task_id
from while_pipeline.simulate.cells import Spot
from while_pipeline.simulate.mutate import OPERATORS, mutated
from while_pipeline.simulate.plan import plan
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.search import ARMS, Probed

PLAN = planned()
SPOTS = (
    Spot("a", "pay_bill", "timeout", "hurried", 0.75, n=8, failures=6),
    Spot("b", NONE, "success", "adversarial", 0.25, n=8, failures=2),
)


def _probed(
    cell: Situation, signature: str, failed: bool = False, scenario: Scenario | None = None
) -> Probed:
    choice = Choice(cell, 1)
    made = scenario or WRITER.write(cell, choice.seed)
    return Probed(made, choice, 0, played(1)[0], signature, AXES, failed)


SEEN = [_probed(cell, str(i // 2), failed=i % 3 == 0) for i, cell in enumerate(PLAN[:30])]


def _chooser(
    spots: Sequence[Spot] = SPOTS, seed: int = 3, grid: Grid = GRID, seen: Sequence[Probed] = ()
) -> Chooser:
    chooser = Chooser(grid, PLAN, spots, seed)
    for one in seen:
        chooser.learn(one)
    return chooser


def _changed(a: Situation, b: Situation) -> list[str]:
    return [axis for axis in AXES if getattr(a, axis) != getattr(b, axis)]


def _nearest(choice: Choice, cells: Sequence[Situation]) -> Situation:
    return min(cells, key=lambda cell: len(_changed(cell, choice.cell)))


def _acts(choice: Choice) -> str:
    """A stand-in for behaviour: decided by half of the situation, and a little by chance."""
    chance = random.Random(choice.seed + choice.phrasing).random() < 0.2
    return f"{choice.cell.tool} {choice.cell.tool_condition} {choice.cell.world_state} {chance}"


def _within(count: int, n: int, share: float) -> bool:
    """Within four standard deviations of a binomial."""
    return abs(count - n * share) < 4 * math.sqrt(n * share * (1 - share))


@pytest.mark.parametrize("arm", ARMS)
def test_no_arm_chooses_a_sealed_or_impossible_situation(arm: Arm) -> None:
    choices = _chooser(seen=SEEN).choose(arm, 150)
    assert len(choices) == 150
    for choice in choices:
        assert not is_held_out(task_id(choice.cell), SEED)
        assert GRID.allowed(row_of(choice.cell))


@pytest.mark.parametrize("arm", ARMS)
def test_equal_seeds_choose_alike_and_others_differently(arm: Arm) -> None:
    first, again, other = (_chooser(seed=seed, seen=SEEN).choose(arm, 20) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("arm", ["structured", "llm_guided", "open_ended", "failure_mutation"])
def test_every_choice_has_a_seed_of_its_own(arm: Arm) -> None:
    assert len({choice.seed for choice in _chooser(seen=SEEN).choose(arm, 100)}) == 100


def test_structured_plays_the_plan_in_order_first() -> None:
    choices = _chooser().choose("structured", len(PLAN))
    assert [choice.cell for choice in choices] == list(PLAN)
    assert {choice.spot_id for choice in choices} == {None}


def test_structured_never_runs_dry_and_later_rounds_bring_other_situations() -> None:
    rounds = 6
    choices = _chooser().choose("structured", rounds * len(PLAN))
    assert len(choices) == rounds * len(PLAN)
    assert len({(choice.cell, choice.seed) for choice in choices}) == len(choices)
    assert len({choice.cell for choice in choices}) > 0.6 * len(choices)


def test_a_later_round_covers_nearly_every_pair_again() -> None:
    choices = _chooser().choose("structured", 3 * len(PLAN))

    def covered(cells: Sequence[Choice]) -> set[tuple[tuple[str, str], ...]]:
        return {pair for c in cells for pair in combinations(zip(AXES, row_of(c.cell), strict=True), 2)}

    first, third = covered(choices[: len(PLAN)]), covered(choices[2 * len(PLAN) :])
    # Only the pairs of renamed situations that turn out sealed are missing.
    assert len(first & third) > 0.85 * len(first)


def test_without_a_plan_structured_has_nothing() -> None:
    assert Chooser(GRID, [], [], 1).choose("structured", 5) == []


def test_steered_aims_at_weak_spots_by_share_and_leaves_a_fifth_to_exploration() -> None:
    n = 1500
    choices = _chooser().choose("llm_guided", n)
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
    spot = Spot("c", "pay_bill", "internal_error", "hurried", 1.0, n=3, failures=1)
    choices = [c for c in _chooser([spot]).choose("llm_guided", 100) if c.spot_id]
    assert {(c.cell.tool, c.cell.stance) for c in choices} == {("pay_bill", "hurried")}
    assert len({c.cell.tool_condition for c in choices}) > 1


def test_steered_without_weak_spots_covers_pairs_sooner_than_chance() -> None:
    def pairs(arm: Arm) -> int:
        choices = _chooser([]).choose(arm, 300)
        return len({p for c in choices for p in combinations(zip(AXES, row_of(c.cell), strict=True), 2)})

    assert pairs("llm_guided") > pairs("open_ended")


def test_steered_goes_where_the_agent_fails() -> None:
    weak = ("pay_bill", "hurried")
    fails = [ordinary(weak[0], stance=weak[1], history=history) for history in GRID.axes["history"]]
    sound = [cell for cell in PLAN if (cell.tool, cell.stance) != weak]
    chooser = _chooser([], seen=[_probed(c, "x") for c in sound] + 5 * [_probed(c, "x", True) for c in fails])

    def share(arm: Arm) -> float:
        choices = chooser.choose(arm, 400)
        return sum((c.cell.tool, c.cell.stance) == weak for c in choices) / len(choices)

    assert share("llm_guided") > 3 * share("open_ended")


def test_open_ended_reaches_every_value_of_every_axis() -> None:
    choices = _chooser().choose("open_ended", 600)
    for axis in AXES:
        assert {getattr(c.cell, axis) for c in choices} == set(GRID.axes[axis])


def test_targeted_varies_what_behaved_most_rarely_in_words_world_or_one_axis() -> None:
    rare = [_probed(PLAN[0], "once"), _probed(PLAN[1], "also once")]
    common = [_probed(cell, "often") for cell in PLAN[2:10]]
    choices = _chooser(seen=[*common, *rare]).choose("behavior_targeted", 300)
    changes = [min((_changed(cell, choice.cell) for cell in PLAN[:2]), key=len) for choice in choices]
    assert {len(changed) for changed in changes} == {0, 1}
    assert {choice.cell for choice in choices} >= set(PLAN[:2])
    reworded = [choice for choice in choices if choice.phrasing]
    assert {choice.seed for choice in reworded} == {1}
    for part in (reworded, [c for c in choices if c.cell in PLAN[:2] and not c.phrasing]):
        assert _within(len(part), len(choices), 1 / 3)


def test_what_was_rare_is_left_alone_once_it_has_as_many_copies_as_the_rest() -> None:
    seen = [_probed(PLAN[0], "a"), _probed(PLAN[1], "b"), _probed(PLAN[1], "b")]
    chooser = _chooser(seen=seen)
    assert {_nearest(c, PLAN[:2]) for c in chooser.choose("behavior_targeted", 50)} == {PLAN[0]}
    chooser.learn(_probed(PLAN[0], "a"))
    chooser.learn(_probed(PLAN[0], "a"))
    assert {_nearest(c, PLAN[:2]) for c in chooser.choose("behavior_targeted", 50)} == {PLAN[1]}


def test_copies_of_rare_behaviour_grow_faster_than_by_chance() -> None:
    def singletons_repeated(arm: Arm) -> int:
        """Of behaviours seen once in 300 even draws, how many are seen again in 150 of the arm's."""
        chooser, copies = _chooser([]), Counter[str]()
        for choice in chooser.choose("open_ended", 300):
            chooser.learn(
                Probed(WRITER.write(choice.cell, 1), choice, 0, played(1)[0], _acts(choice), AXES, False)
            )
            copies[_acts(choice)] += 1
        once = {name for name, n in copies.items() if n == 1}
        again = {_acts(choice) for choice in chooser.choose(arm, 150)}
        return len(once & again)

    assert singletons_repeated("behavior_targeted") > 1.3 * singletons_repeated("open_ended")


def test_mutation_changes_failed_scenarios_only_by_a_named_operator() -> None:
    failed = [_probed(c, "x", failed=True) for c in PLAN[:2]]
    sound = [_probed(c, "x") for c in PLAN[2:10]]
    choices = _chooser(seen=[*sound, *failed]).choose("failure_mutation", 400)
    parents = Counter(choice.parent.scenario_id for choice in choices if choice.parent)
    assert set(parents) == {one.scenario.scenario_id for one in failed}
    assert all(_within(n, 400, 0.5) for n in parents.values())
    assert {choice.operator for choice in choices} <= set(OPERATORS)
    for choice in choices:
        assert choice.parent is not None
        assert choice.operator is not None
        assert choice.cell == choice.parent.situation
        assert mutated(choice.parent, choice.operator, choice.seed) is not None


def test_a_mutant_that_fails_is_mutated_again_but_not_without_end() -> None:
    chooser = _chooser(seen=[_probed(PLAN[0], "x", failed=True)])
    depth: dict[str, int] = defaultdict(int)
    for _ in range(60):
        for choice in chooser.choose("failure_mutation", 1):
            assert choice.parent is not None
            mutant = mutated(choice.parent, choice.operator or "", choice.seed)
            assert mutant is not None
            if mutant.scenario_id not in depth:  # the search plays no scenario twice
                depth[mutant.scenario_id] = depth[choice.parent.scenario_id] + 1
                chooser.learn(Probed(mutant, choice, 0, played(1)[0], "x", AXES, failed=True))
    assert max(depth.values()) == MAX_MUTATIONS


@pytest.mark.parametrize("arm", ["behavior_targeted", "failure_mutation"])
def test_the_rare_arms_have_nothing_before_anything_was_seen_or_failed(arm: Arm) -> None:
    assert _chooser().choose(arm, 5) == []
    sound = [_probed(PLAN[0], "x")]
    assert bool(_chooser(seen=sound).choose(arm, 5)) is (arm == "behavior_targeted")


def test_where_everything_is_sealed_no_arm_finds_anything() -> None:
    cell = PLAN[0]
    tiny = {axis: (getattr(cell, axis),) for axis in AXES}
    sealing = next(seed for seed in range(1000) if is_held_out(task_id(cell), seed))
    grid = replace(GRID, axes=tiny, sealed_by=sealing)
    chooser = Chooser(grid, plan(grid, [])[1], [], 1)
    for arm in ("structured", "llm_guided", "open_ended", "failure_mutation"):
        assert chooser.choose(arm, 3) == []


def test_a_choice_can_be_written() -> None:
    choice: Choice = _chooser().choose("open_ended", 1)[0]
    assert WRITER.write(choice.cell, choice.seed).situation == situation(row_of(choice.cell))
