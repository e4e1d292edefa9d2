"""The agent as it is on a day: its documents, its tools, the policy that serves."""

from typing import Any, NamedTuple

from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.policy import Weights, base_weights
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.project import Project


class _Player(NamedTuple):
    """Who plays, in the columns of `watch.agent`."""

    policy_version: str
    plays: str
    model: str
    weights: str | None
    endpoint: str | None


def agent_row(project: Project, policy: Weights | EndpointSettings | None) -> dict[str, Any]:
    """Row of `watch.agent`.

    Args:
        project: Its documents and tools; its settings say who plays unless a policy was promoted.
        policy: What the registry says serves; None for the agent as the settings describe it. Weights count
            only where the embedded policy plays, a model behind an endpoint whatever the settings say.
    """
    tools = [tool.openai() for tool in project.tools]
    return {
        **_player(project, policy)._asdict(),
        "policy_document": project.policy_document.text,
        "policy_document_hash": content_id(project.policy_document.text),
        "n_rules": len(project.policy_document.rules),
        "tools": canonical_json(tools),
        "tools_hash": content_id(tools),
        "n_tools": len(tools),
    }


def agent_version(project: Project, policy: Weights | EndpointSettings | None) -> str:
    """Policy version that serves a day on which the registry names `policy`; see `agent_row`."""
    return _player(project, policy).policy_version


def _player(project: Project, policy: Weights | EndpointSettings | None) -> _Player:
    settings = project.settings.agent
    if isinstance(policy, EndpointSettings):
        told = canonical_json(policy.model_dump())
        return _Player(policy.version, "endpoint", policy.model, None, told)
    if settings.plays == "endpoint" and settings.endpoint is not None:
        return _Player(settings.endpoint.version, "endpoint", settings.endpoint.model, None, None)
    if settings.plays == "callable":
        name = str(settings.callable)
        return _Player(f"c-{content_id(name)[:12]}", "callable", name, None, None)
    weights = policy or base_weights()
    return _Player(weights.version, "embedded", "embedded", canonical_json(weights.weights), None)
