"""A situation made concrete: what the customer says and knows, the world's start, and the answer key.

The key is right by construction: the ideal sequence of calls is played against the scenario's own world,
faults included, and what it leaves behind is what an agent is held to.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from while_pipeline.constants import MAX_TRANSIENT_FAILURES, TRANSIENT_SHARE
from while_pipeline.ids import content_id, seed_of
from while_pipeline.messages import result_status
from while_pipeline.policy_document import PolicyDocument, PolicyRule, RuleKind
from while_pipeline.records import Arm, Record, Situation
from while_pipeline.simulate.axes import NONE, SEVERAL, category, row_of, task_id
from while_pipeline.simulate.script import Script, write_script
from while_pipeline.simulate.values import Persona, identifier, persona, value_for
from while_pipeline.simulate.world import PERSISTENT, SINGLE, Fault, Records, World, WorldStart, state_change
from while_pipeline.tools import PERSON_ENTITIES, Tool, ToolKind, is_identifier, noun_of

TRANSIENT = frozenset({"timeout", "malformed", "rate_limited", "stale"})
"""Conditions that may clear when the call is made again."""


class AnswerKey(Record):
    """What a right answer does and says."""

    effects: dict[str, Any]
    """The world's whole expected diff; any other change is a forbidden effect."""
    facts: tuple[str, ...]
    """Texts the customer must be told."""
    must: tuple[str, ...]
    """What must be said: `fault`, `missing`, `already`, `refuse`, `handoff`, `explain`."""


class Scenario(Record):
    """One scenario, complete: it can be played from this record, the tools and the policy document."""

    scenario_id: str
    task_id: str
    category: str
    situation: Situation
    arm: Arm
    goals: tuple[str, ...]
    script: Script
    world: WorldStart
    key: AnswerKey


class ScenarioWriter:
    """Makes scenarios for one agent: its tools and its policy document."""

    def __init__(self, tools: Sequence[Tool], document: PolicyDocument) -> None:
        """Prepare for `tools` under `document`."""
        self.tools = tuple(tools)
        self.by_name = {tool.name: tool for tool in tools}
        self.document = document
        self._playable = [t for t in self.tools if t.kind is not ToolKind.TRANSFER] or list(self.tools)
        self._transfer = next((t for t in self.tools if t.kind is ToolKind.TRANSFER), None)

    def write(self, cell: Situation, seed: int, arm: Arm = "structured", phrasing: int = 0) -> Scenario:
        """Make `cell` concrete.

        `seed` decides the world and the person, `phrasing` only the words: phrasings of one seed mean the
        same thing.
        """
        rng = random.Random(seed_of("world", seed, row_of(cell)))
        goals = self._goals(cell, rng)
        rule = self.document.rule(cell.policy_rule)
        person = persona(rng)
        stage = _Stage(goals, person, rng)
        stage.set_state(cell.world_state)
        faults = _faults(cell, goals, rng)
        start = WorldStart(records=stage.records, faults=faults)
        words = random.Random(seed_of("words", seed, phrasing, row_of(cell)))
        script = write_script(
            cell, goals, rule, person, stage.arguments, stage.mistaken_identifiers(cell, rng), words
        )
        key = self._key(goals, rule, stage.arguments, start)
        scenario = content_id(
            "scenario", row_of(cell), script.model_dump(mode="json"), start.model_dump(mode="json")
        )
        return Scenario(
            scenario_id=scenario,
            task_id=task_id(cell),
            category=category(cell, self.by_name),
            situation=cell,
            arm=arm,
            goals=tuple(goal.name for goal in goals),
            script=script,
            world=start,
            key=key,
        )

    def _goals(self, cell: Situation, rng: random.Random) -> list[Tool]:
        if cell.tool == NONE:
            return []
        if cell.tool == SEVERAL:
            return rng.sample(self._playable, 2)
        return [self.by_name[cell.tool]]

    def _key(
        self, goals: Sequence[Tool], rule: PolicyRule | None, arguments: Mapping[str, Any], start: WorldStart
    ) -> AnswerKey:
        world = World(self.tools, start)
        if rule is not None and rule.kind is RuleKind.HANDOFF:
            if self._transfer is not None:
                world.call(self._transfer.name, _call_arguments(self._transfer, arguments))
            return AnswerKey(effects=world.diff(), facts=(), must=("handoff",))
        facts: list[str] = []
        must: list[str] = []
        for goal in goals:
            result = _ideal(world, goal, arguments)
            status = result_status(result)
            if status == "ok" or (status == "stale" and goal.writes):
                told = _facts(goal, result)
                facts += told
                must += [] if told or goal.kind is not ToolKind.SEARCH else ["missing"]
            else:
                must.append({"not_found": "missing", "already_done": "already"}.get(status, "fault"))
        spoken = {RuleKind.NEVER: "refuse", RuleKind.INFORM: "explain"}.get(rule.kind) if rule else None
        must += [spoken] if spoken else []
        return AnswerKey(
            effects=world.diff(), facts=tuple(dict.fromkeys(facts)), must=tuple(dict.fromkeys(must))
        )


class _Stage:
    """The records and the right arguments of one scenario, while it is being set."""

    def __init__(self, goals: Sequence[Tool], person: Persona, rng: random.Random) -> None:
        self.goals, self.person, self.rng = goals, person, rng
        self.records: Records = {}
        self.arguments: dict[str, Any] = {}
        for goal in goals:
            self._prepare(goal)

    def _prepare(self, goal: Tool) -> None:
        for parameter in goal.required:
            schema = goal.properties.get(parameter, {})
            if goal.free_text(parameter) or parameter in self.arguments:
                continue
            if is_identifier(parameter) and not (goal.kind is ToolKind.CREATE and parameter == goal.key):
                self.arguments[parameter] = self._referenced(goal, parameter)
            else:
                self.arguments[parameter] = value_for(parameter, schema, self.person, self.rng)
        said = {p: self.arguments[p] for p in goal.required if p in self.arguments}
        if goal.kind is ToolKind.SEARCH:
            self._add(goal.entity, {}).update(said)
        elif (
            goal.kind in (ToolKind.READ, ToolKind.UPDATE, ToolKind.CANCEL, ToolKind.PAY) and goal.key is None
        ):
            self.records.setdefault(goal.entity, {}).setdefault(SINGLE, {"status": "active"})

    def _referenced(self, goal: Tool, parameter: str) -> str | int:
        """Id of the record a parameter names; one record per entity, shared by the goals."""
        noun = noun_of(parameter) or goal.entity
        known = [row for key, row in self.records.get(noun, {}).items() if key != SINGLE]
        record = known[0] if known else self._add(noun, goal.properties.get(parameter, {}))
        key: str | int = record[f"{noun}_id"]
        return key

    def _add(self, entity: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Add a record whose id is as `schema` wants it."""
        key = identifier(entity, schema, self.rng)
        record: dict[str, Any] = {f"{entity}_id": key, "status": "active"}
        if entity in PERSON_ENTITIES:
            record |= self.person.model_dump()
        self.records.setdefault(entity, {})[str(key)] = record
        return record

    def _target(self) -> tuple[str, str] | None:
        """Entity and id of the record the first goal is about."""
        if not self.goals:
            return None
        goal = self.goals[0]
        parameter = goal.key if goal.key in self.arguments else next(iter(goal.identifiers), None)
        if parameter is None:
            return None
        return noun_of(parameter) or goal.entity, str(self.arguments[parameter])

    def set_state(self, state: str) -> None:
        """Put the target record into `state`."""
        target = self._target()
        if target is None:
            return
        entity, key = target
        record, goal = self.records[entity][key], self.goals[0]
        if goal.kind is ToolKind.UPDATE and state_change(goal).get("status") == record["status"]:
            record["status"] = "inactive"  # what is to be resumed is not running yet
        if state == "exists":
            return
        if state == "missing":
            del self.records[entity][key]
        elif state == "partially_completed":
            record |= {"status": "processing", "pending_action": goal.verb}
        elif state == "unknown":
            record["status"] = "unknown"
        elif state == "duplicate" and goal.kind is not ToolKind.CREATE:
            own = record[f"{entity}_id"]
            twin = self._add(entity, {"type": "integer"} if isinstance(own, int) else {})
            twin |= {p: v for p, v in record.items() if p != f"{entity}_id"} | {"duplicate_of": own}
            record["duplicate_of"] = twin[f"{entity}_id"]
        elif goal.writes:
            done = World(self.goals, WorldStart(records=self.records))
            done.call(goal.name, _call_arguments(goal, self.arguments))
            self.records = done.records()
        else:
            record["status"] = "closed"

    def mistaken_identifiers(self, cell: Situation, rng: random.Random) -> dict[str, str | int]:
        """Wrong ids a mistaken customer gives first, by parameter."""
        if cell.stance != "mistaken" or cell.world_state == "missing" or not self.goals:
            return {}
        goal = self.goals[0]
        first = next((p for p in goal.identifiers if p in self.arguments), None)
        return (
            {first: identifier(noun_of(first) or goal.entity, goal.properties.get(first, {}), rng)}
            if first
            else {}
        )


def _faults(cell: Situation, goals: Sequence[Tool], rng: random.Random) -> tuple[Fault, ...]:
    condition = cell.tool_condition
    if condition == "success" or not goals:
        return ()
    clears = condition == "stale" or (condition in TRANSIENT and rng.random() < TRANSIENT_SHARE)
    failures = rng.randint(1, MAX_TRANSIENT_FAILURES) if clears else PERSISTENT
    return (Fault(tool=goals[0].name, condition=condition, failures=failures),)


def _call_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {p: arguments.get(p, "as the customer asked") for p in tool.required}


def _ideal(world: World, goal: Tool, arguments: Mapping[str, Any]) -> str:
    """Call until the answer is final: a transient fault is retried, once more than it can last."""
    result = ""
    for _ in range(1 + MAX_TRANSIENT_FAILURES):
        result = world.call(goal.name, _call_arguments(goal, arguments))
        status = result_status(result)
        if status not in TRANSIENT or (status == "stale" and goal.writes):
            break
    return result


def _facts(goal: Tool, result: str) -> list[str]:
    """What the customer must hear of a successful result."""
    answer = json.loads(result)
    if goal.kind is ToolKind.SEARCH:
        return [str(row[f"{goal.entity}_id"]) for row in answer["results"][:1]]
    if goal.kind is ToolKind.OTHER:
        return [answer["reference"]]
    record = next((v for v in answer.values() if isinstance(v, dict)), {})
    if goal.kind is ToolKind.READ:
        return [str(record["status"])]
    return [str(record[f"{goal.entity}_id"])] if goal.kind is ToolKind.CREATE else []
