"""`while-pipeline promote`: a person lets a policy serve."""

import click


@click.command()
@click.argument("version")
@click.option("--reason", required=True, help="Why; whoever reads the registry later asks for it.")
@click.option("--by", default="person", show_default=True, help="Who decides.")
@click.option(
    "--force", is_flag=True, help="Also a version that did not pass its delta gate; kept as forced."
)
def promote(version: str, reason: str, by: str, force: bool) -> None:
    """Let the policy VERSION serve from the day after the last one that ran.

    Only a version that passed its delta gate, unless forced. `while-pipeline policies` lists them.
    """
    from while_pipeline.commands.by_hand import desk
    from while_pipeline.tables import prove
    from while_pipeline.train.decide import holds_from, promotion_row

    with desk("promote") as at:
        row = at.cut_short("promote", version, reason=reason, decided_by=by) or promotion_row(
            at.registry, at.project, version, reason=reason, decided_by=by, force=force
        )
        day = holds_from(at.registry).isoformat()
        at.keep(prove.Decisions, day, row)
    forced = ", forced: it did not pass its delta gate" if row["forced"] else ""
    click.echo(f"{version} serves from {day} on, in place of {row['replaces']}{forced}.")
