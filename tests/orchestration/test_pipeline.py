import json

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from assets.stored import key_of
from tests.orchestration.conftest import DAYS, Telecom, names, rows_by_table
from while_pipeline.agents.policy import base_weights
from while_pipeline.definitions import build_definitions
from while_pipeline.simulate.axes import AXES
from while_pipeline.tables import ALL
from while_pipeline.tables.base import descriptions, table_name

pytestmark = pytest.mark.slow

FIRST, SECOND, THIRD = DAYS
OUTSIDE = {dg.AssetKey("traffic"), dg.AssetKey("project"), dg.AssetKey("by_hand")}


@pytest.fixture(scope="module")
def graph(telecom: Telecom) -> AssetGraph:
    return build_definitions(telecom.pipeline.root, telecom.pipeline.data).resolve_asset_graph()


# -- three days ---------------------------------------------------------------------------------------------


def test_three_days_succeed_with_every_table_stored_and_every_check_green(telecom: Telecom) -> None:
    for day, ran in telecom.runs.items():
        assert ran.errors == {}, day
        assert ran.red == {}, day
        assert ran.stored.keys() == names(ALL), day


def test_every_table_reports_the_rows_it_holds(telecom: Telecom) -> None:
    for day, ran in telecom.runs.items():
        held = {table_name(table): telecom.pipeline.warehouse.read(table, day).height for table in ALL}
        assert rows_by_table(ran) == held


def test_the_candidate_promoted_on_the_first_day_serves_the_second(telecom: Telecom) -> None:
    (decision,) = telecom.pipeline.ask(f"FROM prove.promotion WHERE day = '{FIRST}'").to_dicts()
    assert decision["promoted"]
    serving = dict(telecom.pipeline.ask("SELECT day::VARCHAR, policy_version FROM watch.agent").iter_rows())
    assert serving[FIRST] == decision["serving"] == base_weights().version
    assert serving[SECOND] == decision["candidate"] != serving[FIRST]
    played = telecom.pipeline.ask(
        f"SELECT DISTINCT policy_version FROM simulate.rollouts WHERE day = '{SECOND}'"
    )
    assert played.rows() == [(decision["candidate"],)]


def test_the_first_night_is_proven_better_on_sealed_tasks(telecom: Telecom) -> None:
    (overall,) = telecom.pipeline.ask(
        f"FROM prove.delta WHERE day = '{FIRST}' AND scope = 'overall'"
    ).to_dicts()
    assert overall["verdict"] == "better"
    assert 0 < overall["low"] < overall["difference"] < overall["high"]
    assert overall["n_tasks"] == 48
    (policy,) = telecom.pipeline.ask(f"FROM train.policies WHERE day = '{FIRST}'").to_dicts()
    assert json.loads(policy["weights"]) != base_weights().weights
    assert policy["loss_after"] < policy["loss_before"]


def test_the_proof_is_a_report_with_a_picture_beside_the_day_and_in_the_assets_metadata(
    telecom: Telecom,
) -> None:
    shown = telecom.runs[FIRST].stored["prove.delta"]
    written = telecom.pipeline.data / "reports" / f"{FIRST}.delta.md"
    assert written.read_text().splitlines()[2] == shown["answer"].value
    assert str(shown["answer"].value).startswith("The candidate is better: it passes ")
    assert "](data:image/png;base64," in str(shown["report"].value)
    assert len(str(shown["report"].value)) < 50_000
    assert written.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    kinds = telecom.pipeline.ask(f"SELECT DISTINCT kind FROM prove.delta WHERE day = '{FIRST}'").to_series()
    assert set(kinds) == {"overall", "category", "guard"}
    assert "48 held-out tasks with 3 samples each show" in str(
        telecom.runs[FIRST].stored["prove.held_out"]["can_show"].value
    )


def test_no_sealed_task_was_ever_played_for_training(telecom: Telecom) -> None:
    both = telecom.pipeline.ask(
        "SELECT task_id FROM simulate.scenarios INTERSECT SELECT task_id FROM prove.held_out"
    )
    assert both.is_empty()


# -- the same again -----------------------------------------------------------------------------------------


def test_running_the_first_day_again_gives_the_same_tables(telecom: Telecom) -> None:
    """Later days have been run since: what they stored must not reach back."""
    again = telecom.pipeline.run(FIRST)
    assert rows_by_table(again) == rows_by_table(telecom.runs[FIRST])
    assert {day: telecom.pipeline.digests(day) for day in DAYS} == telecom.digests
    assert again.versions == telecom.runs[FIRST].versions == telecom.digests[FIRST]


# -- lineage ------------------------------------------------------------------------------------------------


def test_lineage_leads_from_every_table_back_to_the_customer_or_the_project(graph: AssetGraph) -> None:
    def sources(key: dg.AssetKey) -> set[dg.AssetKey]:
        parents = graph.get(key).parent_keys
        return set().union(*map(sources, parents)) if parents else {key}

    for table in ALL:
        assert sources(key_of(table)) <= OUTSIDE, table_name(table)
    assert sources(dg.AssetKey(["prove", "promotion"])) == OUTSIDE


def test_the_asset_graph_is_one_piece(graph: AssetGraph) -> None:
    keys = {key_of(table) for table in ALL} | OUTSIDE
    reached, todo = set[dg.AssetKey](), [dg.AssetKey("traffic")]
    while todo:
        key = todo.pop()
        if key not in reached:
            reached.add(key)
            todo += [*graph.get(key).parent_keys, *graph.get(key).child_keys]
    assert reached == keys == set(graph.get_all_asset_keys())


def test_the_assets_stand_in_the_five_groups(graph: AssetGraph) -> None:
    groups = {graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert groups == {"watch", "simulate", "grade", "train", "prove"}
    assert all(graph.get(key_of(table)).group_name == table_name(table).split(".")[0] for table in ALL)


def test_every_table_says_what_it_is(graph: AssetGraph) -> None:
    for table in ALL:
        node = graph.get(key_of(table))
        assert node.description
        assert node.description.startswith("One row is ")
        assert {"duckdb", "polars"} <= node.kinds
        assert node.owners == ["team:while-pipeline"]
        assert node.code_version
        schema = node.metadata["dagster/column_schema"]
        assert {column.name: column.description for column in schema.columns} == descriptions(table)
        assert all(descriptions(table).values())


def test_what_the_pipeline_only_reads_is_described_too(graph: AssetGraph) -> None:
    for key in OUTSIDE:
        node = graph.get(key)
        assert node.description
        assert node.kinds
        assert node.owners == ["team:while-pipeline"]
        assert not node.is_materializable


def test_every_table_has_a_check_and_every_check_says_its_threshold(graph: AssetGraph) -> None:
    checks = {key: graph.get_check_spec(key) for key in graph.asset_check_keys}
    assert {key.asset_key for key in checks} == {key_of(table) for table in ALL}
    assert all(spec.description for spec in checks.values())
    gates = {"judge_is_trusted", "reward_is_not_hacked", "cuts_may_be_published", "no_sealed_task"}
    assert gates <= {key.name for key, spec in checks.items() if spec.blocking}


# -- questions ----------------------------------------------------------------------------------------------


def test_the_five_weakest_spots_are_one_statement(telecom: Telecom) -> None:
    worst = telecom.pipeline.ask("FROM watch.map LIMIT 5")
    assert worst.height == 5
    assert worst["failures"].is_sorted(descending=True)
    assert worst["failures"][0] > 0
    example = telecom.pipeline.ask(
        f"SELECT failed FROM watch.situations WHERE conversation_id = '{worst['example'][0]}'"
    )
    assert example["failed"].to_list() == [True]


def test_why_a_rollout_is_not_in_the_sft_cut_is_one_statement(telecom: Telecom) -> None:
    told = telecom.pipeline.ask(
        """SELECT gate, detail FROM train.why_dropped WHERE cut = 'sft' AND rollout_id =
        (SELECT min(rollout_id) FROM grade.grades WHERE NOT passed)"""
    )
    assert told.height == 1
    assert told["gate"][0] != "kept"
    assert told["detail"][0]


def test_a_training_row_leads_back_to_its_day_policy_and_situation(telecom: Telecom) -> None:
    (row,) = telecom.pipeline.ask(
        f"FROM lineage.row WHERE cut = 'sft' AND day = '{SECOND}' ORDER BY row_id LIMIT 1"
    ).to_dicts()
    (agent,) = telecom.pipeline.ask(f"FROM watch.agent WHERE day = '{SECOND}'").to_dicts()
    assert row["policy_version"] == agent["policy_version"]
    assert row["policy_document_hash"] == agent["policy_document_hash"]
    assert row["reward"] == 1.0
    assert all(row[axis] for axis in AXES)
    every = telecom.pipeline.ask(
        """SELECT count(*) = (SELECT count(*) FROM train.sft) AS all_there, count(policy_version) = count(*)
        AND count(scenario_id) = count(*) AS all_traced FROM lineage.row WHERE cut = 'sft'"""
    )
    assert every.rows() == [(True, True)]


def test_a_steered_scenario_leads_back_to_a_weak_spot_of_the_traffic(telecom: Telecom) -> None:
    steered = telecom.pipeline.ask(
        """SELECT count(*) FROM simulate.scenarios s JOIN watch.weak_spots w
        ON w.day = s.day AND w.spot_id = s.spot_id WHERE w.failures > 0"""
    )
    assert steered.item() > 0


def test_all_tables_and_columns_of_the_snapshot_carry_their_comment(telecom: Telecom) -> None:
    held = telecom.pipeline.ask(
        """SELECT count(*) AS n, count(comment) AS told FROM duckdb_columns()
        WHERE schema_name IN ('watch', 'simulate', 'grade', 'train', 'prove')
        AND table_name NOT IN (SELECT view_name FROM duckdb_views())"""
    )
    assert held["n"][0] == held["told"][0] > 200
