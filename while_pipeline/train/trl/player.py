"""A checkpoint plays episodes: many at once, token by token as it will be trained.

What belongs here: keeping for each episode the tokens the model saw, those it wrote, and which are which. The
tokens it wrote are never rendered anew: what is trained on is what it said. How a batch is sampled belongs to
`turns`. Needs the extra `train`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from while_pipeline.agents.protocol import Reply
from while_pipeline.messages import to_openai
from while_pipeline.records import Message, Usage
from while_pipeline.simulate.customer import respond
from while_pipeline.simulate.rollout import Episode, Played, Rollout, Sample, system_message
from while_pipeline.train.cuts import training_message
from while_pipeline.train.trl.game import Game, read_turn
from while_pipeline.train.trl.template import Template, Tokenizer, render
from while_pipeline.train.trl.turns import Turns


@dataclass
class Trace:
    """One episode as tokens."""

    episode: Episode
    sample: Sample
    prompt: list[int]
    """Up to where the agent's first turn begins."""
    completion: list[int] = field(default_factory=list)
    """Everything after it, up to the end of the agent's last turn."""
    written: list[int] = field(default_factory=list)
    """1 where the agent wrote the token, 0 where customer or tools did; as long as `completion`."""

    def rollout(self) -> Rollout:
        """The episode as the graders read it."""
        return self.sample.rollout(Played.of(self.episode))


class Player:
    """Plays scenarios with a model. The model may change between two calls, as it does in training."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: Template,
        game: Game,
        *,
        ends: frozenset[int],
        turn_tokens: int,
        context: int,
        temperature: float = 1.0,
    ) -> None:
        """Play `game` with turns of at most `turn_tokens` in conversations of at most `context` tokens.

        Args:
            tokenizer: The checkpoint's.
            template: The chat template.
            game: What is played.
            ends: Ids of the tokens that end a turn.
            turn_tokens: Tokens of a turn at most.
            context: Tokens of a conversation at most; an episode that would need more ends unfinished.
            temperature: 1 is the model's own distribution, which is what training by groups needs.
        """
        self._tokenizer, self._template, self._game = tokenizer, template, game
        self._ends, self._turn_tokens, self._context = ends, turn_tokens, context
        self._temperature = temperature
        self._tools = [tool.openai() for tool in game.tools]
        self._system = system_message(game.document)

    def play(
        self, model: Any, scenarios: Sequence[tuple[str, int]], *, seed: int, version: str, width: int = 64
    ) -> list[Trace]:
        """Play samples of scenarios, `width` at a time, in order.

        Args:
            model: A causal language model of transformers.
            scenarios: Scenario id and number of the sample.
            seed: Decides what is drawn, with torch's own generator.
            version: Of the model, for the rollouts' ids.
            width: Episodes that share a batch.
        """
        torch.manual_seed(seed)
        traces = [self._begun(scenario, number, seed, version) for scenario, number in scenarios]
        for at in range(0, len(traces), width):
            batch = traces[at : at + width]
            turns = Turns(
                model,
                [trace.prompt for trace in batch],
                ends=self._ends,
                pad=self._tokenizer.pad_token_id,
                turn_tokens=self._turn_tokens,
            )
            while awaiting := [row for row, trace in enumerate(batch) if self._may_speak(trace)]:
                contexts = [batch[row].prompt + batch[row].completion for row in awaiting]
                said = turns.sample(awaiting, contexts, temperature=self._temperature)
                for row, ids in zip(awaiting, said, strict=True):
                    self._take(batch[row], ids)
        return traces

    def _begun(self, scenario: str, number: int, seed: int, version: str) -> Trace:
        known = self._game.scenarios[scenario]
        episode = Episode(known, self._game.worlds, self._system)
        prompt = self._encoded(self._rendered(episode.messages, prompt=True))
        return Trace(episode, Sample(known, number, seed, version), prompt)

    def _may_speak(self, trace: Trace) -> bool:
        if trace.episode.awaits != "agent":
            return False
        if len(trace.prompt) + len(trace.completion) + self._turn_tokens <= self._context:
            return True
        if not trace.completion:
            trace.episode.lose("the prompt leaves no room for a turn in the model's context")
        trace.episode.awaits = "nobody"
        return False

    def _take(self, trace: Trace, ids: list[int]) -> None:
        """Go on with the agent's turn: the world and the customer answer."""
        episode = trace.episode
        ended = ids[-1] in self._ends
        asked = len(trace.prompt) + len(trace.completion)
        trace.completion += ids
        trace.written += [1] * len(ids)
        message = read_turn(self._tokenizer.decode(ids[:-1] if ended else ids), episode.turn)
        usage = Usage(input_tokens=asked, output_tokens=len(ids))
        reason = "length" if not ended else "tool_calls" if message.tool_calls else "stop"
        reply = Reply(message, finish_reason=reason, usage=usage)
        trace.sample.replies.append(reply)
        before = len(episode.messages) + 1
        episode.take_reply(reply)
        if episode.awaits == "customer":
            episode.take_customer(respond(episode.scenario.script, episode.messages))
        if episode.awaits == "agent":
            heard = self._heard(episode.messages, before, ended)
            trace.completion += heard
            trace.written += [0] * len(heard)

    def _heard(self, messages: Sequence[Message], said: int, ended: bool) -> list[int]:
        """Tokens between the end of the agent's turn and the start of its next."""
        before = self._rendered(messages[:said]).rstrip()
        after = self._rendered(messages, prompt=True)
        if not after.startswith(before):
            raise ValueError("Player: the chat template renders a conversation's start anew with each turn")
        end = [] if ended else [min(self._ends)]
        return end + self._encoded(after[len(before) :])

    def _rendered(self, messages: Sequence[Message], *, prompt: bool = False) -> str:
        rows = [
            # A call whose arguments did not decode has no object to render: it was text to begin with.
            to_openai(m) if any(c.arguments is None for c in m.tool_calls) else training_message(m)
            for m in messages
        ]
        return render(self._tokenizer, rows, self._tools, self._template.text, prompt=prompt)

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
