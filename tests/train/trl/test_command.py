"""`while-pipeline train` as people call it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.train.trl import tiny
from tests.train.trl.exported import export
from while_pipeline.cli import main
from while_pipeline.train.elsewhere import files_hash
from while_pipeline.train.trl import run


def called(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["train", *map(str, arguments)])


def test_an_export_becomes_a_checkpoint_and_the_next_commands_are_printed(base: Path, tmp_path: Path) -> None:
    rows, out = export(tmp_path / "sft", "sft", tiny.sft_rows()), tmp_path / "out"
    found = called(
        "--method", "sft", "--model", base, "--data", rows, "--out", out, "--max-steps", 2, "--batch", 1
    )
    assert found.exit_code == 0, found.output
    assert files_hash(out / "model") != files_hash(base)
    lines = found.output.splitlines()
    assert lines[0].startswith("sft on 4 rows, ")
    assert [line[:12] for line in lines[1:3]] == ["step 1 of 2:", "step 2 of 2:"]
    assert f"  while-pipeline serve --checkpoint {out / 'model'} --port 8001" in lines
    assert lines[-1].startswith("  while-pipeline candidate --endpoint http://127.0.0.1:8001/v1 ")
    assert lines[-1].endswith(
        f"--method sft --checkpoint {out / 'model'} --manifest {rows / 'manifest.json'}"
    )


def test_a_reward_model_is_no_candidate(base: Path, tmp_path: Path) -> None:
    rows = export(tmp_path / "rows", "reward_model", tiny.reward_rows())
    found = called(
        *("--method", "reward", "--model", base, "--data", rows, "--out", tmp_path / "out", "--max-steps", 1),
        *("--batch", 1),
    )
    assert found.exit_code == 0, found.output
    assert "candidate" not in found.output


def test_a_length_that_cuts_is_exit_code_2_with_the_one_that_is_needed(base: Path, tmp_path: Path) -> None:
    rows, out = export(tmp_path / "sft", "sft", tiny.sft_rows()), tmp_path / "out"
    found = called("--method", "sft", "--model", base, "--data", rows, "--out", out, "--max-length", 64)
    assert found.exit_code == 2
    assert "it cuts answers: the longest row has" in found.output
    assert not out.exists()


def test_without_the_extra_the_command_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "EXTRA", ("no_such_package_anywhere",))
    rows = export(tmp_path / "sft", "sft", tiny.sft_rows())
    found = called("--method", "sft", "--model", tmp_path, "--data", rows, "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert "while-pipeline[train]" in found.output


@pytest.mark.parametrize("both", [False, True])
def test_either_an_export_or_a_day_is_named(tmp_path: Path, both: bool) -> None:
    given = ("--data", tmp_path, "--day", "2026-03-02") if both else ()
    found = called("--method", "sft", "--model", tmp_path, "--out", tmp_path / "out", *given)
    assert found.exit_code == 2
    assert "Name either --data or --day." in found.output


def test_a_setting_out_of_range_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "EXTRA", ())
    found = called(
        *("--method", "grpo", "--model", tmp_path, "--data", tmp_path, "--out", tmp_path / "out", "--k", 1)
    )
    assert found.exit_code == 2
    assert "--k = 1" in found.output
