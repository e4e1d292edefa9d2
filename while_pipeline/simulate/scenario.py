"""A situation made concrete: what the customer says and knows, the world's start, and the answer key.

The key is right by construction: the ideal calls are made against the scenario's own world, with the faults
that no retry mends, and what they leave behind is what an agent is held to. What the customer says is written
in `script`; which values can meet at all is declared in `axes`.
"""

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from while_pipeline.answer_fields import kept_fields, to_tell
from while_pipeline.ids import content_id, seed_of
from while_pipeline.messages import result_status
from while_pipeline.policy_document import PolicyDocument, PolicyRule, RuleKind
from while_pipeline.records import Arm, Record, Situation
from while_pipeline.schemas import Schema
from while_pipeline.simulate.axes import NONE, SEVERAL, category, has_age, puts_in_play, row_of, task_id
from while_pipeline.simulate.changes import state_change
from while_pipeline.simulate.script import Script, write_script
from while_pipeline.simulate.user_world import WorldFactory, Worlds
from while_pipeline.simulate.values import Persona, Refer, identifier, persona, value_for
from while_pipeline.simulate.world import (
    PERSISTENT,
    SINGLE,
    Fault,
    Records,
    World,
    WorldOptions,
    WorldStart,
)
from while_pipeline.tools import PERSON_ENTITIES, Tool, ToolKind, noun_of

TRANSIENT = frozenset({"timeout", "malformed", "rate_limited", "stale"})
"""Conditions that may clear when the call is made again."""

_SPOKEN = {RuleKind.NEVER: "refuse", RuleKind.INFORM: "explain", RuleKind.HANDOFF: "handoff"}
"""What a rule of a kind obliges the agent to say."""

USUAL = WorldOptions()
LISTED = 3
"""Records in a list that is asked for as a whole."""
DRAWS = 20
"""Tries to draw an id that nothing has: a schema may list but a few."""
REMEMBERED_CELLS = 4096
"""A night plays its few hundred situations again and again."""


class AnswerKey(Record):
    """What a right answer does and says."""

    effects: dict[str, Any] | None
    """The world's whole expected diff, any other change is forbidden; None where the world does not tell."""
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

    def __init__(
        self,
        tools: Sequence[Tool],
        document: PolicyDocument,
        options: WorldOptions = USUAL,
        worlds: WorldFactory | None = None,
    ) -> None:
        """Prepare for `tools` under `document`.

        `options` says how long faults last; `worlds` makes the worlds that scenarios are played in, the mock
        world by default.
        """
        self.options = options
        self.worlds = worlds or Worlds(tuple(tools))
        self.tools = tuple(tools)
        self.by_name = {tool.name: tool for tool in tools}
        self.document = document
        self._playable = [t for t in self.tools if t.kind is not ToolKind.TRANSFER] or list(self.tools)
        self._transfer = next((t for t in self.tools if t.kind is ToolKind.TRANSFER), None)
        self._task_id = lru_cache(REMEMBERED_CELLS)(task_id)

    def write(self, cell: Situation, seed: int, arm: Arm = "structured", phrasing: int = 0) -> Scenario:
        """Make `cell` concrete.

        `seed` decides the world and the person, `phrasing` only the words: phrasings of one seed mean the
        same thing.
        """
        row = row_of(cell)
        rng = random.Random(seed_of("world", seed, row))
        rule = self.document.rule(cell.policy_rule)
        goals = self._goals(cell, rule, rng)
        person = persona(rng)
        stage = _Stage(self.tools, goals, person, rng)
        stage.set_state(cell.world_state)
        faults = self._faults(cell, goals, rng)
        start = WorldStart(records=stage.records, faults=faults, seed=rng.getrandbits(32))
        mistakes = stage.mistaken_identifiers(cell)
        words = random.Random(seed_of("words", seed, phrasing, row))
        spoken = rule if rule is not None and rule.spoken_of else None
        script = write_script(cell, goals, spoken, person, stage.arguments, mistakes, words)
        return Scenario(
            scenario_id=scenario_id(cell, script, start),
            task_id=self._task_id(cell),
            category=category(cell, self.by_name),
            situation=cell,
            arm=arm,
            goals=tuple(goal.name for goal in goals),
            script=script,
            world=start,
            key=self._key(goals, spoken, stage.arguments, start),
        )

    def _goals(self, cell: Situation, rule: PolicyRule | None, rng: random.Random) -> list[Tool]:
        """The tools the customer's requests need.

        Of several, the first is one that puts the rule in play, and one whose answers have an age where they
        are to be stale.
        """
        if cell.tool == NONE:
            return []
        if cell.tool == SEVERAL:
            fit = [t for t in self._playable if rule is None or puts_in_play(t, rule.kind)]
            if cell.tool_condition == "stale":
                fit = [t for t in fit if has_age(t)]
            first = rng.choice(fit or self._playable)
            return [first, rng.choice([t for t in self._playable if t is not first])]
        return [self.by_name[cell.tool]]

    def _faults(self, cell: Situation, goals: Sequence[Tool], rng: random.Random) -> tuple[Fault, ...]:
        """The first goal's fault; where the record is special it clears, lest it hide the state."""
        condition, most = cell.tool_condition, self.options.max_transient_failures
        if condition == "success" or not goals:
            return ()
        must_clear = condition == "stale" or cell.world_state != "exists"
        clears = condition in TRANSIENT and (must_clear or rng.random() < self.options.transient_share)
        # A wrong id is called first, and an error that says so is not stale.
        fewest = min(2, most) if condition == "stale" and cell.stance == "mistaken" else 1
        failures = rng.randint(fewest, most) if clears else PERSISTENT
        return (Fault(tool=goals[0].name, condition=condition, failures=failures),)

    def _key(
        self, goals: Sequence[Tool], rule: PolicyRule | None, arguments: Mapping[str, Any], start: WorldStart
    ) -> AnswerKey:
        world = self.worlds(_waited_out(start))
        facts: list[str] = []
        must: list[str] = []
        for goal in goals:
            result = world.call(goal.name, call_arguments(goal, arguments))
            status = result_status(result)
            if status == "ok":
                # What a user's world answers has any shape.
                told = _facts(goal, result) if isinstance(world, World) else []
                facts += told
                must += [] if told or goal.kind is not ToolKind.SEARCH else ["missing"]
            else:
                must.append({"not_found": "missing", "already_done": "already"}.get(status, "fault"))
        must += [_SPOKEN[rule.kind]] if rule and rule.kind in _SPOKEN else []
        if rule and rule.kind is RuleKind.HANDOFF and self._transfer is not None:
            # What sends the conversation to a human comes up after the requests, so they are done by then.
            world.call(self._transfer.name, call_arguments(self._transfer, arguments))
        return AnswerKey(
            effects=world.diff(), facts=tuple(dict.fromkeys(facts)), must=tuple(dict.fromkeys(must))
        )


def scenario_id(cell: Situation, script: Script, start: WorldStart) -> str:
    """Id of a scenario: what is said, in which world, for which situation."""
    return content_id("scenario", row_of(cell), script.model_dump(mode="json"), start.model_dump(mode="json"))


class _Stage:
    """The records and the right arguments of one scenario, while it is being set."""

    def __init__(
        self, tools: Sequence[Tool], goals: Sequence[Tool], person: Persona, rng: random.Random
    ) -> None:
        self.tools, self.goals, self.person, self.rng = tools, goals, person, rng
        self.records: Records = {}
        self.arguments: dict[str, Any] = {}
        for goal in goals:
            self._prepare(goal)

    def _prepare(self, goal: Tool) -> None:
        for parameter in goal.required:
            schema = goal.properties.get(parameter, {})
            if goal.free_text(parameter) or parameter in self.arguments:
                continue
            refer = None if _names_new(goal, parameter) else self._refer_from(goal)
            mine = {p: self.arguments[p] for p in goal.required if p in self.arguments}
            self.arguments[parameter] = value_for(parameter, schema, self.person, self.rng, refer, mine)
        said = {p: self.arguments[p] for p in goal.required if p in self.arguments}
        if goal.kind is ToolKind.SEARCH:
            self._add(goal.entity, {}).update(said)
            for _ in range(0 if said else LISTED - 1):
                self._add(goal.entity, {})
        elif (
            goal.kind in (ToolKind.READ, ToolKind.UPDATE, ToolKind.CANCEL, ToolKind.PAY) and goal.key is None
        ):
            self.records.setdefault(goal.entity, {}).setdefault(SINGLE, {"status": "active"})

    def _refer_from(self, goal: Tool) -> Refer:
        """Give ids for one parameter: of the record that all goals share per entity, then of further ones."""
        given: set[str] = set()

        def refer(noun: str | None, schema: Schema) -> str | int:
            entity = noun or goal.entity
            known = [row for key, row in self.records.get(entity, {}).items() if key not in {SINGLE, *given}]
            record = known[0] if known else self._add(entity, schema)
            key: str | int = record[f"{entity}_id"]
            given.add(str(key))
            return key

        return refer

    def _unused(self, entity: str, schema: Schema) -> str | int | None:
        """An id that no record has, as `schema` wants it; None when its few ids are all taken."""
        taken = self.records.get(entity, {})
        drawn = (identifier(entity, schema, self.rng) for _ in range(DRAWS))
        return next((key for key in drawn if str(key) not in taken), None)

    def _add(self, entity: str, schema: Schema) -> dict[str, Any]:
        """Add a record whose id is as `schema` wants it."""
        unused = self._unused(entity, schema)
        key = identifier(entity, schema, self.rng) if unused is None else unused
        record: dict[str, Any] = {f"{entity}_id": key, "status": "active"}
        if entity in PERSON_ENTITIES:
            record |= dict(self.person)
        self.records.setdefault(entity, {})[str(key)] = record
        return record

    def _target(self, goal: Tool) -> tuple[str, str] | None:
        """Entity and id of the record a goal is about: for a creation, what it belongs to."""
        named = [p for p in goal.identifiers if p in self.arguments and not _names_new(goal, p)]
        if not named:
            return None
        parameter = goal.key if goal.key in named else named[0]
        return noun_of(parameter) or goal.entity, str(self.arguments[parameter])

    def set_state(self, state: str) -> None:
        """Put what the first goal is about into `state`."""
        if not self.goals:
            return
        for goal in self.goals:
            if goal.kind is ToolKind.UPDATE:
                entity, key = self._target(goal) or (goal.entity, SINGLE)
                self._undo(goal, self.records[entity][key])
        goal, target = self.goals[0], self._target(self.goals[0])
        if state == "already_acted_on" and goal.writes:
            done = World(self.tools, WorldStart(records=self.records))
            done.call(goal.name, call_arguments(goal, self.arguments))
            self.records = done.records()
        elif state != "exists" and target is not None:
            self._set(state, goal, *target)

    def _undo(self, goal: Tool, record: dict[str, Any]) -> None:
        """Give a record other values than an update will: what is to be resumed is not running yet."""
        fields = {p: v for p, v in self.arguments.items() if p in goal.required and p not in goal.references}
        for field, schema in kept_fields(goal).items():
            if isinstance(fields.get(field), str | int | float):
                drawn = (value_for(field, schema, self.person, self.rng) for _ in range(DRAWS))
                record[field] = next((v for v in drawn if v != fields[field]), "other")
        for field, value in (fields or state_change(goal)).items():
            if record.get(field) == value:
                record[field] = "inactive" if field == "status" and value != "inactive" else "other"

    def _set(self, state: str, goal: Tool, entity: str, key: str) -> None:
        record = self.records[entity][key]
        if state == "missing":
            del self.records[entity][key]
        elif state == "partially_completed":
            record["status"] = "processing"
            if goal.writes:
                record["pending_action"] = goal.verb
        elif state == "unknown":
            record["status"] = "unknown"
        elif state == "already_acted_on":
            record["status"] = "closed"
        elif state == "duplicate":
            own = record[f"{entity}_id"]
            twin = self._add(entity, {"type": "integer"} if isinstance(own, int) else {})
            twin |= {p: v for p, v in record.items() if p != f"{entity}_id"} | {"duplicate_of": own}
            record["duplicate_of"] = twin[f"{entity}_id"]

    def mistaken_identifiers(self, cell: Situation) -> dict[str, str | int]:
        """Wrong ids a mistaken customer gives first, by parameter."""
        if cell.stance != "mistaken" or cell.world_state == "missing" or not self.goals:
            return {}
        goal = self.goals[0]
        named = [p for p in goal.identifiers if p in self.arguments and not _names_new(goal, p)]
        if not named:
            return {}
        wrong = self._unused(noun_of(named[0]) or goal.entity, goal.properties.get(named[0], {}))
        return {} if wrong is None else {named[0]: wrong}


def _names_new(goal: Tool, parameter: str) -> bool:
    """Whether a parameter is the id that a creation gives to what it creates."""
    return goal.kind is ToolKind.CREATE and parameter == goal.key


def call_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The right arguments of a call; free text is the agent's own, so any will do."""
    return {p: arguments.get(p, "as the customer asked") for p in tool.required}


def _waited_out(start: WorldStart) -> WorldStart:
    """The world for whoever retries as often as it takes: of the faults, those that last."""
    lasting = tuple(fault for fault in start.faults if fault.persistent)
    return start if lasting == start.faults else start.model_copy(update={"faults": lasting})


def _facts(goal: Tool, result: str) -> list[str]:
    """What the customer must hear of a successful result."""
    answer = orjson.loads(result)
    if goal.kind is ToolKind.SEARCH:
        return [str(row[f"{goal.entity}_id"]) for row in answer["results"][:1]]
    if goal.kind is ToolKind.OTHER:
        return [str(answer[name]) for name in ("result", "reference") if name in answer]
    record = next((v for v in answer.values() if isinstance(v, dict)), {})
    if goal.kind is ToolKind.READ:
        return [str(value) for value in to_tell(goal, record).values()]
    return [str(record[f"{goal.entity}_id"])] if goal.kind is ToolKind.CREATE else []
