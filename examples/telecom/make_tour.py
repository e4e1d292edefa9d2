"""The tour: six conversations of the base policy, written to docs/tour.md as they were played and graded.

Each stop is a situation and what its conversation is to show; the first seed that shows it is taken.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from while_pipeline.agents.embedded import EmbeddedAgent
from while_pipeline.agents.policy import base_weights
from while_pipeline.grade.grader import Graded, grade
from while_pipeline.grade.judge import RulesJudge
from while_pipeline.policy_document import RuleKind
from while_pipeline.project import Project, load_project
from while_pipeline.records import Message, Situation
from while_pipeline.simulate.drive import play
from while_pipeline.simulate.scenario import ScenarioWriter

PROJECT = Path(__file__).parent
TOUR = PROJECT.parents[1] / "docs" / "tour.md"

HEAD = """\
# A tour: six conversations

Played by the base policy on the example, as `python examples/telecom/make_tour.py` writes them. The situation
comes first, then the conversation, then what the grader made of it. Nothing is edited.
"""
WHO = {"user": "Customer", "assistant": "Agent", "tool": "World"}


@dataclass(frozen=True)
class Stop:
    """One conversation of the tour."""

    title: str
    shows: Callable[[Graded], bool]
    tool: str
    rule: RuleKind | None = None
    stance: str = "ordinary"
    world_state: str = "exists"
    tool_condition: str = "success"
    history: str = "fresh"


def _sound(calls: int) -> Callable[[Graded], bool]:
    """Passed, with so many calls: the base policy at times repeats one that cannot change."""
    return lambda graded: graded.passed is True and _calls(graded) == calls


def _calls(graded: Graded) -> int:
    return sum(len(message.tool_calls) for message in graded.rollout.messages)


def _draws(defect: str) -> Callable[[Graded], bool]:
    return lambda graded: graded.rollout.seeded == (defect,)


STOPS = (
    Stop("A fault that clears", _sound(2), "get_data_usage", tool_condition="timeout", stance="hurried"),
    Stop(
        "The wrong number, then the right one, then a yes",
        _sound(2),
        "cancel_order",
        RuleKind.CONFIRM,
        stance="mistaken",
        history="prior_failure",
    ),
    Stop("Already done", _sound(1), "pay_bill", world_state="already_acted_on", stance="retry"),
    Stop("A fault, hidden", _draws("false_success"), "change_plan", tool_condition="permission_denied"),
    Stop(
        "A rule, broken under pressure",
        _draws("broken_rule"),
        "get_bill",
        RuleKind.NEVER,
        stance="adversarial",
    ),
    Stop("Handed to a human", _sound(1), "none", RuleKind.HANDOFF, stance="unsure", history="repeat_visit"),
)


def conversation(project: Project, stop: Stop) -> Graded:
    """Play a stop's situation until a conversation shows what it is to show."""
    document = project.policy_document
    cell = Situation(
        tool=stop.tool,
        policy_rule=document.of_kind(stop.rule)[0].rule_id if stop.rule else "none",
        stance=stop.stance,
        world_state=stop.world_state,
        tool_condition=stop.tool_condition,
        history=stop.history,
    )
    writer, weights = ScenarioWriter(project.tools, document), base_weights()
    for seed in count():
        rollouts = play(
            [writer.write(cell, seed)],
            EmbeddedAgent(weights),
            project.tools,
            document,
            samples=range(1),
            seed=seed,
            policy_version=weights.version,
        )
        (graded,) = grade(rollouts, project.tools, document, RulesJudge())
        if stop.shows(graded):
            return graded
    raise AssertionError("count() never ends")


def _section(number: int, stop: Stop, graded: Graded, project: Project) -> str:
    rollout = graded.rollout
    values = rollout.scenario.situation.model_dump()
    rule = project.policy_document.rule(values.pop("policy_rule"))
    lines = [f"## {number}. {stop.title}", "", _listed(values, rule.text if rule else ""), ""]
    lines += [f"> {line}  " if line else ">" for message in rollout.messages for line in _said(message)]
    reward = "none" if graded.reward is None else f"{graded.reward:g}"
    defects = ", ".join(rollout.seeded) or "none"
    ended = f"Ended: {rollout.played.ended}. Reward: {reward} ({graded.reason})."
    lines += ["", f"{ended} Planted defects: {defects}."]
    return "\n".join([*lines, ""])


def _listed(values: dict[str, str], rule: str) -> str:
    shown = [f"{axis.replace('_', ' ')} `{value}`" for axis, value in values.items()]
    return ", ".join(shown) + (f'. The rule in play: "{rule}"' if rule else ".")


def _said(message: Message) -> list[str]:
    if message.tool_calls:
        return [f"**Agent** calls `{c.name}({json.dumps(c.arguments)})`" for c in message.tool_calls]
    text = message.content or ""
    if message.role == "tool":
        return [f"**World**: `{text}`"]
    first, *rest = text.split("\n")
    return [f"**{WHO[message.role]}**: {first}", *rest]


def tour(project: Project) -> str:
    """The whole page."""
    stops = enumerate(STOPS, start=1)
    return "\n".join([HEAD, *(_section(i, stop, conversation(project, stop), project) for i, stop in stops)])


def main() -> None:
    """Write the tour."""
    TOUR.write_text(tour(load_project(PROJECT)), encoding="utf-8")


if __name__ == "__main__":
    main()
