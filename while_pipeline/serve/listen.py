"""Where the endpoint listens, and until when.

What belongs here: addresses, who may reach them without a key, the server's life. What does not: what is
served (`app`).
"""

import contextlib
import ipaddress
import signal
import socket
from collections.abc import Mapping

import uvicorn
from starlette.types import ASGIApp

from while_pipeline.errors import ProjectError

KEY_VARIABLE = "WHILE_SERVE_KEY"
"""Names the environment variable with the key that callers must send."""

GRACE_S = 10
"""Seconds that requests in flight get when the server is told to stop; a reply takes milliseconds."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; `localhost` is the one name that counts."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_for(host: str, environment: Mapping[str, str]) -> str | None:
    """The key that callers must send.

    Raises:
        ProjectError: others than this machine reach `host` and there is no key, or it cannot be sent.
    """
    key = environment.get(KEY_VARIABLE) or None
    if key is None and not is_loopback(host):
        raise ProjectError(
            "environment", KEY_VARIABLE, None, f"set it to a key before others than this machine reach {host}"
        )
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ProjectError(
            "environment", KEY_VARIABLE, "(not shown)", "write a key of ASCII characters without spaces"
        )
    return key


def listening(host: str, port: int) -> socket.socket:
    """A socket on the address; port 0 is one that is free.

    Raises:
        OSError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def url_of(listener: socket.socket) -> str:
    """What a client is given as the base URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def server_of(app: ASGIApp) -> uvicorn.Server:
    """The server, not yet running."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    return uvicorn.Server(config)


def run(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; requests in flight are answered first."""
    # uvicorn raises the signal again when it is done, and SIGTERM would then end the process at once.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        server_of(app).run(sockets=[listener])
