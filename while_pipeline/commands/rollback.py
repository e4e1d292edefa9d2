"""`while-pipeline rollback`: a person goes back to a policy that served before."""

import click


@click.command()
@click.option("--to", metavar="VERSION", help="The version; by default the one that served before this one.")
@click.option("--reason", required=True, help="Why; whoever reads the registry later asks for it.")
@click.option("--by", default="person", show_default=True, help="Who decides.")
def rollback(to: str | None, reason: str, by: str) -> None:
    """Let a policy serve again that served before, from the day after the last one that ran.

    A second rollback goes back one promotion further, not forth again.
    """
    from while_pipeline.commands.by_hand import desk
    from while_pipeline.tables import prove
    from while_pipeline.train.decide import holds_from, rollback_row

    with desk("rollback") as at:
        row = at.cut_short("rollback", to, reason=reason, decided_by=by) or rollback_row(
            at.registry, at.project, to, reason=reason, decided_by=by
        )
        day = holds_from(at.registry).isoformat()
        at.keep(prove.Decisions, day, row)
    forced = ", forced: it did not pass its delta gate" if row["forced"] else ""
    click.echo(f"{row['policy_version']} serves from {day} on, in place of {row['replaces']}{forced}.")
