"""Which models an OpenAI-compatible server has: asked once, before one of them is registered."""

from pydantic import BaseModel, ValidationError

from while_pipeline.agents.endpoint import EndpointSettings, api_key
from while_pipeline.agents.protocol import AgentError
from while_pipeline.records import Record

_UNANSWERED = (404, 405, 501)
"""Statuses of a server that has no list of models; chat completions may work all the same."""


class ServedModel(Record):
    """One model of a server."""

    name: str
    parent: str | None
    """Model it was trained from, where the server says so, as vLLM does of an adapter."""


def served_models(settings: EndpointSettings) -> tuple[ServedModel, ...] | None:
    """Models that a server lists; None when it has no such list.

    Raises:
        AgentError: it does not answer, or not in OpenAI's shape.
        ProjectError: the environment variable that holds the key is missing or unusable.
    """
    key = api_key(settings)
    from openai import APIStatusError, OpenAI, OpenAIError

    with OpenAI(
        api_key=key,
        base_url=settings.base_url,
        timeout=settings.timeout_s,
        max_retries=settings.max_retries,
    ) as client:
        try:
            # The raw verb: the typed one takes an answer of any shape for a list.
            answer = client.get("/models", cast_to=str)
        except APIStatusError as error:
            if error.status_code in _UNANSWERED:
                return None
            raise AgentError(
                f"{settings.base_url}: HTTP {error.status_code} for its list of models"
            ) from None
        except OpenAIError as error:
            # What a server says may hold the key it was sent.
            said = str(error).replace(key, "[key]")
            raise AgentError(f"{settings.base_url} does not list its models: {said}") from None
    try:
        listed = _WireModels.model_validate_json(answer)
    except ValidationError:
        raise AgentError(f"{settings.base_url}: what it gives for its list of models is none") from None
    return tuple(ServedModel(name=model.id, parent=model.parent) for model in listed.data)


class _WireModel(BaseModel):
    id: str
    parent: str | None = None


class _WireModels(BaseModel):
    """What is read of a list of models; anything else in it is left alone."""

    data: list[_WireModel]
