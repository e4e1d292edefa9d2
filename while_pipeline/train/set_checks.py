"""What the publication gate holds the rows of a cut against together."""

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from while_pipeline.constants import LENGTH_TELLS
from while_pipeline.ids import canonical_json
from while_pipeline.prove.intervals import wilson
from while_pipeline.train.publication import Check, Gate, Held, Refused, Row, result, verdict
from while_pipeline.train.row_checks import row_checks


def check_cut(cut: str, rows: Iterable[Row], gate: Gate) -> list[Check]:
    """Run every check that applies to a cut."""
    held = [Held.of(row) for row in rows]
    return [*row_checks(cut, held, gate), *_set_checks(cut, held, gate)]


def _set_checks(cut: str, rows: Sequence[Held], gate: Gate) -> Iterator[Check]:
    n = len(rows)
    yield _whole_groups(cut, rows, gate) if cut == "grpo" else _not_twice(cut, rows)
    yield result(cut, "tools_equal", n, _other_tools(rows), "every row has the same tools")
    yield verdict(cut, "not_empty", n > 0, n, _size(cut, n, gate), "cut")
    yield verdict(cut, "judge_trusted", gate.trusted, n, gate.trust_reason)
    if cut == "grpo":
        yield result(cut, "groups_mixed", n, _unmixed(rows), "every group has both")
        yield verdict(cut, "reward_not_hacked", not gate.hacked, n, gate.hack_reason)
    if cut == "reward_model":
        yield _two_sided(cut, rows)
    if cut == "dpo":
        yield _length_lint(cut, rows)


def _size(cut: str, n: int, gate: Gate) -> str:
    return f"{n} rows" if n else f"no row is left: {gate.dropped.get(cut, 'there are no rollouts')}"


def _not_twice(cut: str, rows: Sequence[Held]) -> Check:
    counts = Counter(rollout for held in rows for rollout in held.rollouts)
    twice = [Refused(rollout, f"stands in {n} rows") for rollout, n in counts.items() if n > 1]
    return result(cut, "no_rollout_twice", len(rows), twice, "every rollout stands in one row")


def _whole_groups(cut: str, rows: Sequence[Held], gate: Gate) -> Check:
    """A group has all its samples, each once, with the advantages that its passes give."""
    bent = [
        Refused(scenario, why)
        for scenario, group in _by_scenario(rows).items()
        if (why := _bent(scenario, group, gate)) is not None
    ]
    return result(cut, "groups_whole", len(rows), bent, "every group has all its samples")


def _bent(scenario: str, group: Sequence[Held], gate: Gate) -> str | None:
    measured = gate.groups.get(scenario, [])
    samples = {held.row["rollout_id"] for held in group}
    if not len(samples) == len(group) == len(measured):
        return f"{len(group)} rows of {len(samples)} rollouts, {len(measured)} were graded"
    passes = [float(held.row["passed"]) for held in group]
    mean, spread = statistics.fmean(passes), statistics.pstdev(passes)
    for held, passed in zip(group, passes, strict=True):
        right = (passed - mean) / spread if spread else 0.0
        if not math.isclose(held.row["advantage"], right, abs_tol=1e-9):
            return f"advantage {held.row['advantage']:.4f} of {held.id}, not {right:.4f}"
    return None


def _unmixed(rows: Sequence[Held]) -> Iterator[Refused]:
    for scenario, group in _by_scenario(rows).items():
        if len({held.row["passed"] for held in group}) < 2:
            yield Refused(scenario, "all pass" if group[0].row["passed"] else "all fail")


def _by_scenario(rows: Iterable[Held]) -> dict[str, list[Held]]:
    groups: dict[str, list[Held]] = defaultdict(list)
    for held in rows:
        groups[held.row["scenario_id"]].append(held)
    return groups


def _other_tools(rows: Sequence[Held]) -> Iterator[Refused]:
    """Rows whose tools are not those of the first: a trainer pads what differs with null."""
    read: dict[str, str] = {}
    for held in rows:
        text = held.row["tools"]
        if text not in read:
            read[text] = canonical_json(json.loads(text))
        if read[text] != read[rows[0].row["tools"]]:
            yield Refused(held.id, f"its tools are {', '.join(_names(text)) or 'none'}")


def _names(tools: str) -> list[str]:
    found: list[dict[str, Any]] = json.loads(tools)
    return [str(tool.get("function", {}).get("name")) for tool in found]


def _two_sided(cut: str, rows: Sequence[Held]) -> Check:
    """A reward model of one label learns a constant."""
    passes = sum(bool(held.row["passed"]) for held in rows)
    both = not rows or 0 < passes < len(rows)
    return verdict(cut, "labels_two_sided", both, len(rows), f"{passes} of {len(rows)} rows passed", "cut")


def _length_lint(cut: str, rows: Sequence[Held]) -> Check:
    """How often the chosen answer is the longer one, over tasks; pairs of equal length are half of each."""
    tasks: dict[str, list[float]] = defaultdict(list)
    for held in rows:
        chosen, rejected = (len(held.row[name]) for name in ("chosen", "rejected"))
        tasks[held.row["task_id"]].append(0.5 if chosen == rejected else float(chosen > rejected))
    if not tasks:
        return verdict(cut, "length_does_not_tell", True, 0, "there are no pairs", "nothing")
    hits = sum(map(statistics.fmean, tasks.values()))
    share, (low, high) = hits / len(tasks), wilson(hits, len(tasks))
    said = f"the chosen answer is the longer one in {share:.3f} [{low:.3f}, {high:.3f}] of {len(tasks)} tasks"
    tells = low > LENGTH_TELLS or high < 1 - LENGTH_TELLS
    return verdict(cut, "length_does_not_tell", not tells, len(rows), said, "nothing")
