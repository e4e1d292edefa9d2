"""One step of each trainer, resuming, and what is refused before anything is written."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.train.trl import tiny
from tests.train.trl.conftest import LOG
from while_pipeline.errors import ProjectError
from while_pipeline.train.elsewhere import files_hash
from while_pipeline.train.trl import run
from while_pipeline.train.trl.examples import Row
from while_pipeline.train.trl.run import train
from while_pipeline.train.trl.settings import Method, TrlSettings

ROWS: dict[Method, Callable[[], list[Row]]] = {
    "sft": tiny.sft_rows,
    "dpo": tiny.dpo_rows,
    "reward": tiny.reward_rows,
}


def test_without_the_extra_it_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "EXTRA", ("json", "no_such_package_anywhere"))
    with pytest.raises(ProjectError, match=r"no_such_package_anywhere.*while-pipeline\[train\]"):
        train("sft", tiny.sft_rows(), TrlSettings(model=tmp_path), tmp_path / "out", LOG)
    with pytest.raises(ProjectError, match=r"while-pipeline\[train\]"):
        run.check_rows("sft", tiny.sft_rows(), tmp_path, "rows")


@pytest.mark.parametrize(
    ("lora", "method", "rate"),
    [(False, "sft", 2e-5), (True, "sft", 2e-4), (False, "dpo", 1e-6), (True, "dpo", 1e-5)],
)
def test_adapters_learn_at_ten_times_the_rate(lora: bool, method: Method, rate: float) -> None:
    assert TrlSettings(model=Path(), lora=lora).rate(method) == pytest.approx(rate)
    assert TrlSettings(model=Path(), lora=lora, learning_rate=0.1).rate(method) == 0.1


# -- one step of each ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "lora"])
@pytest.mark.parametrize("method", list(ROWS))
def test_a_step_moves_the_weights_and_leaves_a_checkpoint_to_serve(
    base: Path, tmp_path: Path, method: Method, lora: bool
) -> None:
    from transformers import AutoConfig, AutoTokenizer

    out = tmp_path / "out"
    result = train(method, ROWS[method](), TrlSettings(model=base, lora=lora, max_steps=1, batch=1), out, LOG)
    assert (result.steps, [point.step for point in result.curve], result.resumed_from) == (1, [1], None)
    assert result.curve[0].loss > 0
    assert result.folder == out / "model"
    assert result.parent == files_hash(base)
    assert result.version == files_hash(result.folder) != result.parent
    assert _weights(result.folder).keys() >= _weights(base).keys() - {"lm_head.weight"}
    assert _moved(base, result.folder)
    assert AutoConfig.from_pretrained(result.folder).model_type == "llama"
    template = AutoTokenizer.from_pretrained(result.folder).chat_template
    assert "<tools>" in template
    told = json.loads((out / "training.json").read_text())
    assert told == json.loads(json.dumps(result.summary()))


def _weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")  # type: ignore[no-any-return]


def _moved(before: Path, after: Path) -> bool:
    old, new = _weights(before), _weights(after)
    return any(not old[name].equal(new[name]) for name in old.keys() & new.keys())


def test_the_first_loss_of_a_preference_is_that_of_no_preference(base: Path, tmp_path: Path) -> None:
    result = train("dpo", tiny.dpo_rows(), TrlSettings(model=base, max_steps=1), tmp_path / "out", LOG)
    assert result.curve[0].loss == pytest.approx(0.693147, abs=1e-5)


@pytest.mark.parametrize(("method", "usual"), [("dpo", 0.1), ("grpo", 0.04)])
def test_a_model_is_held_to_its_parent_as_the_embedded_policy_is(method: Method, usual: float) -> None:
    assert TrlSettings(model=Path()).closeness(method) == usual
    assert TrlSettings(model=Path(), beta=0).closeness(method) == 0


def test_a_setting_that_the_method_does_not_read_is_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"beta = 0\.2: `sft` does not read it"):
        train("sft", tiny.sft_rows(), TrlSettings(model=base, beta=0.2), tmp_path / "out", LOG)


def test_imitation_lowers_the_loss(tuned: Path) -> None:
    curve = json.loads((tuned.parent / "training.json").read_text())["curve"]
    assert curve[0]["loss"] > 6 > 0.1 > curve[-1]["loss"]


def test_groups_play_our_worlds_and_the_weights_move_where_their_rewards_differ(
    tuned: Path, tmp_path: Path
) -> None:
    scenario = tiny.solved().rollout.scenario.scenario_id
    rows = [row for row in tiny.grpo_rows() if row["scenario_id"] == scenario]
    settings = TrlSettings(model=tuned, max_steps=1, batch=1, k=8, turn_tokens=60, learning_rate=1e-3)
    result = train("grpo", rows, settings, tmp_path / "out", LOG, tiny.game())
    reward = result.curve[0].reward
    assert reward is not None
    assert result.curve[0].kl == pytest.approx(0, abs=1e-4), "before the first step it is its parent"
    assert reward * 16 == int(reward * 16), "the mean of eight rewards of 0, a half or 1"
    assert _moved(tuned, result.folder) == (0 < reward < 1)


def test_a_group_that_agrees_moves_nothing(base: Path, tmp_path: Path) -> None:
    settings = TrlSettings(model=base, lora=True, max_steps=1, batch=1, k=2, turn_tokens=4)
    result = train("grpo", tiny.grpo_rows()[:1], settings, tmp_path / "out", LOG, tiny.game())
    assert result.curve[0].reward == 0.0
    assert not _moved(base, result.folder)


# -- resuming -----------------------------------------------------------------------------------------------


class Cut(Exception):
    """The power went off."""


@pytest.fixture
def cut_log() -> logging.Logger:
    """A logger that ends the training when the third step is told."""

    def off(record: logging.LogRecord) -> bool:
        if record.getMessage().startswith("step 3"):
            raise Cut
        return True

    log = logging.Logger("cut")
    log.addFilter(off)
    return log


@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "lora"])
def test_a_training_that_was_cut_short_ends_where_it_would_have(
    base: Path, tmp_path: Path, cut_log: logging.Logger, lora: bool
) -> None:
    settings = TrlSettings(model=base, lora=lora, max_steps=4, batch=2, save_every=1, learning_rate=1e-3)
    rows = tiny.sft_rows()
    whole = train("sft", rows, settings, tmp_path / "whole", LOG)
    with pytest.raises(Cut):
        train("sft", rows, settings, tmp_path / "cut", cut_log)
    assert not (tmp_path / "cut" / "model").exists()
    resumed = train("sft", rows, settings.model_copy(update={"resume": True}), tmp_path / "cut", LOG)
    assert (resumed.resumed_from, resumed.steps) == (2, 4)
    assert resumed.curve == whole.curve
    assert resumed.version == whole.version


def test_only_the_same_training_is_resumed(base: Path, tmp_path: Path, cut_log: logging.Logger) -> None:
    settings = TrlSettings(model=base, max_steps=4, batch=1, save_every=1)
    rows, out = tiny.sft_rows(), tmp_path / "out"
    with pytest.raises(Cut):
        train("sft", rows, settings, out, cut_log)
    again = settings.model_copy(update={"resume": True})
    other = tiny.make_model(tmp_path / "other", context=4096)
    for changed, said in (
        (lambda: train("sft", rows[:2], again, out, LOG), "data"),
        (lambda: train("sft", rows, again.model_copy(update={"seed": 1}), out, LOG), "settings"),
        (lambda: train("sft", rows, again.model_copy(update={"model": other}), out, LOG), "parent"),
        (lambda: train("dpo", tiny.dpo_rows(), again, out, LOG), "method"),
        (lambda: train("sft", rows, settings, out, LOG), "it is there already"),
        (lambda: train("sft", rows, again.model_copy(update={"max_steps": 8}), out, LOG), "settings"),
        (lambda: train("sft", rows, again, tmp_path / "nothing", LOG), "no training was begun"),
    ):
        with pytest.raises(ProjectError, match=said):
            changed()


def test_a_checkpoint_that_is_half_written_is_passed_over(
    base: Path, tmp_path: Path, cut_log: logging.Logger
) -> None:
    settings = TrlSettings(model=base, max_steps=4, batch=1, save_every=1)
    rows, out = tiny.sft_rows(), tmp_path / "out"
    with pytest.raises(Cut):
        train("sft", rows, settings, out, cut_log)
    (out / "checkpoints" / "checkpoint-2" / "trainer_state.json").write_text('{"global_')
    again = settings.model_copy(update={"resume": True})
    assert train("sft", rows, again, out, LOG).resumed_from == 1
    with pytest.raises(ProjectError, match="this training is finished"):
        train("sft", rows, again, out, LOG)


def test_a_training_without_a_checkpoint_yet_begins_anew(
    base: Path, tmp_path: Path, cut_log: logging.Logger
) -> None:
    settings = TrlSettings(model=base, max_steps=3, batch=1)
    rows, out = tiny.sft_rows(), tmp_path / "out"
    with pytest.raises(Cut):
        train("sft", rows, settings, out, cut_log)
    resumed = train("sft", rows, settings.model_copy(update={"resume": True}), out, LOG)
    assert (resumed.resumed_from, resumed.steps) == (None, 3)


def test_a_training_that_was_cut_short_between_its_last_files_is_finished(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TrlSettings(model=base, max_steps=1, batch=1)
    rows, out = tiny.sft_rows(), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(run.os, "replace", lambda *_: (_ for _ in ()).throw(Cut))
        with pytest.raises(Cut):
            train("sft", rows, settings, out, LOG)
    result = train("sft", rows, settings.model_copy(update={"resume": True}), out, LOG)
    assert json.loads((out / "training.json").read_text())["version"] == files_hash(result.folder)


# -- refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_length": 100}, "the longest row has [0-9]+ tokens"),
        ({"chat_template": Path("no-such.jinja")}, "cannot be read"),
        ({"model": Path("no-such-folder")}, "there is no file to hash"),
    ],
)
def test_what_cannot_be_trained_leaves_nothing_behind(
    base: Path, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    settings = TrlSettings(model=base).model_copy(update=changes)
    with pytest.raises(ProjectError, match=said):
        train("sft", tiny.sft_rows(), settings, tmp_path / "out", LOG)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("lacking", "said"), [("config.json", "no checkpoint"), ("tokenizer_config.json", "no tokenizer")]
)
def test_a_folder_that_is_no_checkpoint_is_named(base: Path, tmp_path: Path, lacking: str, said: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in base.iterdir():
        if path.name != lacking:
            (folder / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ProjectError, match=said):
        train("sft", tiny.sft_rows(), TrlSettings(model=folder), tmp_path / "out", LOG)


def test_what_is_seen_after_tokenising_leaves_nothing_behind_either(base: Path, tmp_path: Path) -> None:
    model = tmp_path / "endless"
    shutil.copytree(base, model)
    tiny.make_tokenizer(model, end="<|endoftext|>")
    for path in ("config.json", "generation_config.json"):
        told = json.loads((model / path).read_text()) | {"eos_token_id": 0}
        (model / path).write_text(json.dumps(told))
    with pytest.raises(ProjectError, match=r"last label = .* not an end token"):
        train("sft", tiny.sft_rows(), TrlSettings(model=model), tmp_path / "out", LOG)
    assert not (tmp_path / "out").exists()


def test_a_context_that_is_too_short_is_refused_with_the_length_that_is_needed(
    base: Path, tmp_path: Path
) -> None:
    model = tiny.make_model(tmp_path / "short", context=256)
    with pytest.raises(ProjectError, match="max_position_embeddings = 256: the longest row has"):
        train("sft", tiny.sft_rows(), TrlSettings(model=model), tmp_path / "out", LOG)


def test_groups_need_a_game_with_their_scenarios_and_tools(base: Path, tmp_path: Path) -> None:
    settings, rows, out = TrlSettings(model=base), tiny.grpo_rows(), tmp_path / "out"
    with pytest.raises(ProjectError, match="it needs a project's day"):
        train("grpo", rows, settings, out, LOG)
    with pytest.raises(ProjectError, match="not among those of the day"):
        train("grpo", [row | {"scenario_id": "unknown"} for row in rows], settings, out, LOG, tiny.game())
    with pytest.raises(ProjectError, match=r"tools = .*get_data_usage.*not in both"):
        train("grpo", [row | {"tools": tiny.OFFERED[:1]} for row in rows], settings, out, LOG, tiny.game())
    assert not out.exists()
