"""What an exported `verifiers` package does: its tasks, and the harness that plays them in our world.

Needs the package `verifiers`, so only an exported package and its tests import this. The agent's turns go
through the endpoint that `verifiers` gives; customer, world and grading are the engine's own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import verifiers.v1 as vf
from openai import APIError, AsyncOpenAI

from while_pipeline.agents.protocol import Reply
from while_pipeline.grade.grader import grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.messages import from_openai, messages_from_json, messages_json, to_openai
from while_pipeline.policy_document import read_policy_document
from while_pipeline.records import Message
from while_pipeline.simulate.customer import respond
from while_pipeline.simulate.rollout import Episode, Played, Sample
from while_pipeline.simulate.rows import scenario_from_row
from while_pipeline.simulate.user_world import Worlds
from while_pipeline.tools import Tool, parse_tools
from while_pipeline.train.exports.verifiers import DOCUMENT, TOOLS

PLAYED = "played"
"""Where a trace keeps how its episode went."""


class ScenarioData(vf.TaskData):
    """A scenario with all that playing and grading it needs."""

    scenario: dict[str, Any]
    """Its row of `simulate.scenarios`; no message shows it to the agent."""
    tools: list[dict[str, Any]]
    """In OpenAI shape."""
    document: str
    """The policy document that is graded by, whatever system prompt the agent is given."""


class ScenarioTask(vf.Task[ScenarioData]):
    """A scenario, and what a rollout of it is worth."""

    @property
    def key(self) -> str:
        """The scenario's id."""
        return str(self.data.scenario["scenario_id"])

    @vf.reward
    async def graded(self, trace: vf.Trace) -> float:
        """The reward of the project's grader, by outcome and conduct rules.

        Raises:
            TaskError: the episode was lost: no evidence about the agent.
        """
        told = trace.info[PLAYED]
        scenario = scenario_from_row(self.data.scenario)
        messages = messages_from_json(told["messages"])
        played = Played(scenario, messages, told["ended"], told["lost"], told["diff"], told["finish_reason"])
        rollout = Sample(scenario, 0, 0, "verifiers").rollout(played)
        document = read_policy_document(self.data.document)
        (one,) = grade([rollout], _tools(self.data), document, RulesJudge())
        if one.reward is None:
            raise vf.TaskError(f"no reward: {told['lost'] or one.reason}")
        return one.reward


class ScenarioConfig(vf.TasksetConfig):
    """Which tasks."""

    split: Literal["train", "valid"] = "train"
    """Side of the split."""


class ScenarioTaskset(vf.Taskset[ScenarioTask, ScenarioConfig]):
    """The tasks of an exported folder."""

    FOLDER: ClassVar[Path]
    """Where rows, tools and policy document lie."""

    def load(self) -> Iterator[ScenarioTask]:
        """One task per scenario; none where that side of the split is empty."""
        path = self.FOLDER / f"{self.config.split}.jsonl"
        if not path.exists():
            return
        document = (self.FOLDER / DOCUMENT).read_text(encoding="utf-8")
        tools = json.loads((self.FOLDER / TOOLS).read_text(encoding="utf-8"))
        # Not splitlines: JSON strings may hold U+2028 and other line ends as they are.
        for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
            scenario = json.loads(line)["scenario"]
            data = ScenarioData(
                id=scenario["scenario_id"],
                prompt=scenario["prompt"],
                system_prompt=document,
                scenario=scenario,
                tools=tools,
                document=document,
            )
            yield ScenarioTask(data, self.config.task)


class ScenarioHarness(vf.Harness[vf.HarnessConfig]):
    """Plays a scenario to its end: the agent by the endpoint, customer and tools by the engine."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Play in this process; how it went stays on the trace, for the reward."""
        if not isinstance(data, ScenarioData):
            raise TypeError(f"ScenarioHarness plays scenarios, not {type(data).__name__}")
        system = Message(role="system", content=data.system_prompt)
        episode = Episode(scenario_from_row(data.scenario), Worlds(_tools(data)), system)
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
            while episode.awaits != "nobody":
                if episode.awaits == "customer":
                    episode.take_customer(respond(episode.scenario.script, episode.messages))
                    continue
                try:
                    reply = await _asked(client, ctx.model, episode, data.tools)
                except APIError:
                    # A limit of the run refuses the turn: the episode ends as it stands.
                    if trace.stop_condition is None:
                        raise
                    break
                episode.take_reply(reply)
        played = Played.of(episode)
        trace.info[PLAYED] = {
            "messages": messages_json(played.messages),
            "ended": played.ended,
            "lost": played.lost,
            "diff": played.diff,
            "finish_reason": played.finish_reason,
        }
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


async def _asked(client: AsyncOpenAI, model: str, episode: Episode, tools: list[dict[str, Any]]) -> Reply:
    said: list[Any] = [to_openai(message) for message in episode.messages]
    offered: list[Any] = tools
    answer = await client.chat.completions.create(model=model, messages=said, tools=offered)
    choice = answer.choices[0]
    return Reply(from_openai(choice.message.model_dump()), finish_reason=choice.finish_reason)


def _tools(data: ScenarioData) -> tuple[Tool, ...]:
    return parse_tools(data.tools, TOOLS)
