"""Two files of graded attempts held against each other, without the pipeline.

What belongs here: from files to a delta and what its report must say of them. Reading rows belongs to
`graded_files`, the verdicts to `delta`, the words to `delta_report`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from while_pipeline.constants import MIN_CHANGED_TASKS
from while_pipeline.measure import WHOLE_REWARD
from while_pipeline.prove.delta import paired_delta
from while_pipeline.prove.delta_report import Compared
from while_pipeline.prove.graded_files import GradedFile, GradedFileError, read_graded
from while_pipeline.prove.noise import rerun_noise


@dataclass(frozen=True)
class Comparison:
    """What two files show."""

    delta: pl.DataFrame
    """`delta.DELTA_SCHEMA`."""
    about: Compared


def compare_files(
    before: Path,
    after: Path,
    *,
    level: float = 0.95,
    min_effect: float = 0.0,
    guards: Sequence[str] = (),
    reruns: Sequence[Path] = (),
) -> Comparison:
    """Compare two files of graded attempts at the same tasks.

    Args:
        before: Attempts of what was there before; see `graded_files.read_graded` for the form.
        after: Attempts of what is held against it.
        level: Confidence level of the intervals, and 1 - the significance level.
        min_effect: Smallest difference worth calling better or worse.
        guards: Rule ids in `findings` that must not come more often.
        reruns: Further runs of `before` as a whole: the noise band is then that between runs.

    Raises:
        GradedFileError: a file cannot be used, the two put a task into different categories, a guard is named
            and a file says nothing of findings, or a re-run has other tasks or another judge.
    """
    first, second = read_graded(before), read_graded(after)
    again = [read_graded(path) for path in reruns]
    _refuse_moved_tasks(first, second)
    _refuse_unmeasured_guards(guards, first, second)
    for run in again:
        _refuse_other_run(first, run)
    trials = pl.concat(
        file.attempts.with_columns(arm=pl.lit(arm)) for arm, file in (("before", first), ("after", second))
    )
    try:
        delta = paired_delta(
            trials,
            level=level,
            min_changed=MIN_CHANGED_TASKS,
            min_effect=min_effect,
            guards=guards,
            noise=rerun_noise([run.attempts for run in (first, *again)], level) if again else None,
        )
    except ValueError as error:
        raise GradedFileError(str(error)) from error
    return Comparison(delta, _about(first, second, again, level, min_effect))


def _about(
    first: GradedFile, second: GradedFile, again: Sequence[GradedFile], level: float, min_effect: float
) -> Compared:
    names = {id(first): first.path.name, id(second): second.path.name}
    if first.path.name == second.path.name:
        names = {id(first): str(first.path), id(second): str(second.path)}
    facts = [
        f"{names[id(file)]}: {file.n_records} records, {file.attempts.height} attempts at "
        f"{file.attempts['task_id'].n_unique()} tasks."
        for file in (first, second)
    ]
    facts.append(f"An attempt passes when `passed` is true, or its reward is at least {WHOLE_REWARD:.6f}.")
    if again:
        facts.append(f"The noise is that between {1 + len(again)} whole runs of {names[id(first)]}.")
    return Compared(
        before=names[id(first)],
        after=names[id(second)],
        level=level,
        min_effect=min_effect,
        facts=facts,
        left_out=[
            f"{one.count} of {file.n_records} rows of {file.path.name}: {one.reason} (first: {one.example})."
            for file in (first, second, *again)
            for one in file.exclusions
        ],
        cautions=[*_unnamed(first, second), *_unnumbered(first, second)],
    )


def _unnamed(*files: GradedFile) -> list[str]:
    """A judge that is not named on both sides cannot be known to be the same."""
    silent = [file.path.name for file in files if file.attempts["judge"].null_count()]
    if not silent:
        return []
    return [
        f"{' and '.join(silent)} do not name the judge of every row: that it is the same is taken on trust."
    ]


def _unnumbered(*files: GradedFile) -> list[str]:
    silent = [file.path.name for file in files if not file.numbered]
    if not silent:
        return []
    return [
        f"The rows of {' and '.join(silent)} have no sample number and were numbered per task in file order: "
        "a row that is there twice counts twice."
    ]


def _refuse_moved_tasks(first: GradedFile, second: GradedFile) -> None:
    homes = _categories(first)
    for task, category in _categories(second).items():
        if task in homes and homes[task] != category:
            raise GradedFileError(
                f"task {task} is in category {homes[task]} in {first.path.name} and in {category} in "
                f"{second.path.name}"
            )


def _categories(file: GradedFile) -> Mapping[str, str | None]:
    return dict(file.attempts.select("task_id", "category").unique(maintain_order=True).iter_rows())


def _refuse_unmeasured_guards(guards: Sequence[str], *files: GradedFile) -> None:
    for file in files:
        if guards and file.attempts["findings"].is_null().all():
            raise GradedFileError(
                f"a guard on {guards[0]} needs `findings` in the rows, and {file.path.name} has none"
            )


def _refuse_other_run(first: GradedFile, run: GradedFile) -> None:
    for column, name in (("task_id", "tasks"), ("judge", "judges")):
        own, other = (set(file.attempts[column].unique()) for file in (first, run))
        if own != other:
            raise GradedFileError(
                f"{run.path.name} is no re-run of {first.path.name}: it has other {name}, "
                f"{len(other - own)} more and {len(own - other)} fewer"
            )
