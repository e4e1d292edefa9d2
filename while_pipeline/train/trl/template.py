"""Which chat template a tokenizer is trained with: its own where that does the work, else one that does.

What belongs here: trying templates out, and choosing. A template is recognised by what it renders, not by its
text: tools, calls and results must show, and agent turns must be marked where labels are made of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from while_pipeline.errors import ProjectError

CHATML = Path(__file__).with_name("chatml.jinja")
"""Our own template, for models that know ChatML's turns but whose template knows no tools."""

CHATML_TURNS: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open_pattern": r"\s*<tool_call>",
            "close": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"\s*<\|im_end\|>", "content": "text"},
    },
}
"""How a server reads turns of our template back: without it `transformers serve` gives calls as text."""

_MARKS = ("<|im_start|>", "<|im_end|>")

Tokenizer = Any
"""A `PreTrainedTokenizerBase`; its library is not needed to read this module."""

_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "Probe description.",
        "parameters": {
            "type": "object",
            "properties": {"probe_key": {"type": "string", "description": "Probe key."}},
            "required": ["probe_key"],
        },
    },
}
_CALL = {"name": "probe_tool", "arguments": {"probe_key": "probe value"}}
_TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "probe system"},
    {"role": "user", "content": "probe question"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": _CALL}],
    },
    {"role": "tool", "content": "probe result", "tool_call_id": "c1"},
    {"role": "assistant", "content": "probe answer"},
    {"role": "user", "content": "probe thanks"},
    {"role": "assistant", "content": "probe goodbye"},
]


_OWN = "the model's own"


@dataclass(frozen=True)
class Template:
    """A chat template and where it came from."""

    text: str
    origin: str

    @property
    def own(self) -> bool:
        """Whether it is the model's own: another must go along with rows that were held against it."""
        return self.origin == _OWN


def choose_template(tokenizer: Tokenizer, *, marked: bool, given: Path | None = None) -> Template:
    """Choose the template to train with.

    Args:
        tokenizer: The checkpoint's.
        marked: Whether agent turns must be marked, as labels of supervised training need it.
        given: A Jinja file to use whatever the model's own is.

    Raises:
        ProjectError: the given file does not do, or nothing does; with what is missing.
    """
    if given is not None:
        return _given(tokenizer, given, marked)
    own = tokenizer.chat_template
    if isinstance(own, dict):
        own = own.get("default")
    found = "it has no chat template" if own is None else missing(tokenizer, own, marked=marked)
    if own is not None and found is None:
        return Template(own, _OWN)
    patched = _patched(tokenizer)
    if patched is not None and missing(tokenizer, patched, marked=marked) is None:
        return Template(patched, "the model's own, with agent turns marked")
    chatml = CHATML.read_text(encoding="utf-8")
    if all(mark in tokenizer.get_vocab() for mark in _MARKS) and not missing(
        tokenizer, chatml, marked=marked
    ):
        return Template(chatml, f"our ChatML with tools (the model's own: {found})")
    raise ProjectError(
        tokenizer.name_or_path,
        "chat_template",
        "(the model's own)",
        f"{found}, and its vocabulary has no {' and '.join(_MARKS)}; name a Jinja file with --chat-template",
    )


def _given(tokenizer: Tokenizer, path: Path, marked: bool) -> Template:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(str(path), "file", path.name, f"it cannot be read: {error}") from error
    if found := missing(tokenizer, text, marked=marked):
        raise ProjectError(str(path), "template", path.name, f"{found}; mend the template")
    return Template(text, path.name)


def _patched(tokenizer: Tokenizer) -> str | None:
    """The template TRL keeps for models it knows: the same text, with agent turns marked."""
    from trl.chat_template_utils import get_training_chat_template

    try:
        found: str | None = get_training_chat_template(tokenizer)
    except (ValueError, TypeError, AttributeError, TemplateError):
        return None
    return found


def missing(tokenizer: Tokenizer, template: str, *, marked: bool) -> str | None:
    """What a template does not do, tried on a conversation with a tool call; None when nothing is missing."""
    try:
        text = render(tokenizer, _TALK, [_TOOL], template)
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
        return f"a tool call does not render: {error}"
    for shown, what in (
        (("probe_tool", "Probe description.", "probe_key"), "tools are dropped"),
        (("probe value",), "tool calls are dropped"),
        (("probe result",), "tool results are dropped"),
        (("probe system", "probe question", "probe answer", "probe goodbye"), "messages are dropped"),
    ):
        if not all(word in text for word in shown):
            return what
    if text.count("probe_tool") < 2:
        return "tool calls are dropped"
    return _unmarked(tokenizer, template) if marked else None


def _unmarked(tokenizer: Tokenizer, template: str) -> str | None:
    spans = agent_spans(tokenizer, _TALK, [_TOOL], template)
    said = ("probe value", "probe answer", "probe goodbye")
    if not spans:
        return "agent turns are not marked ({% generation %})"
    if len(spans) != len(said) or not all(word in span for word, span in zip(said, spans, strict=True)):
        return "the marks ({% generation %}) do not hold the agent's turns"
    heard = ("probe question", "probe result", "probe thanks", "probe system")
    if any(word in span for word in heard for span in spans):
        return "the marks ({% generation %}) hold more than the agent's turns"
    return None


def render(
    tokenizer: Tokenizer,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    template: str | None = None,
    *,
    prompt: bool = False,
) -> str:
    """Text of a conversation; with `prompt`, up to where the agent's next words begin."""
    text: str = tokenizer.apply_chat_template(
        list(messages),
        tools=list(tools) or None,
        chat_template=template,
        tokenize=False,
        add_generation_prompt=prompt,
    )
    return text


def agent_spans(
    tokenizer: Tokenizer,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
    template: str | None = None,
) -> list[str]:
    """Texts that the template marks as the agent's, end tokens included, in order."""
    encoded = tokenizer.apply_chat_template(
        list(messages),
        tools=list(tools) or None,
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    ids, mask = encoded["input_ids"], encoded.get("assistant_masks", [])
    return runs(tokenizer, ids, [bool(bit) for bit in mask])


def runs(tokenizer: Tokenizer, ids: Sequence[int], kept: Sequence[bool]) -> list[str]:
    """Texts of the unbroken runs of tokens that are kept."""
    spans: list[list[int]] = []
    before = False
    for token, keep in zip(ids, kept, strict=False):
        if keep and not before:
            spans.append([])
        if keep:
            spans[-1].append(token)
        before = keep
    decode: Callable[..., str] = tokenizer.decode
    return [decode(span, skip_special_tokens=False) for span in spans]
