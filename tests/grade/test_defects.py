import polars as pl

from while_pipeline.grade.defects import defect_recall
from while_pipeline.prove.intervals import wilson


def labels(*cells: tuple[int, bool | None, str]) -> pl.DataFrame:
    """Cells of (how many, verdict, planted defects)."""
    rows = [(verdict, seeded) for many, verdict, seeded in cells for _ in range(many)]
    return pl.DataFrame(rows, schema={"verdict": pl.Boolean, "seeded": pl.String}, orient="row")


def test_recall_is_counted_per_defect_with_skipped_ones_apart() -> None:
    made = labels(
        (9, True, ""),
        (1, False, ""),
        (6, False, "flattery"),
        (2, True, "flattery"),
        (1, None, "flattery"),
        (3, False, "fault_hidden,flattery"),
        (2, None, "truncated"),
    )
    assert defect_recall(made) == [
        ("fault_hidden", 3, 0, 3, 1.0, *wilson(3, 3)),
        ("flattery", 11, 1, 9, 9 / 11, *wilson(9, 11)),
        ("truncated", 0, 2, 0, None, None, None),
    ]


def test_without_planted_defects_there_is_no_recall() -> None:
    assert defect_recall(labels((5, True, ""))) == []
    assert defect_recall(labels()) == []
