from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from while_pipeline.grade.batches import BATCH, scenario_batches

SIZES = st.lists(st.integers(1, 9), max_size=40)


def test_a_batch_holds_whole_scenarios_as_many_as_fit() -> None:
    groups = [("a", 4), ("b", 4), ("c", 4), ("d", 12), ("e", 1), ("f", 8)]
    assert list(scenario_batches(groups, most=9)) == [["a", "b"], ["c"], ["d"], ["e", "f"]]


@given(SIZES, st.integers(1, 12))
def test_every_scenario_is_in_one_batch_in_order_and_no_batch_could_have_held_more(
    sizes: list[int], most: int
) -> None:
    groups = {f"{i}": size for i, size in enumerate(sizes)}
    batches = list(scenario_batches(groups.items(), most))
    assert [scenario for batch in batches for scenario in batch] == list(groups)
    for batch in batches:
        assert sum(groups[s] for s in batch) <= most or len(batch) == 1
    for batch, following in pairwise(batches):
        assert sum(groups[s] for s in (*batch, following[0])) > most


def test_a_usual_night_is_one_batch() -> None:
    assert len(list(scenario_batches((f"{i}", 4) for i in range(BATCH // 4)))) == 1
