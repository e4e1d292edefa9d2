"""The agent as it is on a day: its documents, its tools, the policy that serves."""

from typing import Any

from while_pipeline.agents.policy import Weights
from while_pipeline.ids import canonical_json, content_id
from while_pipeline.project import Project


def agent_row(project: Project, weights: Weights) -> dict[str, Any]:
    """Row of `watch.agent`. `weights` count only when the embedded policy plays."""
    settings = project.settings.agent
    tools = [tool.openai() for tool in project.tools]
    embedded = settings.plays == "embedded"
    match settings.plays:
        case "endpoint" if settings.endpoint is not None:
            model = settings.endpoint.model
            identity = settings.endpoint.model_dump(
                include={"base_url", "model", "temperature", "max_tokens"}
            )
            version = f"m-{content_id(identity)[:12]}"
        case "callable":
            model = str(settings.callable)
            version = f"c-{content_id(model)[:12]}"
        case _:
            model, version = "embedded", weights.version
    return {
        "policy_version": version,
        "plays": settings.plays,
        "model": model,
        "policy_document": project.policy_document.text,
        "policy_document_hash": content_id(project.policy_document.text),
        "n_rules": len(project.policy_document.rules),
        "tools": canonical_json(tools),
        "tools_hash": content_id(tools),
        "n_tools": len(tools),
        "weights": canonical_json(weights.weights) if embedded else None,
    }
