"""The delta report in words: first the answer for someone who knows no statistics, then the figures.

Saying belongs here; every figure comes from the table that `delta.paired_delta` made. The picture is in
`forest`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from while_pipeline.prove.verdict import Verdict, blocking

VERDICTS: Mapping[str, str] = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.NO_DIFFERENCE: "no difference",
    Verdict.INSIDE_NOISE: "inside the noise",
    Verdict.NOT_COMPARABLE: "not comparable",
    Verdict.TOO_FEW: "too few tasks",
}
"""The verdicts as people read them."""

_HOW_TO_READ = """\
- **before**, **after**: the share of attempts that pass, a mean over tasks (pass@1). Of a guard (`no RULE`):
  the share of attempts in which that conduct rule finds nothing.
- **difference**: the mean over the same tasks of after minus before, in points of a hundred. The interval
  holds the true difference in {level} of such comparisons; it is over tasks, never over attempts.
- **better**: the interval lies above zero, the exact sign-flip test agrees after its correction (p), enough
  tasks changed, and the difference is outside the noise. **worse** is its mirror image.
- **no difference**: none was shown. That is no proof that there is none; the interval says how large it may
  be.
- **inside the noise**: playing the same policies again would move the figure by as much.
- **not comparable**: more than the policy differs between before and after; the reason says what.
- **too few tasks**: so few changed that chance alone would explain it; the reason says how many are needed.
- **p** is corrected: overall for the looks at the same tasks, categories and guards together (Holm). **q** is
  for exploring only (Benjamini-Hochberg) and decides nothing."""


_SMALL = 0.02
"""Differences below two points are told with a decimal: whole attempts of a hundred would hide them."""


@dataclass(frozen=True)
class Compared:
    """What a report is about, in its own words."""

    before: str
    """Name of what was there before, such as `the serving policy`."""
    after: str
    """Name of what is held against it."""
    level: float = 0.95
    """Level of the intervals."""
    min_effect: float = 0.0
    """Smallest difference that counted as better or worse."""
    facts: Sequence[str] = ()
    """Sentences about what was compared."""
    left_out: Sequence[str] = ()
    """What did not count, each with its number."""
    cautions: Sequence[str] = ()
    """What makes the comparison weaker than it looks, beyond what the table itself says."""


def answer(delta: pl.DataFrame, about: Compared) -> str:
    """The report in one sentence that needs no statistics.

    Args:
        delta: What `paired_delta` returned.
        about: Names of the two sides.
    """
    overall = delta.row(by_predicate=pl.col("kind") == "overall", named=True)
    blocked = blocking(delta)
    worse = [_got_worse(row) for row in blocked.iter_rows(named=True)]
    if overall["verdict"] == Verdict.BETTER and worse:
        return (
            f"Not to be promoted: {_joined(worse)}, though the total rose from "
            f"{_in_100(overall['before'])} to {_in_100(overall['after'])} of 100 attempts."
        )
    said = _of_the_whole(overall, about)
    only_worse = [_got_worse(row) for row in blocked.filter(verdict=Verdict.WORSE).iter_rows(named=True)]
    if only_worse and overall["verdict"] not in (Verdict.NOT_COMPARABLE, Verdict.WORSE):
        said = f"{said.removesuffix('.')}; and {_joined(only_worse)}."
    return said


def delta_markdown(title: str, delta: pl.DataFrame, about: Compared, picture: str | None = None) -> str:
    """Write the report as Markdown. The same table gives the same text.

    Args:
        title: Its heading.
        delta: What `paired_delta` returned.
        about: What was compared.
        picture: Address of the forest plot (a file name or a data URI); None leaves it out.
    """
    overall = delta.row(by_predicate=pl.col("kind") == "overall", named=True)
    blocks = [f"# {title}", answer(delta, about), delta_table(delta)]
    if picture:
        blocks.append(f"![before, after and the difference of each row, with its interval]({picture})")
    reasons = [f"- {scope_name(row)}: {row['reason']}." for row in delta.iter_rows(named=True)]
    blocks += ["## Why", "\n".join(reasons)]
    blocks += ["## What was compared", _listed([*_facts(overall, about), *about.facts])]
    blocks += ["## What was left out", _listed([*_left_out(overall), *about.left_out] or ["Nothing."])]
    blocks += ["## Cautions", _listed([*_cautions(overall), *about.cautions] or ["None."])]
    if overall["plan"]:
        blocks += ["## What such tasks can show", overall["plan"]]
    blocks += ["## How to read it", _HOW_TO_READ.format(level=f"{about.level:.3%}".replace(".000", ""))]
    return "\n\n".join(blocks) + "\n"


def delta_table(delta: pl.DataFrame) -> str:
    """The rows of a delta as a Markdown table."""
    lines = [
        "| | before | after | difference | interval | noise | tasks | changed | p | q | verdict |",
        "| --- | ---: | ---: | ---: | :---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [f"| {' | '.join(_cells(row))} |" for row in delta.iter_rows(named=True)]
    return "\n".join(lines)


def scope_name(row: Mapping[str, Any]) -> str:
    """What a row is about; a guard is the absence of what its rule finds."""
    return f"no {row['scope']}" if row["kind"] == "guard" else str(row["scope"])


def points(value: float | None) -> str:
    """A difference of rates in points of a hundred, signed; empty when unknown."""
    return "" if value is None else f"{100 * value:+.1f}"


def _cells(row: Mapping[str, Any]) -> list[str]:
    interval = "" if row["low"] is None else f"[{points(row['low'])}, {points(row['high'])}]"
    return [
        scope_name(row).replace("|", "\\|"),
        _percent(row["before"]),
        _percent(row["after"]),
        points(row["difference"]),
        interval,
        "" if row["noise"] is None else f"±{100 * row['noise']:.1f}",
        str(row["n_tasks"]),
        "" if row["n_changed"] is None else str(row["n_changed"]),
        _p(row["p_adjusted"]),
        _p(row["q"]),
        VERDICTS[row["verdict"]],
    ]


def _of_the_whole(row: Mapping[str, Any], about: Compared) -> str:
    verdict, before, after = row["verdict"], about.before, about.after
    if row["before"] is None and row["after"] is None:
        return f"{_capital(after)} was not held against {before}: no attempt has a verdict."
    if verdict == Verdict.NOT_COMPARABLE:
        return f"{_capital(after)} and {before} cannot be compared: {row['reason']}."
    fine = 0 < abs(row["difference"]) < _SMALL
    now, once = _in_100(row["after"], fine), _in_100(row["before"], fine)
    passes = f"passes {now} of 100 attempts where {before} passed {once}"
    rates = f"{after} {passes}"
    low, high = 100 * row["low"], 100 * row["high"]
    change = abs(100 * row["difference"])
    match verdict:
        case Verdict.BETTER:
            gain = f"{_points(change)} ({_between(low, high)})"
            return f"{_capital(after)} is better: it {passes}, a gain of {gain}."
        case Verdict.WORSE:
            loss = f"{_points(change)} ({_between(-high, -low)})"
            return f"{_capital(after)} is worse: it {passes}, a loss of {loss}."
        case Verdict.INSIDE_NOISE:
            noise = _points(100 * row["noise"])
            return (
                f"No difference that counts: {rates}, but playing the same policies again moves the figure "
                f"by up to {noise}."
            )
        case Verdict.TOO_FEW:
            return f"Too few tasks to tell ({row['reason']}): {rates}."
    if row["n_changed"] == 0:
        return f"No difference: {rates}, and not one of {row['n_tasks']} tasks changed."
    if low <= 0 <= high:
        within = _between(low, high)
        return f"No difference could be shown: {rates}, and the true change may lie anywhere {within}."
    if abs(row["difference"]) < about.min_effect:
        asked = _points(100 * about.min_effect)
        return (
            f"The difference is smaller than the {asked} asked for: {rates}, a change of {_points(change)}."
        )
    p = _p(row["p_adjusted"])
    return f"No difference could be shown: {rates}, but chance explains as much (corrected p {p})."


def _got_worse(row: Mapping[str, Any]) -> str:
    name = f"`{row['scope']}`"
    if row["verdict"] == Verdict.NOT_COMPARABLE:
        return f"{'the guard against ' if row['kind'] == 'guard' else ''}{name} cannot be compared"
    before, after = row["before"], row["after"]
    if row["kind"] == "guard":
        found = f"found in {_in_100(1 - after)} of 100 attempts instead of {_in_100(1 - before)}"
        return f"{name} got more frequent ({found})"
    return f"{name} got worse ({_in_100(after)} of 100 attempts instead of {_in_100(before)})"


def _facts(overall: Mapping[str, Any], about: Compared) -> list[str]:
    found = [f"Before is {about.before}, after is {about.after}."]
    if overall["k"] is not None:
        attempts = "attempt" if overall["k"] == 1 else "attempts"
        found.append(
            f"{overall['n_tasks']} tasks, each with {overall['k']} or more graded {attempts} per side."
        )
    for what, name in (("are there with a verdict", "graded"), ("end with words of the agent", "answered")):
        if overall[f"{name}_before"] is not None and overall[f"{name}_after"] is not None:
            found.append(
                f"{_percent(overall[f'{name}_before'])} of the attempts before and "
                f"{_percent(overall[f'{name}_after'])} after {what}."
            )
    if overall["noise"] is not None:
        found.append(f"Playing both again would move the total by up to {_points(100 * overall['noise'])}.")
    elif overall["k"] == 1:
        found.append("With one attempt per task nobody knows how much playing again would move the total.")
    return found


def _left_out(overall: Mapping[str, Any]) -> list[str]:
    unknown = overall["n_unknown"]
    return [f"Attempts that are absent or have no verdict: {unknown}."] if unknown else []


def _cautions(overall: Mapping[str, Any]) -> list[str]:
    if not overall["caution"]:
        return []
    return [f"The sides differ in more than their verdicts: {overall['caution']}."]


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _joined(parts: Sequence[str]) -> str:
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]


def _capital(text: str) -> str:
    """Begin a sentence with a name; one that is no words, a file's, stays as it is."""
    return text[:1].upper() + text[1:] if " " in text else text


def _in_100(rate: float, fine: bool = False) -> str:
    """Attempts of a hundred, whole where that is exact enough: .996 is not all of them."""
    rounded = round(100 * rate)
    hides = rounded in (0, 100) and not math.isclose(100 * rate, rounded, abs_tol=1e-9)
    return f"{100 * rate:.1f}" if fine or hides else str(rounded)


def _percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.1f} %"


def _points(change: float) -> str:
    said = f"{change:.0f}" if change >= 100 * _SMALL else f"{change:.1f}"
    return f"{said} point{'' if said == '1' else 's'}"


def _between(low: float, high: float) -> str:
    """An interval in points of a hundred; a decimal where whole points would hide its width."""
    digits = 0 if high - low >= 100 * _SMALL else 1
    # Adding 0 turns a negative zero into a plain one.
    said = [f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−") for value in (low, high)]
    return f"between {said[0]} and {said[1]} points"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.0001" if value < 1e-4 else f"{value:.4f}".rstrip("0").rstrip(".")
