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

_FEW_RERUNS = 4
"""With 4 re-runs the t quantile is 2.8, with 2 it is 4.3."""


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
    if len(reruns) == 1:
        raise GradedFileError(
            "one re-run says nothing of the noise: with two runs, Student's band is 12.7 times their spread. "
            "Give --rerun twice or more, or leave it out"
        )
    again = [read_graded(path) for path in reruns]
    _refuse_moved_tasks(first, second)
    _refuse_unmeasured_guards(guards, first, second)
    for run in again:
        _refuse_other_run(first, run)
    trials = _trials(first, second)
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
    return Comparison(delta, _about(first, second, again, guards, level, min_effect))


def _trials(first: GradedFile, second: GradedFile) -> pl.DataFrame:
    """Both files' attempts as trials; a task that only one file puts into a category is in it."""
    sides = pl.concat(
        # Equal numbers would mean shared luck to the noise band, and nobody says that these do.
        file.attempts.with_columns(arm=pl.lit(arm), sample=pl.format(f"{arm} {{}}", "sample"))
        for arm, file in (("before", first), ("after", second))
    )
    homes = sides.select("task_id", "category").drop_nulls().unique("task_id", maintain_order=True)
    return sides.drop("category").join(homes, on="task_id", how="left", maintain_order="left")


def _about(
    first: GradedFile,
    second: GradedFile,
    again: Sequence[GradedFile],
    guards: Sequence[str],
    level: float,
    min_effect: float,
) -> Compared:
    files = (first, second, *again)
    names = _names(files)
    facts = [
        f"{names[id(file)]}: {file.n_records} records, {file.attempts.height} attempts at "
        f"{file.attempts['task_id'].n_unique()} tasks."
        for file in (first, second)
    ]
    facts.append(f"An attempt passes when `passed` is true, or its reward is at least {WHOLE_REWARD:.6f}.")
    if again:
        facts.append(f"The noise is that between {1 + len(again)} whole runs of {names[id(first)]}.")
    left_out = [
        f"{one.count} of {file.n_records} rows of {names[id(file)]}: {one.reason} (first: {one.example})."
        for file in files
        for one in file.exclusions
    ]
    for file in (first, second):
        left_out += _silent_tasks(names[id(file)], file)
        left_out += _without_findings(names[id(file)], file) if guards else []
    return Compared(
        before=names[id(first)],
        after=names[id(second)],
        level=level,
        min_effect=min_effect,
        facts=facts,
        left_out=left_out,
        cautions=[
            *_unnamed(first, second),
            *_unnumbered(first, second),
            *(line for file in (first, second) for line in _partial(names[id(file)], file)),
            *_unseen(guards, first, second),
            *_rarely_run(again),
        ],
    )


def _names(files: Sequence[GradedFile]) -> Mapping[int, str]:
    """The files' own names; with their folders where two would be called the same."""
    short = [file.path.name for file in files]
    alike = len(set(short)) < len(short)
    return {id(file): str(file.path) if alike else file.path.name for file in files}


def _silent_tasks(name: str, file: GradedFile) -> list[str]:
    tasks = file.attempts.group_by("task_id").agg(known=pl.col("passed").count())
    silent = tasks.filter(known=0)["task_id"].sort()
    if silent.is_empty():
        return []
    return [f"{silent.len()} tasks, since no attempt in {name} has a verdict (first: {silent[0]})."]


def _without_findings(name: str, file: GradedFile) -> list[str]:
    silent = file.attempts["findings"].null_count()
    if not silent:
        return []
    return [
        f"{silent} of {file.attempts.height} attempts of {name} say nothing of findings: unknown to guards."
    ]


def _partial(name: str, file: GradedFile) -> list[str]:
    if not file.n_partial:
        return []
    return [f"{file.n_partial} rewards of {name} lie between 0 and 1: they count as not passed."]


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


def _unseen(guards: Sequence[str], *files: GradedFile) -> list[str]:
    """A guard that nothing was found by may be a sound agent's, or misspelt."""
    found = pl.concat(file.attempts["findings"] for file in files).drop_nulls()
    ids = set(found.str.json_decode(pl.List(pl.String)).explode().drop_nulls())
    known = ", ".join(sorted(ids)) or "nothing"
    return [
        f"{guard} is found in neither file, so its guard says nothing; what is found: {known}."
        for guard in guards
        if guard not in ids
    ]


def _rarely_run(again: Sequence[GradedFile]) -> list[str]:
    """Student's quantile at so few degrees of freedom makes a band that hides most of what there is."""
    if not 0 < len(again) < _FEW_RERUNS:
        return []
    return [
        f"The noise rests on {1 + len(again)} runs, so its band is very wide and hides real differences: "
        f"give {_FEW_RERUNS} re-runs or more, or none."
    ]


def _refuse_moved_tasks(first: GradedFile, second: GradedFile) -> None:
    homes = _categories(first)
    for task, category in _categories(second).items():
        home = homes.get(task)
        if None not in (home, category) and home != category:
            raise GradedFileError(
                f"task {task} is in category {home} in {first.path.name} and in {category} in "
                f"{second.path.name}: let both files say the same, or leave category out of one"
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
    if run.attempts.equals(first.attempts):
        raise GradedFileError(f"{run.path} is no re-run of {first.path.name}: it is the same run")
    for column, name in (("task_id", "tasks"), ("judge", "judges")):
        own, other = (set(file.attempts[column].unique()) for file in (first, run))
        if own != other:
            raise GradedFileError(
                f"{run.path.name} is no re-run of {first.path.name}: it has other {name}, "
                f"{len(other - own)} more and {len(own - other)} fewer"
            )
