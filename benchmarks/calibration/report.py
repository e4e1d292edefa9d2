"""The page `docs/calibration.md`, from the figures: no number in it is typed.

What the numbers are belongs to `cells`, `nights` and `drift`.
"""

import math
from collections.abc import Iterable, Sequence
from textwrap import fill

import numpy as np

from benchmarks.calibration import drift, nights
from benchmarks.calibration.cells import RULE, SAMPLES, TASKS, Effort, Row, of_method
from benchmarks.calibration.drift import Drift
from benchmarks.calibration.nights import DESIGNS, FRESH, NIGHTS, Looks
from benchmarks.calibration.rates import OURS, PLAIN, Rate
from benchmarks.calibration.truths import FAMILIES, TRUTHS

BAR = 0.93
"""A cell that covers less is soft, and named."""
FALSE = 0.05
"""Most that a false "better" may happen in a null cell."""
COMPARED = {RULE: "ours", "t": "plain t", "percentile": "percentile", "bca": "BCa"}
OTHERS = {"wider": "±1/⁴√k", "hull": "hull with t"}
"""The alternatives."""
WIDTH = 110
"""Columns of a line of text."""
POWER = (("low, lift .2", 4), ("four levels, lift .1", 4), ("more where little", 8))
"""Gains and numbers of samples whose power is shown."""

QUESTION = "**The question**: how often are the 95 % interval and the *better* of `prove.delta` right?"

METHOD = """\
A *cell* is a population of tasks whose true pass rates are known, a number of tasks n and of samples k.
Samples of tasks are drawn from it, played before and after, and given to each method. *Coverage* is the
share of samples whose 95 % interval holds the true mean difference. In a *null* cell the true mean
difference is 0, so every *better* is false. Ours says *better* when the t interval with two pseudo-tasks
at ±1/√k lies above 0, the exact sign-flip p is below .05, and at least six tasks changed. The others say
it when their interval lies above 0."""

SOFT = """\
In all of them the candidate does nothing for most tasks and much for a few. A sample that holds none of
those few, or only one, shows too little effect and too little spread, and the interval cannot know what it
did not see. It says that a change is smaller than it is: careful where the change is a gain, not where it is
a rare collapse. More tasks help; more samples of the same tasks do not, for they let the pseudo-tasks
shrink."""

AGAIN = """\
    python -m benchmarks.calibration

It writes the figures (`calibration_cells.csv`: every cell and method; `calibration_nights.csv`,
`calibration_promotions.csv`, `calibration_rates.csv`), and from them the picture and this page. The seeds are
fixed: the same versions give the same figures. `--processes 2` uses two cores."""


def page(rows: list[Row], looks: list[Looks], drifts: list[Drift], rates: list[Rate], effort: Effort) -> str:
    """The whole page, as Markdown."""
    blocks = [
        "# Calibration",
        QUESTION,
        _answer(rows, looks),
        "![Coverage of every cell, and false better of every null cell](calibration.png)",
        "## What was done",
        METHOD,
        _effort(rows, effort),
        "## By family",
        _families(rows),
        "## Soft cells",
        _soft(rows),
        SOFT,
        "## Power",
        _power(rows),
        "## Two other intervals",
        _alternatives(rows),
        "## Thirty nights of looking",
        _looks(looks),
        "## Thirty nights of promoting",
        _drift(drifts),
        "## The rate of one policy",
        _rates(rates),
        "## The truths",
        "Written down before the first run; one that a method fails stays.",
        _truths(),
        "## Run it again",
        AGAIN,
    ]
    return "\n\n".join(blocks) + "\n"


def _answer(rows: list[Row], looks: list[Looks]) -> str:
    ours, peer, bca = (list(of_method(rows, name)) for name in (RULE, "percentile", "bca"))
    soft = _below(ours)
    names = ", ".join(dict.fromkeys(row.truth for row in soft))
    same = [one for one in looks if one.design != FRESH]
    fresh = [one for one in looks if one.design == FRESH]
    return _filled(f"""\
**The answer**: ours covers at least {_pct(BAR, 0)} in {len(ours) - len(soft)} of {len(ours)} simulated
cells. The other {len(soft)} are populations where few tasks change by much ({names}), down to
{_pct(_lowest(ours))}; they are named below. A candidate that is not better is called *better* in at most
{_pct(_worst(ours))} of the samples of any null cell; {_pct(FALSE, 0)} was the bar.

The percentile bootstrap covers less than {_pct(BAR, 0)} in {_pct(_share_below(peer), 0)} of the cells, down
to {_pct(_lowest(peer))}, with up to {_pct(_worst(peer))} false *better*; BCa in
{_pct(_share_below(bca), 0)}, down to {_pct(_lowest(bca))}, with up to {_pct(_worst(bca))}.

Over {NIGHTS} nightly looks at the same tasks, a candidate that is not better is called *better* at least
once in at most {_most(one.corrected for one in same)} of the runs with the correction of `prove.looks`, and
in up to {_most(one.uncorrected for one in same)} without it. Fresh tasks need no correction *per decision*,
but {NIGHTS} decisions are {NIGHTS} chances: in up to {_most(one.uncorrected for one in fresh)} of the runs
at least one candidate that is not better is promoted. What that does to the serving policy stands at the
end.""")


def _effort(rows: list[Row], effort: Effort) -> str:
    cells = list(of_method(rows, RULE))
    return _filled(f"""\
{len(TRUTHS)} truths in three families, n of {_list(TASKS)}, k of {_list(SAMPLES)}: {len(cells)} cells,
{len(_nulls(cells))} of them null. {effort.replicates:,} samples a cell for the t intervals and the
sign-flip test; the first {effort.bootstrapped:,} of them for the bootstraps, with {effort.resamples:,}
resamples each. Standard error of a coverage of 95 %: {_errors(0.95, effort)}; of a rate of 2.5 %:
{_errors(0.025, effort)}. The least of many cells looks worse than it is by about three of these.""")


def _families(rows: list[Row]) -> str:
    header = (
        "family", "method", "cells", "coverage, least", "5th percentile",
        f"cells under {_pct(BAR, 0)}", "null cells", "false *better*, most", "better or worse, most",
    )  # fmt: skip
    return _table(
        header,
        (
            (scope, said, *_summary([row for row in of_method(rows, name) if scope in ("all", row.family)]))
            for scope in (*FAMILIES, "all")
            for name, said in COMPARED.items()
        ),
    )


def _summary(rows: list[Row]) -> tuple[str, ...]:
    coverage, nulls = [row.coverage for row in rows], _nulls(rows)
    return (
        f"{len(rows)}",
        _pct(min(coverage)),
        _pct(float(np.quantile(coverage, 0.05))),
        f"{len(_below(rows))} ({_pct(_share_below(rows), 0)})",
        f"{len(nulls)}",
        _pct(_worst(rows)),
        _pct(max(row.better + row.worse for row in nulls)),
    )


def _soft(rows: list[Row]) -> str:
    soft = _below(list(of_method(rows, RULE)))
    others = {(row.cell, row.method): row for row in rows}
    return _table(
        ("truth", "n", "k", "ours", "of the misses, short of the effect", "plain t", "percentile", "BCa"),
        (
            (
                row.truth,
                f"{row.n}",
                f"{row.k}",
                _pct(row.coverage),
                _pct(row.short / (1 - row.coverage), 0),
                *(_pct(others[row.cell, name].coverage) for name in ("t", "percentile", "bca")),
            )
            for row in soft
        ),
    )


def _power(rows: list[Row]) -> str:
    says = "The share of samples of a real gain that say *better*. At small n ours says it less often."
    table = _table(
        ("truth", "k", "true gain", "method", *(f"n = {n}" for n in TASKS)),
        (
            (truth, f"{k}", f"+{found[0].effect:.3f}", said, *(_pct(row.better, 0) for row in found))
            for truth, k in POWER
            for name, said in COMPARED.items()
            for found in ([row for row in of_method(rows, name) if (row.truth, row.k) == (truth, k)],)
        ),
    )
    return f"{_filled(says)}\n\n{table}"


def _alternatives(rows: list[Row]) -> str:
    says = f"""\
Fixed beforehand too; they decide by the interval alone. Pseudo-tasks that shrink more slowly with k
({OTHERS["wider"]}) leave fewer soft cells and cost power and width. Joining ours with plain t helps hardly
anywhere, for a sample without the rare tasks misleads both."""
    table = _table(
        ("interval", "coverage, least", f"cells under {_pct(BAR, 0)}", "false *better*, most",
         "mean power over all gains", "mean width"),
        (
            (
                said,
                _pct(_lowest(found)),
                f"{len(_below(found))}",
                _pct(_worst(found)),
                _pct(float(np.mean([row.better for row in found if row.effect > 0]))),
                f"{np.mean([row.width for row in found]):.3f}",
            )
            for name, said in ({RULE: "±1/√k (ours)"} | OTHERS | {"t": "plain t"}).items()
            for found in (list(of_method(rows, name)),)
        ),
    )  # fmt: skip
    return f"{_filled(says)}\n\n{table}"


def _looks(looks: list[Looks]) -> str:
    runs = looks[0].replicates
    says = f"""\
{len(nights.NULLS)} null truths, k of {_list(nights.SAMPLES)}, {runs:,} runs each (a rate of 5 % has a
standard error of {_pct(_error(0.05, runs), 2)}); the worst of them is shown. Corrected: the p of look t at
the same tasks is multiplied by 1 for t = 1 and by t(t − 1) after that."""
    table = _table(
        (
            "looks",
            "false *better* a night, most",
            f"at least one in {NIGHTS} nights, most",
            "corrected, most",
        ),
        (
            (
                design,
                _most(one.per_night for one in found),
                _most(one.uncorrected for one in found),
                "none needed" if design == FRESH else _most(one.corrected for one in found),
            )
            for design in (*DESIGNS, FRESH)
            for found in ([one for one in looks if one.design == design],)
        ),
    )
    return f"{_filled(says)}\n\n{table}"


def _drift(drifts: list[Drift]) -> str:
    says = f"""\
Promoting a candidate that changes nothing does no harm; what counts is what promotions add up to. Each
night {drift.TASKS} fresh tasks with k = {drift.K}, a serving policy that starts at a pass rate of
{drift.BASE:g}, and a candidate whose true effect on it is drawn as said; {drifts[0].replicates:,} runs of
{NIGHTS} nights. By our rule the serving policy's true pass rate rises in the mean, even when most
candidates do harm. Promoting any higher mean gains more while candidates are as often good as bad, and
drives the policy down once most are bad."""
    table = _table(
        ("true effects", "promoted when", "promotions", "at least one", "of them harmful",
         "change of the true pass rate", "5 % to 95 % of runs"),
        (
            (
                one.stream,
                one.decider,
                f"{one.promotions:.1f}",
                _pct(one.any_promotion, 0),
                "" if one.harmful is None else _pct(one.harmful, 0),
                f"{one.change:+.4f} (s.e. {one.error:.4f})",
                f"{one.low:+.3f} to {one.high:+.3f}",
            )
            for one in drifts
        ),
    )  # fmt: skip
    return f"{_filled(says)}\n\n{table}"


def _rates(rates: list[Rate]) -> str:
    runs = rates[0].replicates
    says = f"""\
How often the interval of `grade.pass_at` holds the true mean rate: {len(rates) // 2} cells, {runs:,} samples
each (a coverage of 95 % has a standard error of {_pct(_error(0.95, runs), 2)}). Plain t is Student's around
the mean over tasks, and Wilson's where all tasks agree. Soft are ours too where a task in twenty or fewer
never passes and the others nearly always do: a sample without such a task cannot know of them."""
    ours, plain = ([one for one in rates if one.method == method] for method in (OURS, PLAIN))
    table = _table(
        ("tasks", "ours, least", "cells under 93 %", "mean width", "plain t, least", "under 93 %", "width"),
        (
            (name, *_covered(_in(ours, of)), *_covered(_in(plain, of)))
            for name, of in (
                *((name, {name}) for name in dict.fromkeys(one.population for one in rates)),
                ("all", {one.population for one in rates}),
            )
        ),
    )
    return f"{_filled(says)}\n\n{table}"


def _in(rates: list[Rate], populations: set[str]) -> list[Rate]:
    return [one for one in rates if one.population in populations]


def _covered(rates: list[Rate]) -> tuple[str, str, str]:
    soft = sum(one.coverage < BAR for one in rates)
    width = sum(one.width for one in rates) / len(rates)
    return _pct(min(one.coverage for one in rates)), f"{soft} of {len(rates)}", f"{width:.3f}"


def _truths() -> str:
    families = "\n".join(f"- **{name}**: {says}" for name, says in FAMILIES.items())
    table = _table(
        ("truth", "family", "in words", "true mean difference"),
        ((truth.name, truth.family, truth.says, f"{truth.effect:+.4f}") for truth in TRUTHS),
    )
    return f"{families}\n\n{table}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _filled(text: str) -> str:
    """Break paragraphs anew: the lines of a template say nothing about the lines of what it gives."""
    return "\n\n".join(fill(part, WIDTH, break_on_hyphens=False) for part in text.split("\n\n"))


def _below(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.coverage < BAR]


def _share_below(rows: list[Row]) -> float:
    return len(_below(rows)) / len(rows)


def _nulls(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.effect == 0]


def _lowest(rows: list[Row]) -> float:
    return min(row.coverage for row in rows)


def _worst(rows: list[Row]) -> float:
    """The largest share of false better in a null cell."""
    return max(row.better for row in _nulls(rows))


def _most(rates: Iterable[float | None]) -> str:
    """The largest of the rates that are known."""
    return _pct(max(rate for rate in rates if rate is not None))


def _errors(rate: float, effort: Effort) -> str:
    t_type, bootstrapped = (_error(rate, size) for size in (effort.replicates, effort.bootstrapped))
    return f"{_pct(t_type, 2)} (bootstraps {_pct(bootstrapped, 2)})"


def _error(rate: float, replicates: int) -> float:
    """Standard error of a simulated rate."""
    return math.sqrt(rate * (1 - rate) / replicates)


def _pct(rate: float, digits: int = 1) -> str:
    return f"{100 * rate:.{digits}f} %"


def _list(values: Sequence[int]) -> str:
    return f"{', '.join(map(str, values[:-1]))} and {values[-1]}"
