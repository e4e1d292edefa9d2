"""A trained checkpoint behind `while-pipeline serve --checkpoint`: what it learnt comes back as calls."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.train.trl import tiny
from while_pipeline.simulate.rollout import system_message
from while_pipeline.train.cuts import training_message

pytest.importorskip("fastapi", reason="needs the extra `train`: make setup-train")
pytestmark = pytest.mark.slow

PATIENCE_S = 120
"""Torch and the server's own libraries are imported first."""


@pytest.fixture
def served(tuned: Path) -> Iterator[openai.OpenAI]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = "from while_pipeline.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--checkpoint", str(tuned)]
    server = subprocess.Popen([*command, "--port", str(port)])
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0)
    try:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            assert server.poll() is None, "the server has ended"
            try:
                client.models.list()
                break
            except openai.APIConnectionError:
                time.sleep(0.5)
        yield client
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)


def test_what_was_learnt_by_heart_is_said_and_called_again(served: openai.OpenAI, tuned: Path) -> None:
    said = [system_message(tiny.DOCUMENT), *tiny.solved().rollout.messages]
    spoken = [training_message(message) for message in said]
    turns = [at for at, message in enumerate(said) if message.role == "assistant"]
    assert any(said[at].tool_calls for at in turns)
    for at in turns:
        answer = served.chat.completions.create(
            model=str(tuned), messages=spoken[:at], tools=tiny.OFFERED, temperature=0, max_tokens=200
        )
        choice = answer.choices[0]
        called = [
            (call.function.name, json.loads(call.function.arguments))
            for call in choice.message.tool_calls or []
            if call.type == "function"
        ]
        wanted = [(call.name, call.arguments) for call in said[at].tool_calls]
        assert (choice.message.content or None, called) == (said[at].content, wanted)
        assert choice.finish_reason == ("tool_calls" if wanted else "stop")
