import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.arms import (
    FIRST_TWO,
    GAIN,
    IN_AFTER,
    LOSS,
    MIXED,
    SAME,
    finding,
    forget,
    trials,
)
from while_pipeline.prove.delta import DELTA_SCHEMA, paired_delta
from while_pipeline.prove.delta_files import data_uri, write_delta
from while_pipeline.prove.delta_report import VERDICTS, Compared, answer, delta_markdown
from while_pipeline.prove.forest import MOST_ROWS, forest_png
from while_pipeline.prove.verdict import Verdict

ABOUT = Compared(before="the old policy", after="the new policy")
HARMED = finding(trials({"refund": GAIN * 4, "cancel": LOSS}), ("leak", IN_AFTER & FIRST_TWO))
SHRUNK = [(2, 1)] * 20


def said(data: pl.DataFrame, **options: object) -> str:
    return answer(paired_delta(data, **options), ABOUT)  # type: ignore[arg-type]


# -- the first sentence -------------------------------------------------------------------------------------


def test_a_gain_is_told_in_attempts_of_a_hundred_with_how_large_it_may_be() -> None:
    assert said(trials({"refund": GAIN})) == (
        "The new policy is better: it passes 75 of 100 attempts where the old policy passed 25, "
        "a gain of 50 points (between 36 and 55 points)."
    )


def test_a_loss_is_told_the_same_way() -> None:
    assert said(trials({"refund": LOSS})) == (
        "The new policy is worse: it passes 25 of 100 attempts where the old policy passed 75, "
        "a loss of 50 points (between 36 and 55 points)."
    )


def test_no_difference_says_what_may_still_be_hidden() -> None:
    assert said(trials({"refund": MIXED})) == (
        "No difference could be shown: the new policy passes 38 of 100 attempts where the old policy "
        "passed 38, and the true change may lie anywhere between −13 and 13 points."
    )
    assert said(trials({"refund": SAME})).endswith("passed 50, and not one of 20 tasks changed.")


def test_a_small_change_is_told_with_a_decimal() -> None:
    assert said(trials({"refund": [(500, 503)] * 40}, k=1000)) == (
        "The new policy is better: it passes 50.3 of 100 attempts where the old policy passed 50.0, "
        "a gain of 0.3 points (between 0.1 and 0.5 points)."
    )


def test_a_change_smaller_than_asked_for_is_told_apart_from_none() -> None:
    about = replace(ABOUT, min_effect=0.3)
    assert answer(paired_delta(trials({"refund": [(1, 2)] * 20}), min_effect=0.3), about) == (
        "The difference is smaller than the 30 points asked for: the new policy passes 50 of 100 attempts "
        "where the old policy passed 25, a change of 25 points."
    )


def test_a_change_that_too_many_looks_explain_says_so() -> None:
    data = trials({"refund": [(1, 3)] * 9 + [(3, 1)] + [(2, 2)] * 10})
    assert said(data, looks=4).endswith("passed 40, but chance explains as much (corrected p 0.2578).")


def test_a_change_inside_the_noise_is_none_that_counts() -> None:
    assert said(trials({"refund": SHRUNK}), noise={"overall": 0.3, "refund": 0.3}) == (
        "No difference that counts: the new policy passes 25 of 100 attempts where the old policy passed 50, "
        "but playing the same policies again moves the figure by up to 30 points."
    )


def test_too_few_tasks_name_the_number_that_would_do() -> None:
    assert said(trials({"refund": [(0, 4)] * 3})) == (
        "Too few tasks to tell (3 tasks; at least 6 are needed): the new policy passes 100 of 100 attempts "
        "where the old policy passed 0."
    )


def test_what_cannot_be_compared_says_why() -> None:
    other = trials({"refund": GAIN}).with_columns(judge=pl.col("arm"))
    assert said(other) == (
        "The new policy and the old policy cannot be compared: "
        "other judge: 20 of 20 tasks have more than one judge (after and before)."
    )
    assert said(trials({})) == "The new policy was not held against the old policy: no attempt has a verdict."


def test_a_total_that_rose_over_a_part_that_fell_is_told_by_the_part() -> None:
    assert said(HARMED, guards=["leak"]) == (
        "Not to be promoted: `cancel` got worse (25 of 100 attempts instead of 75) and `leak` got more "
        "frequent (found in 50 of 100 attempts instead of 0), though the total rose from 35 to 65 of 100 "
        "attempts."
    )


def test_a_part_that_fell_is_named_when_the_total_stayed() -> None:
    text = said(trials({"up": GAIN, "down": LOSS}))
    assert text.startswith("No difference could be shown: ")
    assert text.endswith("points; and `down` got worse (25 of 100 attempts instead of 75).")


def test_nearly_all_is_not_all() -> None:
    nearly = trials({"refund": [(0, 500), *[(0, 500)] * 8, (0, 499)]}, k=500)
    assert "passes 99.98 of 100" not in said(nearly)
    assert "passes 100.0 of 100 attempts where the old policy passed 0," in said(nearly)


# -- the whole ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def harmed() -> pl.DataFrame:
    lost = (pl.col("category") == "lost") & IN_AFTER & (pl.col("sample") == 0)
    parts = {"refund": GAIN * 4, "cancel": LOSS, "lost": SAME, "pay|bill": MIXED}
    data = finding(forget(trials(parts), lost), ("leak", IN_AFTER & FIRST_TWO))
    return paired_delta(data.with_columns(truncated=IN_AFTER & FIRST_TWO), guards=["leak"])


def test_the_first_line_after_the_title_is_the_answer(harmed: pl.DataFrame) -> None:
    lines = delta_markdown("Title", harmed, ABOUT).splitlines()
    assert lines[0] == "# Title"
    assert lines[2] == answer(harmed, ABOUT)


def test_the_table_has_a_row_per_scope_with_its_verdict_in_words(harmed: pl.DataFrame) -> None:
    text = delta_markdown("Title", harmed, ABOUT)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + harmed.height
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    by_name = {row.split(" | ")[0]: row for row in rows}
    assert by_name["| no leak"].endswith("| worse |")
    assert by_name["| lost"].endswith("| 50.0 % | 33.3 % |  |  |  | 20 |  |  |  | not comparable |")
    assert "| pay\\|bill" in by_name


def test_what_was_left_out_and_what_makes_it_weaker_are_counted(harmed: pl.DataFrame) -> None:
    about = Compared("a", "b", left_out=["2 rows of b: no task."], cautions=["Nobody named the judge."])
    text = delta_markdown("Title", harmed, about)
    left_out = text.partition("## What was left out")[2].partition("##")[0]
    assert "Attempts that are absent or have no verdict: 20." in left_out
    assert "2 rows of b: no task." in left_out
    cautions = text.partition("## Cautions")[2].partition("##")[0]
    assert "cut off in 0.0% of the rollouts before and 50.0% after" in cautions
    assert "Nobody named the judge." in cautions
    assert "95% of such comparisons" in text
    assert "held-out tasks with 4 samples each" in text


def test_every_verdict_has_its_words() -> None:
    assert VERDICTS.keys() == set(Verdict)


# -- the picture --------------------------------------------------------------------------------------------


def test_the_same_table_gives_the_same_picture(harmed: pl.DataFrame) -> None:
    first, again = (forest_png("Title", harmed) for _ in range(2))
    assert first == again
    assert first.startswith(b"\x89PNG")
    assert forest_png("Title", harmed.head(3)) != first


def test_the_picture_is_small_enough_for_the_event_log_however_many_rows_there_are(
    harmed: pl.DataFrame,
) -> None:
    many = pl.concat([harmed] * (MOST_ROWS // harmed.height + 2))
    assert len(forest_png("Title", many)) < 100_000
    assert len(forest_png("Title", harmed)) < 50_000


def test_a_delta_of_nothing_has_a_picture_too() -> None:
    assert forest_png("Title", paired_delta(trials({}))).startswith(b"\x89PNG")


def test_files_are_written_side_by_side_and_nothing_else_stays(tmp_path: Path, harmed: pl.DataFrame) -> None:
    written = write_delta(tmp_path / "reports", "day.delta", "Title", harmed, ABOUT)
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["day.delta.md", "day.delta.png"]
    assert "](day.delta.png)" in written.text.read_text()
    assert data_uri(written.picture).startswith("data:image/png;base64,iVBOR")


def test_a_stored_table_reads_as_the_computed_one(harmed: pl.DataFrame) -> None:
    stored = pl.DataFrame(harmed.to_dicts(), schema=DELTA_SCHEMA)
    assert delta_markdown("Title", stored, ABOUT) == delta_markdown("Title", harmed, ABOUT)
