"""The embedded agent: a small, honest stand-in for a language model.

A fixed dialogue skeleton in which everything that can go right or wrong is a named decision, drawn from
the log-linear `policy`. It is a function of the visible messages and the seed alone: it sees neither the
world, the scenario nor the answer key.
"""

import random
from collections.abc import Sequence
from typing import Any

from while_pipeline.agents import phrases
from while_pipeline.agents.lexicon import Lexicon
from while_pipeline.agents.policy import RETRYABLE, Weights
from while_pipeline.agents.protocol import Reply
from while_pipeline.agents.view import View
from while_pipeline.policy_document import RuleKind, read_policy_document
from while_pipeline.records import Decision, Message, Step, ToolCall
from while_pipeline.tools import Tool, ToolKind, is_identifier, words_of

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
        """
        has_system = messages[0].role == "system"
        instructions = (messages[0].content or "") if has_system else ""
        # Compiled anew only when the agent is another one: episodes of a night share their tools.
        if tools is not self._tools or instructions != self._lexicon.document.text:
            self._lexicon = Lexicon(tuple(tools), read_policy_document(instructions))
            self._tools = tools
        view = View(messages[1:] if has_system else messages, self._lexicon)
        return _Turn(view, self.weights, random.Random(seed)).reply()


class _Turn:
    """One turn being decided."""

    def __init__(self, view: View, weights: Weights, rng: random.Random) -> None:
        self.view, self.weights, self.rng = view, weights, rng
        self.decisions: list[Decision] = []

    def reply(self) -> Reply:
        message = self._after_tool() if self.view.last.role == "tool" else self._after_customer()
        return Reply(
            message=message,
            decisions=tuple(self.decisions),
            logprob=sum(d.logprob for d in self.decisions),
            finish_reason="tool_calls" if message.tool_calls else "stop",
        )

    def _decide(self, head: str, *features: str) -> str:
        decision = self.weights.choose(head, features, self.rng.random())
        self.decisions.append(decision)
        return decision.choice

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
            tries = sum(s.call.name == step.call.name for s in self.view.fresh_steps)
            features = [f"status:{step.status}"]
            features += ["retryable"] if step.status in RETRYABLE else []
            features += ["first_try"] if tries == 1 else ["spent"] if tries >= TRIES else []
            choice = self._decide("fault", *features)
            if choice == "retry" and tries <= TRIES:
                return self._again(step)
            text = phrases.hidden(step) if choice == "hide" else phrases.failed(step)
            return self._close([text])
        if self._pending() is None:
            return self._close([])
        return self._work()

    def _again(self, step: Step) -> Message:
        return self._call(step.call.name, step.call.arguments or {})

    # -- after the customer spoke -------------------------------------------------------------------------

    def _after_customer(self) -> Message:
        asked = self.view.latest_ask
        handoff = self.view.rule_in_play(asked, RuleKind.HANDOFF)
        if handoff is not None and self._decide("handoff") == "handoff":
            return self._hand_off(handoff.trigger)
        said: list[str] = []
        never = self.view.rule_in_play(asked, RuleKind.NEVER)
        if never is not None:
            refused = self._decide("refuse") == "refuse"
            said.append(phrases.refusal(never.trigger) if refused else phrases.promise(never.trigger))
        inform = self.view.rule_in_play(asked, RuleKind.INFORM)
        if inform is not None:
            said.append(phrases.rule(inform.text))
        if said:
            return self._close(said)
        if self._pending() is not None:
            return self._work()
        if self.view.requests:
            return self._close([phrases.NOTHING_LEFT])
        if self.view.asks_generally:
            return self._close([phrases.abilities(self.view.tools)])
        return Message(role="assistant", content=phrases.CLARIFY)

    def _hand_off(self, reason: str) -> Message:
        tool = next((t for t in self.view.tools if t.kind is ToolKind.TRANSFER), None)
        if tool is None:
            return self._close([phrases.TRANSFER])
        return self._call(tool.name, dict.fromkeys(tool.required, f"Customer says: {reason}."))

    # -- working on a request -----------------------------------------------------------------------------

    def _pending(self) -> Tool | None:
        """The first request not yet acted on."""
        if any(s.call.name in self.view.by_name and self._transfers(s) for s in self.view.steps):
            return None
        for tool in self.view.requests:
            if not self.view.settled(tool):
                return tool
        return None

    def _transfers(self, step: Step) -> bool:
        return self.view.by_name[step.call.name].kind is ToolKind.TRANSFER

    def _work(self) -> Message:
        """Do the next thing the first pending request needs."""
        tool = self._pending()
        assert tool is not None
        phrase = " ".join(words_of(tool.name))
        if self._must_verify(tool) and self._decide("verify") == "verify":
            return self._ask(phrases.VERIFY)
        arguments = self.view.values(tool) | self.view.agreed_values(tool)
        missing = [p for p in tool.required if p not in arguments]
        if missing:
            if all(self.view.asked_for(p) for p in missing):
                return self._close([phrases.cannot_without(missing, phrase)])
            if self._decide("argument") == "ask":
                return self._ask(phrases.ask_for(missing))
            arguments |= {p: self._invent(tool, p) for p in missing}
        question = phrases.confirm(phrase, arguments)
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
        schema = tool.properties.get(parameter, {})
        if schema.get("enum"):
            return schema["enum"][0]
        kind = schema.get("type", "string")
        if kind != "string":
            return {"boolean": True, "array": [], "object": {}}.get(kind, 1)
        digits = self.rng.randrange(10_000, 100_000)
        return (
            f"{words_of(parameter)[0][:4].upper()}-{digits}"
            if is_identifier(parameter)
            else f"standard-{digits}"
        )

    def _call(self, name: str, arguments: dict[str, Any]) -> Message:
        call = ToolCall(id=f"call_{len(self.view.steps) + 1}", name=name, arguments=arguments)
        return Message(role="assistant", content=None, tool_calls=(call,))

    def _results(self) -> list[str]:
        """What came of everything done since the last words."""
        return [
            phrases.succeeded(step, self.view.by_name[step.call.name])
            for step in self.view.fresh_steps
            if step.status in ("ok", "stale") and step.call.name in self.view.by_name and self._is_final(step)
        ]

    def _ask(self, question: str) -> Message:
        """Ask, after telling what an earlier request came to."""
        return Message(role="assistant", content=" ".join([*self._results(), question]))

    def _close(self, said: list[str]) -> Message:
        """Say the outcome of everything done since the last words, in some style."""
        body = " ".join([*self._results(), *said]) or phrases.NOTHING_LEFT
        style = self._decide("style")
        text = phrases.styled(style, body, self.view.document.text, self.rng)
        if self._pending_other():
            text += " " + phrases.MAY_CONTINUE
        return Message(role="assistant", content=text)

    def _is_final(self, step: Step) -> bool:
        """Whether no later call of the same tool replaced this answer."""
        return not any(s.index > step.index and s.call.name == step.call.name for s in self.view.steps)

    def _pending_other(self) -> bool:
        return self.view.last.role == "tool" and self._pending() is not None
