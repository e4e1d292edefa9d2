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
from while_pipeline.train.registry import Policy


class Models(dg.ConfigurableResource[Any]):
    """Makes agents and judges."""

    data: str
    """Folder of the response store."""

    def agent(self, project: Project, policy: Policy | None) -> Agent | AsyncAgent:
        """The agent that plays a policy; None is the endpoint or callable of the project's settings."""
        settings = project.settings.agent
        if isinstance(policy, Weights):
            return EmbeddedAgent(policy)
        endpoint = policy or settings.endpoint
        if endpoint is not None and (policy is not None or settings.plays == "endpoint"):
            return EndpointPlayer(endpoint, Path(self.data) / FILE_NAME)
        assert settings.callable is not None, "what is neither embedded nor an endpoint is a callable"
        return CallableAgent(load_callable(settings.callable), settings.callable, settings.timeout_s)

    def judge(self, project: Project) -> Judge:
        """The judge."""
        settings = project.settings.judge
        if settings.plays == "endpoint" and settings.endpoint is not None:
            responses = Path(self.data) / FILE_NAME
            return ModelJudge(settings.endpoint, project.rubric, responses, settings.mode)
        return RulesJudge()
