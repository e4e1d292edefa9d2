"""The embedded agent: a small, honest stand-in for a language model.

A fixed dialogue skeleton in which everything that can go right or wrong is a named decision, drawn from
the log-linear `policy`. It is a function of the visible messages and the seed alone: it sees neither the
world, the scenario nor the answer key.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from while_pipeline.agents import phrases
from while_pipeline.agents.lexicon import Lexicon
from while_pipeline.agents.policy import RETRYABLE, Odds, Weights, is_final, status_feature
from while_pipeline.agents.protocol import Reply
from while_pipeline.agents.view import View
from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.records import Decision, Message, Step, ToolCall
from while_pipeline.simulate.values import persona, value_for
from while_pipeline.tools import Tool, ToolKind, words_of
from while_pipeline.uniforms import Uniforms

INVENTIONS = 90_000
"""Different values the agent makes up, at most."""
TRIES = 3
"""Calls of one tool before a fault counts as lasting."""


class EmbeddedAgent:
    """Plays a policy."""

    def __init__(self, weights: Weights) -> None:
        """Play `weights`."""
        self.weights = weights
        self._lexicon = Lexicon((), read_policy_document(""))
        self._tools: Sequence[Tool] = ()

    def respond(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Reply:
        """Give the next assistant message; a leading system message is the policy document.

        See `protocol.Agent`.

        Raises:
            UnanswerableError: the conversation leaves nothing to answer.
        """
        return self.respond_each(messages, tools, [seed])[0]

    def respond_each(
        self, messages: Sequence[Message], tools: Sequence[Tool], seeds: Sequence[int]
    ) -> list[Reply]:
        """Give what `respond` gives for every seed.

        The conversation is read once, and seeds that draw the same choices share one `Reply` object.
        """
        has_system = bool(messages) and messages[0].role == "system"
        instructions = (messages[0].content or "") if has_system else ""
        # Compiled anew only when the agent is another one: episodes of a night share their tools.
        if tools is not self._tools or instructions != self._lexicon.document.text:
            self._lexicon = Lexicon(tuple(tools), read_policy_document(instructions))
            self._tools = tools
        view = View(messages[1:] if has_system else messages, self._lexicon)
        start = _Choice()
        return [self._reply(view, seed, start) for seed in seeds]

    def _reply(self, view: View, seed: int, start: "_Choice") -> Reply:
        """Follow the choices made by earlier seeds as long as this seed draws the same."""
        uniforms = Uniforms(seed)
        choice: _Choice | None = start
        while choice is not None and choice.odds is not None:
            choice = choice.after.get(_option(choice.odds, uniforms.next()))
        if choice is not None and choice.reply is not None:
            return choice.reply
        turn = _Turn(view, self.weights, Uniforms(seed))
        reply, choice = turn.reply(), start
        for odds, option in turn.drawn:
            choice.odds = odds
            choice = choice.after.setdefault(option, _Choice())
        choice.reply = reply
        return reply


@dataclass(slots=True)
class _Choice:
    """A point within a turn: what is drawn there, and what came of each option; or the turn's reply."""

    odds: Odds | int | None = None
    after: dict[int, "_Choice"] = field(default_factory=dict)
    reply: Reply | None = None


def _option(odds: Odds | int, uniform: float) -> int:
    """Index of the option drawn; a number stands for that many options alike."""
    return int(uniform * odds) if isinstance(odds, int) else odds.drawn(uniform)


class _Turn:
    """One turn being decided."""

    def __init__(self, view: View, weights: Weights, uniforms: Uniforms) -> None:
        self.view, self.weights, self.uniforms = view, weights, uniforms
        self.decisions: list[Decision] = []
        self.drawn: list[tuple[Odds | int, int]] = []

    def reply(self) -> Reply:
        message = self._after_tool() if self.view.last.role == "tool" else self._after_customer()
        return Reply(
            message=message,
            decisions=tuple(self.decisions),
            logprob=sum(d.logprob for d in self.decisions),
            finish_reason="tool_calls" if message.tool_calls else "stop",
        )

    def _decide(self, head: str, *features: str) -> str:
        odds = self.weights.odds(head, features)
        decision = odds.decisions[self._draw(odds)]
        self.decisions.append(decision)
        return decision.choice

    def _draw(self, odds: Odds | int) -> int:
        option = _option(odds, self.uniforms.next())
        self.drawn.append((odds, option))
        return option

    # -- after a tool answered ----------------------------------------------------------------------------

    def _after_tool(self) -> Message:
        step = self.view.steps[-1]
        tool = self.view.by_name.get(step.call.name)
        if (
            step.status == "stale"
            and tool is not None
            and not tool.writes
            and self._decide("stale") == "refresh"
        ):
            return self._again(step)
        if step.status not in ("ok", "stale"):
            return self._after_fault(step)
        if self.view.pending is None:
            return self._close([])
        return self._work()

    def _after_fault(self, step: Step) -> Message:
        tries = sum(s.call.name == step.call.name for s in self.view.fresh_steps)
        features = [status_feature(step.status)]
        features += ["retryable"] if step.status in RETRYABLE else []
        features += ["first_try"] if tries == 1 else ["spent"] if tries >= TRIES else []
        choice = self._decide("final" if is_final(step.status) else "fault", *features)
        if choice in ("retry", "repeat") and tries <= TRIES:
            return self._again(step)
        told = {"hide": phrases.hidden, "claim": phrases.claimed}.get(choice, phrases.failed)
        return self._close([told(step)])

    def _again(self, step: Step) -> Message:
        return self._call(step.call.name, step.call.arguments or {})

    # -- after the customer spoke -------------------------------------------------------------------------

    def _after_customer(self) -> Message:
        handoff = self.view.rule_in_play(RuleKind.HANDOFF)
        if handoff is not None and self._decide("handoff") == "handoff":
            return self._hand_off(phrases.case_for_a_human(handoff.trigger))
        said: list[str] = []
        never = self.view.rule_in_play(RuleKind.NEVER)
        if never is not None:
            refused = self._decide("refuse") == "refuse"
            said.append(phrases.refusal(never.declined) if refused else phrases.promise(never.declined))
        inform = self.view.rule_in_play(RuleKind.INFORM)
        if inform is not None:
            said.append(phrases.rule(inform.text))
        if said:
            return self._close(said)
        if self.view.pending is not None:
            return self._work()
        if self.view.strays:
            return self._close([phrases.OFF_TOPIC])
        if not self.view.requests and self.view.asks_generally:
            return self._close([phrases.abilities(self.view.tools, self.view.user_texts[-1])])
        if self.view.pushes:
            return self._close([phrases.KEEPS_TO_RULES])
        if self.view.failure_told:
            return self._close([phrases.NOT_THIS_TIME])
        if self.view.requests:
            return self._close([phrases.NOTHING_LEFT])
        return Message(role="assistant", content=phrases.CLARIFY)

    def _hand_off(self, summary: str) -> Message:
        tool = next((t for t in self.view.tools if t.kind is ToolKind.TRANSFER), None)
        if tool is None:
            return self._close([phrases.TRANSFER])
        return self._call(tool.name, dict.fromkeys(tool.required, summary))

    # -- working on a request -----------------------------------------------------------------------------

    def _work(self) -> Message:
        """Do the next thing the first pending request needs."""
        tool = self.view.pending
        assert tool is not None
        phrase = " ".join(words_of(tool.name))
        if self._must_verify(tool) and self._decide("verify") == "verify":
            return self._ask(phrases.VERIFY)
        arguments = self.view.agreed_values(tool) | self.view.values(tool)
        missing = [p for p in tool.required if p not in arguments]
        if missing:
            unasked = [p for p in missing if not self.view.asked_for(p)]
            if not unasked:
                return self._close([phrases.cannot_without(missing, phrase)])
            if self._decide("argument") == "ask":
                return self._ask(phrases.ask_for(unasked[: phrases.ASKED_AT_ONCE]))
            arguments |= {p: self._invent(tool, p) for p in missing}
        question = phrases.confirm(phrase, {p: v for p, v in arguments.items() if not tool.free_text(p)})
        if self.view.document.confirms and tool.writes and not self.view.agreed_to(question):
            if self.view.asked(question):
                return self._close([phrases.NOTHING_LEFT])
            if self._decide("confirm") == "confirm":
                return self._ask(question)
        if self._decide("tool") == "neighbour":
            wrong = self.view.lexicon.neighbour(tool)
            known = self.view.values(wrong)
            arguments = {p: known.get(p, arguments.get(p, self._invent(wrong, p))) for p in wrong.required}
            tool = wrong
        return self._call(tool.name, arguments)

    def _must_verify(self, tool: Tool) -> bool:
        """Whether the rules want to know who asks before this call, and that has not been settled yet."""
        view = self.view
        touches_account = tool.writes or bool(tool.identifiers)
        return view.document.verifies and touches_account and not view.verified and not view.work_begun

    def _invent(self, tool: Tool, parameter: str) -> Any:
        """A plausible value from nowhere."""
        rng = random.Random(self._draw(INVENTIONS))
        return value_for(parameter, tool.properties.get(parameter, {}), persona(rng), rng)

    def _call(self, name: str, arguments: dict[str, Any]) -> Message:
        call = ToolCall(id=f"call_{len(self.view.steps) + 1}", name=name, arguments=arguments)
        return Message(role="assistant", content=None, tool_calls=(call,))

    def _ask(self, question: str) -> Message:
        """Ask, after telling what an earlier request came to."""
        return Message(role="assistant", content=" ".join([*self.view.results, question]))

    def _close(self, said: list[str]) -> Message:
        """Say the outcome of everything done since the last words, in some style."""
        body = " ".join([*self.view.results, *said]) or phrases.NOTHING_LEFT
        style = self._decide("style")
        text = phrases.styled(style, body, self.view.document.text, self._draw)
        if self._pending_other():
            text += " " + phrases.MAY_CONTINUE
        return Message(role="assistant", content=text)

    def _pending_other(self) -> bool:
        return self.view.last.role == "tool" and self.view.pending is not None
