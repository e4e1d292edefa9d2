"""The six axes of the situation space, their declared constraints, and the split into training and held-out.

A situation is one value per axis; as a unit of evaluation it is a task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from while_pipeline.constants import HELD_OUT_PERCENT, MAX_RULES_IN_GRID
from while_pipeline.ids import content_id, seed_of
from while_pipeline.policy_document import PolicyDocument, RuleKind
from while_pipeline.records import Situation
from while_pipeline.tools import Tool, ToolKind

NONE = "none"
SEVERAL = "several"

STANCES = (
    "ordinary", "hurried", "unsure", "retry", "mistaken",
    "exploratory", "ambiguous", "boundary", "conflicting", "adversarial",
)  # fmt: skip
WORLD_STATES = ("exists", "missing", "already_acted_on", "duplicate", "partially_completed", "unknown")
TOOL_CONDITIONS = ("success", "timeout", "malformed", "stale", "permission_denied", "rate_limited")
HISTORIES = ("fresh", "prior_failure", "prior_partial_action", "contradicts_earlier", "repeat_visit")
AXES = ("tool", "policy_rule", "stance", "world_state", "tool_condition", "history")

_RULE_ORDER = (RuleKind.HANDOFF, RuleKind.NEVER, RuleKind.CONFIRM, RuleKind.VERIFY, RuleKind.INFORM)


@dataclass(frozen=True)
class Grid:
    """The axes of one agent, with what may not be combined."""

    axes: Mapping[str, tuple[str, ...]]
    rules_beyond: int
    """Rules of the policy document that did not fit into the grid."""
    stateful: frozenset[str]
    """Tools that name a record: only they can meet a world state other than `exists`."""
    actions: frozenset[str]
    """Tools that can fail: every tool of the grid but `none`."""
    sealed_by: int
    """Seed of the held-out split."""

    def allowed_pair(self, axis_a: str, value_a: str, axis_b: str, value_b: str) -> bool:
        """Whether two values can meet: a condition needs a tool, a world state needs an identifier."""
        values = {axis_a: value_a, axis_b: value_b}
        tool = values.get("tool")
        if tool is None:
            return True
        if "tool_condition" in values and tool not in self.actions:
            return values["tool_condition"] == "success"
        if "world_state" in values and tool not in self.stateful:
            return values["world_state"] == "exists"
        return True

    def allowed(self, row: Sequence[str]) -> bool:
        """Whether every pair of a full row can meet."""
        named = list(zip(self.axes, row, strict=True))
        return all(
            self.allowed_pair(a, va, b, vb) for i, (a, va) in enumerate(named) for b, vb in named[i + 1 :]
        )

    def for_training(self, row: Sequence[str]) -> bool:
        """Whether the full row is a situation that may be trained on."""
        return not is_held_out(task_id(situation(row)), self.sealed_by)


def grid_of(tools: Sequence[Tool], document: PolicyDocument, seed: int) -> Grid:
    """Build the axes of an agent.

    Rules that can be put in play by words come first, so that the grid keeps them when there are too many.
    """
    playable = [t for t in tools if t.kind is not ToolKind.TRANSFER] or list(tools)
    ordered = sorted(document.rules, key=lambda rule: _RULE_ORDER.index(rule.kind))
    rules = ordered[:MAX_RULES_IN_GRID]
    several = [SEVERAL] if len(playable) > 1 else []
    axes = {
        "tool": (*[t.name for t in playable], NONE, *several),
        "policy_rule": tuple(r.rule_id for r in rules) or (NONE,),
        "stance": STANCES,
        "world_state": WORLD_STATES,
        "tool_condition": TOOL_CONDITIONS,
        "history": HISTORIES,
    }
    return Grid(
        axes=axes,
        rules_beyond=len(ordered) - len(rules),
        stateful=frozenset(
            t.name for t in playable if t.key or (t.kind is ToolKind.CREATE and t.identifiers)
        ),
        actions=frozenset(t.name for t in playable) | frozenset(several),
        sealed_by=seed,
    )


def situation(row: Sequence[str]) -> Situation:
    """The situation of a full row, values in axis order."""
    return Situation(**dict(zip(AXES, row, strict=True)))


def row_of(cell: Situation) -> tuple[str, ...]:
    """Values of a situation in axis order."""
    return tuple(getattr(cell, axis) for axis in AXES)


def task_id(cell: Situation) -> str:
    """Id of the situation as a task."""
    return content_id("task", row_of(cell))


def is_held_out(task: str, seed: int) -> bool:
    """Whether a task is sealed from training: a fixed share by hash, so no list has to be kept."""
    return seed_of("held-out", seed, task) % 100 < HELD_OUT_PERCENT


def category(cell: Situation, tools: Mapping[str, Tool]) -> str:
    """Task category: what kind of request it is (`read`, `cancel`, ..., `none`, `several`).

    A tool the agent does not have (real traffic may call one) is `other`.
    """
    tool = tools.get(cell.tool)
    if tool is not None:
        return tool.kind.value
    return cell.tool if cell.tool in (NONE, SEVERAL) else ToolKind.OTHER.value
