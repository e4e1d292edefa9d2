"""A checkpoint plays episodes, and keeps the tokens it saw and wrote."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.train.trl import tiny
from while_pipeline.grade.grader import grade
from while_pipeline.messages import to_openai
from while_pipeline.train.cuts import training_message
from while_pipeline.train.trl.check import end_tokens
from while_pipeline.train.trl.settings import TrlSettings
from while_pipeline.train.trl.template import render

pytest.importorskip("trl", reason="needs the extra `train`: make setup-train")
from transformers import AutoModelForCausalLM

from while_pipeline.train.trl.backend import load_tokenizer
from while_pipeline.train.trl.player import Player, Trace

GAME = tiny.game()
SOLVED = tiny.solved().rollout.scenario.scenario_id


class Table:
    """A checkpoint with everything it plays with."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder)
        self.tokenizer, self.template = load_tokenizer(TrlSettings(model=folder), marked=True)

    def play(
        self,
        *scenarios: tuple[str, int],
        temperature: float = 1.0,
        turn: int = 120,
        context: int = 4096,
        **how: Any,
    ) -> list[Trace]:
        player = Player(
            self.tokenizer,
            self.template,
            GAME,
            ends=end_tokens(self.tokenizer),
            turn_tokens=turn,
            context=context,
            temperature=temperature,
        )
        return player.play(self.model, scenarios, seed=1, version="v", **how)


@pytest.fixture(scope="module")
def table(tuned: Path) -> Table:
    return Table(tuned)


@pytest.fixture(scope="module")
def untaught(base: Path) -> Table:
    return Table(base)


def test_what_was_learnt_by_heart_passes_in_the_world_it_was_learnt_in(table: Table) -> None:
    (trace,) = table.play((SOLVED, 0), temperature=0.0)
    (graded,) = grade([trace.rollout()], GAME.tools, GAME.document, GAME.judge)
    assert graded.passed, graded.reason
    learnt = tiny.solved().rollout.messages
    assert [m.content for m in trace.episode.messages[1:]] == [m.content for m in learnt]


def test_a_random_model_fails(untaught: Table) -> None:
    traces = untaught.play(*((one, 0) for one in GAME.scenarios), turn=12, context=1500)
    assert {
        one.reward for one in grade([t.rollout() for t in traces], GAME.tools, GAME.document, GAME.judge)
    } == {0.0}


def spans(trace: Trace) -> Iterator[tuple[int, list[int]]]:
    """Runs of tokens of one writer."""
    pairs = zip(trace.written, trace.completion, strict=True)
    for writer, run in groupby(pairs, key=lambda pair: pair[0]):
        yield writer, [token for _, token in run]


def test_the_tokens_are_the_conversations_and_the_agents_are_marked(table: Table) -> None:
    (trace,) = table.play((SOLVED, 0), temperature=0.0)
    messages = [training_message(message) for message in trace.episode.messages]
    whole = render(table.tokenizer, messages, tiny.OFFERED, table.template.text)
    assert table.tokenizer.decode(trace.prompt + trace.completion) == whole
    turns = [table.tokenizer.decode(run) for writer, run in spans(trace) if writer]
    said = [message for message in messages if message["role"] == "assistant"]
    assert len(turns) == len(said) > 1
    assert all(turn.endswith("<|im_end|>") and turn.count("<|im_end|>") == 1 for turn in turns)
    assert turns[-1] == said[-1]["content"] + "<|im_end|>"


def test_the_samples_of_a_batch_are_those_of_each_alone(table: Table) -> None:
    others = [one for one in GAME.scenarios if one != SOLVED][:2]
    together = table.play((others[0], 0), (SOLVED, 0), (others[1], 0), temperature=0.0)
    apart = table.play((others[0], 0), (SOLVED, 0), (others[1], 0), temperature=0.0, width=1)
    assert [trace.completion for trace in together] == [trace.completion for trace in apart]


def test_a_seed_decides_what_is_drawn(untaught: Table) -> None:
    first, again = (untaught.play((SOLVED, 0), (SOLVED, 1), turn=12, context=600) for _ in range(2))
    assert [trace.completion for trace in first] == [trace.completion for trace in again]
    assert first[0].completion != first[1].completion
    assert first[0].sample.rollout_id != first[1].sample.rollout_id


def test_a_turn_that_is_cut_says_so_and_the_customer_answers_after_an_end_token(untaught: Table) -> None:
    (trace,) = untaught.play((SOLVED, 0), turn=4, context=600)
    end = min(end_tokens(untaught.tokenizer))
    runs = list(spans(trace))
    cut = [i for i, (writer, run) in enumerate(runs) if writer and run[-1] != end]
    assert cut, "no turn was cut"
    assert all(runs[i + 1][1][0] == end for i in cut if i + 1 < len(runs))
    assert trace.rollout().played.finish_reason == "length"


def test_an_episode_ends_where_the_context_does_and_one_that_cannot_begin_is_lost(untaught: Table) -> None:
    (long,) = untaught.play((SOLVED, 0), turn=12, context=600)
    assert len(long.prompt) + len(long.completion) <= 600
    (unfit,) = untaught.play((SOLVED, 0), turn=12, context=len(long.prompt))
    assert unfit.completion == []
    assert "leaves no room" in str(unfit.rollout().lost)
    (graded,) = grade([unfit.rollout()], GAME.tools, GAME.document, GAME.judge)
    assert graded.reward is None


def test_usage_counts_what_was_read_and_what_was_written(table: Table) -> None:
    (trace,) = table.play((SOLVED, 0), temperature=0.0)
    assert trace.rollout().usage.output_tokens == sum(trace.written)
    assert trace.rollout().usage.input_tokens > len(trace.prompt)
    assert to_openai(trace.episode.messages[-1])["role"] == "assistant"
