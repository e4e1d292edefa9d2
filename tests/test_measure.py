import json
from pathlib import Path

import pytest

from tests.example import SHARED
from while_pipeline.measure import measure, to_text

AIRLINE = SHARED / "tau-bench" / "gpt-4o-airline.json"


def attempt(task: str | None, reward: float | None, n: int) -> str:
    record = {"messages": [{"role": "user", "content": f"attempt {n}"}], "created": 1_700_000_000 + n}
    return json.dumps({**record, "task": task, "reward": reward})


def attempts(path: Path, *made: tuple[str | None, float | None], first: int = 0) -> Path:
    path.write_text("\n".join(attempt(task, reward, n) for n, (task, reward) in enumerate(made, first)))
    return path


def rates(path: Path) -> dict[str, float]:
    return {f"{row['metric']}{row['k']}": row["value"] for row in measure([path]).rates.iter_rows(named=True)}


@pytest.mark.skipif(not AIRLINE.exists(), reason="the tau-bench results are not beside the repository")
def test_published_tau_bench_results_give_the_published_pass_hat_k() -> None:
    found = measure([AIRLINE])
    assert found.n_conversations == 200
    values = [f"{value:.3f}" for value in found.rates["value"]]
    assert values[:8] == ["0.420", "0.567", "0.660", "0.720", "0.420", "0.273", "0.220", "0.200"]
    assert values[8:] == ["0.147", "0.240", "0.300"]
    assert found.rates["n_tasks"].to_list() == [50] * 11
    assert "pass^4       0.200" in to_text(found)
    assert "headroom 4   0.300" in to_text(found)


def test_each_task_weighs_the_same(tmp_path: Path) -> None:
    path = attempts(tmp_path / "a.jsonl", ("a", 1.0), ("a", 1.0), ("a", 1.0), ("b", 0.0))
    assert rates(path)["pass@1"] == 0.5


def test_k_goes_as_far_as_half_of_the_tasks(tmp_path: Path) -> None:
    made = [("a", 1.0)] * 5 + [("b", 0.0)] * 2 + [("c", 0.0)]
    assert rates(attempts(tmp_path / "a.jsonl", *made)).keys() == {
        "pass@1", "pass@2", "pass^1", "pass^2", "headroom2"
    }  # fmt: skip


def test_a_reward_that_rounding_left_below_one_is_a_pass_and_any_less_is_none(tmp_path: Path) -> None:
    assert rates(attempts(tmp_path / "a.jsonl", ("a", 1 - 1e-7)))["pass@1"] == 1.0
    assert rates(attempts(tmp_path / "b.jsonl", ("a", 1 - 1e-5)))["pass@1"] == 0.0


def test_an_attempt_without_a_reward_is_unknown_and_counted_not_failed(tmp_path: Path) -> None:
    found = measure([attempts(tmp_path / "a.jsonl", ("a", 1.0), ("a", None))])
    assert found.n_no_reward == 1
    assert found.rates["value"].to_list() == [1.0, 1.0]
    assert "1 without a reward" in to_text(found)


def test_an_attempt_without_a_task_is_left_out_and_counted(tmp_path: Path) -> None:
    found = measure([attempts(tmp_path / "a.jsonl", ("a", 1.0), (None, 0.0))])
    assert (found.n_no_task, found.rates["value"][0]) == (1, 1.0)
    assert "1 without a task id" in to_text(found)


def test_nothing_measurable_gives_no_rate(tmp_path: Path) -> None:
    assert measure([attempts(tmp_path / "a.jsonl", (None, 1.0))]).rates.is_empty()


def test_what_cannot_be_read_is_named_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{attempt('a', 1.0, 0)}\n{{broken\n")
    found = measure([path])
    assert [(reject.source, reject.line) for reject in found.rejects] == [("a.jsonl", 2)]
    assert "a.jsonl:2: " in to_text(found)


def test_attempts_at_a_task_belong_together_across_files_and_a_file_given_twice_counts_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "later").mkdir()
    one = attempts(tmp_path / "a.jsonl", ("a", 1.0))
    other = attempts(tmp_path / "later" / "b.jsonl", ("x", 0.0), ("a", 0.0), first=1)
    found = measure([one, other, one])
    assert found.n_conversations == 3
    assert found.rates.row(0, named=True)["n_tasks"] == 2
    assert found.rates["value"][0] == 0.25
