"""The endpoint as an ASGI application: routes, the key, the size of a body, and errors in OpenAI's shape.

What belongs here: HTTP. What does not: what a request must be (`request`), its answer (`policy`), how that is
written (`completion`), where it is kept (`traffic`), and the socket (`listen`).
"""

import hmac
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from while_pipeline.agents.endpoint import STORE_HEADER
from while_pipeline.agents.protocol import Reply
from while_pipeline.ids import content_id
from while_pipeline.serve.completion import chunks, completion
from while_pipeline.serve.listen import is_loopback
from while_pipeline.serve.policy import ServedPolicy
from while_pipeline.serve.request import ChatRequest, RequestError, read_request
from while_pipeline.serve.traffic import Answered, TrafficLog

MAX_BODY = 8 * 2**20
"""Bytes: a conversation of 16 turns with thirty tool schemas is a hundredth of it."""

_HOST = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::\d*)?")
"""A `Host` header: a name or an address, IPv6 in brackets, and perhaps a port."""


@dataclass(frozen=True)
class Site:
    """What the application works with."""

    policy: ServedPolicy
    traffic: TrafficLog
    key: str | None = None
    """What callers must know; None on a loopback address, where whoever can call may."""
    clock: Callable[[], int] = time.time_ns
    """Unix nanoseconds."""


def build_app(site: Site) -> Starlette:
    """The application: `/health`, `/v1/models`, `/v1/chat/completions`."""
    endpoint = _Endpoint(site)
    return Starlette(
        routes=[
            Route("/health", endpoint.health, methods=["GET"]),
            Route("/v1/models", endpoint.models, methods=["GET"]),
            Route("/v1/models/{model}", endpoint.model, methods=["GET"]),
            Route("/v1/chat/completions", endpoint.chat, methods=["POST"]),
        ],
        middleware=[Middleware(_Guard, key=site.key)],
        exception_handlers={
            RequestError: _refused,
            HTTPException: _no_such_thing,
            Exception: _broken,
        },
    )


class _Endpoint:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._started = site.clock()
        self._numbers = count()

    async def health(self, _request: Request) -> Response:
        """200 while answers are given and kept; 503 when the traffic cannot be written."""
        state = self._site.traffic.state
        told = {
            "status": "ok" if state.error is None else "traffic cannot be written",
            "policy": self._site.policy.version,
            "traffic": state._asdict(),
        }
        return JSONResponse(told, 200 if state.error is None else 503)

    async def models(self, _request: Request) -> Response:
        policy = self._site.policy
        return JSONResponse({"object": "list", "data": list(map(self._model, (policy.version, policy.name)))})

    async def model(self, request: Request) -> Response:
        asked, policy = request.path_params["model"], self._site.policy
        if asked not in (policy.version, policy.name):
            raise RequestError(
                f"The model {asked!r} does not exist here.",
                status=404,
                param="model",
                code="model_not_found",
            )
        return JSONResponse(self._model(asked))

    async def chat(self, request: Request) -> Response:
        came = self._site.clock()
        stored = _stored(request)
        # Always in another thread: even what is read fast may be long, and `/health` waits for no one.
        asked, reply = await run_in_threadpool(self._answer, await _body(request))
        response_id = f"chatcmpl-{content_id(self._started, came, next(self._numbers))}"
        if asked.kept and stored:
            times = came, self._site.clock()
            self._site.traffic.add(
                Answered(response_id, asked.messages, reply.message, times, asked.conversation_id)
            )
        about: dict[str, Any] = {
            "response_id": response_id,
            "created": came // 10**9,
            "model": self._site.policy.version,
            "logprobs": asked.logprobs,
        }
        if asked.stream:
            return StreamingResponse(_events(chunks(reply, **about)), media_type="text/event-stream")
        return JSONResponse(completion(reply, **about))

    def _answer(self, body: bytes) -> tuple[ChatRequest, Reply]:
        request = read_request(body)
        return request, self._site.policy.answer(request)

    def _model(self, name: str) -> dict[str, Any]:
        created = self._started // 10**9
        return {"id": name, "object": "model", "created": created, "owned_by": "while_pipeline"}


def _stored(request: Request) -> bool:
    """Whether the conversation may become traffic as far as the headers say; the body has its own word."""
    said = request.headers.get(STORE_HEADER, "true")
    if said not in ("true", "false"):
        raise RequestError(
            f"Invalid value for the header {STORE_HEADER!r}: it is {said!r}; send true or false.",
            param=STORE_HEADER,
            code="invalid_value",
        )
    return said == "true"


async def _body(request: Request) -> bytes:
    """Read the body, as much of it as is allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Any web page can post other types here from its visitor's browser, unasked.
        raise RequestError(
            f"Unsupported Content-Type {kind!r}; send application/json.", status=415, code="invalid_type"
        )
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise RequestError(
                f"The body is larger than {MAX_BODY} bytes.", status=413, code="request_too_large"
            )
        parts.append(part)
    return b"".join(parts)


def _events(objects: Iterator[dict[str, Any]]) -> Iterator[str]:
    for value in objects:
        yield f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"
    yield "data: [DONE]\n\n"


# -- who may ask --------------------------------------------------------------------------------------------


class _Guard:
    """Lets in who knows the key, or without a key who calls this machine by a loopback address."""

    def __init__(self, app: ASGIApp, key: str | None) -> None:
        self._app = app
        self._expected = None if key is None else f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/health":
            refusal = self._refusal(Request(scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        if self._expected is not None:
            given = request.headers.get("authorization", "").encode()
            if hmac.compare_digest(given, self._expected):
                return None
            return _error("Incorrect API key provided.", 401, code="invalid_api_key")
        # A web page may have its own name point here, and its visitor's browser then sends that name.
        name = _HOST.fullmatch(request.headers.get("host", ""))
        if name and is_loopback(name.group(1).strip("[]").lower()):
            return None
        return _error("Without a key this endpoint is for this machine only.", 403, code="not_local")


# -- errors -------------------------------------------------------------------------------------------------


def _error(message: str, status: int, *, param: str | None = None, code: str | None = None) -> JSONResponse:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    told = {"message": message, "type": kind, "param": param, "code": code}
    return JSONResponse({"error": told}, status)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return _error(str(error), error.status, param=error.param, code=error.code)


async def _no_such_thing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    asked = f"{request.method} {request.scope['path']}"
    return _error(f"There is no {asked}: {error.detail}.", error.status_code, code="unknown_url")


async def _broken(_request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    return _error("The server failed on this request; its log says why.", 500)
