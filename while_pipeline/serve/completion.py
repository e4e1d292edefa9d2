"""Replies in the words of OpenAI's chat completions: whole, or as the chunks of a stream."""

from collections.abc import Iterator
from typing import Any

from while_pipeline.agents.protocol import Reply
from while_pipeline.messages import json_text, to_openai


def completion(reply: Reply, *, response_id: str, created: int, model: str, logprobs: bool) -> dict[str, Any]:
    """A `chat.completion` object. It has no `usage`: the policy has no tokens.

    Args:
        reply: What the policy answered.
        response_id: The completion's own id.
        created: Unix seconds.
        model: Version of the policy; its `system_fingerprint` too, for the version is a hash of the weights.
        logprobs: Whether to give the log-probability, see `turn_logprobs`.
    """
    return {
        **_head("chat.completion", response_id, created, model),
        "choices": [
            {
                "index": 0,
                "message": {**to_openai(reply.message), "refusal": None},
                "logprobs": turn_logprobs(reply) if logprobs else None,
                "finish_reason": reply.finish_reason,
            }
        ],
    }


def chunks(
    reply: Reply, *, response_id: str, created: int, model: str, logprobs: bool
) -> Iterator[dict[str, Any]]:
    """The `chat.completion.chunk` objects of a stream: role, the whole turn, the finish.

    The turn comes in one piece, for the policy decides it whole; nothing is cut up to look like tokens.
    """
    head = _head("chat.completion.chunk", response_id, created, model)
    message = to_openai(reply.message)
    turn = {key: value for key, value in message.items() if key in ("content", "tool_calls") and value}
    if "tool_calls" in turn:
        turn["tool_calls"] = [{"index": index, **call} for index, call in enumerate(turn["tool_calls"])]
    told = turn_logprobs(reply) if logprobs else None
    for delta, given, finish in (
        ({"role": "assistant", "content": None if "tool_calls" in turn else ""}, None, None),
        (turn, told, None),
        ({}, None, reply.finish_reason),
    ):
        yield {
            **head,
            "choices": [{"index": 0, "delta": delta, "logprobs": given, "finish_reason": finish}],
        }


def turn_logprobs(reply: Reply) -> dict[str, Any] | None:
    """The turn's log-probability in the shape of token log-probabilities: one entry that is the whole turn.

    The policy draws decisions, not tokens, so the entry's `token` is the turn's text, or the JSON text of its
    calls, and `logprob` the natural log-probability of all its decisions together. Clients that add up the
    entries, as trainers do, get the turn's log-probability. None when the reply has none.
    """
    if reply.logprob is None:
        return None
    message = to_openai(reply.message)
    text = reply.message.content or json_text([call["function"] for call in message.get("tool_calls", ())])
    entry = {
        "token": text,
        "logprob": reply.logprob,
        "bytes": list(text.encode("utf-8", "replace")),
        "top_logprobs": [],
    }
    return {"content": [entry], "refusal": None}


def _head(kind: str, response_id: str, created: int, model: str) -> dict[str, Any]:
    return {
        "id": response_id,
        "object": kind,
        "created": created,
        "model": model,
        "system_fingerprint": model,
    }
