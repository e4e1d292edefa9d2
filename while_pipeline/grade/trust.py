"""May this judge's verdicts decide what is trained on? Its verdicts against labels whose answer is known.

What belongs here: the thresholds, the rows of the trust table, and the one decision that every gate asks for.
What does not: the coefficients (`agreement`), the gap between short and long answers (`length_gap`), recall
per planted defect (`defects`), and where labels come from (`controls`, `gold`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import polars as pl
from scipy import stats

from while_pipeline.grade.agreement import Agreement, Worth, agreement, confusion, worth
from while_pipeline.grade.length_gap import LengthGap, length_gaps
from while_pipeline.ids import seed_of

Half = Literal["all", "a", "b"]
Source = Literal["seeded", "human"]
"""Where gold labels come from: planted defects, or people."""


@dataclass(frozen=True)
class TrustThresholds:
    """What a judge must reach before its verdicts decide anything."""

    level: float = 0.95
    """Confidence of every interval."""
    min_agreement: float = 0.80
    """For the Wilson *lower* bound, so that few labels cannot pass by luck: a perfect judge needs 16."""
    min_kappa: float = 0.60
    """Landis and Koch's "substantial": a judge that always says the common class agrees, but has kappa 0."""
    max_skipped: float = 0.10
    """A judge that is silent on the hard tenth would look better than it is."""
    length_gap: float = 0.15
    """Change of the verdict rate between short and long answers of equal merit that is worth a flag."""
    length_p: float = 0.025
    """Half of .05, since the gap is looked at under both gold labels."""

    @property
    def fewest(self) -> int:
        """Labelled tasks below which even a judge that is always right is not trusted: 16 as things stand."""
        return self.needed(1.0)

    def needed(self, share: float) -> int:
        """Independent labels from which agreement at `share` lifts the lower bound to `min_agreement`.

        The Wilson bound inverts the score test, so it reaches p0 at share a from
        n = z² p0 (1 - p0) / (a - p0)². `share` must be above `min_agreement`: no number of labels will do
        otherwise.
        """
        z = NormalDist().inv_cdf((1 + self.level) / 2)
        margin = share - self.min_agreement
        return ceil(z**2 * self.min_agreement * (1 - self.min_agreement) / margin**2)


class TrustRow(NamedTuple):
    """What is known of one judge on one source of labels and one half of the tasks."""

    source: Source
    half: Half
    required: bool
    """Whether the gate stays shut without this source; another one closes it only by contradicting."""
    n: int
    """Labels with a verdict: what every figure here is computed on."""
    n_skipped: int
    """Labels the judge gave no verdict on."""
    n_tasks: int
    """Tasks of the `n` labels: the intervals of agreement and kappa are over them."""
    agreement: float | None
    low: float | None
    high: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    ac1: float | None
    sensitivity: float | None
    """Of the clean rollouts, the share called clean."""
    specificity: float | None
    """Of the rollouts with a defect, the share called not clean."""
    length_gap: float | None
    """Share called clean among long answers minus that among short ones, see `length_gaps`; of the two gold
    labels the one that is flagged, else the one with the smaller p. None when no lengths differ."""
    length_p: float | None
    """Fisher's exact two-sided p of that gap."""
    trusted: bool
    reason: str
    """Everything that is missing, in labels where more labels can mend it."""


class Gate(NamedTuple):
    """What a gate decides."""

    open: bool
    reason: str


def judge_trust(
    labels: pl.DataFrame,
    *,
    source: Source,
    required: bool = True,
    flags: Sequence[str] = (),
    thresholds: TrustThresholds | None = None,
) -> list[TrustRow]:
    """Judge the judge, on all labels and on each half of the tasks.

    The row with half `all` is the verdict. Halves `a` and `b` split the tasks by hash, so that a judge that
    was tuned on some tasks shows; each is held against the same thresholds, alone.

    Labels of one task stand together: the interval of the agreement is Wilson's for what they are worth (see
    `agreement.worth`).

    Args:
        labels: One row per labelled rollout: task_id (str), gold (bool, true = clean), verdict (bool, true =
            the judge calls it clean, null = no verdict), length (words of the agent's text), seeded (planted
            defects, comma-joined, empty for none).
        source: Where gold comes from, copied to the rows.
        required: Copied to the rows.
        flags: What else was found that the judge must not be trusted for; it counts on `all`.
        thresholds: Defaults to `TrustThresholds()`.

    Returns:
        Three rows, in the order `all`, `a`, `b`. An empty half has n 0, nulls, and is not trusted.
    """
    bar = thresholds or TrustThresholds()
    in_a = pl.Series([seed_of("trust half", task) % 2 == 0 for task in labels["task_id"]], dtype=pl.Boolean)
    parts: list[tuple[Half, pl.DataFrame]] = [
        ("all", labels),
        ("a", labels.filter(in_a)),
        ("b", labels.filter(~in_a)),
    ]
    return [_row(source, half, required, part, flags if half == "all" else (), bar) for half, part in parts]


def judge_gate(rows: Iterable[Mapping[str, Any]], graded_by: Iterable[str]) -> Gate:
    """Decide whether a judge's rewards may be trained on: the one answer of the check and of every cut.

    The planted defects must make trust, and so must every other source that is required. A source that is
    not required closes the gate when it contradicts: with labels enough for a judge that is always right
    (16) it must make trust too, and with fewer their upper bound must reach the least agreement. The judge
    that gave the grades must be the one that was measured: another rubric is another judge.

    Args:
        rows: Rows of the trust table, as mappings with the fields of `TrustRow` and `judge`, its identity.
        graded_by: Identities of the judges of the grades.

    Returns:
        Closed when there is no row of the planted defects. The reason names what each source says, or what is
        missing where it is closed.
    """
    bar = TrustThresholds()
    whole = [row for row in rows if row["half"] == "all"]
    if not any(row["source"] == "seeded" for row in whole):
        return Gate(False, "the judge was not measured on planted defects")
    measured = {row["judge"] for row in whole}
    against = [
        f"the grades are of {judge}, which was not measured" for judge in graded_by if judge not in measured
    ]
    against += [f"{row['source']}: {row['reason']}" for row in whole if _closes(row, bar)]
    said = [f"{row['source']}: {row['reason']}" for row in whole]
    return Gate(not against, " | ".join(against or said))


def _closes(row: Mapping[str, Any], bar: TrustThresholds) -> bool:
    if row["trusted"]:
        return False
    return row["required"] or row["n_tasks"] >= bar.fewest or _contradicts(row, bar)


def _contradicts(row: Mapping[str, Any], bar: TrustThresholds) -> bool:
    """Whether a few labels rule the least agreement out, by the exact bound: Wilson's is not for so few."""
    if not row["n"]:
        return False
    agreed = round(row["agreement"] * row["n"])
    exact = stats.binomtest(agreed, row["n"]).proportion_ci(bar.level, method="exact")
    return bool(exact.high < bar.min_agreement)


def _row(
    source: Source,
    half: Half,
    required: bool,
    labels: pl.DataFrame,
    flags: Sequence[str],
    bar: TrustThresholds,
) -> TrustRow:
    judged = labels.drop_nulls("verdict")
    n_skipped = labels.height - judged.height
    n_tasks = judged["task_id"].n_unique()
    of = worth(judged["gold"] == judged["verdict"], judged["task_id"], bar.level)
    found = agreement(confusion(judged["gold"], judged["verdict"]), bar.level, of)
    gaps = length_gaps(judged)
    length = max(gaps, key=lambda gap: (_is_flagged(gap, bar), -gap.p), default=None)
    missing = [*_missing(found, n_skipped, n_tasks, of, bar), *_length_flag(length, bar), *flags]
    return TrustRow(
        source=source,
        half=half,
        required=required,
        n=judged.height,
        n_skipped=n_skipped,
        n_tasks=n_tasks,
        agreement=found.agreement if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        kappa=found.kappa if found else None,
        kappa_low=found.kappa_low if found else None,
        kappa_high=found.kappa_high if found else None,
        ac1=found.ac1 if found else None,
        sensitivity=found.sensitivity.value if found and found.sensitivity else None,
        specificity=found.specificity.value if found and found.specificity else None,
        length_gap=length.gap if length else None,
        length_p=length.p if length else None,
        trusted=not missing,
        reason="; ".join(missing) or f"every threshold is met over {judged.height} labels",
    )


def _missing(
    found: Agreement | None, n_skipped: int, n_tasks: int, of: Worth, bar: TrustThresholds
) -> list[str]:
    """Every reason not to trust, most basic first; empty when there is none."""
    if found is None:
        return [f"no label has a verdict ({n_skipped} skipped): {bar.fewest} labels are needed at least"]
    reasons = []
    if found.low < bar.min_agreement:
        reasons.append(_shortfall(found, n_tasks, of, bar))
    if found.kappa is None:
        known = "clean" if found.sensitivity else "defective"
        reasons.append(f"kappa is undefined: all {found.n} labels and all verdicts are {known}, label others")
    elif found.kappa < bar.min_kappa:
        reasons.append(f"kappa is {found.kappa:.2f}, below {bar.min_kappa:.2f}")
    skipped = n_skipped / (found.n + n_skipped)
    if skipped > bar.max_skipped:
        reasons.append(f"no verdict on {skipped:.0%} of the labels, more than {bar.max_skipped:.0%}")
    return reasons


def _shortfall(found: Agreement, n_tasks: int, of: Worth, bar: TrustThresholds) -> str:
    """Say how many labels, of how many other tasks, would lift the lower bound, or that none would."""
    together = "" if n_tasks == found.n else f" of {n_tasks} tasks"
    over = f"{found.n} labels{together}"
    seen = f"agreement is {found.agreement:.2f} over {over}, with lower bound {found.low:.2f}"
    if found.agreement <= bar.min_agreement:
        return f"{seen}: at this agreement no number of labels is enough, mend the judge"
    more = max(1, ceil(bar.needed(found.agreement) * n_tasks / of.labels) - n_tasks)
    what = f"{more} more labels" if n_tasks == found.n else f"labels of {more} more tasks"
    return f"{seen}: {what} at this agreement would reach {bar.min_agreement:.2f}"


def _is_flagged(length: LengthGap, bar: TrustThresholds) -> bool:
    return abs(length.gap) >= bar.length_gap and length.p < bar.length_p


def _length_flag(length: LengthGap | None, bar: TrustThresholds) -> list[str]:
    if length is None or not _is_flagged(length, bar):
        return []
    longer = "more" if length.gap > 0 else "less"
    return [
        f"long answers are called clean {longer} often than short ones of equal merit "
        f"({length.gap:+.2f}, p {length.p:.2g})"
    ]
