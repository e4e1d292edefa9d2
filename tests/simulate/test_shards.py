"""A night in shards: the same rows however it is cut, in files that are whole or not there."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.example import BASE, DAY, DOCUMENT, TOOLS, scenarios
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.records import Message
from while_pipeline.simulate import shards
from while_pipeline.simulate.axes import AXES
from while_pipeline.simulate.night import Night
from while_pipeline.simulate.rows import scenario_row
from while_pipeline.simulate.shards import (
    Manifest,
    Player,
    Terms,
    cut,
    figures,
    finished_shard,
    paths_by_table,
    rollout_tables,
    write_shard,
)
from while_pipeline.tables import simulate
from while_pipeline.tables.base import table_name
from while_pipeline.tools import Tool

TERMS = Terms(
    day=DAY,
    tools=tuple(tool.model_dump() for tool in TOOLS),
    policy_document=DOCUMENT.text,
    policy_version=BASE.version,
    seed=5,
    k=4,
    first=4,
)
SCENARIOS = scenarios(12)
WRITTEN = pl.DataFrame([scenario_row(one) for one in SCENARIOS])
NIGHT = Night(EmbeddedAgent(BASE), TOOLS, DOCUMENT, policy_version=BASE.version, seed=5)
EMBEDDED = partial(EmbeddedAgent, BASE)


def probes(of: int) -> pl.DataFrame:
    """Rows of sample 0 of the first scenarios."""
    played = NIGHT.play(SCENARIOS[:of], range(1))
    return Player(TERMS, EMBEDDED()).frames(played)[simulate.Rollouts]


UNPROBED = probes(0)


def whole(k: int = 4) -> pl.DataFrame:
    """The rollouts of all samples, as the night itself plays them."""
    return Player(TERMS, EMBEDDED()).frames(NIGHT.play(SCENARIOS, range(k)))[simulate.Rollouts]


def rows(manifests: Sequence[Manifest], folder: Path) -> pl.DataFrame:
    return pl.read_parquet(paths_by_table(folder, manifests)[table_name(simulate.Rollouts)])


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- cutting ------------------------------------------------------------------------------------------------


def test_a_night_is_cut_into_whole_groups_in_order_with_their_own_probes() -> None:
    made = list(cut(TERMS, WRITTEN, probes(7), size=20))
    assert [shard.scenarios.height for shard in made] == [5, 5, 2]
    assert pl.concat([shard.scenarios for shard in made]).equals(WRITTEN)
    assert [shard.probes["scenario_id"].to_list() for shard in made] == [
        WRITTEN["scenario_id"][:5].to_list(),
        WRITTEN["scenario_id"][5:7].to_list(),
        [],
    ]


def test_a_group_larger_than_a_shard_is_a_shard() -> None:
    assert [shard.scenarios.height for shard in cut(TERMS, WRITTEN, UNPROBED, size=3)] == [1] * 12


def key_of(terms: Terms = TERMS, written: pl.DataFrame = WRITTEN, probed: pl.DataFrame = UNPROBED) -> str:
    (shard,) = cut(terms, written, probed)
    return shard.key


def test_a_key_changes_with_all_that_decides_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    others: dict[str, Any] = {
        "day": "2026-03-03", "tools": TERMS.tools[:-1], "policy_document": "# Rules", "policy_version": "p",
        "seed": 6, "k": 3, "first": 2, "worlds": "my_world:Shop",
    }  # fmt: skip
    assert others.keys() == Terms.model_fields.keys()
    keys = [key_of(TERMS.model_copy(update={name: value})) for name, value in others.items()]
    keys += [key_of(), key_of(written=WRITTEN[1:]), key_of(written=WRITTEN.with_columns(goals=pl.lit("[]")))]
    probed = probes(1)
    keys += [key_of(probed=probed), key_of(probed=probed.with_columns(messages=pl.lit("[]")))]
    assert key_of(TERMS.model_copy()) == key_of()
    monkeypatch.setattr(shards, "code_version", lambda: "another")
    keys.append(key_of())
    assert len(set(keys)) == len(keys)


# -- playing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probed", [0, 5, 12])
@pytest.mark.parametrize("size", [8, 1000])
def test_shards_give_the_rows_of_the_whole_night_by_scenario_and_sample(probed: int, size: int) -> None:
    player = Player(TERMS, EMBEDDED())
    made = [rollout_tables(player, shard) for shard in cut(TERMS, WRITTEN, probes(probed), size)]
    together = pl.concat([frames[simulate.Rollouts] for frames in made])
    assert together.equals(whole())
    steps = pl.concat([frames[simulate.Steps] for frames in made])
    assert steps.group_by("rollout_id", maintain_order=True).len()["len"].to_list() == [
        n for n in together["n_tool_calls"] if n
    ]


def test_a_probe_is_kept_as_it_was_played() -> None:
    told = probes(12).with_columns(messages=pl.lit('[{"role":"user","content":"As it was."}]'))
    (shard,) = cut(TERMS, WRITTEN, told)
    frames = rollout_tables(Player(TERMS, EMBEDDED()), shard)
    first = frames[simulate.Rollouts].filter(pl.col("sample") == 0)
    assert first["messages"].to_list() == told["messages"].to_list()


def test_an_adaptive_night_goes_on_only_where_two_samples_pass_and_fail() -> None:
    terms = TERMS.model_copy(update={"k": 6, "first": 2})
    (shard,) = cut(terms, WRITTEN, probes(6))
    made = Player(terms, EMBEDDED()).play(shard)
    played = {(r.scenario.scenario_id, r.sample): r for r in NIGHT.play(SCENARIOS, range(6))}
    passed = {
        (g.rollout.scenario.scenario_id, g.rollout.sample): g.passed
        for g in grade(list(played.values()), TOOLS, DOCUMENT, RulesJudge())
    }
    expected = [
        (one.scenario_id, sample)
        for one in SCENARIOS
        for sample in range(6 if passed[one.scenario_id, 0] != passed[one.scenario_id, 1] else 2)
    ]
    assert [(r.scenario.scenario_id, r.sample) for r in made] == expected
    assert {n for _, n in Counter(s for s, _ in expected).items()} == {2, 6}
    assert [r.messages for r in made] == [played[key].messages for key in expected]


class SometimesDown:
    """The embedded agent, on a line that fails now and then."""

    def __init__(self) -> None:
        self.inner = EMBEDDED()

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        if seed % 8 == 0:
            raise AgentError("down")
        return self.inner.respond(messages, tools, seed)


def test_a_lost_rollout_is_no_disagreement() -> None:
    terms = TERMS.model_copy(update={"k": 3, "first": 2})
    (shard,) = cut(terms, WRITTEN, UNPROBED)
    groups: dict[str, list[bool | None]] = {}
    for graded in grade(Player(terms, SometimesDown()).play(shard), TOOLS, DOCUMENT, RulesJudge()):
        groups.setdefault(graded.rollout.scenario.scenario_id, []).append(graded.passed)
    assert any(None in group for group in groups.values())
    assert all(len(group) == (3 if {True, False} <= set(group[:2]) else 2) for group in groups.values())


# -- files --------------------------------------------------------------------------------------------------


def test_a_shard_is_finished_when_its_files_are_what_its_manifest_says(tmp_path: Path) -> None:
    (shard,) = cut(TERMS, WRITTEN, UNPROBED)
    assert finished_shard(tmp_path, shard.key) is None
    frames = rollout_tables(Player(TERMS, EMBEDDED()), shard)
    manifest = write_shard(tmp_path, shard.key, frames)
    assert finished_shard(tmp_path, shard.key) == manifest
    assert {(file.table, file.rows) for file in manifest.files} == {
        (table_name(model), made.height) for model, made in frames.items()
    }
    assert rows([manifest], tmp_path).equals(frames[simulate.Rollouts])
    assert len(list(tmp_path.iterdir())) == 1 + len(frames), "nothing else is left"


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])])
@pytest.mark.parametrize("which", ["*.json", "*rollouts.parquet", "*steps.parquet"])
def test_a_shard_with_a_file_gone_or_cut_short_is_not_finished(
    tmp_path: Path, spoil: Any, which: str
) -> None:
    (shard,) = cut(TERMS, WRITTEN[:2], UNPROBED)
    frames = rollout_tables(Player(TERMS, EMBEDDED()), shard)
    write_shard(tmp_path, shard.key, frames)
    before = bytes_of(tmp_path)
    (file,) = tmp_path.glob(which)
    spoil(file)
    assert finished_shard(tmp_path, shard.key) is None
    write_shard(tmp_path, shard.key, frames)
    assert bytes_of(tmp_path) == before


def test_figures_are_those_of_all_rollouts_together(tmp_path: Path) -> None:
    player = Player(TERMS, SometimesDown())
    manifests = [
        write_shard(tmp_path, shard.key, rollout_tables(player, shard))
        for shard in cut(TERMS, WRITTEN, UNPROBED, size=16)
    ]
    made = rows(manifests, tmp_path)
    realised = [len(json.loads(text)) for text in made["realised"]]
    assert figures(paths_by_table(tmp_path, manifests)[table_name(simulate.Rollouts)]) == {
        "lost": sum(lost is not None for lost in made["lost"]),
        "axes_realised": pytest.approx(sum(realised) / (len(AXES) * made.height)),
        "tokens": 0,
    }
    assert made["lost"].count() > 0
    assert figures([]) == {"lost": 0, "axes_realised": 0.0, "tokens": 0}
