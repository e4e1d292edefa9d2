from pathlib import Path

import duckdb
import pytest

from tests.example import PROJECT
from tests.policy_history import BASE, ENDPOINT, History, nights, nth, policy
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.errors import ProjectError
from while_pipeline.project import DATABASE, Project
from while_pipeline.serve.policy import weights_to_serve
from while_pipeline.settings import AgentSettings
from while_pipeline.snapshot import snapshot_path
from while_pipeline.tables.base import ddl, table_name
from while_pipeline.train.registry import REGISTRY

A, B = policy(1.0), policy(2.0)
TODAY = nth(2).isoformat()


def _published(folder: Path, history: History) -> Path:
    with duckdb.connect(snapshot_path(folder / DATABASE)) as connection:
        for name, model in REGISTRY.items():
            for statement in ddl(model):
                connection.execute(statement)
            connection.register("incoming", history.table(name))
            connection.execute(f"INSERT INTO {table_name(model)} BY NAME SELECT * FROM incoming")
    return folder


def _playing(**agent: object) -> Project:
    settings = PROJECT.settings.model_copy(update={"agent": AgentSettings.model_validate(agent)})
    return Project(**{**vars(PROJECT), "settings": settings})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = nights((A, True), (B, False))
    history.register(nth(1))
    return _published(tmp_path_factory.mktemp("data"), history)


def test_the_policy_that_serves_today_is_served_by_default(data: Path) -> None:
    assert weights_to_serve(PROJECT, data, None, TODAY) == A
    assert weights_to_serve(PROJECT, data, None, nth(0).isoformat()) == BASE


def test_any_known_version_can_be_named_a_refused_one_too(data: Path) -> None:
    for one in (A, B, BASE):
        assert weights_to_serve(PROJECT, data, one.version, TODAY) == one


def test_a_version_whose_fit_was_replaced_is_served_with_the_weights_it_served_with(tmp_path: Path) -> None:
    history = nights((A, True), (B, False))
    history.forget("policies", nth(0))
    assert weights_to_serve(PROJECT, _published(tmp_path, history), A.version, TODAY) == A


def test_an_agent_of_the_users_own_that_is_named_has_no_weights_here(tmp_path: Path) -> None:
    history = History()
    history.serve(nth(0), "m-own", plays="endpoint", model="own")
    with pytest.raises(ProjectError, match="'m-own': it has no weights here"):
        weights_to_serve(PROJECT, _published(tmp_path, history), "m-own", TODAY)


def test_an_unknown_version_names_those_that_are_known(data: Path) -> None:
    with pytest.raises(ProjectError, match="p-nobody") as refused:
        weights_to_serve(PROJECT, data, "p-nobody", TODAY)
    assert A.version in str(refused.value)
    assert B.version in str(refused.value)


def test_before_the_first_day_there_is_the_base_policy(tmp_path: Path) -> None:
    assert weights_to_serve(PROJECT, tmp_path, None, TODAY) == BASE
    assert weights_to_serve(PROJECT, tmp_path, BASE.version, TODAY) == BASE
    with pytest.raises(ProjectError, match=f"no day has run yet.*{BASE.version}"):
        weights_to_serve(PROJECT, tmp_path, A.version, TODAY)


def test_a_model_that_was_registered_says_where_it_is_served(data: Path) -> None:
    with pytest.raises(ProjectError, match=f"no weights here: {ENDPOINT.base_url} serves tuned"):
        weights_to_serve(PROJECT, data, ENDPOINT.version, TODAY)


def test_an_agent_of_the_users_own_has_nothing_to_serve_until_a_fitted_policy_is_promoted(
    data: Path, tmp_path: Path
) -> None:
    own = EndpointSettings(base_url="http://127.0.0.1:1/v1", model="own")
    project = _playing(plays="endpoint", endpoint=own.model_dump())
    with pytest.raises(ProjectError, match="name one with --policy"):
        weights_to_serve(project, tmp_path, None, TODAY)
    assert weights_to_serve(project, tmp_path, BASE.version, TODAY) == BASE
    assert weights_to_serve(project, data, None, TODAY) == A
