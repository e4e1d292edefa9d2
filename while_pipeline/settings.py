"""`while.yaml` as pydantic models: every key a user may set, its default and the reason for it."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.errors import ProjectError

SETTINGS_FILE = "while.yaml"


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentSettings(_Settings):
    """What the agent is and who plays it."""

    policy: str = "policy.md"
    """The policy document, relative to while.yaml."""
    tools: str = "tools.json"
    """Tools as JSON (OpenAI, MCP or Anthropic shape), or `module:attr` of typed Python functions."""
    plays: Literal["embedded", "endpoint", "callable"] = "embedded"
    """`embedded` needs no key and no network, so it is what runs out of the box."""
    endpoint: EndpointSettings | None = None
    callable: str | None = None
    """`module:function` taking OpenAI messages and tools and returning an assistant message."""

    @model_validator(mode="after")
    def _player_is_described(self) -> "AgentSettings":
        if self.plays == "endpoint" and self.endpoint is None:
            raise ValueError("plays: endpoint needs agent.endpoint with base_url and model")
        if self.plays == "callable" and self.callable is None:
            raise ValueError("plays: callable needs agent.callable as module:function")
        return self


class JudgeSettings(_Settings):
    """Who judges conduct."""

    plays: Literal["rules", "endpoint"] = "rules"
    """The conduct rules are free, deterministic and measured every night."""
    endpoint: EndpointSettings | None = None
    rubric: str | None = None
    """Markdown rubric for a judge behind an endpoint, relative to while.yaml; the built-in one by default."""

    @model_validator(mode="after")
    def _judge_is_described(self) -> "JudgeSettings":
        if self.plays == "endpoint" and self.endpoint is None:
            raise ValueError("plays: endpoint needs judge.endpoint with base_url and model")
        return self


class TrafficSettings(_Settings):
    """Where real conversations come from."""

    folder: str = "traffic"
    """One subfolder per day (`2026-03-02/*.jsonl`), relative to while.yaml."""
    timezone: str = "UTC"
    """Zone that decides which day a conversation belongs to."""
    redact: bool = True
    """Personal data and secrets become pseudonyms before anything is stored."""

    @field_validator("timezone")
    @classmethod
    def _zone_is_known(cls, name: str) -> str:
        if name not in available_timezones():
            raise ValueError("not a zone of the time zone database; write one such as UTC or Europe/Lisbon")
        return name


class BudgetSettings(_Settings):
    """How much is played each night."""

    scenarios: Annotated[int, Field(ge=1, le=1_000_000)] = 240
    """Covers a grid of a dozen tools and rules in two nights, with room for the arms that search."""
    k: Annotated[int, Field(ge=1, le=64)] = 4
    """Rollouts per scenario: four separate a task that always fails from one that sometimes does."""
    batch: Annotated[int, Field(ge=1)] = 40
    """Scenarios between two updates of the search arms."""


class ProveSettings(_Settings):
    """How a candidate is held against the serving policy."""

    tasks: Annotated[int, Field(ge=1)] = 120
    """Held-out tasks a night: a gain of 9 points on a base of .6 shows with 80 % power at k = 4."""
    k: Annotated[int, Field(ge=1, le=64)] = 4
    """Samples per task and policy."""
    level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Level of every interval; the field's convention."""
    min_effect: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Smallest overall gain worth promoting; 0 promotes any proven gain."""


class Settings(_Settings):
    """A user's project, whole."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    seed: int = 0
    """Decides every random choice; the same seed and inputs give the same tables."""
    agent: AgentSettings = AgentSettings()
    judge: JudgeSettings = JudgeSettings()
    traffic: TrafficSettings = TrafficSettings()
    budget: BudgetSettings = BudgetSettings()
    prove: ProveSettings = ProveSettings()


def load_settings(root: Path) -> Settings:
    """Read and validate `while.yaml` in `root`.

    Raises:
        ProjectError: naming the file, each wrong key, its value and the mend.
    """
    path = root / SETTINGS_FILE
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ProjectError(
            str(path), "file", SETTINGS_FILE, "it does not exist; set WHILE_PROJECT to a folder that has one"
        ) from error
    except OSError as error:
        raise ProjectError(
            str(path), "file", SETTINGS_FILE, f"it cannot be read: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        raise ProjectError(
            str(path), "file", SETTINGS_FILE, "it is not UTF-8 text; save it as UTF-8"
        ) from error
    except yaml.MarkedYAMLError as error:
        # The error's own text quotes the file, and a secret may stand there.
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ProjectError(
            str(path), f"line {line}", SETTINGS_FILE, f"it is not YAML: {error.problem}"
        ) from error
    except yaml.YAMLError as error:
        raise ProjectError(
            str(path), "file", SETTINGS_FILE, "it holds characters YAML does not allow"
        ) from error
    if not isinstance(document, dict):
        raise ProjectError(
            str(path), "file", type(document).__name__, "it must hold keys such as `name:` and `agent:`"
        )
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise _as_project_error(str(path), error) from error


def _as_project_error(source: str, error: ValidationError) -> ProjectError:
    """Say every problem; the first one in the error's own fields, the rest in its mend."""
    first, *rest = [
        (".".join(map(str, e["loc"])) or "file", _shown(e["loc"], e["input"]), e["msg"])
        for e in error.errors()
    ]
    more = "".join(f"; also {key} = {value!r}: {mend}" for key, value, mend in rest)
    return ProjectError(source, first[0], first[1], first[2] + more)


_MAY_HOLD_SECRETS = re.compile(r"key|url|token|secret|password|header|auth", re.IGNORECASE)


def _shown(where: tuple[int | str, ...], value: Any) -> Any:
    """The value as an error may show it: keys of a mapping, and never what may be a pasted secret."""
    if any(_MAY_HOLD_SECRETS.search(str(name)) for name in where):
        return "(not shown)"
    return sorted(map(str, value)) if isinstance(value, dict) else value
