"""A rubric: what a judge holds a rollout against, written as Markdown by whoever owns the agent.

What belongs here: the file's form and its mistakes. What does not: how a judge is asked (`endpoint_judge`)
and how its answer is read (`judge_answers`).

Under a heading that begins with "Hard criteria" each list item is a criterion that must hold; under one that
begins with "Principles" each is something done more or less well. Deeper headings and plain text may stand
anywhere and are read by the judge too; a list item under neither heading would count for nothing, so it is an
error.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from while_pipeline.errors import ProjectError
from while_pipeline.ids import content_id
from while_pipeline.records import Record

Kind = Literal["hard", "principle"]

BUILT_IN = "rubric.md"
"""The rubric in this package, used where the project names none."""

_HEADINGS: dict[str, Kind] = {"hard criteria": "hard", "principles": "principle"}
_LISTS = ("bullet_list", "ordered_list")
_BULLET = re.compile(r"^(\s*(?:[-*+]|\d+[.)]))\s*")
_LINE_END = re.compile(r"\r\n?|\n")
"""Where Markdown ends a line; `splitlines` knows further ones."""
_MARKDOWN = MarkdownIt("commonmark")


class Rubric(Record):
    """Criteria that must hold and principles that are scored."""

    hard: tuple[str, ...]
    """At least one."""
    principles: tuple[str, ...]
    """May be empty: then only the hard criteria decide."""
    text: str
    """The file as a judge reads it, with its name before each criterion."""

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """Names of the criteria, `hard_1` and so on, `principle_1` and so on, each with its kind."""
        hard: dict[str, Kind] = {_name("hard", i): "hard" for i in range(len(self.hard))}
        return hard | {_name("principle", i): "principle" for i in range(len(self.principles))}

    @property
    def hash(self) -> str:
        """Hash of all that a judge reads of it: another text is another rubric."""
        return content_id(self.text)


def load_rubric(root: Path, name: str | None, settings_file: str) -> Rubric:
    """Read the project's rubric, or the built-in one where `name` is None.

    Args:
        root: The project's folder.
        name: Path of the rubric, relative to `root`.
        settings_file: File that names it, for an error about the name.

    Raises:
        ProjectError: the file cannot be read, or see `read_rubric`.
    """
    if name is None:
        return read_rubric((files(__package__) / BUILT_IN).read_text("utf-8"), BUILT_IN)
    path = root / name
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise ProjectError(settings_file, "judge.rubric", name, f"{path} does not exist") from error
    except OSError as error:
        mend = f"it cannot be read: {error.strerror}"
        raise ProjectError(settings_file, "judge.rubric", name, mend) from error
    except UnicodeDecodeError as error:
        raise ProjectError(str(path), "file", path.name, "it is not UTF-8 text; save it as UTF-8") from error
    return read_rubric(text, str(path))


def read_rubric(text: str, source: str) -> Rubric:
    """Read a rubric.

    Args:
        text: Markdown.
        source: The file's name, for errors.

    Raises:
        ProjectError: naming file and line of an empty or doubled criterion, or a list item under neither
            heading; or there is no hard criterion.
    """
    criteria: dict[Kind, list[str]] = {"hard": [], "principle": []}
    lines, first_at = _LINE_END.split(text), dict[str, int]()
    for item in _items(text):
        where = f"line {item.line + 1}"
        if item.kind is None:
            mend = (
                "put it under a heading `# Hard criteria` or `# Principles`; elsewhere it counts for nothing"
            )
            raise ProjectError(source, where, item.text, mend)
        if not item.text:
            raise ProjectError(
                source, where, lines[item.line], "write the criterion, or remove the empty item"
            )
        same = first_at.setdefault(item.text.casefold().rstrip("."), item.line)
        if same != item.line:
            mend = f"it says the same as line {same + 1}; remove one of them"
            raise ProjectError(source, where, item.text, mend)
        name = _name(item.kind, len(criteria[item.kind]))
        criteria[item.kind].append(item.text)
        lines[item.line] = _BULLET.sub(rf"\1 {name}: ", lines[item.line])
    if not criteria["hard"]:
        mend = "write at least one list item under a heading `# Hard criteria`"
        raise ProjectError(source, "hard criteria", None, mend)
    return Rubric(
        hard=tuple(criteria["hard"]), principles=tuple(criteria["principle"]), text="\n".join(lines).strip()
    )


class _Item(NamedTuple):
    kind: Kind | None
    """None under neither heading."""
    line: int
    """0-based, where the item begins."""
    text: str


def _items(text: str) -> Iterator[_Item]:
    """Every list item that is not inside another, in order."""
    kind: Kind | None = None
    level = ""
    for node in SyntaxTreeNode(_MARKDOWN.parse(text)).children:
        if node.type == "heading":
            said = _words(node).casefold()
            named = next((k for heading, k in _HEADINGS.items() if said.startswith(heading)), None)
            if named or not level or node.tag <= level:  # a deeper heading divides the section it is in
                kind, level = named, node.tag if named else ""
        elif node.type in _LISTS:
            for item in node.children:
                assert item.map is not None, "Markdown knows where a list item begins"
                yield _Item(kind, item.map[0], _words(item))


def _words(node: SyntaxTreeNode) -> str:
    inlines = [inner.content for inner in node.walk() if inner.type == "inline"]
    return " ".join(" ".join(inlines).split())


def _name(kind: Kind, index: int) -> str:
    return f"{kind}_{index + 1}"
