import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.example import DOCUMENT, GRID, WRITER, ordinary, planned, played
from while_pipeline.constants import ARM_FLOORS, OPEN_ENDED_BOUNDS, RARE_ARM_CAP, SATURATION_BATCHES
from while_pipeline.records import Arm
from while_pipeline.simulate.arms import Choice, Chooser
from while_pipeline.simulate.axes import AXES
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import Scenario
from while_pipeline.simulate.search import ARMS, Probe, Probed, SearchResult, allotted, search, updated_shares

CELL = ordinary("get_bill", policy_rule=DOCUMENT.rules[0].rule_id)
YIELDS = st.fixed_dictionaries({arm: st.none() | st.floats(0, 50) for arm in ARMS})


# -- shares -----------------------------------------------------------------------------------------------


def test_the_worked_example_gives_the_published_shares() -> None:
    yields: dict[Arm, float | None] = {"structured": 0.2, "llm_guided": 0.6, "open_ended": 0.0}
    shares = updated_shares(yields)
    assert [round(shares[arm], 4) for arm in ARMS] == [0.3991, 0.4443, 0.1000, 0.0283, 0.0283]


def test_an_arm_without_rows_takes_the_mean_yield() -> None:
    known: dict[Arm, float | None] = {"structured": 0.2, "llm_guided": 0.6, "open_ended": 0.1}
    mean: dict[Arm, float | None] = {"behavior_targeted": 0.3, "failure_mutation": 0.3}
    assert updated_shares(known) == pytest.approx(updated_shares(known | mean))


@settings(deadline=None)
@given(YIELDS)
def test_shares_sum_to_one_and_keep_floors_caps_and_bounds_for_any_yields(
    yields: dict[Arm, float | None],
) -> None:
    shares = updated_shares(yields)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    assert all(shares[arm] >= ARM_FLOORS[arm] - 1e-12 for arm in ARMS)
    assert OPEN_ENDED_BOUNDS[0] - 1e-12 <= shares["open_ended"] <= OPEN_ENDED_BOUNDS[1] + 1e-12
    assert max(shares["behavior_targeted"], shares["failure_mutation"]) <= RARE_ARM_CAP + 1e-12


@settings(deadline=None)
@given(YIELDS, st.sampled_from(ARMS), st.floats(0.1, 10))
def test_an_arm_that_yields_more_never_gets_less(
    yields: dict[Arm, float | None], arm: Arm, more: float
) -> None:
    known: dict[Arm, float | None] = {name: y or 0.0 for name, y in yields.items()}
    raised = updated_shares(known | {arm: (known[arm] or 0.0) + more})
    assert raised[arm] >= updated_shares(known)[arm] - 1e-12


@settings(deadline=None)
@given(YIELDS, st.integers(0, 5000))
def test_rows_are_split_whole_within_one_row_of_the_share(yields: dict[Arm, float | None], rows: int) -> None:
    shares = updated_shares(yields)
    counts = allotted(shares, rows)
    assert sum(counts.values()) == rows
    assert all(abs(counts[arm] - shares[arm] * rows) < 1 for arm in ARMS)


# -- the search -------------------------------------------------------------------------------------------


class Scripted(Chooser):
    """Gives each arm so many different choices, then nothing."""

    def __init__(self, rows: dict[Arm, int]) -> None:
        self.left, self.made = dict(rows), 0
        self.learnt: list[Probed] = []

    def choose(self, arm: Arm, rows: int) -> list[Choice]:
        given = min(rows, self.left.get(arm, 0))
        self.left[arm] = self.left.get(arm, 0) - given
        self.made += given
        return [Choice(CELL, self.made - i) for i in range(given)]

    def learn(self, probed: Probed) -> None:
        self.learnt.append(probed)


class Repeats(Scripted):
    """Gives the same choice again and again; a new one every so many draws."""

    def __init__(self, every: int) -> None:
        super().__init__({})
        self.every = every

    def choose(self, arm: Arm, rows: int) -> list[Choice]:
        self.made += rows
        return [Choice(CELL, (self.made - i) // self.every) for i in range(rows)]


PLENTY: dict[Arm, int] = dict.fromkeys(ARMS, 100_000)


def _write(choice: Choice, arm: Arm) -> Scenario:
    return WRITER.write(choice.cell, choice.seed, arm, choice.phrasing)


def _probe(
    signatures: Iterable[str],
    realised: tuple[str, ...] = AXES,
    failed: Callable[[Scenario], bool] = lambda scenario: False,
) -> Probe:
    """Shows what it is told to; what was said is never looked at, so one rollout stands for all."""
    told, rollout = iter(signatures), played(1)[0]

    def probe(scenarios: Sequence[Scenario]) -> Iterator[tuple[Rollout, str, tuple[str, ...], bool]]:
        for scenario in scenarios:
            yield rollout, next(told), realised, failed(scenario)

    return probe


def _search(
    chooser: Chooser, probe: Probe, budget: int, batch_size: int = 50, phrasings: int = 1
) -> SearchResult:
    return search(chooser, _write, probe, budget=budget, batch_size=batch_size, phrasings=phrasings)


def test_the_budget_is_spent_to_the_last_scenario_on_different_scenarios() -> None:
    found = _search(Scripted(PLENTY), _probe(map(str, range(1000))), budget=130)
    assert (len(found.probed), found.stopped) == (130, "budget")
    assert len({p.scenario.scenario_id for p in found.probed}) == 130
    assert [p.batch for p in found.probed] == [0] * 50 + [1] * 50 + [2] * 30


def test_a_search_that_sees_nothing_new_is_saturated_after_the_quiet_batches() -> None:
    found = _search(Scripted(PLENTY), _probe(repeat("same")), budget=100_000)
    # The first batch is not quiet: its first row is new.
    assert (len(found.probed), found.stopped) == ((1 + SATURATION_BATCHES) * 50, "saturated")


def test_two_percent_new_is_not_yet_saturation() -> None:
    one_in_fifty = (str(i // 50) for i in range(10_000))
    found = _search(Scripted(PLENTY), _probe(one_in_fifty), budget=1000)
    assert (len(found.probed), found.stopped) == (1000, "budget")


def test_a_search_ends_when_nothing_is_left_to_write() -> None:
    few: dict[Arm, int] = {"structured": 7, "open_ended": 2}
    found = _search(Scripted(few), _probe(map(str, range(100))), budget=100)
    assert (len(found.probed), found.stopped) == (9, "nothing left")


def test_what_was_written_before_is_not_played_again() -> None:
    found = _search(Repeats(every=10**9), _probe(map(str, range(100))), budget=100)
    assert (len(found.probed), found.stopped) == (1, "nothing left")


def test_a_run_of_repeats_is_not_taken_for_nothing_left() -> None:
    found = _search(Repeats(every=97), _probe(map(str, range(1000))), budget=10, batch_size=5)
    assert (len(found.probed), found.stopped) == (10, "budget")


def test_the_chooser_learns_each_probe_in_order() -> None:
    chooser = Scripted(PLENTY)
    found = _search(chooser, _probe(map(str, range(1000))), budget=130)
    assert chooser.learnt == found.probed
    assert [p.signature for p in found.probed] == [str(i) for i in range(130)]


def test_phrasings_are_counted_in_the_budget_and_say_the_same_in_other_words() -> None:
    found = _search(Scripted(PLENTY), _probe(map(str, range(1000))), budget=120, batch_size=60, phrasings=3)
    assert (len(found.probed), found.stopped) == (120, "budget")
    groups: dict[int, list[Scenario]] = defaultdict(list)
    for p in found.probed:
        if p.scenario.arm == "structured":
            groups[p.choice.seed].append(p.scenario)
    sizes = [len(group) for group in groups.values()]
    assert max(sizes) == 3
    assert sizes.count(3) >= len(sizes) - 2
    for group in groups.values():
        assert len({s.script.opening for s in group}) == len(group)
        assert len({s.world.model_dump_json() for s in group}) == 1
        assert len({s.key.model_dump_json() for s in group}) == 1


@pytest.mark.parametrize("arm", ARMS)
def test_a_small_batch_is_not_taken_for_nothing_left(arm: Arm) -> None:
    found = _search(Scripted({arm: 100}), _probe(map(str, range(100))), budget=5, batch_size=1)
    assert (len(found.probed), found.stopped) == (5, "budget")
    assert {p.scenario.arm for p in found.probed} == {arm}


def test_the_log_counts_rows_and_news_per_arm_and_moves_the_next_shares() -> None:
    signatures = [f"s{i % 37}" for i in range(120)]
    fails: Callable[[Scenario], bool] = lambda scenario: scenario.scenario_id < "8"  # noqa: E731
    found = _search(Scripted(PLENTY), _probe(signatures, ("tool", "stance", "history"), fails), 120, 40)
    seen: set[str] = set()
    expected: dict[tuple[int, Arm], list[int]] = defaultdict(lambda: [0, 0, 0])
    for p in found.probed:
        counts = expected[p.batch, p.scenario.arm]
        counts[0] += 1
        counts[1] += p.signature not in seen
        counts[2] += p.failed
        seen.add(p.signature)
    logged = {(e.batch, e.arm): [e.rows, e.new_signatures, e.failures] for e in found.log if e.rows}
    assert logged == expected
    # One situation only: its three pairs of realised axes are new once.
    assert sum(e.new_pairs for e in found.log) == 3
    assert found.log[0].new_pairs == 3
    for entry in found.log:
        if entry.rows:
            assert entry.yield_per_row == (entry.new_signatures + entry.new_pairs) / entry.rows
    for batch in (0, 1):
        yields: dict[Arm, float | None] = {
            e.arm: e.yield_per_row if e.rows else None for e in found.log if e.batch == batch
        }
        shares = {e.arm: e.share for e in found.log if e.batch == batch + 1}
        assert shares == pytest.approx(updated_shares(yields))


# -- a whole night, cheaply -------------------------------------------------------------------------------

TEMPLATE = WRITER.write(CELL, 1)


def _cheap(choice: Choice, arm: Arm) -> Scenario:
    """A scenario with an id of its own and no words: writing is not what is measured."""
    own = f"{choice.cell!r}{choice.seed}{choice.phrasing}{choice.operator}"
    return TEMPLATE.model_copy(update={"scenario_id": own, "situation": choice.cell, "arm": arm})


def test_the_cost_of_a_scenario_does_not_grow_with_the_search() -> None:
    marks: list[float] = []
    signatures = (f"s{i % 4_999}" for i in range(10**9))
    shows = _probe(signatures, failed=lambda scenario: len(scenario.scenario_id) % 3 == 0)

    def probe(scenarios: Sequence[Scenario]) -> Iterator[tuple[Rollout, str, tuple[str, ...], bool]]:
        marks.append(time.process_time())
        return shows(scenarios)

    chooser = Chooser(GRID, planned(), [], 1)
    found = search(chooser, _cheap, probe, budget=2_500, batch_size=50)
    assert (len(found.probed), found.stopped) == (2_500, "budget")
    tenth = len(marks) // 10
    first, last = marks[2 * tenth] - marks[tenth], marks[-1] - marks[-1 - tenth]
    # What rescans all probes for each choice takes six times as long by then.
    assert last < 3 * first


def test_no_arm_runs_dry_over_a_night_of_many_times_the_array() -> None:
    fails: Callable[[Scenario], bool] = lambda scenario: len(scenario.scenario_id) % 3 == 0  # noqa: E731
    chooser = Chooser(GRID, planned(), [], 1)
    found = search(
        chooser, _cheap, _probe(map(str, range(10**6)), failed=fails), budget=1_500, batch_size=100
    )
    assert (len(found.probed), found.stopped) == (1_500, "budget")
    assert len({p.scenario.scenario_id for p in found.probed}) == 1_500
    # Before the first failure there is nothing to mutate, and the last batch is what is left of the budget.
    for entry in found.log[len(ARMS) : -len(ARMS)]:
        assert entry.rows >= round(entry.share * 100) - 1
