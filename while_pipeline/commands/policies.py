"""`while-pipeline policies`: the registry as a table."""

import json

import click

HEADER = ("version", "parent", "method", "day", "before", "after", "difference", "tasks", "state", "decided")


@click.command()
@click.option("--format", "form", default="table", show_default=True, type=click.Choice(("table", "json")))
def policies(form: str) -> None:
    """List every policy version: where it comes from, what was proven of it, and where it stands.

    pass@1 is on the sealed tasks: of the policy that served (before) and of this one (after). The whole of it
    is the view train.registry.
    """
    from while_pipeline.project import DATABASE, data_root
    from while_pipeline.report import console, grid
    from while_pipeline.snapshot import SnapshotError, read_snapshot, snapshot_path

    try:
        found = read_snapshot(
            snapshot_path(data_root() / DATABASE),
            """SELECT policy_version, name, state, parent, method, day::VARCHAR AS day, before, after,
            low, high, n_tasks, serves_from::VARCHAR AS serves_from, decided_by, forced, reason
            FROM train.registry""",
        )
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error
    if form == "json":
        click.echo(json.dumps(found.to_dicts(), ensure_ascii=False))
        return
    console().print(grid(HEADER, [_cells(row) for row in found.iter_rows(named=True)]))


def _cells(row: dict[str, object]) -> list[str]:
    before, after, low, high = (row[name] for name in ("before", "after", "low", "high"))
    difference = ""
    if isinstance(before, float) and isinstance(after, float):
        difference = f"{after - before:+.3f}"
        if isinstance(low, float) and isinstance(high, float):
            difference += f" [{low:+.3f}, {high:+.3f}]"
    decided = "" if row["decided_by"] is None else f"{row['decided_by']}{', forced' if row['forced'] else ''}"
    name, version = str(row["name"]), str(row["policy_version"])
    return [
        version if name == version else f"{version} ({name})",
        str(row["parent"] or ""),
        str(row["method"] or ""),
        str(row["day"]),
        f"{before:.3f}" if isinstance(before, float) else "",
        f"{after:.3f}" if isinstance(after, float) else "",
        difference,
        "" if row["n_tasks"] is None else str(row["n_tasks"]),
        str(row["state"]),
        decided,
    ]
