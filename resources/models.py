"""Who plays the agent and who judges, as the project's settings say."""

from pathlib import Path
from typing import Any

import dagster as dg

from while_pipeline.agents.callable_agent import CallableAgent, load_callable
from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.endpoint import EndpointPlayer
from while_pipeline.agents.policy import Weights
from while_pipeline.agents.protocol import Agent, AsyncAgent
from while_pipeline.agents.responses import FILE_NAME
from while_pipeline.grade.endpoint_judge import ModelJudge
from while_pipeline.grade.judge import Judge, RulesJudge
from while_pipeline.project import Project


class Models(dg.ConfigurableResource[Any]):
    """Makes agents and judges."""

    data: str
    """Folder of the response store."""

    def agent(self, project: Project, weights: Weights | None) -> Agent | AsyncAgent:
        """The agent that plays; `weights` are those of the embedded policy."""
        settings = project.settings.agent
        if settings.plays == "endpoint" and settings.endpoint is not None:
            return EndpointPlayer(settings.endpoint, Path(self.data) / FILE_NAME)
        if settings.plays == "callable" and settings.callable is not None:
            return CallableAgent(load_callable(settings.callable), settings.callable, settings.timeout_s)
        assert weights is not None, "the embedded agent needs weights"
        return EmbeddedAgent(weights)

    def judge(self, project: Project) -> Judge:
        """The judge."""
        settings = project.settings.judge
        if settings.plays == "endpoint" and settings.endpoint is not None:
            responses = Path(self.data) / FILE_NAME
            return ModelJudge(settings.endpoint, project.rubric, responses, settings.mode)
        return RulesJudge()
