"""Any OpenAI-compatible server, asked through the `openai` client.

What belongs here: one bounded, retried, remembered chat completion (`Endpoint`), and the agent that plays
through it. What does not: what is asked of a judge (`grade.endpoint_judge`), and running many episodes.
The client takes over a second to import, so it is imported when the first call is made.
"""

import asyncio
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from while_pipeline.agents.protocol import AgentError, Reply
from while_pipeline.agents.responses import ResponseStore, request_key
from while_pipeline.errors import ProjectError
from while_pipeline.ids import content_id
from while_pipeline.messages import decode_json, from_openai, to_openai
from while_pipeline.records import Message, Record, Usage
from while_pipeline.tools import Tool

if TYPE_CHECKING:
    from openai import AsyncOpenAI

SEED_BITS = 31
"""Some servers hand the seed to NumPy, which refuses 2**32 and above; others read it as a signed 32-bit."""

STORE_HEADER = "x-while-store"
"""Header that `while-pipeline serve` reads: `false` keeps a request out of its traffic. The pipeline sends
it: what it plays and judges, sealed tasks among it, must not come back as what customers said. OpenAI has
`store` in the body for this; other hosts refuse a field that they do not know."""

_EXCERPT = 300
"""Characters of a server's answer quoted in an error: enough for its message, not a gateway's HTML page."""


class EndpointSettings(BaseModel):
    """Where a model is served and how it is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str
    """The server's address up to and including the version, such as `http://127.0.0.1:8000/v1`."""
    model: str = Field(min_length=1)
    """The model's name as the server knows it."""
    weights: Annotated[str, Field(min_length=1)] | None = None
    """Which weights answer under that name: their hash, or any name for them. A server may get others
    overnight: another value here is another policy version, and answers kept of the old one are not its."""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    """Name of the environment variable that holds the key; None because a local server needs none.
    Upper case only, so that a key pasted here by mistake is refused."""
    temperature: float = Field(default=1.0, ge=0, le=2)
    """1: the model's own distribution, so that the samples of a group differ and its log-probabilities
    are those of the policy that is trained."""
    max_tokens: int = Field(default=1024, ge=1)
    """1,024: several times a long customer-service turn, and a runaway answer stays cheap."""
    concurrency: int = Field(default=32, ge=1, le=1000)
    """32 calls in flight: keeps a batching server busy and stays under the usual first rate limits.
    At most 1,000, the client's own connection pool."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds of silence before a try is given up: 1,024 tokens at 10 a second, and some queueing."""
    max_retries: int = Field(default=5, ge=0, le=20)
    """Tries after the first. The client waits 0.5, 1, 2, 4, 8 s less up to a quarter of jitter, or what
    the server asks for: 5 ride out 12 s of overload."""
    logprobs: bool = False
    """Ask for token log-probabilities. Off, because several hosts refuse a request that names them."""

    @property
    def version(self) -> str:
        """Policy version of who answers here. How the server is reached does not make it another one."""
        asked = {"base_url", "model", "weights", "temperature", "max_tokens"}
        identity = self.model_dump(include=asked, exclude_none=True)
        return f"m-{content_id(identity)[:12]}"

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not a web address; write it like http://127.0.0.1:8000/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError(
                "holds credentials or a query; name the key's environment variable in api_key_env"
            )
        return value.rstrip("/")


def api_key(settings: EndpointSettings) -> str:
    """The key to send; a word that is none where the server needs none.

    Raises:
        ProjectError: the environment variable that holds the key is missing or unusable.
    """
    name = settings.api_key_env
    # The client would otherwise take OPENAI_API_KEY and send it to whatever server this is.
    key = os.environ.get(name, "").strip() if name else "no-key-needed"
    if not key or not (key.isascii() and key.isprintable()):
        raise ProjectError(
            "environment",
            str(name),
            None,
            f"it is missing, empty or not plain ASCII; set it to the API key of {settings.base_url}, "
            "or remove api_key_env if that server needs none",
        )
    return key


class Completion(Record):
    """One answer of a chat completion endpoint."""

    message: Message
    """The first choice's message; a refusal given apart from the content is its content."""
    refusal: str | None
    """The refusal, when the server gave one apart from the content."""
    model: str
    """The model that answered, as the server names it; the one asked for when it does not."""
    finish_reason: str | None
    logprob: float | None
    """Summed natural log-probability of the answer's tokens; None when the server gave none."""
    usage: Usage
    """Zeros when the server does not count."""


class Endpoint:
    """One model behind one server: bounded concurrency, retries, and a memory of what was answered.

    Use it inside one event loop, as `async with Endpoint(settings, store) as endpoint`. An agent and a
    judge may share one.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        store: ResponseStore | None = None,
        *,
        becomes_traffic: bool = False,
    ) -> None:
        """Nothing is opened yet: a run whose every answer is stored needs neither server nor key.

        Args:
            settings: Where and how to ask.
            store: Consulted before each call; None asks every time.
            becomes_traffic: Whether `while-pipeline serve` may keep what is asked, as customers' words.
        """
        self.settings = settings
        self._headers = {} if becomes_traffic else {STORE_HEADER: "false"}
        self._store = store
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._same_request: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._client: AsyncOpenAI | None = None

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], *, temperature: float | None = None, **body: Any
    ) -> Completion:
        """Answer one chat completion request, from the store when it was answered before.

        Args:
            messages: In OpenAI's shape.
            temperature: Replaces the settings' own.
            **body: Further fields of the request (`tools`, `seed`, `response_format`).

        Raises:
            AgentError: no chat completion came back after all retries.
            ProjectError: the environment variable that holds the key is missing or unusable.
        """
        settings = self.settings
        request: dict[str, Any] = {
            "model": settings.model,
            "messages": list(messages),
            "temperature": settings.temperature if temperature is None else temperature,
            "max_tokens": settings.max_tokens,
            **({"logprobs": True} if settings.logprobs else {}),
            **body,
        }
        if self._store is None:
            return self._read(await self._ask(request))
        key = request_key(settings.base_url, request, settings.weights)
        # Two equal requests at the same time are one call: the second waits and reads the first's answer.
        async with self._same_request.setdefault(key, asyncio.Lock()):
            answer = self._store.get(key)
            if answer is not None:
                return self._read(answer)
            answer = await self._ask(request)
            completion = self._read(answer)
            self._store.put(key, answer)
            return completion

    async def close(self) -> None:
        """Close the connections. Another call opens them again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, request: dict[str, Any]) -> str:
        """POST the request; gives the answer's text."""
        async with self._slots:
            client = self._client = self._client or self._open()
            from openai import APIStatusError, OpenAIError

            try:
                # The client's raw verb: its typed `create` walks every message of every request again.
                return await client.post(
                    "/chat/completions",
                    # As ordered, for models write in a schema's order; a lone surrogate has no UTF-8.
                    content=json.dumps(request, ensure_ascii=False).encode("utf-8", "replace"),
                    cast_to=str,
                    options={"headers": {"Content-Type": "application/json"}},
                )
            except OpenAIError as error:
                if isinstance(error, APIStatusError):
                    what = f"HTTP {error.status_code}: {error.response.text}"
                else:
                    what = f"{error} ({error.__cause__!r})"
                # A server may echo the key in its error, and the client's exception carries its headers.
                raise self._error(what.replace(client.api_key, "[key]")) from None

    def _open(self) -> "AsyncOpenAI":
        settings = self.settings
        key = api_key(settings)
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=key,
            base_url=settings.base_url,
            timeout=settings.timeout_s,
            max_retries=settings.max_retries,
            default_headers=self._headers,
        )

    def _read(self, answer: str) -> Completion:
        try:
            wire = _WireCompletion.model_validate(decode_json(answer))
            choice = wire.choices[0]
            message = from_openai({**choice.message, "role": "assistant"})
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"])) or "the whole"
            raise self._error(f"expected a chat completion, {where} is wrong in {answer}") from None
        except ValueError as error:
            raise self._error(f"expected a chat completion, {error} in {answer}") from None
        refusal = choice.message.get("refusal")
        tokens = choice.logprobs.content if choice.logprobs else None
        usage = wire.usage or _WireUsage()
        return Completion(
            message=message,
            refusal=refusal if isinstance(refusal, str) else None,
            model=wire.model or self.settings.model,
            finish_reason=choice.finish_reason,
            logprob=math.fsum(token.logprob for token in tokens) if tokens else None,
            usage=Usage(input_tokens=usage.prompt_tokens or 0, output_tokens=usage.completion_tokens or 0),
        )

    def _error(self, what: str) -> AgentError:
        return AgentError(f"{self.settings.model} at {self.settings.base_url}: {what[:_EXCERPT]}")


class EndpointAgent:
    """Plays the agent through an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        """The caller owns `endpoint` and closes it."""
        self._endpoint = endpoint

    async def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Give the model's next message.

        An empty answer, or a call whose arguments are not a JSON object, is the agent's own and comes back
        as it is (`arguments` None, `raw` kept).

        Raises:
            AgentError, ProjectError: nothing usable came back; see `Endpoint.complete`.
        """
        body: dict[str, Any] = {"seed": seed & ((1 << SEED_BITS) - 1)}
        if tools:  # OpenAI refuses an empty list
            body["tools"] = [tool.openai() for tool in tools]
        completion = await self._endpoint.complete([to_openai(message) for message in messages], **body)
        return Reply(
            message=completion.message,
            logprob=completion.logprob,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
        )


class EndpointPlayer:
    """An endpoint agent that opens itself with its first turn and can be closed and used again.

    A night plays in several goes, each with an event loop of its own; connections do not survive a loop.
    """

    def __init__(self, settings: EndpointSettings, responses: Path, *, becomes_traffic: bool = False) -> None:
        """Answers are remembered in the file `responses`, so that none is paid for twice; see `Endpoint`."""
        self._settings, self._responses, self._becomes_traffic = settings, responses, becomes_traffic
        self._store: ResponseStore | None = None
        self._endpoint: Endpoint | None = None

    async def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Give the model's next message; see `EndpointAgent.respond`."""
        if self._endpoint is None:
            self._store = ResponseStore(self._responses)
            self._endpoint = Endpoint(self._settings, self._store, becomes_traffic=self._becomes_traffic)
        return await EndpointAgent(self._endpoint).respond(messages, tools, seed)

    async def close(self) -> None:
        """Close connections and store."""
        if self._endpoint is not None and self._store is not None:
            await self._endpoint.close()
            self._store.close()
        self._endpoint = self._store = None


class _WireToken(BaseModel):
    logprob: float


class _WireLogprobs(BaseModel):
    content: list[_WireToken] | None = None


class _WireChoice(BaseModel):
    message: dict[str, Any]
    finish_reason: str | None = None
    logprobs: _WireLogprobs | None = None


class _WireUsage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _WireCompletion(BaseModel):
    """What is read of an answer; anything else in it is left alone."""

    model: str | None = None
    choices: list[_WireChoice] = Field(min_length=1)
    usage: _WireUsage | None = None
