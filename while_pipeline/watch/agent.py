"""The agent as it is on a day: its documents, its tools, the policy that serves."""

from typing import Any

from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.agents.policy import Weights
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.project import Project


def agent_row(project: Project, policy: Weights | EndpointSettings) -> dict[str, Any]:
    """Row of `watch.agent`.

    Args:
        project: Its documents and tools; its settings say who plays unless a model behind an endpoint was
            promoted.
        policy: What the registry says serves. Weights count only where the embedded policy plays.
    """
    settings = project.settings.agent
    tools = [tool.openai() for tool in project.tools]
    promoted = policy if isinstance(policy, EndpointSettings) else None
    endpoint = promoted or (settings.endpoint if settings.plays == "endpoint" else None)
    weights: str | None = None
    if endpoint is not None:
        plays, model, version = "endpoint", endpoint.model, endpoint.version
    elif settings.plays == "callable":
        plays, model = "callable", str(settings.callable)
        version = f"c-{content_id(model)[:12]}"
    else:
        assert isinstance(policy, Weights), "without an endpoint the policy has weights"
        plays, model, version = "embedded", "embedded", policy.version
        weights = canonical_json(policy.weights)
    return {
        "policy_version": version,
        "plays": plays,
        "model": model,
        "policy_document": project.policy_document.text,
        "policy_document_hash": content_id(project.policy_document.text),
        "n_rules": len(project.policy_document.rules),
        "tools": canonical_json(tools),
        "tools_hash": content_id(tools),
        "n_tools": len(tools),
        "weights": weights,
        "endpoint": None if promoted is None else canonical_json(promoted.model_dump()),
    }
