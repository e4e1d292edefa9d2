"""`while.yaml` as pydantic models: every key a user may set, its default and the reason for it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from while_pipeline.agents.callable_agent import TIMEOUT_S
from while_pipeline.agents.endpoint import EndpointSettings
from while_pipeline.constants import DPO_BETA, FIT_PENALTY, GRPO_BETA, GRPO_CLIP
from while_pipeline.errors import ProjectError
from while_pipeline.grade.conduct import RULES
from while_pipeline.simulate.world import WorldOptions
from while_pipeline.train.names import FormatName

SETTINGS_FILE = "while.yaml"

JudgeMode = Literal["each", "group"]
"""Whether a rollout is judged alone, or together with the others of its scenario."""


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
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = TIMEOUT_S
    """Seconds a turn of `callable` may take before its rollout is lost; an endpoint has its own."""

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
    """Asked at temperature 0, whatever stands there; `max_tokens` is for one rollout."""
    rubric: str | None = None
    """Markdown rubric for a judge behind an endpoint, relative to while.yaml; the built-in one by default."""
    mode: JudgeMode = "each"
    """`each` asks about one rollout at a time, so that no other sways the verdict. `group` puts those of a
    scenario into one question: the policy and rubric are read once for all, and like is held against like."""
    gold: str | None = None
    """CSV of labels that people gave, relative to while.yaml: a second source beside the planted defects."""
    require_human: bool = False
    """Whether nothing is trained on until people's labels make trust; else they can only speak against it."""

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


@dataclass(frozen=True)
class Spread:
    """How a night's rollouts are spread: situations x phrasings x k."""

    phrasings: int
    """Scenarios per situation: the same world and request in other words."""
    k: int
    """Rollouts per scenario at most."""
    first: int
    """Rollouts every scenario gets; those up to k only where these disagree on pass or fail."""


SPREADS = {
    "rl": Spread(phrasings=1, k=8, first=8),
    "sft": Spread(phrasings=3, k=4, first=4),
    "adaptive": Spread(phrasings=1, k=8, first=2),
}
"""What a mode means where the settings do not say otherwise."""


class BudgetSettings(_Settings):
    """How much is played each night."""

    scenarios: Annotated[int, Field(ge=1, le=1_000_000)] = 240
    """Covers a grid of a dozen tools and rules in two nights, with room for the arms that search."""
    mode: Literal["rl", "sft", "adaptive"] = "rl"
    """`rl` plays whole groups, as group-relative training needs them. `sft` varies the words: a good answer
    to each of three phrasings teaches more than three answers to one. `adaptive` plays two and goes on to k
    only where the rules pass one and fail the other, for a group that agrees has no gradient. Its groups
    have 2 or k rows: pass@k is defined where n >= k, so for few tasks, and a pass rate over all rows is
    biased (a true .2 reads .13 at k = 8); the first two samples of every group are the fair ones."""
    k: Annotated[int, Field(ge=1, le=64)] | None = None
    """Rollouts per scenario; empty is the mode's: 8 (`rl`, `adaptive`), with which a policy that passes one
    time in five shows a pass in 83 % of groups; 4 (`sft`), where one good answer is enough."""
    phrasings: Annotated[int, Field(ge=1, le=64)] | None = None
    """Scenarios per situation, counted in `scenarios`; empty is the mode's: 3 (`sft`) or 1."""
    strength: Literal[2, 3] = 2
    """Values of different axes that the plan brings together: every pair, or every triple in ten times the
    situations, for nights of some thousand scenarios."""
    batch: Annotated[int, Field(ge=1)] = 40
    """Scenarios between two updates of the search arms."""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Processes that play the embedded agent, `auto` for one per core; the rows are the same for any number.
    An endpoint is asked concurrently from one process; a callable is called from the one that loaded it."""

    @field_validator("processes", mode="before")
    @classmethod
    def _auto_is_as_many_as_fit(cls, given: Any) -> Any:
        return None if given == "auto" else given

    @property
    def spread(self) -> Spread:
        """The mode's spread, with `k` and `phrasings` where they are given."""
        usual = SPREADS[self.mode]
        k = self.k or usual.k
        return Spread(
            phrasings=self.phrasings or usual.phrasings,
            k=k,
            first=min(k, usual.first) if self.mode == "adaptive" else k,
        )


class WorldSettings(WorldOptions):
    """Which world answers the tools while scenarios are played."""

    plays: str = "mock"
    """`mock` is built from the tools' schemas. `module:Class` is the user's own: a class with `reset(seed)`
    and `call(tool, arguments)`; `world: module:Class` says the same in one line."""
    recorded: bool = False
    """Answers of the tools in the traffic lend their fields to the mock world: closer to the real system, but
    worlds then change with the traffic, so that two days are compared on different ones."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone_will_do(cls, value: Any) -> Any:
        return {"plays": value} if isinstance(value, str) else value

    @field_validator("plays")
    @classmethod
    def _is_mock_or_a_class(cls, value: str) -> str:
        if value != "mock" and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
            raise ValueError("write mock, or module:Class such as my_world:World")
        return value


class TrainSettings(_Settings):
    """How the next policy is fitted to the day's cuts."""

    method: Literal["sft", "dpo", "grpo"] = "sft"
    """`sft` imitates what passed: it needs no contrast and moves with every solved scenario. `dpo` needs a
    pass and a failure of one scenario and goes farthest on a few pairs. `grpo` weighs whole groups and takes
    small steps; it learns whatever the reward pays for, so only a reward that was scanned trains it."""
    penalty: Annotated[float, Field(gt=0)] = FIT_PENALTY
    """L2 pull towards the parent policy, per decision (`sft`, `dpo`): keeps rare contexts where the parent
    left them. Without any, a choice that is never seen to fail would become certain."""
    beta: Annotated[float, Field(gt=0)] | None = None
    """How closely the policy stays with its parent (`dpo`, `grpo`); empty is the value of the method's paper,
    .1 and .04."""
    clip: Annotated[float, Field(gt=0, lt=1)] = GRPO_CLIP
    """Share by which a probability counts as moved at most (`grpo`): one night's luck cannot pull farther."""
    exports: tuple[FormatName, ...] = ("trl",)
    """Formats every cut is written in each night, for trainers elsewhere; `[]` writes none."""

    @model_validator(mode="after")
    def _every_key_is_read(self) -> "TrainSettings":
        unread = sorted(self.model_fields_set - {"method", "exports", *self.used})
        if unread:
            raise ValueError(f"method {self.method} does not read {', '.join(unread)}; leave it out")
        return self

    @property
    def closeness(self) -> float:
        """`beta`, with the method's own where it is empty."""
        return self.beta or (DPO_BETA if self.method == "dpo" else GRPO_BETA)

    @property
    def used(self) -> dict[str, float]:
        """What the method reads, by key."""
        values = {"penalty": self.penalty, "beta": self.closeness, "clip": self.clip}
        return {key: values[key] for key in _READ_BY[self.method]}


_READ_BY = {"sft": ("penalty",), "dpo": ("penalty", "beta"), "grpo": ("beta", "clip")}


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
    must_not_regress: tuple[str, ...] = (
        "ungrounded_argument",
        "unconfirmed_write",
        "skipped_verification",
        "broken_rule",
        "action_without_call",
        "leak",
    )
    """Conduct rules that a candidate may not break more often than the serving policy, whatever its total.
    By default those whose harm no later answer mends: a record touched by a number nobody gave, a change
    nobody agreed to, an account shown to a stranger, a forbidden request granted, a deed only claimed,
    instructions told. More of them cost each some power, for they are corrected together."""

    @field_validator("must_not_regress", mode="before")
    @classmethod
    def _one_name_alone_will_do(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("must_not_regress")
    @classmethod
    def _rules_are_known(cls, named: tuple[str, ...]) -> tuple[str, ...]:
        known = {rule.__name__ for rule in RULES}
        if unknown := [name for name in named if name not in known]:
            raise ValueError(
                f"{', '.join(unknown)} is no conduct rule; the rules are {', '.join(sorted(known))}"
            )
        if len(set(named)) < len(named):
            raise ValueError("a rule is named twice")
        return named


class Settings(_Settings):
    """A user's project, whole."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    seed: int = 0
    """Decides every random choice; the same seed and inputs give the same tables."""
    agent: AgentSettings = AgentSettings()
    judge: JudgeSettings = JudgeSettings()
    traffic: TrafficSettings = TrafficSettings()
    budget: BudgetSettings = BudgetSettings()
    world: WorldSettings = WorldSettings()
    train: TrainSettings = TrainSettings()
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
