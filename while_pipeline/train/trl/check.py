"""What a trainer makes of the rows: looked at after its own tokenising, before the first step.

What belongs here: rows kept = rows sent, labels = the agent's turns, the last label = an end token, nothing
cut. Each of these goes wrong without an error: a template without marks trains on nothing, `max_length` drops
rows or the end of answers, and a model that never sees its end token does not learn to stop.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from while_pipeline.errors import ProjectError
from while_pipeline.train.trl.examples import Row
from while_pipeline.train.trl.settings import Checked, Method
from while_pipeline.train.trl.template import Template, Tokenizer, render, runs

if TYPE_CHECKING:
    from while_pipeline.train.trl.settings import TrlSettings

IGNORED = -100
"""The label that no loss is taken of."""


def longest(method: Method, rows: Sequence[Row], tokenizer: Tokenizer, template: Template) -> int:
    """Tokens of the longest row, so the `max_length` that cuts nothing."""
    return max(
        len(_ids(tokenizer, render(tokenizer, talk, row["tools"], template.text)))
        for row in rows
        for talk in _conversations(method, row)
    )


def fitting_length(needed: int, settings: "TrlSettings", context: int | None) -> int:
    """The `max_length` to train with: the one that is set, else what the longest row needs.

    Args:
        needed: Tokens of the longest row.
        settings: Of the training.
        context: Tokens the model holds; None where it does not say.

    Raises:
        ProjectError: the length that is set, or the model's context, would cut a row.
    """
    asked = settings.max_length
    if asked is not None and asked < needed:
        raise ProjectError(
            str(settings.model), "max_length", asked, f"it cuts answers: the longest row has {needed} tokens"
        )
    if context is not None and context < needed:
        raise ProjectError(
            str(settings.model),
            "max_position_embeddings",
            context,
            f"the longest row has {needed} tokens: take a model with a longer context, or shorter rows",
        )
    return asked or needed


def check(
    method: Method,
    rows: Sequence[Row],
    tokenised: Iterable[Mapping[str, Any]],
    tokenizer: Tokenizer,
    template: Template,
    max_length: int,
) -> Checked:
    """Hold the trainer's own rows against those it was sent.

    Args:
        method: `sft`, `dpo` or `reward`.
        rows: What was sent, in order.
        tokenised: The trainer's `train_dataset`.
        tokenizer: The checkpoint's.
        template: The chat template in use.
        max_length: Tokens the trainer keeps of a row.

    Raises:
        ProjectError: naming the first row that is not what was sent.
    """
    kept = list(tokenised)
    if len(kept) != len(rows):
        raise ProjectError(
            "the trainer", "rows kept", len(kept), f"{len(rows)} were sent; nothing may be dropped"
        )
    ends = end_tokens(tokenizer)
    counted, trained, most = 0, 0, 0
    for at, (row, made) in enumerate(zip(rows, kept, strict=True)):
        for talk, ids, labels in _parts(method, row, made):
            where = f"row {at + 1}"
            _as_sent(where, tokenizer, ids, render(tokenizer, talk, row["tools"], template.text), max_length)
            if method == "sft":
                turns = _turns(tokenizer, talk, row["tools"], template)
                _only_agent_turns(where, tokenizer, ids, labels, turns)
            elif method == "dpo":
                _only_agent_turns(
                    where, tokenizer, ids, labels, _turns(tokenizer, talk, row["tools"], template)[-1:]
                )
            _ends(
                where, tokenizer, [t for t, label in zip(ids, labels, strict=True) if label != IGNORED], ends
            )
            counted, most = counted + len(ids), max(most, len(ids))
            trained += sum(label != IGNORED for label in labels)
    return Checked(len(rows), counted, trained, most, template.origin)


def check_prompts(
    rows: Sequence[Row], tokenizer: Tokenizer, template: Template, *, rendered: bool
) -> Checked:
    """See that every tool's name reaches the prompt of every GRPO row.

    Args:
        rows: With `prompt` and `tools`.
        tokenizer: The checkpoint's.
        template: The chat template in use.
        rendered: Whether whoever samples renders the `tools` column. TRL's own sampling does not: there the
            tools must stand in the system message.

    Raises:
        ProjectError: naming the first row whose prompt lacks a tool.
    """
    counted, most = 0, 0
    for at, row in enumerate(rows):
        shown = row["tools"] if rendered else []
        text = render(tokenizer, row["prompt"], shown, template.text, prompt=True)
        names = [tool["function"]["name"] for tool in row["tools"]]
        if lost := [name for name in names if name not in text]:
            raise ProjectError(
                f"row {at + 1}",
                "prompt",
                lost,
                "they do not reach the prompt; put them into its system text",
            )
        size = len(_ids(tokenizer, text))
        counted, most = counted + size, max(most, size)
    return Checked(len(rows), counted, 0, most, template.origin)


def end_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids of the tokens at which the checkpoint stops: its tokenizer's, and those of its generation settings.

    Raises:
        ProjectError: there is none.
    """
    found = {tokenizer.eos_token_id} - {None}
    path = Path(tokenizer.name_or_path) / "generation_config.json"
    if path.is_file():
        said = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
        found |= set(said if isinstance(said, list) else [said]) - {None}
    if not found:
        raise ProjectError(
            tokenizer.name_or_path,
            "eos_token",
            None,
            "the tokenizer names no end token; a model could not stop",
        )
    return frozenset(found)


def _conversations(method: Method, row: Row) -> list[list[Row]]:
    """The whole conversations of a row: what its longest rendering is of."""
    if method == "sft":
        return [row["messages"]]
    if method == "grpo":
        return [row["prompt"]]
    before = row.get("prompt") or []
    return [[*before, *row["chosen"]], [*before, *row["rejected"]]]


def _parts(method: Method, row: Row, made: Mapping[str, Any]) -> list[tuple[list[Row], list[int], list[int]]]:
    """Per conversation of a row: its messages, its tokens and its labels."""
    talks = _conversations(method, row)
    if method == "sft":
        return [(talks[0], list(made["input_ids"]), list(made["labels"]))]
    parts = []
    for talk, name in zip(talks, ("chosen_ids", "rejected_ids"), strict=True):
        prompt = list(made["prompt_ids"]) if method == "dpo" else []
        answer = list(made[name])
        parts.append((talk, prompt + answer, [IGNORED] * len(prompt) + answer))
    return parts


def _as_sent(where: str, tokenizer: Tokenizer, ids: Sequence[int], text: str, max_length: int) -> None:
    whole = _ids(tokenizer, text)
    if len(whole) > max_length:
        raise ProjectError(
            where, "max_length", max_length, f"it cuts the answer: the conversation has {len(whole)} tokens"
        )
    if _plain(tokenizer.decode(ids)) != _plain(tokenizer.decode(whole)):
        raise ProjectError(
            where, "tokens", tokenizer.decode(ids[-40:]), "the trainer's tokens are not the conversation's"
        )


def _turns(
    tokenizer: Tokenizer, messages: Sequence[Row], tools: Sequence[Row], template: Template
) -> list[str]:
    """Texts of the agent's turns, read off two renderings each and not off the template's marks."""
    turns = []
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            before = render(tokenizer, messages[:at], tools, template.text, prompt=True)
            after = render(tokenizer, messages[: at + 1], tools, template.text)
            if not after.startswith(before):
                raise ProjectError(
                    "the chat template",
                    f"message {at + 1}",
                    after[-60:],
                    "it renders earlier turns anew with each turn; name another with --chat-template",
                )
            turns.append(after[len(before) :])
    return turns


def _only_agent_turns(
    where: str, tokenizer: Tokenizer, ids: Sequence[int], labels: Sequence[int], turns: Sequence[str]
) -> None:
    labelled = runs(tokenizer, ids, [label != IGNORED for label in labels])
    if not labelled:
        raise ProjectError(where, "labels", None, "no token has one: the template marks no agent turn")
    if [_plain(text) for text in labelled] != [_plain(text) for text in turns]:
        odd = next((a for a, b in zip(labelled, turns, strict=False) if _plain(a) != _plain(b)), labelled[-1])
        raise ProjectError(where, "labels", odd, "they are not the agent's turns")


def _ends(where: str, tokenizer: Tokenizer, trained: Sequence[int], ends: frozenset[int]) -> None:
    last = next((token for token in reversed(trained) if tokenizer.decode([token]).strip()), None)
    if last not in ends:
        stops = [tokenizer.decode([end]) for end in sorted(ends)]
        raise ProjectError(
            where,
            "last label",
            None if last is None else tokenizer.decode([last]),
            f"not an end token ({', '.join(stops)}): add it to eos_token_id in generation_config.json",
        )


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _plain(text: str) -> str:
    return " ".join(text.split())
