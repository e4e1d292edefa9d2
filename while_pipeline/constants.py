"""The engine's numbers, each with its reason. What a user may set is in `settings`, not here."""

from typing import Final

from while_pipeline.records import Arm

# -- planning ---------------------------------------------------------------------------------------------

MAX_RULES_IN_GRID: Final = 16
"""More rules would make the array grow past what a night plays; the rest takes its turn on other days."""

HELD_OUT_PERCENT: Final = 20
"""Share of situations sealed for evaluation, by hash of the task: stable for ever, without any state."""

# -- search -----------------------------------------------------------------------------------------------

ARM_WEIGHTS: Final[dict[Arm, float]] = {
    "structured": 0.42,
    "llm_guided": 0.42,
    "open_ended": 0.10,
    "behavior_targeted": 0.03,
    "failure_mutation": 0.03,
}
"""Most rows go where coverage is planned; a tenth looks outside the plan; two rare arms follow failures."""

ARM_FLOORS: Final[dict[Arm, float]] = {
    "structured": 0.15,
    "llm_guided": 0.15,
    "open_ended": 0.05,
    "behavior_targeted": 0.01,
    "failure_mutation": 0.01,
}
"""No arm dies: a yield of zero today says little about tomorrow."""

OPEN_ENDED_BOUNDS: Final = (0.05, 0.10)
RARE_ARM_CAP: Final = 0.08
"""Rare arms make near copies of what already failed; past 8 % they would crowd out new situations."""
YIELD_GAIN: Final = 0.5
"""How strongly a batch's yield moves an arm's share."""
SATURATION_BATCHES: Final = 12
SATURATION_RATE: Final = 0.02
"""Twelve batches in a row with under 2 % new signatures: more rows would repeat what is known."""
EXPLORATION_FLOOR: Final = 0.20
"""Share of the budget that weak spots may not claim, so that unknown weaknesses can still be found."""
CELL_WEIGHTS: Final = {"undercoverage": 0.35, "risk": 0.35, "novelty": 0.20, "behavior_gap": 0.10}
"""What makes a cell worth playing: where little was played and where the agent fails, before what is new."""
RL_CELL_WEIGHTS: Final = {"undercoverage": 0.25, "risk": 0.25, "novelty": 0.15, "behavior_gap": 0.35}
"""For a reinforcement-learning set, where only groups that disagree carry a gradient."""
PRIOR_PLAYS: Final = 4
"""Plays that the overall failure rate counts for at a pair of values: one failure alone is a rumour."""
CANDIDATES: Final = 8
"""Cells weighed for each steered row: the best of eight is in the top tenth of all in 57 % of cases."""
MAX_MUTATIONS: Final = 3
"""Mutations on top of one another; past three a script is a collage that nobody would write."""

# -- episodes ---------------------------------------------------------------------------------------------

MAX_AGENT_TURNS: Final = 16
"""Public benchmark conversations of this kind end within ten assistant turns in 95 % of cases; two requests,
a wrong number and a fault take up to sixteen."""
PATIENCE: Final = 3
"""A customer asked the same thing three times leaves."""

# -- grading ----------------------------------------------------------------------------------------------

STYLE_ONLY_REWARD: Final = 0.5
"""Right outcome, spoilt only in style: better than a failure, not an example to train on."""
EXPLAIN_MATCH: Final = 0.6
"""Share of a rule's content words a reply must have to count as telling the rule."""
TRUST_CONTROLS: Final = 160
"""Rollouts of the planted-defect policy that measure the judge: at .95, +-4 points."""
RULE_CONTROLS: Final = 600
"""Rollouts of the planted-defect policy that measure the conduct rules: rules cost no calls, and the rarest
defect is drawn in one rollout of a hundred."""

# -- training ---------------------------------------------------------------------------------------------

GRPO_BAND: Final = (0.2, 0.8)
"""Groups outside carry little gradient; at k = 8 this keeps 2 to 6 passes (inclusive)."""
FIT_PENALTY: Final = 0.02
"""L2 pull towards the parent policy, per decision: keeps rare contexts where the parent left them."""
DPO_BETA: Final = 0.1
"""How closely DPO stays with its reference; the value of Rafailov et al. 2023."""
GRPO_CLIP: Final = 0.2
"""Share by which GRPO counts a probability as moved at most; the value of Schulman et al. 2017 (PPO)."""
GRPO_BETA: Final = 0.04
"""Price of a nat of KL divergence in GRPO; the value of Shao et al. 2024."""
ANSWER_KEY_QUOTE: Final = 12
"""Characters of a secret answer-key text that may not be quoted in training data."""
SCRIPT_QUOTE: Final = 48
"""Characters of a customer's longer line that make a quote. Strangers' sentences agree by chance in up to 45
(1,600 scripts held against conversations of gpt-4o): "that basic economy flights cannot be modified"."""
NEAR_COPY_COVER: Final = 0.80
"""8-gram cover from which a training prompt counts as a copy of a held-out one."""
LENGTH_TELLS: Final = 0.7
"""Share of pairs whose better answer length alone would name, from which a trainer may learn just that."""
VALID_PERCENT: Final = 10
"""Share of training tasks kept aside to watch a trainer's loss, by hash of the task."""
RETIRE_ABOVE: Final = 0.8
"""Pass rate above which a scenario teaches little more: the policy can do it."""
HOLD_BELOW: Final = 0.2
"""Pass rate below which a scenario is kept for a stronger policy: there is little to copy."""

# -- proof ------------------------------------------------------------------------------------------------

MIN_CHANGED_TASKS: Final = 6
"""The sign-flip test cannot reach p < .05 with fewer non-zero tasks (2 / 2^5 = .0625)."""
PLANNED_BASE: Final = 0.5
"""Pass rate that a plan starts from while nothing is measured: luck is largest there, so it promises too
little rather than too much."""
