"""Verdicts of a delta report, and what they let happen.

How figures become verdicts belongs to `delta`; nothing here computes.
"""

from enum import StrEnum

import polars as pl


class Verdict(StrEnum):
    """What a row of the delta report says."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no_difference"
    INSIDE_NOISE = "inside_noise"
    NOT_COMPARABLE = "not_comparable"
    TOO_FEW = "too_few"


def promotable(delta: pl.DataFrame) -> tuple[bool, str]:
    """Whether a delta report lets the candidate serve, and why in one sentence.

    The overall verdict must be better, and no category or guard worse. One that is not comparable blocks as
    well: it was measured, and cannot be said to hold. One with too few tasks does not block.

    Args:
        delta: What `paired_delta` returned.
    """
    overall = delta.row(by_predicate=pl.col("kind") == "overall", named=True)
    if overall["verdict"] != Verdict.BETTER:
        return False, f"Not promoted: overall is {overall['verdict']} ({overall['reason']})."
    blocked = blocking(delta)
    if blocked.height:
        named = "; ".join(
            f"{scope} is {verdict} ({reason})"
            for scope, verdict, reason in blocked.select("scope", "verdict", "reason").iter_rows()
        )
        return False, f"Not promoted: overall is better ({overall['reason']}), but {named}."
    return True, f"Promoted: overall is better ({overall['reason']}) and no category and no guard is worse."


def blocking(delta: pl.DataFrame) -> pl.DataFrame:
    """Rows of categories and guards that forbid a promotion whatever the total says."""
    forbids = pl.col("verdict").is_in([Verdict.WORSE, Verdict.NOT_COMPARABLE])
    return delta.filter((pl.col("kind") != "overall") & forbids)
