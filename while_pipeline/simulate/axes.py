"""The six axes of the situation space, their declared constraints, and the split into training and held-out.

A situation is one value per axis; as a unit of evaluation it is a task. How a value is realised belongs to
`scenario`, how it is read back to `detect`; that two values cannot show in one conversation is declared here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter

from while_pipeline.constants import HELD_OUT_PERCENT, MAX_RULES_IN_GRID
from while_pipeline.ids import content_id, seed_of
from while_pipeline.policy_document import PolicyDocument, PolicyRule, RuleKind
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

_NEVER_TOGETHER = frozenset(
    {
        *product(WORLD_STATES[1:], ("permission_denied",)),  # nobody sees the record
        *product(("missing", "already_acted_on"), ("stale",)),  # the answer is an error: it has no age
    }
)
"""(world state, tool condition): the condition hides the state, or the state the condition."""

Forbidden = frozenset[tuple[str, str, str, str]]
"""(axis, value, axis, value) of values that cannot meet, in both orders."""


@dataclass(frozen=True)
class Grid:
    """The axes of one agent, with what may not be combined."""

    axes: Mapping[str, tuple[str, ...]]
    rules_beyond: int
    """Rules of the policy document that are not in this grid: it is full, or nothing puts them in play."""
    forbidden: Forbidden
    sealed_by: int
    """Seed of the held-out split."""

    def allowed_pair(self, axis_a: str, value_a: str, axis_b: str, value_b: str) -> bool:
        """Whether two values can show in one conversation."""
        return (axis_a, value_a, axis_b, value_b) not in self.forbidden

    def allowed(self, row: Sequence[str]) -> bool:
        """Whether every pair of a full row can meet."""
        named = list(zip(self.axes, row, strict=True))
        return all(
            self.allowed_pair(a, va, b, vb) for i, (a, va) in enumerate(named) for b, vb in named[i + 1 :]
        )

    def for_training(self, row: Sequence[str]) -> bool:
        """Whether the full row is a situation that may be trained on."""
        return not is_held_out(task_id(situation(row)), self.sealed_by)


def grid_of(tools: Sequence[Tool], document: PolicyDocument, seed: int, day: int = 0) -> Grid:
    """Build the axes of an agent.

    When the policy document has more rules than the grid holds, they take turns: each day the window moves on
    by its own width. Rules that can be put in play by words come first.

    Args:
        tools: The agent's tools.
        document: Its policy document.
        seed: Seals the held-out tasks.
        day: Ordinal of the day; it alone decides whose turn it is, so that a backfill gives the same grid.
    """
    playable = [t for t in tools if t.kind is not ToolKind.TRANSFER] or list(tools)
    reached = {kind for kind in RuleKind if any(puts_in_play(tool, kind) for tool in playable)}
    ordered = sorted(
        (r for r in document.rules if r.kind in reached and (r.spoken_of or r.kind in DONE_RULES)),
        key=lambda rule: _RULE_ORDER.index(rule.kind),
    )
    rules = ordered
    if len(ordered) > MAX_RULES_IN_GRID:
        start = day * MAX_RULES_IN_GRID % len(ordered)
        rules = [*ordered[start:], *ordered[:start]][:MAX_RULES_IN_GRID]
    several = [SEVERAL] if len(playable) > 1 else []
    axes = {
        "tool": (*[t.name for t in playable], NONE, *several),
        "policy_rule": tuple(r.rule_id for r in rules) or (NONE,),
        "stance": STANCES,
        "world_state": WORLD_STATES,
        "tool_condition": TOOL_CONDITIONS,
        "history": HISTORIES,
    }
    never = [
        *((("world_state", state), ("tool_condition", condition)) for state, condition in _NEVER_TOGETHER),
        *_of_tools(playable, rules),
    ]
    return Grid(
        axes=axes,
        rules_beyond=len(document.rules) - len(rules),
        forbidden=frozenset(pair for a, b in never for pair in ((*a, *b), (*b, *a))),
        sealed_by=seed,
    )


_Value = tuple[str, str]
"""(axis, value)."""


def _of_tools(tools: Sequence[Tool], rules: Sequence[PolicyRule]) -> Iterator[tuple[_Value, _Value]]:
    """What a tool cannot meet: states it does not show, faults without a call, rules it is not under.

    Two requests at once can meet a rule when one of their tools can; their records are ordinary.
    """
    shown: dict[str, frozenset[str]] = {tool.name: states_shown(tool) for tool in tools}
    for name, states in (shown | {NONE: frozenset(), SEVERAL: frozenset()}).items():
        for state in WORLD_STATES[1:]:
            if state not in states:
                yield ("tool", name), ("world_state", state)
    for condition in TOOL_CONDITIONS[1:]:
        yield ("tool", NONE), ("tool_condition", condition)
    aged = [tool for tool in tools if has_age(tool)]
    for name in (t.name for t in tools if t not in aged):
        yield ("tool", name), ("tool_condition", "stale")
    if not aged:
        yield ("tool", SEVERAL), ("tool_condition", "stale")
    for rule in rules:
        if not any(puts_in_play(tool, rule.kind) for tool in aged):
            yield ("policy_rule", rule.rule_id), ("tool_condition", "stale")
    for rule in rules:
        for tool in tools:
            if not puts_in_play(tool, rule.kind):
                yield ("tool", tool.name), ("policy_rule", rule.rule_id)
        if rule.kind in DONE_RULES:
            yield ("tool", NONE), ("policy_rule", rule.rule_id)


def states_shown(tool: Tool) -> frozenset[str]:
    """World states, other than `exists`, that a tool's answers tell of the record it is called about."""
    said = {parameter for parameter in tool.required if not tool.free_text(parameter)}
    if tool.kind is ToolKind.CREATE:
        # The answer shows the new record, not the one it belongs to; without a field no two are the same.
        belongs = any(parameter != tool.key for parameter in tool.identifiers)
        return frozenset({"missing"} if belongs else ()) | frozenset({"already_acted_on"} if said else ())
    if tool.kind is ToolKind.OTHER:
        return frozenset({"missing"} if tool.identifiers else ())
    if tool.key is None or tool.kind in (ToolKind.SEARCH, ToolKind.TRANSFER):
        return frozenset()
    # A toggle that is not told which way is never done already: called again, it switches back.
    back = tool.verb == "toggle" and said <= tool.references.keys()
    return frozenset(WORLD_STATES[1:]) - ({"already_acted_on"} if back else set())


DONE_RULES = (RuleKind.CONFIRM, RuleKind.VERIFY)
"""Kinds of rules that are put in play by what is done, not by the customer's words."""


def has_age(tool: Tool) -> bool:
    """Whether a tool's answers can be out of date: those of a look can, what a call did is of that moment."""
    return tool.kind in (ToolKind.READ, ToolKind.SEARCH)


def puts_in_play(tool: Tool, kind: RuleKind) -> bool:
    """Whether calling a tool, or asking for it, can bring a rule of `kind` into play."""
    if kind is RuleKind.CONFIRM:
        return tool.writes
    if kind is RuleKind.VERIFY:
        return tool.writes or bool(tool.identifiers)
    return True


def situation(row: Sequence[str]) -> Situation:
    """The situation of a full row, values in axis order."""
    return Situation(**dict(zip(AXES, row, strict=True)))


_VALUES_OF = attrgetter(*AXES)


def row_of(cell: Situation) -> tuple[str, ...]:
    """Values of a situation in axis order."""
    row: tuple[str, ...] = _VALUES_OF(cell)
    return row


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
