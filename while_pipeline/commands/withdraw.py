"""`while-pipeline withdraw`: a registered model is a day's candidate no more."""

import datetime as dt

import click


@click.command()
@click.option("--day", required=True, type=click.DateTime(["%Y-%m-%d"]), help="Whose candidate it is.")
def withdraw(day: dt.datetime) -> None:
    """Take back a model that was registered as a day's candidate and is not decided on.

    For one whose server is gone: while it stands, the day's run tries it and fails. What it answered is kept
    where a checkpoint says which weights did, and forgotten otherwise.
    """
    from while_pipeline.agents.responses import FILE_NAME, ResponseStore
    from while_pipeline.commands.by_hand import desk
    from while_pipeline.project import data_root
    from while_pipeline.tables import train
    from while_pipeline.train.elsewhere import undecided

    with desk("withdraw") as at:
        model = undecided(at.registry, day.date())
        at.clear(train.Registered, day.date().isoformat())
        if model.unhashed is not None:
            with ResponseStore(data_root() / FILE_NAME) as answers:
                answers.forget(model.unhashed)
    click.echo(f"{model.version} is no candidate of {day.date()} any more.")
