from math import inf
from pathlib import Path

import pytest

from while_pipeline.errors import ProjectError
from while_pipeline.grade.conduct import RULES
from while_pipeline.settings import Settings, Spread, load_settings


def _load(text: str, root: Path) -> Settings:
    (root / "while.yaml").write_text(text, encoding="utf-8")
    return load_settings(root)


def test_a_name_is_enough(tmp_path: Path) -> None:
    settings = _load("name: shop\n", tmp_path)
    assert settings == Settings(name="shop")
    assert settings.agent.plays == "embedded"


def test_a_world_of_ones_own_is_named_in_one_line_or_with_its_dials(tmp_path: Path) -> None:
    in_one_line = _load("name: shop\nworld: my_world:World\n", tmp_path).world
    assert in_one_line == _load("name: shop\nworld: {plays: my_world:World}\n", tmp_path).world
    assert in_one_line.transient_share == Settings(name="shop").world.transient_share


@pytest.mark.parametrize(
    ("text", "key", "value", "mend"),
    [
        ("seed: 1", "name", ["seed"], "Field required"),
        ("name: My Shop", "name", "My Shop", "should match pattern"),
        ("name: 7", "name", 7, "valid string"),
        ("name: a\nsede: 1", "sede", 1, "not permitted"),
        ("name: a\nseed: many", "seed", "many", "valid integer"),
        ("name: a\nagent: embedded", "agent", "embedded", "valid dictionary"),
        ("name: a\nagent: {plays: gpt}", "agent.plays", "gpt", "'embedded', 'endpoint' or 'callable'"),
        (
            "name: a\nagent: {plays: endpoint}",
            "agent",
            ["plays"],
            "needs agent.endpoint with base_url and model",
        ),
        ("name: a\nagent: {plays: callable}", "agent", ["plays"], "needs agent.callable as module:function"),
        (
            "name: a\njudge: {plays: endpoint}",
            "judge",
            ["plays"],
            "needs judge.endpoint with base_url and model",
        ),
        ("name: a\njudge: {mode: pairs}", "judge.mode", "pairs", "'each' or 'group'"),
        ("name: a\ntraffic: {timezone: Mars/Olympus}", "traffic.timezone", "Mars/Olympus", "such as UTC"),
        (
            "name: a\nprove: {must_not_regress: [politeness]}",
            "prove.must_not_regress",
            ["politeness"],
            "politeness is no conduct rule; the rules are action_without_call, apology,",
        ),
        (
            "name: a\nprove: {must_not_regress: [leak, leak]}",
            "prove.must_not_regress",
            ["leak", "leak"],
            "a rule is named twice",
        ),
        ("name: a\nbudget: {k: 0}", "budget.k", 0, "greater than or equal to 1"),
        (
            "name: a\nbudget: {scenarios: 2000000}",
            "budget.scenarios",
            2_000_000,
            "less than or equal to 1000000",
        ),
        ("name: a\nbudget: {scenarios: -5}", "budget.scenarios", -5, "greater than or equal to 1"),
        ("name: a\nworld: {transient_share: 2}", "world.transient_share", 2, "less than or equal to 1"),
        (
            "name: a\nworld: {max_transient_failures: 0}",
            "world.max_transient_failures",
            0,
            "greater than or equal to 1",
        ),
        ("name: a\nworld: my world", "world.plays", "my world", "module:Class such as my_world:World"),
        ("name: a\nbudget: {mode: all}", "budget.mode", "all", "'rl', 'sft' or 'adaptive'"),
        ("name: a\nbudget: {processes: 0}", "budget.processes", 0, "greater than or equal to 1"),
        ("name: a\nbudget: {processes: all}", "budget.processes", "all", "valid integer"),
        ("name: a\nagent: {timeout_s: 0}", "agent.timeout_s", 0, "greater than 0"),
        ("name: a\nagent: {timeout_s: .inf}", "agent.timeout_s", inf, "less than or equal to 3600"),
        ("name: a\nprove: {level: 0.5}", "prove.level", 0.5, "greater than 0.5"),
        ("name: a\nprove: {level: 95}", "prove.level", 95, "less than 1"),
        ("name: a\nprove: {min_effect: -0.1}", "prove.min_effect", -0.1, "greater than or equal to 0"),
        ("- name: a", "file", "list", "it must hold keys such as"),
        ("", "file", "NoneType", "it must hold keys such as"),
        ("name: [a", "line 1", "while.yaml", "it is not YAML"),
        ("name: a\n\tseed: 1", "line 2", "while.yaml", "it is not YAML"),
        ("name: a\x01", "file", "while.yaml", "characters YAML does not allow"),
    ],
)
def test_an_error_names_the_file_the_key_the_value_and_the_mend(
    text: str, key: str, value: object, mend: str, tmp_path: Path
) -> None:
    with pytest.raises(ProjectError) as caught:
        _load(text, tmp_path)
    error = caught.value
    assert (error.source, error.key, error.value) == (str(tmp_path / "while.yaml"), key, value)
    assert mend in error.mend
    assert all(part in str(error) for part in (error.source, key, repr(value), mend))


def test_every_wrong_key_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"budget\.k = 0: .*also prove\.k = 99"):
        _load("name: a\nbudget: {k: 0}\nprove: {k: 99}", tmp_path)


@pytest.mark.parametrize(
    "endpoint",
    [
        "{base_url: 'http://sk-hush@host/v1 x', model: m}",
        "{base_url: http://127.0.0.1/v1, model: m, api_key_env: sk-hush}",
        "{base_url: http://127.0.0.1/v1, model: m, api_key: sk-hush}",
        "{base_url: http://127.0.0.1/v1, model: m, access_token: sk-hush}",
        "{base_url: http://127.0.0.1/v1, model: m, headers: {Authorization: sk-hush}}",
        "{base_url: http://127.0.0.1/v1, model: m, temperature: 9, password: sk-hush}",
        "{base_url: http://127.0.0.1/v1, model: m, api_key: sk-hush, nope",
    ],
)
def test_an_error_never_shows_what_may_be_a_secret(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        _load(f"name: a\nagent:\n  endpoint: {endpoint}\n", tmp_path)
    assert "hush" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="it does not exist; set WHILE_PROJECT"):
        load_settings(tmp_path)
    (tmp_path / "while.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ProjectError, match="not UTF-8"):
        load_settings(tmp_path)
    (tmp_path / "while.yaml").unlink()
    (tmp_path / "while.yaml").mkdir()
    with pytest.raises(ProjectError, match="cannot be read: Is a directory"):
        load_settings(tmp_path)


def test_settings_cannot_be_changed_after_they_were_checked(tmp_path: Path) -> None:
    settings = _load("name: a", tmp_path)
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("budget", "spread"),
    [
        ("{}", Spread(phrasings=1, k=8, first=8)),
        ("{mode: rl, k: 3}", Spread(phrasings=1, k=3, first=3)),
        ("{mode: sft}", Spread(phrasings=3, k=4, first=4)),
        ("{mode: sft, k: 1, phrasings: 5}", Spread(phrasings=5, k=1, first=1)),
        ("{mode: adaptive}", Spread(phrasings=1, k=8, first=2)),
        ("{mode: adaptive, k: 16}", Spread(phrasings=1, k=16, first=2)),
        ("{mode: adaptive, k: 1}", Spread(phrasings=1, k=1, first=1)),
    ],
)
def test_a_mode_spreads_the_rollouts_and_an_explicit_figure_overrides_it(
    budget: str, spread: Spread, tmp_path: Path
) -> None:
    assert _load(f"name: a\nbudget: {budget}", tmp_path).budget.spread == spread


def test_auto_is_no_number_of_processes(tmp_path: Path) -> None:
    assert _load("name: a\nbudget: {processes: auto}", tmp_path).budget.processes is None
    assert _load("name: a\nbudget: {processes: 3}", tmp_path).budget.processes == 3


def test_the_guards_are_hard_rules_and_argument_grounding_comes_first(tmp_path: Path) -> None:
    guards = _load("name: shop\n", tmp_path).prove.must_not_regress
    assert guards[0] == "ungrounded_argument"
    severities = {rule.__name__: severity for rule, severity in RULES.items()}
    assert {severities[guard] for guard in guards} == {"hard"}
    assert _load("name: shop\nprove: {must_not_regress: []}\n", tmp_path).prove.must_not_regress == ()


@pytest.mark.parametrize(
    ("train", "used"),
    [
        ("{}", {"penalty": 0.02}),
        ("{method: dpo}", {"penalty": 0.02, "beta": 0.1}),
        ("{method: grpo}", {"beta": 0.04, "clip": 0.2}),
        ("{method: grpo, beta: 0.5, clip: 0.1}", {"beta": 0.5, "clip": 0.1}),
    ],
)
def test_each_method_has_its_own_figures(train: str, used: dict[str, float], tmp_path: Path) -> None:
    assert _load(f"name: a\ntrain: {train}", tmp_path).train.used == used


@pytest.mark.parametrize(
    ("train", "unread"),
    [("{beta: 0.1}", "sft does not read beta"), ("{method: grpo, penalty: 1}", "grpo does not read penalty")],
)
def test_a_key_that_the_method_does_not_read_is_an_error(train: str, unread: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=f"{unread}; leave it out"):
        _load(f"name: a\ntrain: {train}", tmp_path)


@pytest.mark.parametrize("train", ["{penalty: 0}", "{method: ppo}", "{method: grpo, clip: 1}"])
def test_a_fit_without_an_optimum_or_a_method_is_an_error(train: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError):
        _load(f"name: a\ntrain: {train}", tmp_path)
