"""A scriptable OpenAI-compatible server on loopback, for tests that speak real HTTP.

The script is a function from a request's JSON to what is answered. Everything asked is recorded.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

MAX_WAIT_S = 30.0
"""No answer is held longer than this, whatever a script asks for."""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer: a chat completion made of `message`, or `body` as it is."""

    message: Mapping[str, Any] | None = None
    status: int = 200
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    finish_reason: str = "stop"
    logprobs: Sequence[float] | None = None
    prompt_tokens: int = 7
    completion_tokens: int = 3

    def text(self, request: Mapping[str, Any]) -> str:
        """The body sent."""
        if self.body is not None:
            return self.body
        if self.message is None:
            return json.dumps({"error": {"message": f"scripted {self.status}", "type": "scripted"}})
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", **self.message},
            "finish_reason": self.finish_reason,
        }
        if self.logprobs is not None:
            choice["logprobs"] = {"content": [{"token": "t", "logprob": p} for p in self.logprobs]}
        completion = {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": 0,
            "model": request.get("model"),
            "choices": [choice],
            "usage": {
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": self.completion_tokens,
                "total_tokens": self.prompt_tokens + self.completion_tokens,
            },
        }
        return json.dumps(completion)


Script = Callable[[dict[str, Any]], Answer | Mapping[str, Any] | str]
"""What the server answers: an `Answer`, an assistant message, or an assistant's text."""


@dataclass(frozen=True)
class Asked:
    """One chat completion request as it arrived."""

    body: dict[str, Any]
    authorization: str | None


def in_turn(*answers: Answer | Mapping[str, Any] | str) -> Script:
    """Answer with each in turn, the last one for ever after."""
    left = list(answers)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


class EndpointServer:
    """Serves `/v1/models` and `/v1/chat/completions` while used as a context manager."""

    def __init__(self, script: Script, models: Sequence[str] = ("scripted",)) -> None:
        """The script runs in the server's threads, one request at a time, so it may keep state."""
        self.asked: list[Asked] = []
        self.max_in_flight = 0
        self._in_flight = 0
        self._script = script
        self._models = tuple(models)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        """What a client is given."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(MAX_WAIT_S)

    def models(self) -> str:
        """The body of `/v1/models`."""
        return json.dumps({"object": "list", "data": [{"id": m, "object": "model"} for m in self._models]})

    def answer(self, asked: Asked) -> tuple[Answer, str]:
        """Record a request, play the script, hold the answer as long as it says."""
        with self._lock:
            self.asked.append(asked)
            self._in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
            scripted = self._script(asked.body)
        if isinstance(scripted, str):
            scripted = {"content": scripted}
        answer = scripted if isinstance(scripted, Answer) else Answer(scripted)
        self._closing.wait(min(answer.delay_s, MAX_WAIT_S))
        with self._lock:
            self._in_flight -= 1
        return answer, answer.text(asked.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that timed out or was killed is what some tests are about: no traceback for it."""


def _handler_of(server: EndpointServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = MAX_WAIT_S
        # Headers and body leave in one packet: two would wait 40 ms for the client's delayed ACK.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            known = self.path == "/v1/models"
            self._send(200 if known else 404, server.models() if known else "{}", {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                self._send(404, "{}", {})
                return
            answer, text = server.answer(Asked(body, self.headers["Authorization"]))
            self._send(answer.status, text, answer.headers)

        def _send(self, status: int, text: str, headers: Mapping[str, str]) -> None:
            data = text.encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Silent: what was asked is in `server.asked`."""

    return Handler
