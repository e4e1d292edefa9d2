"""A checkpoint's endpoint: the command of a server that others wrote, vLLM or `transformers serve`.

What belongs here: which of them, and its arguments. What does not: running it (the command line does). Its
conversations do not become traffic: they do not pass through this process.
"""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from while_pipeline.errors import ProjectError
from while_pipeline.serve.listen import KEY_VARIABLE, is_loopback, key_for

INSTALL = "the extra `train` (`make setup-train`) serves on a CPU; pip install vllm for a GPU"

_NEEDED = ("torch", "transformers", "fastapi", "uvicorn")
"""Packages of `transformers serve`."""


def checkpoint_command(folder: Path, host: str, port: int) -> list[str]:
    """The server's command; the model's name in requests is the folder as it is given here.

    vLLM where it is installed, for it answers many at a time. Its parser of tool calls is the one for the
    form of Qwen and Hermes, `<tool_call>` tags around JSON.

    Raises:
        ProjectError: the folder holds no checkpoint, no server is installed, or the one that is asks nobody
            for a key and others than this machine reach `host`.
    """
    if not (folder / "config.json").is_file():
        mend = "it holds no config.json; name the folder that `save_pretrained` or a trainer wrote"
        raise ProjectError("--checkpoint", "folder", str(folder), mend)
    at = ["--host", host, "--port", str(port)]
    if _installed("vllm"):
        tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
        server = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        return [*server, "--model", str(folder), *at, *tools]
    missing = [name for name in _NEEDED if not _installed(name)]
    if missing:
        raise ProjectError("--checkpoint", "packages", ", ".join(missing), f"not installed; {INSTALL}")
    if not is_loopback(host):
        mend = "`transformers serve` asks nobody for a key; install vllm, or stay on 127.0.0.1"
        raise ProjectError("--checkpoint", "host", host, mend)
    return [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), *at]


def checkpoint_environment(host: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What the server's process gets: the key under vLLM's name for it, never in its arguments.

    Raises:
        ProjectError: others than this machine reach `host` and there is no key.
    """
    key = key_for(host, environment)
    kept = {name: value for name, value in environment.items() if name != KEY_VARIABLE}
    return kept if key is None else {**kept, "VLLM_API_KEY": key}


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
