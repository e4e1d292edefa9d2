"""`while-pipeline export`: what it writes, says and refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.train.exports.days import check, published
from tests.train.exports.stored import ALL_CUTS, DAY, rows_of
from while_pipeline.cli import main
from while_pipeline.train.trl import run


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHILE_DATA", str(tmp_path))
    return published(tmp_path, {cut: rows_of(cut) for cut in ALL_CUTS})


def called(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_a_cut_is_written_into_the_data_folder_and_each_file_is_named(data: Path) -> None:
    found = called("--day", DAY, "--cut", "sft", "--format", "openai")
    folder = data / "exports" / DAY / "sft-openai"
    assert found.exit_code == 0, found.output
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert found.output.splitlines() == [
        f"{folder / 'train.jsonl'}: 3 rows, {sizes['train.jsonl']:,} bytes",
        f"{folder / 'valid.jsonl'}: 1 rows, {sizes['valid.jsonl']:,} bytes",
    ]


def test_another_folder_may_be_named(data: Path, tmp_path: Path) -> None:
    found = called("--day", DAY, "--cut", "grpo", "--format", "verl", "--out", tmp_path / "mine")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "mine" / "train.parquet").exists()


def test_a_trl_export_says_when_no_tokenizer_has_looked_at_it(data: Path) -> None:
    found = called("--day", DAY, "--cut", "dpo", "--format", "trl")
    assert found.output.splitlines()[-1] == (
        "Not checked after TRL's tokenising: no tokenizer was named (--tokenizer)"
    )


def test_without_the_extra_it_says_that_nothing_was_checked(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "EXTRA", ("no_such_package_anywhere",))
    found = called("--day", DAY, "--cut", "dpo", "--format", "trl", "--tokenizer", tmp_path)
    assert found.exit_code == 0
    assert "the extra `train` is not installed: no_such_package_anywhere" in found.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--day", "2026-03-09", "--cut", "sft", "--format", "trl"), "it was not run"),
        (("--day", DAY, "--cut", "sft", "--format", "verl"), "no shape for this cut"),
        (("--day", DAY, "--cut", "sft", "--format", "openai", "--tokenizer", "."), "--tokenizer goes with"),
    ],
)
def test_a_wrong_question_is_exit_code_2_and_writes_nothing(
    data: Path, arguments: tuple[str, ...], said: str
) -> None:
    found = called(*arguments)
    assert found.exit_code == 2
    assert said in found.output
    assert not (data / "exports").exists()


def test_a_refused_cut_is_exit_code_2_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "WHILE_DATA", str(published(tmp_path, {"sft": rows_of("sft")}, [check("sft", passed=False)]))
    )
    found = called("--day", DAY, "--cut", "sft", "--format", "trl")
    assert found.exit_code == 2
    assert "publication refused sft: no_sealed_task" in found.output
    assert not (tmp_path / "exports").exists()


def test_an_empty_data_folder_names_the_command_that_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHILE_DATA", str(tmp_path / "elsewhere"))
    found = called("--day", DAY, "--cut", "sft", "--format", "trl")
    assert found.exit_code == 1
    assert "while-pipeline run --day" in found.output
