"""Rewards of the rollouts a checkpoint plays while it is trained by groups.

What belongs here: the bridge from TRL's prompts to our episodes and back to rewards. Needs the extra `train`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from trl.models.utils import unwrap_model_for_generation

from while_pipeline.grade.grader import grade
from while_pipeline.ids import seed_of
from while_pipeline.train.trl.game import Game
from while_pipeline.train.trl.player import Player


class Rollouts:
    """TRL's `rollout_func`: plays the scenarios of a step in our world and grades them.

    A prompt of the data set is a scenario's id, for the conversation is rendered here.
    """

    def __init__(self, player: Player, game: Game, seed: int) -> None:
        """Play with `player`; `seed` and the step decide what is drawn."""
        self._player, self._game, self._seed = player, game, seed

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """One rollout per prompt: those of a group are equal prompts side by side."""
        seen: Counter[str] = Counter()
        samples = []
        for scenario in prompts:
            samples.append((scenario, seen[scenario]))
            seen[scenario] += 1
        step = int(trainer.state.global_step)
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model:
            training = model.training
            model.eval()
            traces = self._player.play(
                model, samples, seed=seed_of("trl rollouts", self._seed, step) % 2**63, version=f"step-{step}"
            )
            model.train(training)
        graded = grade(
            [trace.rollout() for trace in traces], self._game.tools, self._game.document, self._game.judge
        )
        return {
            "prompt_ids": [trace.prompt for trace in traces],
            # A trace without a token has no gradient; TRL's padding needs one token all the same.
            "completion_ids": [trace.completion or trace.prompt[-1:] for trace in traces],
            "env_mask": [trace.written or [0] for trace in traces],
            "logprobs": None,
            # None is a lost rollout: TRL leaves it out of its group's mean and gives it no advantage.
            "graded": [one.reward for one in graded],
        }


def graded_reward(*, graded: list[float | None], **_: Any) -> list[float | None]:
    """TRL's reward function: what our graders said."""
    return graded
