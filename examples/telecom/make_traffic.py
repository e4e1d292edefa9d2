"""Example traffic: the embedded agent plays days of conversations as if it were live, and exports them.

Without arguments it writes the two days that ship with the example. The same arguments give the same bytes.
With `--endpoint` the same customers talk to a served agent over HTTP, and what is said becomes traffic there.
"""

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import click

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.endpoint import EndpointPlayer, EndpointSettings
from while_pipeline.agents.policy import Weights, base_weights
from while_pipeline.agents.protocol import Agent, AsyncAgent
from while_pipeline.agents.responses import FILE_NAME
from while_pipeline.ids import content_id, seed_of
from while_pipeline.policy_document import RuleKind
from while_pipeline.project import Project, data_root, load_project
from while_pipeline.records import Message, Situation
from while_pipeline.serve.listen import KEY_VARIABLE
from while_pipeline.simulate.axes import Grid, grid_of, situation
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.rollout import Rollout
from while_pipeline.simulate.scenario import ScenarioWriter
from while_pipeline.train.registry import serving_weights
from while_pipeline.watch.export import TrafficExporter

PROJECT = Path(__file__).parent
DAYS = ("2026-03-02", "2026-03-03")
AGENT = "support-agent"

SYSTEM = Message(role="system", content="You are the support agent of Northwind Mobile.")
"""Not the policy document: the project has it, and repeated in every span it would be most of the traffic."""

COMMON = {
    "pay_bill": 9, "change_plan": 8, "get_data_usage": 8, "get_bill": 5, "cancel_order": 4,
    "ordinary": 40, "hurried": 12, "unsure": 4,
    "exists": 15, "success": 18, "timeout": 4, "fresh": 8,
}  # fmt: skip
"""Weights of what customers mostly bring; every other value of an axis has 1."""
ALWAYS_ON = {RuleKind.VERIFY: 12, RuleKind.CONFIRM: 12}
"""Rules that hold in any conversation: two in three customers touch no other."""

OPENS = dt.time(8, tzinfo=dt.UTC)
HOURS = 9
SECOND = 10**9
"""In nanoseconds, as traces count."""
SECONDS = {"user": (15.0, 90.0), "assistant": (0.8, 4.0), "tool": (0.1, 1.5)}
"""How long a message of each role takes: from, to."""


def played(project: Project, day: str, conversations: int, weights: Weights) -> Iterator[Rollout]:
    """Play a day's conversations, in the order they began."""
    return _with_customers(project, day, conversations, EmbeddedAgent(weights), weights.version)


def called(project: Project, day: str, conversations: int, base_url: str) -> list[Rollout]:
    """Let the same customers, and tools, talk to the agent that is served at `base_url`."""
    settings = EndpointSettings(
        base_url=base_url,
        model=project.settings.name,
        api_key_env=KEY_VARIABLE if KEY_VARIABLE in os.environ else None,
    )
    with TemporaryDirectory() as folder:
        # Answers are kept nowhere: the same customer calling again is another conversation.
        agent = EndpointPlayer(settings, Path(folder) / FILE_NAME, becomes_traffic=True)
        return list(_with_customers(project, day, conversations, agent, settings.version))


def _with_customers(
    project: Project, day: str, conversations: int, agent: Agent | AsyncAgent, version: str
) -> Iterator[Rollout]:
    writer = ScenarioWriter(project.tools, project.policy_document)
    cells = _situations(project, day, conversations)
    scenarios = (writer.write(cell, seed_of("traffic", day, n)) for n, cell in enumerate(cells))
    return play(
        scenarios,
        agent,
        project.tools,
        project.policy_document,
        samples=range(1),
        seed=seed_of("traffic", day),
        policy_version=version,
    )


def exported(day: str, rollouts: Sequence[Rollout], model: str) -> Iterator[str]:
    """Export a day's conversations, one line each."""
    rng = Random(seed_of("clock", day))
    exporter = TrafficExporter(AGENT, model)
    opens = int(dt.datetime.combine(dt.date.fromisoformat(day), OPENS).timestamp()) * SECOND
    starts = sorted(opens + rng.randrange(HOURS * 3600 * SECOND) for _ in rollouts)
    for rollout, start in zip(rollouts, starts, strict=True):
        clock = [start, start]  # the system message is there when the customer's first arrives
        for message in rollout.messages[1:]:
            clock.append(clock[-1] + int(rng.uniform(*SECONDS[message.role]) * SECOND))
        conversation_id = content_id("traffic", day, rollout.rollout_id)
        yield exporter.line(conversation_id, [SYSTEM, *rollout.messages], clock)


def _situations(project: Project, day: str, count: int) -> list[Situation]:
    grid = grid_of(project.tools, project.policy_document, project.settings.seed)
    always = {rule.rule_id: ALWAYS_ON.get(rule.kind, 1) for rule in project.policy_document.rules}
    rng = Random(seed_of("situations", day))
    rows: list[tuple[str, ...]] = []
    while len(rows) < count:
        row = _drawn(grid, COMMON | always, rng)
        if grid.allowed(row):
            rows.append(row)
    return [situation(row) for row in rows]


def _drawn(grid: Grid, weights: dict[str, int], rng: Random) -> tuple[str, ...]:
    return tuple(
        rng.choices(values, [weights.get(value, 1) for value in values])[0] for values in grid.axes.values()
    )


def _weights(policy: str, day: str) -> Weights:
    if policy == "base":
        return base_weights()
    return serving_weights(day, data_root())


@click.command()
@click.option(
    "--day",
    "days",
    type=click.DateTime(["%Y-%m-%d"]),
    multiple=True,
    default=DAYS,
    show_default=True,
    help="UTC day; may be repeated.",
)
@click.option("--conversations", default=64, show_default=True, help="Conversations per day.")
@click.option(
    "--policy",
    type=click.Choice(["base", "promoted"]),
    default="base",
    show_default=True,
    help="Who answers: the untrained policy, or the one the pipeline promoted for that day.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Traffic folder; the project's own by default.",
)
@click.option(
    "--endpoint", metavar="URL", help="Base URL of a served agent that answers, and keeps the traffic."
)
def main(
    days: Sequence[dt.datetime], conversations: int, policy: str, out: Path | None, endpoint: str | None
) -> None:
    """Write traffic/DAY/agent.jsonl for each day; or, with --endpoint, let each day's customers call."""
    project = load_project(PROJECT)
    if endpoint:
        for day in (moment.date().isoformat() for moment in days):
            lost = [one.lost for one in called(project, day, conversations, endpoint) if one.lost]
            click.echo(f"{endpoint}: {conversations - len(lost)} conversations with the customers of {day}")
            if lost:
                raise click.ClickException(f"{len(lost)} conversations were cut off: {lost[0]}")
        return
    for day in (moment.date().isoformat() for moment in days):
        weights = _weights(policy, day)
        rollouts = list(played(project, day, conversations, weights))
        path = (out or project.traffic_folder) / day / "agent.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(f"{line}\n" for line in exported(day, rollouts, weights.version)), newline="\n"
        )
        click.echo(f"{path}: {len(rollouts)} conversations by {weights.version}")


if __name__ == "__main__":
    main()
