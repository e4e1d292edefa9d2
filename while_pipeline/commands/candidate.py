"""`while-pipeline candidate`: a model trained elsewhere stands before the same gate as one fitted here."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from while_pipeline.agents.endpoint import EndpointSettings
    from while_pipeline.commands.by_hand import Desk
    from while_pipeline.project import Project


@click.command()
@click.option("--endpoint", "url", required=True, metavar="URL", help="Such as http://127.0.0.1:8000/v1.")
@click.option("--model", required=True, help="The model's name as that server knows it.")
@click.option("--name", help="What people call it.")
@click.option("--key-env", metavar="VAR", help="Environment variable that holds the server's key.")
@click.option(
    "--day", type=click.DateTime(["%Y-%m-%d"]), help="Whose candidate; the next free day by default."
)
@click.option("--parent", metavar="VERSION", help="Policy it was trained from.")
@click.option(
    "--base-model", metavar="M", help="Model it was trained from; its checkpoint or server may say."
)
@click.option(
    "--another-base", is_flag=True, help="It is of another base model than what serves; compare all the same."
)
@click.option("--method", default="elsewhere", show_default=True, help="How it was trained, such as sft.")
@click.option(
    "--manifest",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="manifest.json of the exported cut that it was trained on.",
)
@click.option(
    "--checkpoint",
    type=click.Path(exists=True, resolve_path=True, path_type=Path),
    help="Its weights: they are hashed, and what they say of themselves is read.",
)
def candidate(
    url: str,
    model: str,
    name: str | None,
    key_env: str | None,
    day: dt.datetime | None,
    parent: str | None,
    base_model: str | None,
    another_base: bool,
    method: str,
    manifest: Path | None,
    checkpoint: Path | None,
) -> None:
    """Register a model that was trained elsewhere as a day's candidate, and prove it as any other.

    It plays the day's sealed tasks through its endpoint against the serving policy; the delta gate decides.
    A day that ran without a candidate is decided at once, a later one by its run. Answers are kept, so that
    none is paid for twice.

    Exit code: 0 registered, or promoted; 1 refused by the gate, or its run failed; 2 the question is wrong.
    """
    from while_pipeline.agents.protocol import AgentError
    from while_pipeline.agents.served import served_models
    from while_pipeline.commands.by_hand import desk
    from while_pipeline.tables import train
    from while_pipeline.train.elsewhere import Claims, candidate_day, read_manifest, registered_row

    with desk("candidate") as at:
        endpoint = _endpoint(at.project, url, model, key_env)
        whose = candidate_day(at.registry, day.date() if day else None)
        claims = Claims(
            name=name,
            method=method,
            base_model=base_model,
            parent=parent,
            another_base=another_base,
            manifest=read_manifest(manifest) if manifest else None,
            checkpoint=checkpoint,
        )
        try:
            row = registered_row(at.registry, at.project, endpoint, served_models(endpoint), claims, whose)
        except AgentError as error:
            raise click.ClickException(f"Nothing was registered. {error}") from error
        at.keep(train.Registered, whose.isoformat(), row)
        click.echo(f"{row['policy_version']} ({row['name']}) is the candidate of {whose}.")
        if whose != at.registry.last_day:
            click.echo(f"It is decided on by that day's run: while-pipeline run --day {whose}")
            return
        _prove(at, whose.isoformat())


def _endpoint(project: "Project", url: str, model: str, key_env: str | None) -> "EndpointSettings":
    """The endpoint, asked as the project's own where it has one: other sampling would be another difference.

    Raises:
        click.ClickException: the address, the model or the variable's name will not do.
    """
    from pydantic import ValidationError

    from while_pipeline.agents.endpoint import EndpointSettings

    own = project.settings.agent.endpoint
    asked = own.model_dump() if own else {}
    try:
        return EndpointSettings.model_validate(
            {**asked, "base_url": url, "model": model, "weights": None, "api_key_env": key_env}
        )
    except ValidationError as error:
        # Not what was given: a key may have been pasted there.
        first = error.errors(include_input=False)[0]
        raise click.UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _prove(at: "Desk", day: str) -> None:
    """Play, compare and decide a day that has run already."""
    from assets.stored import key_of
    from while_pipeline.definitions import build_definitions
    from while_pipeline.doctor import RUN_LOCK
    from while_pipeline.project import data_root, project_root
    from while_pipeline.runs import CLI_TAG, run_day
    from while_pipeline.tables import prove

    if at.warehouse.read(prove.HeldOut, day, rows=1).is_empty():
        click.echo(f"{day} has no sealed tasks yet; its run decides: while-pipeline run --day {day}")
        return
    data = data_root()
    job = build_definitions(project_root(), data).resolve_job_def("daily")
    tables = (prove.Trials, prove.Delta, prove.Looks, prove.Promotion)
    tags = {CLI_TAG: str(data / RUN_LOCK)}
    if not run_day(job, at.instance, day, tags, [key_of(table) for table in tables]):
        raise SystemExit(1)
    decision = at.warehouse.read(prove.Promotion, day).row(0, named=True)
    click.echo(decision["reason"])
    raise SystemExit(0 if decision["promoted"] else 1)
