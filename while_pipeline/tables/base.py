"""What a stored table is: one pandera model gives its checks, its DDL, its comments and its empty frame.

The models themselves live beside this file, one module per schema (`watch`, `simulate`, `grade`, `train`,
`prove`). How frames get into DuckDB belongs to `resources.warehouse`.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import pandera.polars as pa
import polars as pl

_SQL_TYPES: dict[Any, str] = {
    pl.String: "VARCHAR",
    pl.Int64: "BIGINT",
    pl.Float64: "DOUBLE",
    pl.Boolean: "BOOLEAN",
    pl.Date: "DATE",
}


def column(description: str, *, json: bool = False, nullable: bool = False, **checks: Any) -> Any:
    """Declare a column: its comment, whether it holds JSON text, whether null means "unknown", its checks."""
    return pa.Field(description=description, nullable=nullable, metadata={"json": json}, **checks)


class Table(pa.DataFrameModel):
    """Base of all stored tables. The first line of a model's docstring says what one row is."""

    day: dt.date = column("Day partition, UTC unless the project sets a zone.")

    class Config:
        """Strict: a missing or unexpected column refuses the whole frame."""

        strict = True
        coerce = False


class PlacedTable(Table):
    """Base of tables whose rows stand at a point of the six axes."""

    tool: str = column("Tool axis.")
    policy_rule: str = column("Policy-rule axis.")
    stance: str = column("Stance axis.")
    world_state: str = column("World-state axis.")
    tool_condition: str = column("Tool-condition axis.")
    history: str = column("History axis.")


class ScenarioTable(PlacedTable):
    """Base of tables of scenarios: each row can be played from itself alone."""

    scenario_id: str = column("Content hash of situation, script and world.", unique=True)
    task_id: str = column("The situation as a task.")
    category: str = column("Task category.")
    prompt: str = column("The customer's first message.")
    goals: str = column("Tools the customer's requests need.", json=True)
    script: str = column("What the customer knows and will say.", json=True)
    world: str = column("Records and scheduled faults the world begins with.", json=True)
    answer_key: str = column("Expected effects, facts to tell, obligations.", json=True)


class CutTable(Table):
    """Base of the cuts: rows to train on, easy to hard."""

    scenario_id: str = column("Scenario.")
    task_id: str = column("Task.")
    split: str = column("Side of the split: a tenth of the tasks is kept aside.", isin=["train", "valid"])
    pass_rate: float = column("Share of the scenario's graded rollouts that passed.", ge=0, le=1)


class StagedTable(CutTable):
    """Base of the cuts that do not choose by pass rate: each row says how far the policy is."""

    stage: str = column(
        "By pass rate: `retire` above .8, `hold` below .2, else `train`.", isin=["retire", "train", "hold"]
    )


class StepTable(Table):
    """Base of tables of tool calls with their results."""

    step: int = column("Position among the calls of its conversation.", ge=0)
    turn: int = column("Index of the assistant message that made the call.", ge=0)
    tool: str = column("Tool called.")
    arguments: str = column("Arguments; null when they were not a JSON object.", json=True, nullable=True)
    raw_arguments: str = column("Arguments as received when they did not decode.", nullable=True)
    result: str = column("Text of the tool's answer; null when none was recorded.", nullable=True)
    status: str = column("`ok`, an error code, or `unknown`.")


class MovedTable(Table):
    """Base of tables that say how a fit moved a policy; null where it learnt nothing."""

    policy_version: str = column("Id of the fitted weights.")
    logprob_before: float = column(
        "Mean log-probability under the parent of the decisions to make likelier: of imitated rollouts "
        "(sft), chosen answers (dpo), rollouts better than their group (grpo).",
        nullable=True,
        le=0,
    )
    logprob_after: float = column("The same under the fitted policy.", nullable=True, le=0)
    unwanted_before: float = column(
        "Mean log-probability under the parent of the decisions to make less likely: of rejected answers, "
        "rollouts worse than their group.",
        nullable=True,
        le=0,
    )
    unwanted_after: float = column("The same under the fitted policy.", nullable=True, le=0)
    kl: float = column(
        "Mean KL divergence of the fitted policy from its parent over the contexts of these decisions, nats.",
        nullable=True,
        ge=0,
    )
    entropy_before: float = column(
        "Mean entropy over those contexts under the parent, nats.", nullable=True, ge=0
    )
    entropy_after: float = column("The same under the fitted policy.", nullable=True, ge=0)


def schema_name(model: type[Table]) -> str:
    """DuckDB schema of a table: the module its model lives in, one of the five words."""
    return model.__module__.rpartition(".")[2]


def table_name(model: type[Table]) -> str:
    """Qualified name of a table, `schema.table`; the model's class name in snake case."""
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in model.__name__).lstrip("_")
    return f"{schema_name(model)}.{name}"


def row_meaning(model: type[Table]) -> str:
    """What one row of the table is: the first line of the model's docstring."""
    return (model.__doc__ or "").strip().splitlines()[0]


def polars_schema(model: type[Table]) -> pl.Schema:
    """Column types of a table, in declaration order with `day` first."""
    columns = model.to_schema().columns
    return pl.Schema({name: field.dtype.type for name, field in columns.items()})


def sql_columns(model: type[Table]) -> dict[str, str]:
    """DuckDB type (with NOT NULL where it holds) per column."""
    columns, types = model.to_schema().columns, polars_schema(model)
    return {
        name: ("JSON" if (field.metadata or {}).get("json") else _SQL_TYPES[type(types[name])])
        + ("" if field.nullable else " NOT NULL")
        for name, field in columns.items()
    }


def descriptions(model: type[Table]) -> dict[str, str]:
    """Comment per column."""
    return {name: field.description or "" for name, field in model.to_schema().columns.items()}


def ddl(model: type[Table]) -> list[str]:
    """Statements that create the table if absent and set its comments."""
    name = table_name(model)
    body = ", ".join(f'"{column}" {kind}' for column, kind in sql_columns(model).items())
    statements = [
        f"CREATE SCHEMA IF NOT EXISTS {schema_name(model)}",
        f"CREATE TABLE IF NOT EXISTS {name} ({body})",
        f"COMMENT ON TABLE {name} IS {_quoted(row_meaning(model))}",
    ]
    statements += [
        f'COMMENT ON COLUMN {name}."{column}" IS {_quoted(text)}'
        for column, text in descriptions(model).items()
    ]
    return statements


def frame(model: type[Table], day: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Build a table's frame from row mappings without `day`, with explicit types.

    Types are never inferred: a column that happens to be all null would be stored with type "NULL".

    Raises:
        ValueError: a row has not exactly the table's columns, or a value is not of its column's type.
        pandera.errors.SchemaErrors: a row breaks the table's checks.
    """
    schema = polars_schema(model)
    names = schema.keys() - {"day"}
    made = list(rows)
    for row in made:
        if row.keys() != names:
            raise ValueError(f"{table_name(model)}: {sorted(row.keys() ^ names)} is missing or unexpected")
    # Column by column: from row mappings polars takes ten times as long.
    columns = [pl.repeat(dt.date.fromisoformat(day), len(made), dtype=pl.Date, eager=True).alias("day")]
    columns += [
        _series(model, name, kind, [row[name] for row in made])
        for name, kind in schema.items()
        if name != "day"
    ]
    return validate(model, pl.DataFrame(columns))


def _series(model: type[Table], name: str, kind: pl.DataType, values: list[Any]) -> pl.Series:
    """A column of exactly that type: polars would store 1.5 as the whole number 1."""
    try:
        if kind == pl.Int64 and float in set(map(type, values)):
            raise TypeError("a number with a fraction in a column of whole numbers")
        return pl.Series(name, values, dtype=kind, strict=True)
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{table_name(model)}.{name}: {error}") from error


def validate(model: type[Table], made: pl.DataFrame) -> pl.DataFrame:
    """Check a frame against its table's model, all failures at once.

    Raises:
        pandera.errors.SchemaErrors: naming each failing column, check and row.
    """
    model.validate(made, lazy=True)
    return made


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
