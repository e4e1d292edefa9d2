"""Rows as bytes: the same rows give the same bytes."""

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from while_pipeline.messages import json_text
from while_pipeline.train.published import Row


def jsonl(rows: Sequence[Row]) -> bytes:
    """One JSON object a line. Nothing is padded: a row has its own keys at every depth.

    Arguments differ from call to call, so that a format with one schema for all rows (Parquet, a data frame)
    would give each call the parameters of all others, as nulls.
    """
    return "".join(f"{json_text(row)}\n" for row in rows).encode()


def parquet(rows: Sequence[Row], schema: pa.Schema) -> bytes:
    """A Parquet file of one row group.

    Raises:
        pyarrow.ArrowInvalid: a value is not of its column's type.
    """
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), sink, compression="zstd")
    return sink.getvalue()
