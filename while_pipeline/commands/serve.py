"""`while-pipeline serve`: an OpenAI-compatible endpoint of a policy, or of a checkpoint."""

import os
from pathlib import Path

import click

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--policy", metavar="VERSION", help="A policy version; the one that serves today by default.")
@click.option(
    "--checkpoint", type=_FOLDER, help="A trained model's folder instead, by vLLM or `transformers serve`."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address; another needs WHILE_SERVE_KEY."
)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0: a free one.")
@click.option(
    "--traffic", type=_FOLDER, help="Where conversations go; the project's traffic folder by default."
)
def serve(policy: str | None, checkpoint: Path | None, host: str, port: int, traffic: Path | None) -> None:
    """Answer chat completions with the policy that serves, until Ctrl-C; what is said is tomorrow's traffic.

    The embedded policy itself: /v1/models, /v1/chat/completions (tools, streaming, logprobs) and /health.
    Each answered request becomes a line in TRAFFIC/DAY/served-VERSION.jsonl, but for requests with
    `"store": false`. Without a system message in a request, the project's policy document holds.

    When WHILE_SERVE_KEY is set, callers must send it as their API key.
    """
    if checkpoint is None:
        _serve_policy(policy, host, port, traffic)
    elif policy or traffic:
        raise click.UsageError("--checkpoint goes with neither --policy nor --traffic.")
    else:
        _serve_checkpoint(checkpoint, host, port)


def _serve_policy(version: str | None, host: str, port: int, traffic: Path | None) -> None:
    import datetime as dt
    from zoneinfo import ZoneInfo

    from while_pipeline.project import data_root, load_project, project_root
    from while_pipeline.serve.app import Site, build_app
    from while_pipeline.serve.listen import key_for, listening, run, url_of
    from while_pipeline.serve.policy import ServedPolicy, weights_to_serve
    from while_pipeline.serve.traffic import TrafficLog

    project = load_project(project_root())
    name, zone = project.settings.name, project.settings.traffic.timezone
    key = key_for(host, os.environ)
    today = dt.datetime.now(ZoneInfo(zone)).date().isoformat()
    weights = weights_to_serve(project, data_root(), version, today)
    policy = ServedPolicy(weights, name, project.policy_document.text)
    folder = traffic or project.traffic_folder
    try:
        log = TrafficLog(folder, name, policy.version, zone, policy.policy_document)
        listener = listening(host, port)
    except OSError as error:
        raise click.ClickException(f"Cannot serve at {host}, port {port}, into {folder}: {error}") from error
    with listener, log:
        click.echo(f"{policy.version}, also called {name}, answers at {url_of(listener)}. Ctrl-C stops it.")
        click.echo(f"Its conversations become traffic: {folder / 'DAY' / log.file_name}")
        run(build_app(Site(policy, log, key)), listener)
    kept = log.state
    click.echo(f"Stopped; {kept.written} answers are in the traffic.")
    if kept.error is not None:
        raise click.ClickException(f"{kept.waiting + kept.lost} answers could not be written: {kept.error}")


def _serve_checkpoint(folder: Path, host: str, port: int) -> None:
    from while_pipeline.serve.checkpoint import checkpoint_command, checkpoint_environment

    command = checkpoint_command(folder, host, port)
    environment = checkpoint_environment(host, os.environ)
    click.echo(f"Starting {' '.join(command[1:])}")
    # The server takes this process's place, so that signals and its exit code need nobody in between.
    os.execve(command[0], command, environment)
