from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.covering import missing

sizes = st.lists(st.integers(1, 4), min_size=2, max_size=4)


@settings(max_examples=40, deadline=None)  # each opens a database
@given(st.data())
def test_the_statement_counts_the_pairs_that_no_row_holds(data):
    grid = [[f"{axis}.{value}" for value in range(size)] for axis, size in enumerate(data.draw(sizes))]
    rows = data.draw(st.lists(st.tuples(*map(st.sampled_from, grid)), min_size=1, max_size=12))

    wanted = {(a, b) for one, other in combinations(grid, 2) for a in one for b in other}
    held = {pair for row in rows for pair in combinations(row, 2)}

    assert missing(grid, rows) == (len(wanted), len(wanted - held))
